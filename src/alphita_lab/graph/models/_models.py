"""The models: complex, rotate, simple and transe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from alphita_lab.graph.models import (
    RATE,
    REGULARIZATION,
    TEMPERATURE,
    Compared,
    GraphTraining,
    joined,
    pykeen_model,
    times,
)

if TYPE_CHECKING:
    import torch


class ComplEx:
    """ComplEx: complex vectors, score = Re(sum of h r conj(t)).

    Trouillon et al. 2016; the model that Amore Bondarenko et al. 2022 chose. Vectors are saved as real parts, then
    imaginary ones.
    """

    CITATION = "Trouillon et al. 2016, Complex embeddings for simple link prediction"
    PARTS = 2
    COMPARED: Compared = "product"

    class Config(GraphTraining):
        """ComplEx's settings."""

        regularization: float = Field(0.02, ge=0, description=REGULARIZATION)

    @staticmethod
    def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's ComplEx of vectors of `dim` complex numbers, which start small."""
        return pykeen_model("ComplEx", dim, options, "entity", "relation")

    @staticmethod
    def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """Return h r."""
        return times(heads, relations)

    @staticmethod
    def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Return t conj(r); where it is a turn, back, which changes no distance."""
        return times(tails, relations, conjugate=True)


class RotatE(ComplEx):
    """RotatE: a relation turns each complex number of the head, score = -|h r - t| with all |r_i| = 1.

    Sun et al. 2019; the distance is Euclidean, as PyKEEN has it (the authors add up the numbers' lengths). Vectors are
    saved as real parts, then imaginary ones.
    """

    CITATION = "Sun et al. 2019, RotatE: knowledge graph embedding by relational rotation in complex space"
    COMPARED: Compared = "distance"

    class Config(GraphTraining):
        """RotatE's settings."""

        temperature: float = Field(0.5, gt=0, description=TEMPERATURE)
        learning_rate: float = Field(0.01, gt=0, description=RATE)

    @staticmethod
    def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's RotatE of vectors of `dim` complex numbers; entities start small, as they do in ComplEx."""
        return pykeen_model("RotatE", dim, options, "entity")


class SimplE:
    """SimplE: every entity has a vector as head and one as tail, score = half of <h_h, r, t_t> + <h_t, r', t_h>.

    Kazemi and Poole 2018; r' is the relation turned round, and < , , > the sum of products of three. Vectors are saved
    as head's, then tail's part; relations as r, then r'. PyKEEN 1.11 holds and starts the weights, but its own score
    pairs the parts of the same side, so that it cannot tell head from tail; the one here is the authors'.
    """

    CITATION = "Kazemi and Poole 2018, SimplE embedding for link prediction in knowledge graphs"
    PARTS = 2
    COMPARED: Compared = "product"

    class Config(GraphTraining):
        """SimplE's settings."""

        # Half of ComplEx's, for the score is halved.
        regularization: float = Field(0.01, ge=0, description=REGULARIZATION)

    @staticmethod
    def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's SimplE of two vectors of `dim` numbers, which start small."""
        return pykeen_model("SimplE", dim, options, "entity", "relation")

    @staticmethod
    def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """Return half of (r' h_t, r h_h), to be multiplied with (t_h, t_t)."""
        (head, tail), (forward, inverse) = heads.chunk(2, dim=-1), relations.chunk(2, dim=-1)
        return 0.5 * joined(inverse * tail, forward * head)

    @staticmethod
    def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Return half of (r t_t, r' t_h), to be multiplied with (h_h, h_t)."""
        (head, tail), (forward, inverse) = tails.chunk(2, dim=-1), relations.chunk(2, dim=-1)
        return 0.5 * joined(forward * tail, inverse * head)


class TransE:
    """TransE: a relation is a step from head to tail, score = -|h + r - t|; entities have length 1.

    Bordes et al. 2013. The distance is Euclidean.
    """

    CITATION = "Bordes et al. 2013, Translating embeddings for modeling multi-relational data"
    PARTS = 1
    COMPARED: Compared = "distance"

    class Config(GraphTraining):
        """TransE's settings."""

        temperature: float = Field(0.05, gt=0, description=TEMPERATURE)

    @staticmethod
    def build(dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's TransE of vectors of `dim` numbers."""
        return pykeen_model("TransE", dim, {"scoring_fct_norm": 2, "entity_constrainer": to_length_1, **options})

    @staticmethod
    def tail_queries(heads: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        """Return h + r."""
        return heads + relations

    @staticmethod
    def head_queries(relations: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        """Return t - r."""
        return tails - relations


def to_length_1(vectors: torch.Tensor) -> torch.Tensor:
    """Set the rows (n, d) to length 1 where they lie; PyKEEN's own way makes another table of them every step."""
    from torch.nn.functional import normalize

    given = vectors.detach()
    return normalize(given, dim=-1, out=given)


complex, rotate, simple, transe = ComplEx, RotatE, SimplE, TransE
