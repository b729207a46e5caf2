"""BioLORD-2023: names against definitions, self-distillation, model soup (Remy et al., JAMIA 2024).

A sentence encoder learns what concepts mean from texts about them: written definitions, descriptions from the graph,
generated definitions. (0) The base is adapted to sentences that people scored. (1) InfoNCE draws a concept's name and a
text of it together and apart from other concepts' texts; the model is then adapted again. (2) The adapted base, which
has not undergone (1), learns to predict that model's concept vectors, a gentler objective that forgets less general
language. (3) The weights of several such students, which differ by their seed, are averaged.

The phases are functions: `adapt`, `contrast`, `distil`, `soup`. `train` runs those that `phases` names, each from what
the ones before it left, and keeps their models in OUT.phases: adapted, contrasted, contrasted_adapted (BioLORD-2023-C),
distilled_0 ... (BioLORD-2023-S). The last one's model is OUT. BioLORD-2022 (Remy et al., EMNLP Findings 2022) is
phase (1) alone, on the unadapted base: phases=contrast, batch=96.

Deviations from the paper, and what it leaves open:
- STS objective, batch and epochs, and temperature are not stated; see the settings.
- The paper takes the targets from "BioLORD-2023-C" without saying whether before or after the second adaptation. Its
  table 2 calls the model of the whole contrastive phase so, which the adaptation ends: after it.
- A target is the mean of the vectors of the concept's preferred name and of its definitions, the mean removed by the
  PCA (see `training.terms.distillation`). A concept without definition is told by its name. All its names are trained.
- The head reads the vector at length 1, as it is compared later. It is kept beside the model, not in it. With
  head=teacher it starts as the projection that made the targets, not at random: a short training has not the steps to
  bring a drawn head to the vectors, and turns the vectors to it instead.
- Descriptions from the graph are made by our templates; the paper's are in the authors' pairs alone (BioLORD-Dataset),
  which `generated` takes as it takes AGCT's definitions.
- With kinds=...,name a concept's other names count as texts of it: a graph teaches synonyms that way too, of concepts
  that have neither definition nor relations.
- Texts of a concept that a pair's drawn name names too, and equal texts, are no negatives of the pair either.
- Names are cleaned before encoding (lower case, spaces), as in all recipes here; texts and sentences are not.
- The soup's dev score is the mean of Pearson's correlation on scored sentences and of accuracy@1 from definitions held
  out of training to names; the paper does not state its own.
- Gradients are clipped, and biases and layer norms are not decayed, as in all recipes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from pydantic import Field, field_validator, model_validator

from alphita import artefact
from alphita.errors import InputError, UsageError
from alphita_lab.training.sentences.scored_pairs import listed
from alphita_lab.training.text.definition_data import TRAINED, AdaptedTraining, Data, read, say, some_of
from alphita_lab.verbalisation.texts import KINDS

if TYPE_CHECKING:
    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode, Phase
    from alphita_lab.training.engine.settings import Length

CITATION = (
    "F. Remy, K. Demuynck, T. Demeester. BioLORD-2023: semantic textual representations fusing large language models "
    "and clinical knowledge graph insights. Journal of the American Medical Informatics Association 31(9), 2024."
)
PHASES = ("adapt", "contrast", "distil", "soup")


class Config(AdaptedTraining):
    """BioLORD-2023's settings; the defaults are the paper's where it states them."""

    phases: str = Field("adapt,contrast,distil,soup", description="phases to run (Training strategy; 2022: contrast)")
    # Data
    kinds: str = Field(
        "definition,description,generated",
        description="kinds of text that names are contrasted with (Contrastive phase: these; appendix A: fewer); "
        "name: the concept's other names too (ours)",
    )
    descriptions: int = Field(3, ge=0, description="maximum descriptions per concept (not stated; ours)")
    generated: str = Field(
        "", description="generated definitions: JSONL, or AGCT or the authors' pairs as published (Training data)"
    )
    max_length: int = Field(128, ge=3, description="tokens per name, text or sentence (not stated; ours)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (STAMB2)")
    # Phase 0: adaptation
    scored: str = Field("", description="files of scored pairs, FILE,FILE@0-4,... (Contrastive phase: STS sets)")
    triples: str = Field("", description="files of premise, entailed, contradicted (Contrastive phase: MedNLI)")
    adapt_objective: Literal["cosine", "cosent"] = Field("cosine", description="loss of scored pairs (not stated)")
    adapt_turns: Literal["proportional", "equal"] = Field(
        "proportional", description="batches of the sets by size, or equally (not stated)"
    )
    adapt_batch: int = Field(16, ge=2, description="pairs or triples per batch (not stated; Sentence-BERT's)")
    adapt_epochs: float = Field(4.0, gt=0, description="epochs over the scored sets (not stated; Sentence-BERT's)")
    adapt_learning_rate: float = Field(2e-5, gt=0, description="learning rate (not stated; as the other phases)")
    # Phase 1: contrast
    batch: int = Field(128, ge=2, description="pairs of name and text per batch (appendix B; 2022: 96)")
    epochs: float = Field(1.0, gt=0, description="epochs over the texts (appendix B)")
    temperature: float = Field(
        0.05, gt=0, description="temperature of InfoNCE (not stated; sentence-transformers' scale of 20)"
    )
    symmetric: bool = Field(
        False, description="also contrast texts with names (Contrastive phase: names against texts)"
    )
    hard_negatives: int = Field(0, ge=0, description="texts of siblings and ancestors' siblings per pair (appendix A)")
    # Phase 2: self-distillation
    teacher: str = Field("", description="model to distil if the run has no contrastive phase (ours)")
    distil_kinds: str = Field(
        "definition,generated",
        description="kinds of text, out of those in training, to distil with the names (Self-distillation)",
    )
    target_names: Literal["preferred", "all"] = Field(
        "preferred", description="names averaged into a concept's target (not stated)"
    )
    dim: int = Field(64, ge=1, description="dimensions of a target, by PCA (Self-distillation phase)")
    head: Literal["random", "teacher"] = Field(
        "random",
        description="initial head: random by the seed, or the teacher's PCA (Self-distillation: random; teacher is "
        "ours)",
    )
    distil_batch: int = Field(64, ge=2, description="names and definitions per batch (not stated; ours)")
    distil_epochs: float = Field(5.0, gt=0, description="epochs over names and definitions (appendix B)")
    distil_learning_rate: float = Field(2e-5, gt=0, description="learning rate (appendix B)")
    seeds: int = Field(7, ge=1, description="students, with the seeds seed, seed + 1, ... (appendix B)")
    # Phase 3: soup
    soup: Literal["greedy", "uniform"] = Field(
        "greedy", description="members to average: those that help, or all (appendix B)"
    )
    members: str = Field("", description="further models for the soup, FOLDER,FOLDER (Wortsman et al.: settings)")
    dev_scored: str = Field("", description="files of scored pairs for the dev score (not stated; ours)")
    dev_definitions: int = Field(
        500, ge=0, description="concepts whose definitions are held out for the dev score (ours)"
    )
    dev_names: int = Field(
        20_000, ge=1, description="maximum names among which these definitions must find their own (ours)"
    )
    # Optimisation
    steps: int = Field(0, ge=0, description="optimiser steps of every phase, for a trial; 0: by epochs (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (not stated)")
    learning_rate: float = Field(2e-5, gt=0, description="learning rate of the contrastive phase (appendix B)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 5% of the phase's (appendix B)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up (appendix B)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (appendix B)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated; sentence-transformers' 1)")

    @field_validator("phases", "kinds", "distil_kinds")
    @classmethod
    def _known(cls, value: str, info: Any) -> str:  # noqa: ANN401 - pydantic's
        choices = {"phases": PHASES, "kinds": TRAINED}.get(str(info.field_name), KINDS)
        return some_of(choices, value, info.field_name.removesuffix("s"))

    @model_validator(mode="after")
    def _phases_fit(self) -> Config:
        phases = listed(self.phases)
        if "distil" in phases and not ("contrast" in phases or self.teacher):
            raise ValueError("phases: distil without contrast needs teacher=MODEL")
        if "distil" in phases and "soup" not in phases and self.seeds > 1:
            raise ValueError("phases: distil without soup leaves one model: set seeds=1, or add soup")
        if self.keep == "best" and not (self.dev_synonyms and self.evaluate_every):
            raise ValueError("keep=best needs dev scores while training: set dev_synonyms and evaluate_every")
        if "soup" in phases and not ("distil" in phases or self.members):
            raise ValueError("phases: soup without distil needs members=MODEL,MODEL")
        if "soup" in phases and self.soup == "greedy" and not (self.dev_scored or self.dev_definitions):
            raise ValueError("soup=greedy needs a dev score: set dev_scored or dev_definitions, or soup=uniform")
        return self


# Phase 0, and again after phase 1: the model is adapted to sentences that people scored.


def adapt(config: Config, data: Data, encoder: str | Path, phase: Phase) -> dict[str, float]:
    """Train `encoder` on all scored sets, a batch of one after a batch of another; return the last figures."""
    from alphita_lab.objectives.scored_pairs import scored_pairs, triples
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.sentences.scored_pairs import SentenceTasks
    from alphita_lab.training.terms.batches import TermSteps

    run = Run("biolord", phase, config, encoder)
    run.begin(**CLEANED, **data.facts)
    if run.done is not None:
        return run.done
    tasks = SentenceTasks(data.sets, rows=config.adapt_batch, seed=config.seed, turns=config.adapt_turns)

    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if "score" in given:
            left, right = vectors[given["left"]], vectors[given["right"]]
            return {"loss": scored_pairs(left, right, given["score"], objective=config.adapt_objective)}
        premise, entailed, contradicted = (vectors[given[name]] for name in ("premise", "entailed", "contradicted"))
        return {"loss": triples(premise, entailed, contradicted, premise=given["premise"])}

    return run.fit(
        TermSteps.of(run, tasks.strings, tasks.batch, loss),
        f"sentences: {len(tasks.strings):,} of {len(data.sets)} sets; an epoch is {tasks.batches:,} batches",
        length=_length(config, tasks.batches, config.adapt_epochs, config.adapt_learning_rate),
        final=data.dev,
    )


# Phase 1: InfoNCE between a concept's name and a text of it.


def contrast(config: Config, data: Data, encoder: str | Path, phase: Phase) -> dict[str, float]:
    """Train `encoder` to tell each name's text from those of other concepts; return the last figures."""
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.terms.batches import TermSteps
    from alphita_lab.training.text.definition_pairs import DefinitionPairs, HardNegatives, contrast_of

    run = Run("biolord", phase, config, encoder)
    run.begin(**CLEANED, **data.facts)
    if run.done is not None:
        return run.done
    names, texts, hard = data.names, data.texts, None
    if config.hard_negatives:
        hard = HardNegatives(data.terminology, texts.concepts, count=config.hard_negatives, held_out=data.held_out)
    pairs = DefinitionPairs(names, texts, batch=config.batch, seed=config.seed, hard=hard)

    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return contrast_of(vectors, given, temperature=config.temperature, symmetric=config.symmetric)

    return run.fit(
        TermSteps.of(run, [*names.strings, *texts.strings], pairs.batch, loss),
        data.describe(),
        length=_length(config, pairs.pairs / config.batch, config.epochs, config.learning_rate),
        evaluate=names.dev,
        final=data.dev,
    )


