"""TransE: a relation is a step from head to tail, score = -|h + r - t|; entities have length 1.

Bordes et al. 2013. The distance is Euclidean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphita_lab.graph import models

if TYPE_CHECKING:
    import torch

CITATION = "Bordes et al. 2013, Translating embeddings for modeling multi-relational data"
PARTS = 1
COMPARED = "distance"


class Config(models.GraphTraining):
    """TransE's settings."""

    temperature: float = Field(0.05, gt=0, description=models.TEMPERATURE)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's TransE of vectors of `dim` numbers."""
    return models.pykeen_model("TransE", dim, {"scoring_fct_norm": 2, "entity_constrainer": to_length_1, **options})


def to_length_1(vectors: torch.Tensor) -> torch.Tensor:
    """Set the rows (n, d) to length 1 where they lie; PyKEEN's own way makes another table of them every step."""
    from torch.nn.functional import normalize

    given = vectors.detach()
    return normalize(given, dim=-1, out=given)


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return h + r."""
    return heads + relations


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return t - r."""
    return tails - relations
