"""Graph models, one file each: how a triple is scored, in one formula for training and for saved vectors.

Each of them compares a query made of head and relation with the tail, and one made of relation and tail with the head,
by inner product or by distance. All entities are so scored by one matrix product. PyKEEN holds the weights, starts,
constrains and regularises them; that the formula is PyKEEN's is tested.

A file offers what `GraphModel` says. Vectors are written with their parts end to end: ComplEx and RotatE the real
parts, then the imaginary ones; SimplE the vectors as head, then those as tail (relations: forward, then inverse).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from alphita import registry
from alphita_lab.graph.settings import GraphTraining

if TYPE_CHECKING:
    import torch


PACKAGE = "alphita_lab.graph.models"


class GraphModel(Protocol):
    """What the file of a model offers.

    Attributes:
        COMPARED: query and entity: by inner "product", or by minus the "distance".
    """

    __name__: str
    CITATION: str
    PARTS: int
    COMPARED: Literal["product", "distance"]
    Config: type[GraphTraining]

    def build(self, dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's model.

        Args:
            dim: numbers of one part.
            options: PyKEEN's, which all models share: the triples, the seed, the regulariser.
        """
        ...

    def tail_queries(self, heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """Return what tails are compared with, (b, d), of b heads (b, d) and relations (b, d_relation)."""
        ...

    def head_queries(self, relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Return what heads are compared with, (b, d), of b relations and tails."""
        ...


def load(name: str) -> GraphModel:
    """Return the model of a name."""
    return cast(GraphModel, registry.load(PACKAGE, name))


def names() -> list[str]:
    """Return the models' names."""
    return registry.names(PACKAGE)


def times(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product number by number, (b, 2d), of two (b, 2d)."""
    import torch

    a, b = one.chunk(2, dim=-1)
    c, d = other.chunk(2, dim=-1)
    return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


def times_conjugate(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of `one` and the conjugate of `other`, (b, 2d)."""
    import torch

    a, b = one.chunk(2, dim=-1)
    c, d = other.chunk(2, dim=-1)
    return torch.cat([a * c + b * d, b * c - a * d], dim=-1)