# Phase 2: self-distillation of the model of phase 1 into the base as it was before.


def targets(config: Config, data: Data, teacher: str | Path, folder: Path) -> None:
    """Keep in `folder` each concept's target: the mean of the teacher's vectors of name and definitions, by PCA."""
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.engine import ranks
    from alphita_lab.training.terms import distillation

    every = data.variants()
    names = every.preferred() if config.target_names == "preferred" else (every.names, every.named)
    if ranks.connect().first:
        encoder = TermEncoder.load(teacher, precision=config.precision, device=ranks.device())
        distillation.make(
            folder,
            encoder,
            names,
            (every.texts, every.defined),
            every.n,
            dim=config.dim,
            facts={**data.facts, "target_names": config.target_names},
        )
    ranks.connect().wait()


def distil(
    config: Config, data: Data, encoder: str | Path, folder: Path, phase: Phase, *, seed: int
) -> dict[str, float]:
    """Train `encoder` to predict the targets in `folder` through a head drawn by `seed`; return the last figures."""
    from alphita_lab.objectives.multi_similarity import unit
    from alphita_lab.objectives.regression import regression
    from alphita_lab.training.engine.run import CLEANED, Run
    from alphita_lab.training.terms import distillation
    from alphita_lab.training.terms.batches import TermSteps
    from alphita_lab.training.terms.distillation import ProjectionHead

    every = data.variants()
    made, values, hashed = None, np.zeros((every.n, config.dim), np.float32), ""
    if not phase.dry_run:
        made = distillation.read(folder)
        values, hashed = made.values, artefact.hash_file(folder / "values.npy")
    run = Run("biolord", phase, config, encoder, seed=seed)
    run.begin(**CLEANED, **data.facts, targets=hashed)
    if run.done is not None:
        return run.done
    owners = np.concatenate([every.named, every.defined])
    drawn = distillation.TargetBatches(owners, values, batch=config.distil_batch, seed=seed)
    head = ProjectionHead(run.encoder.dim, config.dim, seed=seed)
    if made is not None and config.head == "teacher":
        head.start_from(made)

    def loss(vectors: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"loss": regression(head(unit(vectors[given["place"]])), given["target"])}

    return run.fit(
        TermSteps.of(run, [*every.names, *every.texts], drawn.batch, loss),
        f"names: {len(every.names):,} of {every.n:,} concepts; definitions: {len(every.texts):,}",
        length=_length(config, len(owners) / config.distil_batch, config.distil_epochs, config.distil_learning_rate),
        modules={"head": head},
        evaluate=data.names.dev,
        final=data.dev,
    )


