"""CODER++: hard negatives by index, mined anew in training (Zeng, Yuan and Yu, BioNLP 2022).

A batch holds a few anchors, each with the names nearest to it by the encoder as it is, and with other names of its own
concept; the MS loss over all of them tells apart what lies close together. The nearest names are found among all names
anew every so many steps. It starts from any encoder; the paper starts from CODER.

Deviations from the released code:
- An anchor with fewer synonyms than wanted shows those it has; there the anchor is repeated instead. A name that
  several anchors bring stands once in a batch. `least_names` is 2, so that every anchor has a positive: without one,
  none of its pairs is hard. Names of concepts with one name still come as negatives.
- Names are negatives of each other only if no concept has both strings: a homonym's copies are the nearest of all, and
  a synonym in one sense is not told apart from the homonym in the other. There a string has one concept, the last read.
- The nearest names are those by the vector that trains, without the anchor itself; there by the mean over all
  positions, padding too, though the pooler's output trains, and mostly with the anchor among the 30.
- There a step is a batch, and the gradients of 8 are added; steps are optimiser steps here. The optimiser goes on over
  a mining; there it starts anew, and the schedule counts now batches, now optimiser steps.
- Names are cleaned before encoding (lower case, spaces), as in all recipes here.
- Every name is an anchor once an epoch, so that `languages` chooses names but cannot weight them.
- A table of more than `exact_up_to` names is searched approximately.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

import numpy as np
from pydantic import Field

from alphita_lab.training.engine.settings import NameTraining

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch

CITATION = (
    "S. Zeng, Z. Yuan, S. Yu. Automatic biomedical term clustering by learning fine-grained term representations. "
    "Proceedings of the 21st Workshop on Biomedical Language Processing, 2022."
)


class Config(NameTraining):
    """CODER++'s settings; the defaults are the released code's."""

    # Data
    anchors: int = Field(4, ge=1, description="anchors per batch (released code: 4 on each of 8 GPUs)")
    least_names: int = Field(
        2, ge=1, description="draw only anchors whose concept has at least this many names (ours; theirs: 1)"
    )
    neighbours: int = Field(30, ge=1, description="nearest names per anchor in a batch (released code)")
    synonyms: int = Field(
        30, ge=1, description="maximum other names of the anchor's concept in a batch (released code)"
    )
    refresh_every: int = Field(12_500, ge=1, description="steps between minings (released code: 100,000 batches)")
    exact_up_to: int = Field(2_000_000, ge=0, description="number of names up to which the search is exact (ours; all)")
    max_length: int = Field(32, ge=3, description="tokens per term, including special ones (released code)")
    pooling: Literal["cls", "mean"] = Field("cls", description="vector: [CLS] or the mean (released code: pooler)")
    # Objective
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (released code)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (released code)")
    lam: float = Field(0.5, description="MS loss: lambda, the similarity threshold (released code)")
    eps: float = Field(0.1, description="MS loss: margin of the mining (released code)")
    mining: bool = Field(True, description="MS loss: only hard pairs of the batch count (released code)")
    # Optimisation
    steps: int = Field(50_000, ge=1, description="optimiser steps (released code: 400,000 batches)")
    accumulation: int = Field(8, ge=1, description="batches per step (released code)")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate (released code; its script: 4e-5)")
    warmup_steps: int = Field(5_000, ge=0, description="steps of linear warm-up (released code: 40,000 batches)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up: linear or cosine to 0, or constant (released code: linear)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (released code)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (released code)")

    ALIKE: ClassVar[str] = "anchors are drawn"


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder as CODER++ and save it to `out`."""
    from alphita_lab.objectives.multi_similarity import Constants, multi_similarity, unit
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import Batch, TermSteps
    from alphita_lab.training.terms.mining import AnchorSampler, Meanings, encode_names, mined_neighbours, refreshing
    from alphita_lab.training.terms.names import begin

    run = Run("coder_pp", Phase("", out, **mode), config, encoder)
    names, _ = begin(run, terminology, split)

    # Data: anchors, their nearest names, and other names of their concepts.
    sampler = AnchorSampler(
        names.offsets, anchors=config.anchors, synonyms=config.synonyms, least=config.least_names, seed=config.seed
    )
    meanings = Meanings(names.string_numbers(), sampler.concepts)
    mined = mined_neighbours(names.strings, config.neighbours, run.work / "mined", exact_up_to=config.exact_up_to)
    run.say(f"training on {len(names.strings):,} names; the nearest are mined every {config.refresh_every:,} steps")

    def draw(number: int) -> Batch:
        anchors = sampler.anchors(number)
        rows = np.concatenate([anchors, mined.of(anchors).ravel(), *sampler.synonyms(number, anchors)])
        terms = np.unique(rows)
        arrays = {"concept": sampler.concepts[terms], "different": meanings.different(terms)}
        return Batch(terms, arrays, rows=len(rows))

    # Objective: the MS loss over the pairs of the batch.
    constants = Constants(alpha=config.alpha, beta=config.beta, lam=config.lam, eps=config.eps, mining=config.mining)

    def loss(e: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return L_MS of S_ij = cos(e_i, e_j): positive where the concepts are one, negative where they differ."""
        vectors = unit(e)
        positive = given["concept"][:, None] == given["concept"][None, :]
        positive.fill_diagonal_(False)
        return {"loss": multi_similarity(vectors @ vectors.T, positive, given["different"], **constants)}

    # Loop, and the model.
    steps = TermSteps.of(run, names.strings, draw, loss)
    refresh = refreshing(
        run,
        mined,
        encode_names(names.strings, run.encoder),
        sampler.anchors_of,
        "mining the nearest names",
        steps=config.steps,
        every=config.refresh_every,
    )
    return run.fit(steps, names.describe(), evaluate=names.dev, refresh=refresh)
