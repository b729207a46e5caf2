"""Graph models: how a triple is scored, in one formula for training and for saved vectors.

A query of head and relation is compared with the tail, and one of relation and tail with the head, by inner product or
by distance, so that all entities are scored by one matrix product. PyKEEN holds, starts and constrains the weights.

Vectors are saved with their parts end to end: ComplEx and RotatE the real parts, then the imaginary ones; SimplE the
vectors as head, then those as tail (relations: forward, then inverse). Amore Bondarenko et al. 2022 state the models,
the filter and the split; size, loss, negatives, rate and epochs are ours, fit for an hour on two cores (docs/graph.md).
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from alphita import registry
from alphita.config import Config
from alphita.errors import require

if TYPE_CHECKING:
    import torch

    from alphita_lab.graph.triples import Int, Scores

PACKAGE = "alphita_lab.graph.models"
SHARING_A_FILE = dict.fromkeys(("complex", "rotate", "simple", "transe"), "_models")
# A query and an entity: by inner product, or by minus the distance.
Compared = Literal["product", "distance"]
# What does not decide the vectors: a run may be resumed with others of these.
ENGINE_ONLY = ("checkpoint_every",)
# Of a training whose epochs are not given: with a falling rate, and with a constant one.
STEPS, MIN_EPOCHS, MAX_EPOCHS = 8_000, 16, 200
# Share of the steps in which the learning rate rises.
WARMUP = 0.05
TEMPERATURE = "scores are divided by it in the softmax of infonce, or of nssa's weights (ours)"
RATE = "Adam's, at its highest (ours)"
REGULARIZATION = "weight of the cubes of the lengths of a step's numbers, each vector's summed (Lacroix et al. 2018)"


class GraphTraining(Config):
    """Base of the models' configs; a model gives its own defaults of the first group where they differ."""

    loss: Literal["infonce", "nssa", "softplus", "margin"] = Field(
        "infonce",
        description="infonce: cross-entropy against the negatives; nssa: self-adversarial; softplus: logistic, one by "
        "one; margin: hinge, one by one (ours)",
    )
    margin: float = Field(
        0.0,
        ge=0,
        description="by which a true triple's score is to win: nssa's gamma, infonce's and margin's own; softplus has "
        "none (ours)",
    )
    temperature: float = Field(1.0, gt=0, description=TEMPERATURE)
    learning_rate: float = Field(0.02, gt=0, description=RATE)
    regularization: float = Field(0.0, ge=0, description=REGULARIZATION)

    dim: int = Field(200, ge=1, description="numbers in a saved vector, of all its parts together (ours)")
    epochs: int = Field(
        0,
        ge=0,
        description="passes over the training triples; 0: those of 8,000 steps, 16 at least; with "
        "schedule=constant 200 at most (ours)",
    )
    schedule: Literal["linear", "constant"] = Field(
        "linear", description="learning rate: up over the first 5 % of the steps, then down to 0; or constant (ours)"
    )
    batch_size: int = Field(1024, ge=1, description="triples a step (ours)")
    negatives: int = Field(
        1024, ge=1, description="entities drawn a step as false tails of all its triples, and as many as heads (ours)"
    )
    rare: int = Field(10, ge=1, description="triples that a relation must have (the paper's number is not stated)")
    inverse: float = Field(
        0.8, gt=0, le=1, description="leave out a relation if another one has this share of its triples in reverse"
    )
    test: float = Field(0.06, ge=0, lt=1, description="share of the triples to score (Amore Bondarenko et al. 2022)")
    validation: float = Field(0.04, ge=0, lt=1, description="share of the triples that say when to stop (the same)")
    evaluate_every: int = Field(5, ge=1, description="epochs between looks at the validation triples (ours)")
    patience: int = Field(
        4, ge=1, description="schedule=constant: looks without a better MRR after which training stops (ours)"
    )
    validation_sample: int = Field(1000, ge=1, description="validation triples looked at, at most (ours)")
    checkpoint_every: int = Field(10, ge=1, description="epochs between checkpoints (ours)")
    seed: int = Field(0, ge=0, le=2**32 - 1, description="of the split, of the first vectors and of sampling (ours)")

    def steps_an_epoch(self, triples: int) -> int:
        """Return the steps of one pass over this number of training triples."""
        return math.ceil(triples / self.batch_size)

    def epochs_of(self, triples: int) -> int:
        """Return the maximum number of passes over the training triples."""
        if self.schedule == "constant":
            return self.epochs or MAX_EPOCHS
        return self.epochs or max(MIN_EPOCHS, math.ceil(STEPS / self.steps_an_epoch(triples)))

    def rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of step `step`, from 0, of `steps`."""
        if self.schedule == "constant":
            return self.learning_rate
        rising = max(1, round(WARMUP * steps))
        return self.learning_rate * min((step + 1) / rising, (steps - step) / max(1, steps - rising), 1.0)


class GraphModel(Protocol):
    """What a model offers."""

    __name__: str
    CITATION: str
    PARTS: int
    COMPARED: Compared
    Config: type[GraphTraining]

    def build(self, dim: int, options: dict[str, Any]) -> torch.nn.Module:
        """Return PyKEEN's model of parts of `dim` numbers; `options` are PyKEEN's, which all models share."""
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


def pykeen_model(name: str, dim: int, options: dict[str, Any], *small: str) -> torch.nn.Module:
    """Return a model of PyKEEN's whose `small` representations, "entity" or "relation", start near 0."""
    from torch.nn.init import normal_

    initializers = {f"{part}_initializer": functools.partial(normal_, std=0.1) for part in small}
    model: torch.nn.Module = getattr(require("pykeen.models", "graph"), name)(
        embedding_dim=dim, **initializers, **options
    )
    return model


def joined(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return two parts (b, d) end to end, (b, 2d)."""
    import torch

    return torch.cat([left, right], dim=-1)


def times(left: torch.Tensor, right: torch.Tensor, *, conjugate: bool = False) -> torch.Tensor:
    """Return the product of complex numbers, (b, 2d), of two (b, 2d), the second one's conjugate if asked for."""
    (a, b), (c, d) = left.chunk(2, dim=-1), right.chunk(2, dim=-1)
    d = -d if conjugate else d
    return joined(a * c - b * d, a * d + b * c)


def pair_scores(model: GraphModel, queries: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Return the score of each query (b, d) with its own entity (b, d): (b,)."""
    import torch

    if model.COMPARED == "product":
        return (queries * entities).sum(dim=-1)
    return -torch.linalg.vector_norm(queries - entities, dim=-1)


def all_scores(model: GraphModel, queries: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Return the score of each query (b, d) with every entity (n, d): (b, n)."""
    import torch

    if model.COMPARED == "product":
        return queries @ entities.T
    return -torch.cdist(queries, entities, compute_mode="use_mm_for_euclid_dist")


class VectorScorer:
    """Scores by vectors of entities and relations: a `TripleScorer`."""

    def __init__(self, model: GraphModel, entities: NDArray[np.float32], relations: NDArray[np.float32]) -> None:
        import torch

        self._model = model
        self._entities, self._relations = torch.from_numpy(entities), torch.from_numpy(relations)

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return (b, n)."""
        return self._scores(self._model.tail_queries, self._entities[heads], self._relations[relations])

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return (b, n)."""
        return self._scores(self._model.head_queries, self._relations[relations], self._entities[tails])

    def _scores(self, queries_of: Any, *vectors: torch.Tensor) -> Scores:  # noqa: ANN401 - a method of the model
        import torch

        with torch.inference_mode():
            return np.asarray(all_scores(self._model, queries_of(*vectors), self._entities))
