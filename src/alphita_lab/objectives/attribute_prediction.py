"""Product attribute prediction: a title with the name of an attribute finds the attribute's values.

Liu, Jiang and Lyu, "A Domain Knowledge Enhanced Pre-Trained Language Model for Vertical Search", COLING 2022, §3.2,
equations 2 and 3:

    d(t, n, v) = || f(E(t + n)) - f(E(v)) ||_2                                                             (2)
    L_PAP = - log sigma(gamma - d(t, n, v)) - sum over v' of 1/k log sigma(d(t, n, v') - gamma)            (3)

f is one layer for both sides: W x + b and a GELU (Gaussian error linear unit), from d numbers to as many. The paper
says "a feed forward neural network layer"; the GELU and the width are those of its released code, which has a layer for
each side and the L1 distance.

A title has several values v of an attribute and one set of negatives v' for all of them, k = twice as many as there are
values. Equation 3 is averaged over the values of a title and attribute, so the negatives count once; then over the
titles and attributes of a batch. A pair without any negative has only its first term.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from alphita_lab.objectives.multi_similarity import exact


class AttributeProjection(torch.nn.Module):
    """f(x) = GELU(W x + b), the same for titles with attribute names and for values.

    Attributes:
        dense: W (width, dim) and b (width,).
    """

    def __init__(self, dim: int, width: int | None = None) -> None:
        """Start as torch's linear layers do.

        Args:
            dim: length of an encoded text, d, 1 or more.
            width: length of what is compared, 1 or more; None: d.
        """
        super().__init__()
        width = dim if width is None else width
        self.dense = torch.nn.Linear(dim, width)

    def forward(self, e: torch.Tensor) -> torch.Tensor:
        """Return f of encoded texts (n, d), as (n, width) float32 (float64 if given so)."""
        with torch.autocast(e.device.type, enabled=False):
            return functional.gelu(self.dense(exact(e)))


def attribute_distance(title: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return the distances of equation 2; where two vectors are equal it is 0, and so is its gradient.

    Args:
        title: (..., width) f(E(t + n)).
        value: (..., width) f(E(v)), of the same shape or one that broadcasts with it.

    Returns:
        (...,) 0 or more.
    """
    with torch.autocast(title.device.type, enabled=False):
        return torch.linalg.vector_norm(exact(title) - exact(value), dim=-1)


def attribute_prediction(
    distance: torch.Tensor, pair: torch.Tensor, positive: torch.Tensor, *, margin: float = 4.0
) -> torch.Tensor:
    """Return L_PAP, the mean over the pairs of a title and an attribute's name.

    Args:
        distance: (m,) d(t, n, v) of each value.
        pair: (m,) integers 0 to p - 1: the pair that each value was drawn for; every pair has a positive value.
        positive: (m,) bool, whether it is a value of the pair.
        margin: gamma, above 0: values should be nearer than this, others further away.

    Returns:
        A scalar, float32 (float64 if given so).
    """
    with torch.autocast(distance.device.type, enabled=False):
        beyond = exact(distance) - margin
        # -log sigma(x) = softplus(-x).
        losses = functional.softplus(torch.where(positive, beyond, -beyond))
        # Of a pair's values each counts 1 / (their number), of its negatives each 1 / k.
        kind = 2 * pair + positive
        weights = 1 / torch.bincount(kind).to(losses.dtype)[kind]
        return (weights * losses).sum() / (pair.max() + 1)
