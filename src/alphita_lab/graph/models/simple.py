"""SimplE: every entity has a vector as head and one as tail, score = half of <h_h, r, t_t> + <h_t, r', t_h>.

Kazemi and Poole 2018; r' is the relation turned round, and < , , > the sum of products of three. Vectors are saved as
head's, then tail's part; relations as r, then r'. PyKEEN 1.11 holds and starts the weights, but its own score pairs
the parts of the same side, so that it cannot tell head from tail; the one here is the authors'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphita_lab.graph import models

if TYPE_CHECKING:
    import torch

CITATION = "Kazemi and Poole 2018, SimplE embedding for link prediction in knowledge graphs"
PARTS = 2
COMPARED = "product"


class Config(models.GraphTraining):
    """SimplE's settings."""

    # Half of ComplEx's, for the score is halved.
    regularization: float = Field(0.01, ge=0, description=models.REGULARIZATION)


def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
    """Return PyKEEN's SimplE of two vectors of `dim` numbers, which start small."""
    return models.pykeen_model("SimplE", dim, options, "entity", "relation")


def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
    """Return half of (r' h_t, r h_h), to be multiplied with (t_h, t_t)."""
    import torch

    head, tail = heads.chunk(2, dim=-1)
    forward, inverse = relations.chunk(2, dim=-1)
    return 0.5 * torch.cat([inverse * tail, forward * head], dim=-1)


def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
    """Return half of (r t_t, r' t_h), to be multiplied with (h_h, h_t)."""
    import torch

    head, tail = tails.chunk(2, dim=-1)
    forward, inverse = relations.chunk(2, dim=-1)
    return 0.5 * torch.cat([forward * tail, inverse * head], dim=-1)
