"""TransE: a relation is a step from head to tail, score = -|h + r - t|; entities have length 1.

Bordes et al. 2013. The distance is Euclidean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from alphita.errors import require
from alphita_lab.graph import settings

if TYPE_CHECKING:
    import torch

CITATION = "Bordes et al. 2013, Translating embeddings for modeling multi-relational data"
PARTS = 1
COMPARED = "distance"


class Config(settings.GraphTraining):
    """TransE's settings."""

    loss: Literal["infonce", "nssa", "softplus", "margin"] = Field("infonce", description=settings.LOSS)
    margin: float = Field(0.0, ge=0, description=settings.MARGIN)
    temperature: float = Field(0.05, gt=0, description=settings.TEMPERATURE)
    learning_rate: float = Field(0.02, gt=0, description=settings.RATE)
    regularization: float = Field(0.0, ge=0, description=settings.REGULARIZATION)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's TransE of vectors of `dim` numbers."""
    model: torch.nn.Module = require("pykeen.models", "graph").TransE(
        embedding_dim=dim, scoring_fct_norm=2, entity_constrainer=to_length_1, **options
    )
    return model


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
