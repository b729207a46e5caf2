"""Ensemble distillation: one small encoder learns the mean vector that several trained ones give a string.

Models that learned the same in different ways err in different places: the mean of their vectors ranks better than each
of them, and costs as much as all. Here a student learns it, so that the answer costs as much as the student. For a
string with the teachers' vectors t_m at length 1, each turned onto the student's space as it starts:

    L = 1/(n d) sum_i |s_i - u_i|^2,    u_i = mean_m R_m(t_mi), at length 1

where R_m is the rotation that brings the vectors of teacher m nearest to the student's own (orthogonal Procrustes;
Schoenemann, Psychometrika 1966), both taken from their mean. Distilling an ensemble is Hinton et al.'s (2015), and
regression onto vectors Reimers and Gurevych's (EMNLP 2020, eq. 1).

Names and definitions train, each on its own. A tenth of the names never does (see the recipe alphita): what the
teachers know of those the student has only by generalising, so that they are still there to calibrate on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from alphita.errors import InputError, UsageError
from alphita.index import neighbours
from alphita_lab.training.engine.settings import NameTraining
from alphita_lab.training.sentences.scored_pairs import listed

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch
    from alphita_lab.training.terms.names import TrainingNames

CITATION = (
    "G. Hinton, O. Vinyals, J. Dean. Distilling the knowledge in a neural network. NIPS Deep Learning Workshop 2014. "
    "Of vectors: N. Reimers, I. Gurevych. Making monolingual sentence embeddings multilingual using knowledge "
    "distillation. EMNLP 2020."
)
# Strings by which a teacher's space is turned onto the student's.
TURNED_BY = 20_000
# Vectors turned at once.
BLOCK = 65_536


class Config(NameTraining):
    """The recipe's settings."""

    teachers: str = Field("", description="models whose mean vector to learn, X,Y,... (ours)")
    # Data
    definitions: bool = Field(True, description="also train on definitions (ours)")
    noise: float = Field(
        0.3, ge=0, le=1, description="share of the names that are also trained with writing errors (ours)"
    )
    hold_back: bool = Field(True, description="hold out a tenth of the strings, the same as for an index's head (ours)")
    max_length: int = Field(48, ge=3, description="tokens per name or definition (ours)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (the bases')")
    # Optimisation
    batch: int = Field(512, ge=1, description="strings per batch (ours)")
    steps: int = Field(4000, ge=1, description="optimiser steps (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (ours)")
    learning_rate: float = Field(3e-4, gt=0, description="peak learning rate (ours)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 5% (ours)")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="schedule after the warm-up (ours)")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (ours)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (ours)")


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train `encoder`, the student, and save it to `out`."""
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.objectives.multi_similarity import unit
    from alphita_lab.objectives.regression import regression
    from alphita_lab.training.engine import ranks, teachers
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import Batch, TermSteps
    from alphita_lab.training.text.masked_steps import SequenceBatches

    if not listed(config.teachers):
        raise UsageError("no model is given to learn from: --set teachers=MODEL,MODEL")
    # Data: names and definitions.
    data = _read(terminology, config, split)
    opened = [
        TermEncoder.load(name, precision=config.precision, device=ranks.device()) for name in listed(config.teachers)
    ]
    run = Run("ensemble", Phase("distilled", out, **mode), config, encoder)
    run.begin(
        **CLEANED,
        terminology=terminology.content_hash,
        split=split.hash if split else None,
        teachers=[teacher.content_hash for teacher in opened],
    )
    if run.done is not None:
        return run.done
    for teacher in opened:
        teachers.check(teacher, run.encoder.dim)
    targets = np.zeros((len(data.strings), run.encoder.dim), np.float32)
    if not run.phase.dry_run:
        folders = [run.work / f"teacher{number}" for number in range(len(opened))]
        for teacher, folder in zip(opened, folders, strict=True):
            run.ranks.one_by_one(partial(teachers.encode, teacher, data.strings, folder, unit=True))
        sample = np.sort(np.random.default_rng([config.seed, 22]).permutation(len(data.strings))[:TURNED_BY])
        own = neighbours.unit(run.encoder.encode([data.strings[row] for row in sample.tolist()]))
        targets = mean_of([teachers.read(folder) for folder in folders], sample, own)
    batches = SequenceBatches(np.arange(len(data.strings)), batch=config.batch, seed=config.seed)

    def draw(number: int) -> Batch:
        terms = np.unique(batches.batch(number).terms)
        return Batch(terms, {"target": targets[terms]}, rows=len(terms))

    # Objective: the squared distance to the teachers' mean.
    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"loss": regression(unit(vectors), given["target"])}

    return run.fit(TermSteps.of(run, data.strings, draw, loss), data.describe(), evaluate=data.names.dev)


@dataclass(frozen=True)
class _Data:
    """What trains: the strings, the names first, and the names alone, for the dev score."""

    strings: list[str]
    names: TrainingNames

    def describe(self) -> str:
        return f"{self.names.describe()}; strings: {len(self.strings):,}"


def _read(terminology: Terminology, config: Config, split: Split | None) -> _Data:
    """Read names and definitions, without what is held out or back."""
    from alphita.index.learning import held_back_of
    from alphita_lab.training.terms.names import TrainingNames
    from alphita_lab.training.text.definition_data import say, spoken
    from alphita_lab.verbalisation.texts import verbalise

    held_back = held_back_of(terminology) if config.hold_back else frozenset()
    names = TrainingNames.of(config, terminology, split, exclude=held_back)
    strings = dict.fromkeys(names.strings)
    if config.definitions and terminology.side_table("definitions").num_rows:
        # One in which a string stands that must not train is left out.
        withheld = held_back.union(split.cleaned if split else (), names.dev_strings)
        try:
            texts = verbalise(terminology, exclude=withheld, languages=spoken(names.languages), kinds=["definition"])
        except InputError as error:
            say(f"trained without definitions: {error.problem}")
        else:
            strings |= dict.fromkeys(texts.strings)
    return _Data(list(strings), names)


def mean_of(
    taught: Sequence[NDArray[np.float32]], sample: NDArray[np.int64], own: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the mean of the teachers' vectors, each turned onto the student's, at length 1.

    Args:
        taught: (n, d) of each teacher, at length 1; memory maps will do.
        sample: (k,) rows by which they are turned.
        own: (k, d) the student's vectors of those, at length 1.
    """
    total = np.zeros(taught[0].shape, np.float32)
    centre = own.mean(axis=0)
    for vectors in taught:
        some = np.asarray(vectors[sample])
        mean = some.mean(axis=0)
        left, _, right = np.linalg.svd((some - mean).T @ (own - centre))
        turn = (left @ right).astype(np.float32)
        for start in range(0, len(total), BLOCK):
            part = slice(start, start + BLOCK)
            total[part] += neighbours.unit((vectors[part] - mean) @ turn + centre)
    return neighbours.unit(total)
