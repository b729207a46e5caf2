"""RotatE: a relation turns each complex number of the head, score = -|h r - t| with all |r_i| = 1.

Sun et al. 2019; the distance is Euclidean, as PyKEEN has it (the authors add up the numbers' lengths). Vectors are
saved as real parts, then imaginary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphita_lab.graph import models

if TYPE_CHECKING:
    import torch

CITATION = "Sun et al. 2019, RotatE: knowledge graph embedding by relational rotation in complex space"
PARTS = 2
COMPARED = "distance"


class Config(models.GraphTraining):
    """RotatE's settings."""

    temperature: float = Field(0.5, gt=0, description=models.TEMPERATURE)
    learning_rate: float = Field(0.01, gt=0, description=models.RATE)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's RotatE of vectors of `dim` complex numbers; entities start small, as they do in ComplEx."""
    return models.pykeen_model("RotatE", dim, options, "entity")


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return h r."""
    return models.times(heads, relations)


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return t conj(r): turned back, which changes no distance."""
    return models.times(tails, relations, conjugate=True)
