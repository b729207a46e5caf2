"""ComplEx: complex vectors, score = Re(sum of h r conj(t)).

Trouillon et al. 2016; the model that Amore Bondarenko et al. 2022 chose. Vectors are saved as real parts, then
imaginary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphita_lab.graph import models

if TYPE_CHECKING:
    import torch

CITATION = "Trouillon et al. 2016, Complex embeddings for simple link prediction"
PARTS = 2
COMPARED = "product"


class Config(models.GraphTraining):
    """ComplEx's settings."""

    regularization: float = Field(0.02, ge=0, description=models.REGULARIZATION)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's ComplEx of vectors of `dim` complex numbers, which start small."""
    return models.pykeen_model("ComplEx", dim, options, "entity", "relation")


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return h r."""
    return models.times(heads, relations)


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return t conj(r)."""
    return models.times(tails, relations, conjugate=True)
