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

    Raises:
        ValueError: they are not equally many, or there are none.
    """
    if vectors.dim() != 2 or base.dim() != 2 or len(vectors) != len(base) or not len(vectors):
        raise ValueError(f"need (k, d) and (k, e), k 1 or more; got {tuple(vectors.shape)} and {tuple(base.shape)}")
    with torch.autocast(vectors.device.type, enabled=False):
        own, kept = unit(vectors), unit(base)
        return ((own @ own.T - kept @ kept.T) ** 2).mean()
