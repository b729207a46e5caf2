"""Regression onto given vectors (Remy et al. 2024, "Self-distillation phase"; Reimers and Gurevych, EMNLP 2020, eq. 1).

    L = 1/(n k) sum_i sum_m (o_im - t_im)^2

In self-distillation o is a linear head's output for the vector of a name or text, and t the target of its concept; in
cross-lingual distillation o is the student's vector of a string, and t the teacher's of what the string translates.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from alphita_lab.objectives.multi_similarity import exact


def regression(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error over all numbers.

    Args:
        outputs: (n, k) what is given, n 1 or more, as it is: nothing is scaled to length 1.
        targets: (n, k) what is wanted; it gets no gradient.

    Returns:
        A scalar, float32 (float64 if the outputs are).
    """
    with torch.autocast(outputs.device.type, enabled=False):
        own = exact(outputs)
        return functional.mse_loss(own, targets.detach().to(own.dtype))
