"""The settings of a graph model's training: its triples, its size, how it learns and when it stops.

Amore Bondarenko et al. 2022 state the four models, the filter and the shares of the split, but neither size nor loss,
negatives, rate or epochs: those are ours, fit for an hour on two cores (docs/graph.md).
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from alphita.config import Config

# What does not decide the vectors: a run may be gone on with under others of these.
ENGINE_ONLY = ("checkpoint_every",)
# Of a training whose epochs are not given: with a falling rate, and with a constant one.
STEPS, MIN_EPOCHS, MAX_EPOCHS = 8_000, 16, 200
# Share of the steps in which the learning rate rises.
WARMUP = 0.05


class GraphTraining(Config):
    """Base of the models' configs; a model gives its own defaults of the first group."""

    loss: Literal["infonce", "nssa", "softplus", "margin"]
    margin: float
    temperature: float
    learning_rate: float
    regularization: float

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
        """Return the steps of one pass over so many training triples."""
        return math.ceil(triples / self.batch_size)

    def epochs_of(self, triples: int) -> int:
        """Return the passes over so many training triples, at most."""
        if self.schedule == "constant":
            return self.epochs or MAX_EPOCHS
        return self.epochs or max(MIN_EPOCHS, math.ceil(STEPS / self.steps_an_epoch(triples)))

    def rate_at(self, step: int, steps: int) -> float:
        """Return the learning rate of step `step`, from 0, of `steps`."""
        if self.schedule == "constant":
            return self.learning_rate
        rising = max(1, round(WARMUP * steps))
        return self.learning_rate * min((step + 1) / rising, (steps - step) / max(1, steps - rising), 1.0)


LOSS = (
    "infonce: cross-entropy against the negatives; nssa: self-adversarial; softplus: logistic, one by one; "
    "margin: hinge, one by one (ours)"
)
MARGIN = "by which a true triple's score is to win: nssa's gamma, infonce's and margin's own; softplus has none (ours)"
TEMPERATURE = "scores are divided by it in the softmax of infonce, or of nssa's weights (ours)"
RATE = "Adam's, at its highest (ours)"
REGULARIZATION = "weight of the cubes of the lengths of a step's numbers, each vector's summed (Lacroix et al. 2018)"


class ProductTraining(GraphTraining):
    """Settings of the models whose score is a product of vectors that nothing constrains: ComplEx and SimplE."""

    loss: Literal["infonce", "nssa", "softplus", "margin"] = Field("infonce", description=LOSS)
    margin: float = Field(0.0, ge=0, description=MARGIN)
    temperature: float = Field(1.0, gt=0, description=TEMPERATURE)
    learning_rate: float = Field(0.02, gt=0, description=RATE)
    regularization: float = Field(0.02, ge=0, description=REGULARIZATION)
