"""Own pairs: strings that mean the same, from a file; no terminology is needed (Henderson et al., arXiv:1705.00652).

Each anchor is drawn to its positive, and pushed from the positives of the batch's other pairs and from all negatives
that the file gives: InfoNCE, which sentence-transformers calls MultipleNegativesRankingLoss.

Deviations from sentence-transformers:
- Strings that pairs tie together, at whatever remove, are no negatives of each other.
- Strings are cleaned before encoding (lower case, spaces), as in all recipes here; `clean=false` leaves them.
- A string that stands several times in a batch is encoded once, so its copies share one dropout mask.
- Gradients are clipped, and biases and layer norms are not decayed, as in all recipes here.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from alphita_lab.training.engine.settings import TermTraining

if TYPE_CHECKING:
    import torch

    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch
    from alphita_lab.training.terms.pair_files import StringPairs

CITATION = (
    "M. Henderson, R. Al-Rfou, B. Strope, Y. Sung, L. Lukács, R. Guo, S. Kumar, B. Miklos, R. Kurzweil. Efficient "
    "natural language response suggestion for Smart Reply. arXiv:1705.00652, 2017. Negatives of the batch: § 4.4."
)
# Trains without --terminology.
NEEDS_TERMINOLOGY = False


class Config(TermTraining):
    """Settings; the defaults are those of sentence-transformers (ST) where it has any."""

    # Data
    files: str = Field("", description="tables of pairs or triplets, FILE,FILE,... (ours)")
    clean: bool = Field(True, description="clean the strings: lower case, spaces (ours)")
    max_length: int = Field(64, ge=3, description="tokens per string, including special ones (ours)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (ST)")
    # Objective
    temperature: float = Field(0.05, gt=0, description="temperature of InfoNCE (ST: scale 20)")
    symmetric: bool = Field(False, description="count positives against anchors too, half and half (ST: no)")
    # Optimisation
    batch: int = Field(64, ge=2, description="pairs per batch (ours)")
    epochs: float = Field(1.0, gt=0, description="epochs over the pairs (ours; ST: 3)")
    steps: int = Field(0, ge=0, description="optimiser steps, instead of epochs; 0: by epochs (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (ST)")
    learning_rate: float = Field(5e-5, gt=0, description="peak learning rate (ST)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 5% of all (ours)")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="schedule after the warm-up (ST)")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (ours)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (ST)")
    # Dev score
    dev_pairs: int = Field(0, ge=0, description="pairs held out for scoring: anchor to positive, accuracy@1 (ours)")

    ALIKE: ClassVar[str] = "pairs have no language and are drawn"

    @model_validator(mode="after")
    def _is_scored_by_pairs(self) -> Config:
        if self.dev_synonyms:
            raise ValueError("dev_synonyms: pairs are scored here, not synonyms; set dev_pairs")
        if self.languages:
            raise ValueError("languages: pairs have none; leave rows out of the file")
        return self


def train(
    terminology: Terminology | None,
    encoder: str,
    out: Path,
    config: Config,
    split: Split | None = None,
    **mode: Unpack[Mode],
) -> dict[str, float]:
    """Train an encoder on pairs and save it to `out`.

    A terminology is only noted in the manifest; the strings that a split holds out do not train.

    Raises:
        UsageError: no file is given.
    """
    from alphita.errors import Rejects, UsageError
    from alphita_lab.objectives.info_nce import info_nce
    from alphita_lab.training.engine import runs
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.engine.settings import Length, steps_of
    from alphita_lab.training.sentences.scored_pairs import Tasks, listed
    from alphita_lab.training.terms import pair_files
    from alphita_lab.training.terms.batches import Batch, TermSteps

    files = [Path(file) for file in listed(config.files)]
    if not files:
        raise UsageError("no pairs are given: --set files=FILE.csv, with the columns anchor and positive")
    run = Run("pairs", Phase("", out, **mode), config, encoder)
    aside = None if run.phase.dry_run or not run.ranks.first else runs.beside(out, ".rejects.csv")

    # Data: the rows of the files, without what the split holds out.
    with Rejects(aside) as rejects:
        data, left_out = pair_files.read(
            files, rejects, cleaned=config.clean, exclude=split.cleaned if split else frozenset()
        )
    run.begin(
        terminology=terminology.content_hash if terminology else None,
        split=split.hash if split else None,
        data_files=list(pair_files.hashes(files).values()),
        **CLEANED,
    )
    held, trained = _dev(data, config.dev_pairs, config.seed)
    tasks = Tasks({"pairs": len(trained)}, rows=config.batch, seed=config.seed)
    length = Length.of(
        config.steps or steps_of(tasks.batches, config.epochs, config.accumulation),
        config.warmup_steps,
        config.learning_rate,
    )
    run.say(f"training on {len(trained):,} pairs; {rejects.count:,} rows set aside, {left_out:,} held out by the split")

    def draw(number: int) -> Batch:
        rows = trained[tasks.batch(number)[1]]
        given = [data.anchors[rows], data.positives[rows], data.negatives[rows][data.negatives[rows] >= 0]]
        terms, place = np.unique(np.concatenate(given), return_inverse=True)
        places = np.split(place, np.cumsum([len(one) for one in given])[:-1])
        arrays = dict(zip(("anchor", "positive", "negative"), places, strict=True))
        groups = {"group": data.groups[given[0]], "negative_group": data.groups[given[2]]}
        return Batch(terms, arrays | groups, rows=len(place))

    # Objective: InfoNCE of anchors against positives, with all negatives of the batch that are of other groups.
    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return info_nce(
            vectors[given["anchor"]],
            vectors[given["positive"]],
            given["group"],
            temperature=config.temperature,
            symmetric=config.symmetric,
            extra=vectors[given["negative"]],
            extra_negative=given["group"][:, None] != given["negative_group"][None, :],
        )

    # Loop, and the model.
    return run.fit(
        TermSteps.of(run, data.strings, draw, loss),
        f"pairs: {len(trained):,}, {int((data.negatives >= 0).sum()):,} with a negative; {len(data.strings):,} strings",
        length=length,
        evaluate=partial(_accuracy, data, held) if len(held) else None,
    )


def _accuracy(data: StringPairs, held: NDArray[np.int64], encoder: TermEncoder) -> dict[str, float]:
    """Return the share of held-out anchors to which a positive of theirs is the nearest of all positives."""
    from alphita_lab.training.terms.names import nearest_rows

    among = np.unique(data.positives)
    vectors = encoder.encode([data.strings[row] for row in among])
    nearest = among[nearest_rows(encoder.encode([data.strings[row] for row in data.anchors[held]]), vectors)]
    return {"dev_acc1": float((data.groups[nearest] == data.groups[data.anchors[held]]).mean())}


def _dev(data: StringPairs, wanted: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows that are held out, whose anchors stand in no other row, and those that train."""
    from alphita.errors import InputError

    if not wanted:
        return np.empty(0, np.int64), np.arange(len(data))
    uses = np.bincount(np.concatenate([data.anchors, data.positives]), minlength=len(data.strings))
    free = np.flatnonzero(uses[data.anchors] == 1)
    held = np.sort(np.random.default_rng([seed, 2]).permutation(free)[:wanted])
    if not len(held) or len(held) == len(data):
        raise InputError(
            "no pair can be held out: each anchor stands in other rows too, or all rows would be",
            field="dev_pairs",
            value=wanted,
            remedy="set dev_pairs=0",
        )
    return held, np.setdiff1d(np.arange(len(data)), held)
