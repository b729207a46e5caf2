"""How long and how fast a run trains."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphita.training.engine.settings import TermTraining


@dataclass(frozen=True)
class Length:
    """How long and how fast a run or phase trains, where the config leaves that open: see `LoopPlan`."""

    steps: int
    warmup_steps: int
    learning_rate: float

    @classmethod
    def of(cls, steps: int, warmup_steps: int, learning_rate: float, *, share: float = 0.05) -> Length:
        """Return a length whose warm-up is `share` of the steps where `warmup_steps` is below 0."""
        return cls(steps, round(share * steps) if warmup_steps < 0 else warmup_steps, learning_rate)


@dataclass(frozen=True)
class LoopPlan:
    """How long and how fast to train.

    Attributes:
        steps: optimiser steps.
        warmup_steps: steps over which the learning rate rises linearly to its peak.
        learning_rate: the peak.
        accumulation: micro-batches a step; their gradients are averaged.
        clip: largest gradient norm.
        weight_decay: AdamW's, on every parameter but biases and layer norms.
        log_every, evaluate_every, checkpoint_every: in steps; 0 means never.
        schedule: what follows the warm-up: "linear" to 0, "cosine" to 0, or "constant".
        ema: decay of the exponential average of the weights that is kept in the end; 0: none.
        keep: "last", or "best": the weights of the best dev score.
        tensorboard: also write the log for TensorBoard.
        start_share: share of the starting weights of the module "encoder" that is averaged into the final ones: they
            keep what names alone do not teach, such as misspellings and words around a term.
        tokens_at_once: as asked for; 0: what the run began with, or what fits the memory when it begins.
    """

    steps: int
    warmup_steps: int
    learning_rate: float
    accumulation: int
    clip: float
    weight_decay: float
    log_every: int
    evaluate_every: int
    checkpoint_every: int
    schedule: str = "linear"
    ema: float = 0.0
    keep: str = "last"
    tensorboard: bool = False
    start_share: float = 0.0
    tokens_at_once: int = 0

    @classmethod
    def of(cls, config: TermTraining, length: Length | None = None) -> LoopPlan:
        """Return the plan of a recipe's config; `length` replaces the config's own."""
        own = {field.name: getattr(config, field.name) for field in fields(cls)}
        return cls(**own | (vars(length) if length else {}))


def learning_rate_factor(step: int, warmup: int, total: int, schedule: str = "linear") -> float:
    """Return the share of the peak learning rate at step `step` (from 0): linear up, then as `schedule` says."""
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    left = max(0.0, (total - step) / max(1, total - warmup))
    return left if schedule == "linear" else 0.5 - 0.5 * math.cos(math.pi * left)


def steps_of(batches: float, epochs: float, accumulation: int) -> int:
    """Return the steps of `epochs` epochs of `batches` batches each, 1 at least."""
    return max(1, math.ceil(batches * epochs / accumulation))
