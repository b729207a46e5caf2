"""ComplEx: complex vectors, score = Re(sum of h r conj(t)).

Trouillon et al. 2016; the model that Amore Bondarenko et al. 2022 chose. Vectors are saved as real parts, then
imaginary ones.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from alphita.errors import require
from alphita_lab.graph import settings
from alphita_lab.graph.models import times, times_conjugate

if TYPE_CHECKING:
    import torch

CITATION = "Trouillon et al. 2016, Complex embeddings for simple link prediction"
PARTS = 2
COMPARED = "product"


class Config(settings.ProductTraining):
    """ComplEx's settings."""


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's ComplEx of vectors of `dim` complex numbers, which start small."""
    from torch.nn.init import normal_

    small = functools.partial(normal_, std=0.1)
    model: torch.nn.Module = require("pykeen.models", "graph").ComplEx(
        embedding_dim=dim, entity_initializer=small, relation_initializer=small, **options
    )
    return model


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return h r."""
    return times(heads, relations)


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return t conj(r)."""
    return times_conjugate(tails, relations)
