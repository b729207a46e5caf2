"""Cross-lingual distillation: one model for many languages (Reimers and Gurevych, EMNLP 2020; BioLORD-2023-M).

A student learns to give the vector that a teacher, good in one language, gives a name in it: to the name itself and to
its translations. "Fever", "fiebre" and "Fieber" so get one vector, the one that the teacher gives "fever". The names
without a translation train too, so that the student keeps what the teacher knows. Nothing is contrasted, and the
teacher is left as it is.

Pairs of a name and its translation come from the terminology itself, from editions of it in other languages, and from
files: translators' tables, or bitext that `alphita bitext` mined. A student is a multilingual encoder, or any encoder
whose vocabulary `alphita vocabulary extend` extended to the new languages.

Deviations from BioLORD-2023 (Remy et al. 2024), and what it leaves open:
- It takes the 50 languages of its student, and pairs mined in SNOMED CT's editions; here what is given is taken.
- Pairs of all languages are drawn alike, by default; it does not state how. `temperature` and the weights in
  `languages` change that.
- A name and its translation stand in one batch, with one target each, and a name that is a pair's source does not stand
  among the names without translation as well; it does not state how they are mixed.
- The vectors that are compared are those that the models give: at length 1 where the student scales its own so.
- The teacher works in fp32. Its vectors are computed once, and kept until the model is saved.
- Names are cleaned before encoding (lower case, spaces), as in all recipes here.
- Gradients are clipped, and biases and layer norms are not decayed, as in all recipes here.
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from alphita_lab.training.engine.settings import TermTraining, language_weights
from alphita_lab.training.sentences.scored_pairs import listed

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Mode
    from alphita_lab.training.terms.batches import Batch, BatchLoss, Draw
    from alphita_lab.training.terms.translation_data import Numbered, PairBatches, Translations

CITATION = (
    "N. Reimers, I. Gurevych. Making monolingual sentence embeddings multilingual using knowledge distillation. EMNLP "
    "2020. As applied in: F. Remy, K. Demuynck, T. Demeester. BioLORD-2023: semantic textual representations fusing "
    "large language models and clinical knowledge graph insights. Journal of the American Medical Informatics "
    "Association 31(9), 2024."
)


class Config(TermTraining):
    """Settings of cross-lingual distillation; the defaults are BioLORD-2023's where it states them."""

    teacher: str = Field("", description="model whose vectors to learn; none: the initial encoder (§ Cross-lingual)")
    # Data
    source: str = Field("en", description="the teacher's language (§ Cross-lingual: English)")
    pairing: Literal["labels", "synonyms", "all"] = Field(
        "labels",
        description="pairs of names: labels, a label with all translations, or all with all (not stated; ours)",
    )
    machine: bool = Field(False, description="also use machine translations (not stated; ours)")
    editions: str = Field("", description="terminologies with translations, X,Y,... (§ Cross-lingual: SNOMED CT's)")
    pairs: str = Field("", description="files of pairs, FILE,FILE,... (§ Cross-lingual: mined by LaBSE)")
    temperature: float = Field(
        1.0,
        ge=1,
        description="temperature for drawing languages; 1: proportional to their pairs, higher: more "
        "uniform (not stated; ours)",
    )
    max_length: int = Field(128, ge=3, description="tokens per name (not stated; Reimers and Gurevych's example)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (R&G §2)")
    # Optimisation
    batch: int = Field(64, ge=1, description="pairs and names per batch (not stated; Reimers and Gurevych's example)")
    epochs: float = Field(10.0, gt=0, description="epochs over pairs and names (appendix B)")
    steps: int = Field(0, ge=0, description="optimiser steps, instead of epochs; 0: by epochs (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (not stated)")
    learning_rate: float = Field(2e-5, gt=0, description="learning rate (appendix B)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 5% of all (appendix B)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up (appendix B)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (appendix B)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated; sentence-transformers' 1)")
    # Dev score
    dev_pairs: int = Field(
        0, ge=0, description="pairs held out for scoring: translation to source, accuracy@1 (not stated; ours)"
    )

    @field_validator("source")
    @classmethod
    def _one_language(cls, value: str) -> str:
        if len(language_weights(value)) != 1 or ":" in value:
            raise ValueError("the teacher's language is one, such as en")
        return value

    @model_validator(mode="after")
    def _is_scored_by_pairs(self) -> Config:
        if self.dev_synonyms:
            raise ValueError("dev_synonyms: translations are scored here, not synonyms; set dev_pairs")
        if self.keep == "best" and not self.dev_pairs:
            raise ValueError("keep=best needs dev scores: set dev_pairs and evaluate_every")
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Train `encoder`, the student, and save it to `out`."""
    from alphita_lab.training.engine import ranks, teachers
    from alphita_lab.training.engine import run as trial
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.engine.settings import Length
    from alphita_lab.training.terms import translation_data
    from alphita_lab.training.terms.batches import TermSteps
    from alphita_lab.training.terms.translation_data import numbered

    # Student, teacher, and data: pairs of a name and its translation, and names without one.
    run = Run("multilingual", Phase("", out, **mode), config, encoder)
    teacher = teachers.load(config.teacher, encoder, run.encoder.dim, device=ranks.device())
    run.begin(teacher=teacher.content_hash, terminology=terminology.content_hash)
    data, bad_rows = _gather(run, config, terminology, split)
    run.facts |= {"pairs_of": data.made_of, "split": split.hash if split else None, **CLEANED}
    table = numbered(data.pairs, data.names)
    # Sources and names come first: what the teacher encodes.
    named = table.strings[: 1 + int(max(table.sources.max(), table.names.max(initial=0)))]
    batches = _batches(config, data)
    epoch = batches.rows / config.batch / config.accumulation
    steps = config.steps or math.ceil(config.epochs * batches.rows / config.batch / config.accumulation)
    run.say(f"an epoch is {epoch:,.1f} steps; training takes {steps:,}")

    # Objective, with the teacher's vectors of all names, (len(named), d); loop, and the model.
    targets = np.zeros((len(named), run.encoder.dim), np.float32)
    if not run.phase.dry_run:
        targets = teachers.taught(teacher, named, run.work, run.ranks, unit=run.encoder.normalize)
    draw, loss = objective(table, batches, targets, unit_length=run.encoder.normalize)
    dev_score = partial(translation_data.accuracy, data.dev) if len(data.dev) else None
    figures = run.fit(
        TermSteps.of(run, table.strings, draw, loss),
        f"names: {len(named):,}; translations: {len(table.strings) - len(named):,}",
        length=Length.of(steps, config.warmup_steps, config.learning_rate),
        evaluate=dev_score,
        final=dev_score,
        fields=data.counts() | {"bad_rows": bad_rows},
    )
    if run.phase.dry_run:
        lasts = trial.duration(teachers.seconds(teacher, named))
        run.say(f"  before: the teacher encodes {len(named):,} names, about {lasts}")
    return figures


def _gather(run: Run, config: Config, terminology: Terminology, split: Split | None) -> tuple[Translations, int]:
    """Return the data, and how many rows of files are bad: these go to OUT.rejects.csv."""
    from alphita.errors import Rejects
    from alphita_lab.training.engine import runs
    from alphita_lab.training.terms.translation_data import Wanted, gather

    wanted = Wanted(
        config.source,
        languages=list(language_weights(config.languages)),
        pairing=config.pairing,
        machine=config.machine,
        editions=listed(config.editions),
        files=listed(config.pairs),
        dev=config.dev_pairs,
        seed=config.seed,
    )
    aside = runs.beside(run.phase.out, ".rejects.csv")
    with Rejects(None if run.phase.dry_run or not run.ranks.first else aside) as rejects:
        data = gather(terminology, wanted, split=split, rejects=rejects)
    if split is not None:
        run.say(f"held out by the split: {len(split.cleaned):,} strings")
    for line in data.lines():
        run.say(line)
    return data, rejects.count


def _batches(config: Config, data: Translations) -> PairBatches:
    from alphita.terminology.languages import by_tag
    from alphita_lab.training.terms.translation_data import PairBatches

    return PairBatches(
        data.pairs,
        len(data.names),
        batch=config.batch,
        seed=config.seed,
        temperature=config.temperature,
        weights=by_tag(data.pairs.languages, language_weights(config.languages)),
    )


def objective(
    table: Numbered, batches: PairBatches, targets: NDArray[np.float32], *, unit_length: bool
) -> tuple[Draw, BatchLoss]:
    """Return what draws names and translations, and the squared distance of each to what the teacher gives the name.

    Args:
        targets: (n, d) the teacher's vectors of the first n strings.
    """
    from alphita_lab.objectives.multi_similarity import unit
    from alphita_lab.objectives.regression import regression
    from alphita_lab.training.terms.batches import Batch

    def draw(number: int) -> Batch:
        batch = batches.batch(number)
        names = table.names[batch.names]
        given = np.concatenate([table.sources[batch.pairs], table.translations[batch.pairs], names])
        meant = np.concatenate([table.sources[batch.pairs], table.sources[batch.pairs], names])
        strings, place = np.unique(given, return_inverse=True)
        return Batch(strings, {"place": place, "target": targets[meant]}, rows=len(given))

    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        own = unit(vectors) if unit_length else vectors
        return {"loss": regression(own[given["place"]], given["target"])}

    return draw, loss
