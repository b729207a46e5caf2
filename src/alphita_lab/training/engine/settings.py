"""The settings that no paper states: how this engine runs, watches and keeps a training run, how long and how fast."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

import alphita.config
from alphita.errors import EXTRAS, require
from alphita.terminology import languages
from alphita.terminology.text import DEFAULT_RULES

# Artefacts and files go by their hashes: where they lie may change until the run goes on.
BY_HASH = ("corpus", "mentions", "graph", "entities_from")
# What does not decide the weights (but for rounding, and parts for the draws of dropout): a run may be resumed with
# others of these.
ENGINE_ONLY = (
    *("tokens_at_once", "log_every", "tensorboard", "trackers", "checkpoint_every"),
    *("checkpoint_minutes", "prepared"),
)


class TermTraining(alphita.config.Config):
    """Base of the configs of recipes that train a term encoder: the engine's own settings.

    A recipe adds its method's, and gives those of the first group its own defaults, each with its source. One that
    cannot weigh languages says why in `ALIKE`.
    """

    ALIKE: ClassVar[str] = ""

    max_length: int
    pooling: Literal["cls", "mean"]
    steps: int
    accumulation: int
    learning_rate: float
    warmup_steps: int
    schedule: Literal["linear", "cosine", "constant"]
    weight_decay: float
    clip: float

    languages: str = Field(
        "", description="train on these languages only, with weights: en:1,it:4; empty: all equally (ours)"
    )
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout (none: the encoder's own)")
    precision: Literal["auto", "fp32", "bf16"] = Field("auto", description="arithmetic during training (ours)")
    tokens_at_once: int = Field(
        0,
        ge=0,
        description="tokens encoded at once; larger batches are split, with the same gradients apart from dropout; 0: "
        "by the memory at the start",
    )
    lora_rank: int = Field(
        0, ge=0, description="train adapters of this rank instead of all weights (LoRA, by peft); 0: all weights (ours)"
    )
    ema: float = Field(0.0, ge=0, lt=1, description="decay of the moving average of the weights; 0: none (ours)")
    start_share: float = Field(
        0.0, ge=0, lt=1, description="share of the starting weights averaged into the final ones (WiSE-FT; ours)"
    )
    seed: int = Field(0, ge=0, le=2**32 - 1, description="seed for sampling, initial values and dropout (ours)")
    dev_synonyms: int = Field(0, ge=0, description="synonyms held out of training to score accuracy@1 (ours)")
    evaluate_every: int = Field(0, ge=0, description="steps between dev scores; 0: only at the end (ours)")
    keep: Literal["last", "best"] = Field(
        "last", description="weights to keep: the last, or the best by dev score (ours)"
    )
    log_every: int = Field(50, ge=0, description="steps between lines of log.jsonl (ours)")
    tensorboard: bool = Field(False, description="also write the log for TensorBoard (ours)")
    trackers: str = Field(
        "", description="also write the log to these, a,b: wandb, mlflow and others that accelerate knows (ours)"
    )
    checkpoint_every: int = Field(1000, ge=0, description="steps between checkpoints (ours)")

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which names are cleaned."""
        return DEFAULT_RULES

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        """Before anything is made, for what a setting needs beside torch."""
        needed = {
            "tensorboard": self.tensorboard,
            "accelerate": bool(self.trackers),
            "peft": self.lora_rank > 0,
            "jieba": getattr(self, "segmenter", "") == "jieba",
        }
        for package in (package for package, is_needed in needed.items() if is_needed):
            require(package, EXTRAS[package])
        if self.lora_rank and self.start_share:
            raise ValueError("start_share averages weights, and lora_rank trains adapters: set one of them")
        return self

    @field_validator("languages")
    @classmethod
    def _languages(cls, value: str) -> str:
        if len(set(language_weights(value).values())) > 1 and cls.ALIKE:
            raise ValueError(f"{cls.ALIKE} alike; give languages without weights: en,it")
        return value


