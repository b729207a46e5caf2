"""Relational distillation by cosines (Park et al., Relational Knowledge Distillation, CVPR 2019).

For k strings with vectors v of the encoder that is trained and b of the one that it started from:

    L = 1 / k^2 sum_ij (cos(v_i, v_j) - cos(b_i, b_j))^2

The paper compares Euclidean distances by the Huber loss; of vectors of length 1 the cosine says the same.
"""

from __future__ import annotations

import torch

from alphita_lab.objectives.multi_similarity import unit


def kept_nearness(vectors: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
    """Return the loss, a scalar.

    Args:
        vectors: (k, d), of any length but 0.
        base: (k, e) likewise, without a gradient.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        own, kept = unit(vectors), unit(base)
        return ((own @ own.T - kept @ kept.T) ** 2).mean()
