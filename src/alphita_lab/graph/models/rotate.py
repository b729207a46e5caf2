"""RotatE: a relation turns each complex number of the head, score = -|h r - t| with all |r_i| = 1.

Sun et al. 2019; the distance is Euclidean, as PyKEEN has it (the authors add up the numbers' lengths). Vectors are
saved as real parts, then imaginary ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from alphita.errors import require
from alphita_lab.graph import settings
from alphita_lab.graph.models import times, times_conjugate

if TYPE_CHECKING:
    import torch

CITATION = "Sun et al. 2019, RotatE: knowledge graph embedding by relational rotation in complex space"
PARTS = 2
COMPARED = "distance"


class Config(settings.GraphTraining):
    """RotatE's settings."""

    loss: Literal["infonce", "nssa", "softplus", "margin"] = Field("infonce", description=settings.LOSS)
    margin: float = Field(0.0, ge=0, description=settings.MARGIN)
    temperature: float = Field(0.5, gt=0, description=settings.TEMPERATURE)
    learning_rate: float = Field(0.01, gt=0, description=settings.RATE)
    regularization: float = Field(0.0, ge=0, description=settings.REGULARIZATION)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's RotatE of vectors of `dim` complex numbers; entities start small, as they do in ComplEx."""
    from torch.nn.init import normal_

    small = functools.partial(normal_, std=0.1)
    model: torch.nn.Module = require("pykeen.models", "graph").RotatE(
        embedding_dim=dim, entity_initializer=small, **options
    )
    return model


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return h r."""
    return times(heads, relations)


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return t conj(r): turned back, which changes no distance."""
    return times_conjugate(tails, relations)