def decisive(config: TermTraining) -> dict[str, Any]:
    """Return the settings that decide the weights: a run is gone on with only under the same ones."""
    settings = {key: value for key, value in config.model_dump().items() if key not in ENGINE_ONLY + BY_HASH}
    # Runs that were begun before there were these go on.
    for name in ("noise", "lora_rank"):
        if not settings.get(name):
            settings.pop(name, None)
    return settings


class NameTraining(TermTraining):
    """Base of the configs of recipes that learn from a concept's names, and may learn noisy twins of them."""

    noise: float = Field(
        0.0, ge=0, le=1, description="share of the names that are also trained mistyped, cut or in another order (ours)"
    )


class RepeatedNames(NameTraining):
    """Base of the configs of recipes in whose batches a name may stand several times."""

    dropout_masks: Literal["own", "shared"] = Field(
        "own", description="dropout of a name's copies in a batch: a mask each (the paper's), or one (faster; ours)"
    )

    @property
    def copies_differ(self) -> bool:
        """Whether copies of a name in a batch have vectors of their own."""
        return self.dropout_masks == "own" and self.dropout != 0


class CoderNames(RepeatedNames):
    """Base of the configs of CODER's recipes, which clean names as its released code does."""

    name_rule: Literal["legacy_coder", "none"] = Field(
        "legacy_coder",
        description='cleaning of names before the usual one: legacy_coder: no "NOS", no "(...)", "-" as a space '
        "(released code)",
    )
    checkpoint_minutes: float = Field(
        0.0,
        ge=0,
        description="least minutes between checkpoints, each of 8 GB with a full M_r of UMLS; 0: by steps alone (ours)",
    )

    @property
    def rules(self) -> tuple[str, ...]:
        """See `TermTraining`."""
        return DEFAULT_RULES if self.name_rule == "none" else (self.name_rule, *DEFAULT_RULES)


def language_weights(text: str) -> dict[str, float]:
    """Return the weight of each language in "en:1,it:4" or "en,it"; empty for ""."""
    weights: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        tag, _, weight = part.partition(":")
        language = languages.normalize(tag)
        if language is None:
            raise ValueError(f"{tag!r}: {languages.UNKNOWN}")
        try:
            weights[language] = float(weight or 1)
        except ValueError:
            weights[language] = 0.0
        if not 0 < weights[language] < float("inf"):
            raise ValueError(f"{part!r}: a language's weight is a number above 0, as in en:1,it:4")
    return weights


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

    `start_share`: share of the starting weights of the module "encoder" that is averaged into the final ones: they keep
    what names alone do not teach, such as misspellings and words around a term.
    """

    steps: int  # optimiser steps
    warmup_steps: int  # steps over which the learning rate rises linearly to its peak
    learning_rate: float  # the peak
    accumulation: int  # micro-batches a step; their gradients are averaged
    clip: float  # largest gradient norm
    weight_decay: float  # AdamW's, on every parameter but biases and layer norms
    log_every: int  # in steps; 0 means never
    evaluate_every: int  # in steps; 0 means never
    checkpoint_every: int  # in steps; 0 means never
    checkpoint_minutes: float = 0.0  # least time between two of them
    schedule: str = "linear"  # what follows the warm-up: "linear" to 0, "cosine" to 0, or "constant"
    ema: float = 0.0  # decay of the exponential average of the weights that is kept in the end; 0: none
    keep: str = "last"  # "last", or "best": the weights of the best dev score
    tensorboard: bool = False  # also write the log for TensorBoard
    trackers: str = ""  # and to these
    start_share: float = 0.0
    tokens_at_once: int = 0  # as asked for; 0: what the run began with, or what fits the memory when it begins

    @classmethod
    def of(cls, config: TermTraining, length: Length | None = None) -> LoopPlan:
        """Return the plan of a recipe's config; `length` replaces the config's own."""
        length = length or Length.of(config.steps, config.warmup_steps, config.learning_rate)
        own = {field.name: getattr(config, field.name) for field in fields(cls) if hasattr(config, field.name)}
        return cls(**own | vars(length))


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
