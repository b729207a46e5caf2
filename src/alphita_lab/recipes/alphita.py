"""The recipe with which Alphita's own models were trained.

From each of the papers what was worth its rows on open knowledge: names against texts of their concept (BioLORD-2023),
the concept's other names among these texts (SapBERT), relations told as descriptions (CODER's graph), texts of siblings
(BioLORD's appendix A) and names that lie near but mean something else (CODER++) as hard negatives, names as people
write them, and a term that keeps what the base knows of general language. For pairs of a name i and a text of its
concept, and k strings with the base's vectors b:

    L = L_InfoNCE(names, texts) + mu / k^2 sum_ij (cos(v_i, v_j) - cos(b_i, b_j))^2

The second is relational distillation (Park et al., CVPR 2019): not where the vectors lie is kept, but how near they are
to each other. `start_share` averages some of the starting weights into the final ones (Wortsman et al., CVPR 2022).

A tenth of the strings never trains: the same, by a hash of the string, that an index's head is not taught and that
`alphita calibrate` asks for. So what is certified is measured on strings that neither has seen, whatever terminology.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from alphita.errors import InputError
from alphita_lab.training.text.definition_data import TRAINED, Data, TextTraining, read, some_of

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch
    from alphita_lab.training.text.definition_pairs import HardNegatives

CITATION = "Alphita, https://github.com/alphita/alphita; of the parts: see the recipes biolord, sapbert, coder_pp."
# Strings whose nearness is kept are drawn from so many, which the base encodes once.
KEPT = 20_000


class Config(TextTraining):
    """The recipe's settings."""

    # Data
    kinds: str = Field(
        "definition,description,name", description="kinds of text that names are contrasted with (SapBERT, BioLORD)"
    )
    descriptions: int = Field(2, ge=0, description="maximum descriptions per concept (ours)")
    generated: str = Field("", description="JSONL file of generated definitions (BioLORD)")
    noise: float = Field(
        0.2, ge=0, le=1, description="share of the names that are also trained with writing errors (ours)"
    )
    max_length: int = Field(48, ge=3, description="tokens per name or text (ours)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (the bases')")
    distil_kinds: str = Field("definition", description="kinds whose texts are held out for the dev score (ours)")
    dev_scored: str = Field("", description="files of scored pairs for the dev score (ours)")
    dev_definitions: int = Field(
        500, ge=0, description="concepts whose definitions are held out for the dev score (ours)"
    )
    dev_names: int = Field(
        20_000, ge=1, description="maximum names among which these definitions must find their own (ours)"
    )
    hold_back: bool = Field(True, description="hold out a tenth of the strings, the same as for an index's head (ours)")
    # Objective
    batch: int = Field(1024, ge=2, description="pairs of name and text per batch (ours)")
    hard_negatives: int = Field(1, ge=0, description="texts of siblings per pair (BioLORD, appendix A)")
    mined: bool = Field(True, description="similar names of other concepts, as additional negatives (CODER++)")
    mine_every: int = Field(1500, ge=1, description="steps between minings (ours)")
    temperature: float = Field(0.05, gt=0, description="temperature of InfoNCE (ours)")
    symmetric: bool = Field(True, description="also contrast texts with names (ours)")
    keep_rows: int = Field(
        256, ge=0, description="strings per batch whose similarities to preserve; 0: none (Park et al.)"
    )
    mu: float = Field(10.0, ge=0, description="weight of the preserved similarities (ours)")
    base_prefix: str = Field("", description="prefix for strings that the base encodes; 'query: ' for E5 (ours)")
    centred: bool = Field(
        False, description="compute the preserved similarities from the base's mean vector; for E5 (ours)"
    )
    # Optimisation
    steps: int = Field(3000, ge=1, description="optimiser steps (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (ours)")
    learning_rate: float = Field(3e-4, gt=0, description="peak learning rate (ours)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 5% (ours)")
    schedule: Literal["linear", "cosine", "constant"] = Field("linear", description="schedule after the warm-up (ours)")
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (BioLORD)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (ours)")

    @field_validator("kinds")
    @classmethod
    def _known(cls, value: str) -> str:
        return some_of(TRAINED, value, "kind")


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train an encoder and save it to `out`."""
    from alphita.index.learning import held_back_of
    from alphita_lab.objectives.kept_nearness import kept_nearness
    from alphita_lab.training.engine import runs
    from alphita_lab.training.engine.loop import Refresh
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.terms.batches import TermSteps
    from alphita_lab.training.terms.mining import NearNames
    from alphita_lab.training.text.definition_pairs import DefinitionPairs, contrast_of

    # Data: pairs of a name and a text, texts of siblings, names that lie near, and strings with the base's vectors.
    data = read(
        terminology,
        config,
        split,
        rejects=None if mode.get("dry_run") else runs.beside(out, ".rejects.csv"),
        held_back=held_back_of(terminology) if config.hold_back else frozenset(),
    )
    run = Run("alphita", Phase("trained", out, **mode), config, encoder)
    run.begin(**CLEANED, **data.facts)
    if run.done is not None:
        return run.done
    names, texts, near = data.names, data.texts, None
    hard = _siblings(run, config, data)
    if config.mined:
        near = NearNames(
            terminology, names, run.work / "mined", every=config.mine_every, checkpoint_every=config.checkpoint_every
        )
    pairs = DefinitionPairs(names, texts, batch=config.batch, seed=config.seed, hard=hard, near=near)
    strings = [*names.strings, *texts.strings]
    kept = _keep(run, strings, config)

    def draw(number: int) -> Batch:
        batch = pairs.batch(number)
        return batch if kept is None else kept.added(batch, number)

    # Objective.
    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        contrast = contrast_of(vectors, given, temperature=config.temperature, symmetric=config.symmetric)
        if kept is None:
            return contrast
        apart = kept_nearness(vectors[given["kept"]], given["base"])
        return {"loss": contrast["loss"] + config.mu * apart, "contrast": contrast["loss"], "kept": apart}

    def mine(step: int) -> None:
        assert near is not None
        if run.phase.dry_run:
            near.guess()
        else:
            run.ranks.one_by_one(lambda: near.mine(step, run.encoder))

    return run.fit(
        TermSteps.of(run, strings, draw, loss),
        data.describe(),
        evaluate=names.dev,
        final=data.dev,
        refresh=Refresh(mine, config.mine_every) if near else None,
    )


@dataclass(frozen=True)
class _Kept:
    """Strings whose nearness to each other is kept.

    Attributes:
        places: (k,) ascending, which of the run's strings they are.
        base: (k, d) the base's vectors of them.
        rows: how many of them stand in a batch.
        seed: of the draw.
    """

    places: NDArray[np.int64]
    base: NDArray[np.float32]
    rows: int
    seed: int

    def added(self, batch: Batch, number: int) -> Batch:
        """Return batch `number` with some of the strings, and two arrays: kept, their places, and base."""
        drawn = np.random.default_rng([self.seed, 21, number]).choice(len(self.places), self.rows, replace=False)
        terms, place = np.unique(np.concatenate([batch.terms, self.places[drawn]]), return_inverse=True)
        arrays = batch.arrays | {name: place[batch.arrays[name]] for name in ("name", "text", "extra")}
        arrays |= {"kept": place[len(batch.terms) :], "base": self.base[drawn]}
        return replace(batch, terms=terms, arrays=arrays, rows=batch.rows + self.rows)


def _siblings(run: Run, config: Config, data: Data) -> HardNegatives | None:
    """Return what draws the texts of siblings; None if the config wants none, or the graph has none."""
    from alphita_lab.training.text.definition_pairs import HardNegatives

    if not config.hard_negatives:
        return None
    concepts = data.texts.concepts
    try:
        return HardNegatives(data.terminology, concepts, count=config.hard_negatives, held_out=data.held_out)
    except InputError as error:
        run.say(f"trained without hard negatives: {error.problem}")
        return None


def _keep(run: Run, strings: list[str], config: Config) -> _Kept | None:
    """Draw the strings whose nearness is kept and encode them by the base; None if the config keeps none."""
    places = np.sort(np.random.default_rng([config.seed, 20]).permutation(len(strings))[:KEPT])
    rows = min(config.keep_rows, len(places))
    if rows < 2 or config.mu == 0:
        return None
    base = np.zeros((len(places), run.encoder.dim), np.float32)
    if not run.phase.dry_run:
        run.say(f"{len(places):,} strings are encoded by the base, to keep how near they are")
        base = run.encoder.encode([config.base_prefix + strings[place] for place in places.tolist()]).astype(np.float32)
        base -= base.mean(axis=0) * config.centred
    return _Kept(places, base, rows, config.seed)