# Phase 3: the soup.


def soup(config: Config, data: Data, members: Mapping[str, Path], phase: Phase) -> dict[str, float]:
    """Average the members' weights, greedily by dev score or all alike; print what each adds; return the figures."""
    from alphita_lab.training.engine.soup import SoupRun

    run = SoupRun("biolord", phase, config, members, data.facts)
    if run.done is not None:
        return run.done
    return run.cook(data.dev, greedy=config.soup == "greedy")


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Run the phases that the config names, and return the last one's figures."""
    from alphita_lab.training.engine import runs
    from alphita_lab.training.engine.runs import Phases

    chosen = listed(config.phases)
    data = read(terminology, config, split, rejects=None if mode.get("dry_run") else runs.beside(out, ".rejects.csv"))
    adapts = "adapt" in chosen and bool(data.sets)
    if "adapt" in chosen and not adapts:
        say("no scored sentences are given (scored, triples): the model is not adapted to any")
    if "soup" in chosen and config.soup == "greedy" and not (data.sentences or data.definitions):
        raise InputError(
            "too few concepts have a definition to hold some out, so there is no dev score for a greedy soup",
            remedy="set dev_scored=FILE or soup=uniform",
        )
    students = [f"distilled_{number}" for number in range(config.seeds)] if "distil" in chosen else []
    members = {path: Path(path) for path in listed(config.members)} if "soup" in chosen else {}
    distilled = encoder if "contrast" in chosen else config.teacher
    _check_later_phases(config, data, distilled if students else None, members)
    planned = {
        "adapted": adapts,
        "contrasted": "contrast" in chosen,
        "contrasted_adapted": adapts and "contrast" in chosen,
        **dict.fromkeys(students, True),
        "soup": "soup" in chosen,
    }
    names = [name for name, runs in planned.items() if runs]
    if not names:
        raise UsageError("no phase is left to run: give scored sentences (scored, triples), or other phases")
    phases = Phases(out, names, **mode)
    phases.check()

    base: str | Path = encoder
    if "adapted" in phases:
        base = phases.add("adapted", adapt(config, data, encoder, phases["adapted"]), encoder)
    teacher: str | Path = config.teacher
    if "contrasted" in phases:
        teacher = phases.add("contrasted", contrast(config, data, base, phases["contrasted"]), base)
    if "contrasted_adapted" in phases:
        again = adapt(config, data, teacher, phases["contrasted_adapted"])
        teacher = phases.add("contrasted_adapted", again, teacher)
    if students and not phases.dry_run:
        targets(config, data, teacher, phases.folder / "targets")
    if members and "contrast" in chosen and not students:
        members = {names[-2]: Path(teacher), **members}
    if phases.dry_run and len(students) > 1:
        say(f"of {len(students)} students, which take as long as each other, the first:")
    for number, name in enumerate(students[:1] if phases.dry_run else students):
        figures = distil(config, data, base, phases.folder / "targets", phases[name], seed=config.seed + number)
        members[name] = Path(phases.add(name, figures, base))
    if "soup" in phases and not phases.dry_run:
        phases.add("soup", soup(config, data, members, phases["soup"]), base)
    return phases.figures[names[-1]] if not phases.dry_run else {}


def _check_later_phases(config: Config, data: Data, teacher: str | None, members: Mapping[str, Path]) -> None:
    """Find now what would end the run after hours, in its last phases."""
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.engine import soup

    soup.check(members)
    if teacher is not None:
        dim = TermEncoder.load(teacher, precision="fp32", device="cpu").dim
        concepts = int((np.diff(data.names.offsets) > 0).sum())
        if config.dim > dim or config.dim >= concepts:
            raise InputError(
                f"vectors of {dim} numbers of {concepts:,} concepts give no targets of so many numbers",
                field="dim",
                value=config.dim,
                remedy=f"set dim={max(1, min(dim, concepts - 1))} or less",
            )


def _length(config: Config, batches: float, epochs: float, learning_rate: float) -> Length:
    """Return how long a phase trains: `steps`, or its epochs of `batches` batches; 5% of it are warm-up."""
    from alphita_lab.training.engine.settings import Length, steps_of

    return Length.of(config.steps or steps_of(batches, epochs, config.accumulation), config.warmup_steps, learning_rate)
