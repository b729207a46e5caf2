"""Contrastive training with margins from the graph, as one function: the recipe's own, and a phase of others.

Data, objective and loop stand in the order of the paper (Amore Bondarenko, Ferrod and Di Caro, 2022, §3.2).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from alphita.errors import InputError, UsageError
from alphita_lab.training.engine.settings import TermTraining

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.graph.store import EntityVectors
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Phase
    from alphita_lab.training.mentions.rows import MentionRows
    from alphita_lab.training.mentions.sampler import MentionSampler
    from alphita_lab.training.terms.batches import Batch, BatchLoss

# 20k of 50k steps (§4).
WARMUP = 0.4


class MarginTraining(TermTraining):
    """The settings of the contrastive training; the defaults are the paper's where it states them."""

    # Data
    mentions: str = Field("", description="mentions of names in a corpus, X.mentions; none: names only (§3.1)")
    contexts: int = Field(4, ge=0, description="maximum contexts per name; 0: names only (§4)")
    bare: bool = Field(True, description="also train on names without context (ours; §3.1: contexts only)")
    prototypes: int = Field(4, ge=1, description="prototypes per batch (§4)")
    prototypes_a_concept: int = Field(
        3, ge=1, description="maximum prototypes per concept (not stated; 2.4 by §3.1, §4)"
    )
    positives: int = Field(20, ge=1, description="k, maximum positives per prototype (§4)")
    negatives: int = Field(30, ge=1, description="m, possible hard negatives per prototype (§4)")
    refresh_every: int = Field(0, ge=0, description="steps between searches for negatives; 0: every epoch (§3.2)")
    exact_up_to: int = Field(2_000_000, ge=0, description="number of mentions up to which the search is exact (ours)")
    max_length: int = Field(32, ge=3, description="tokens of a single name (not stated; ours: as a window, §3.1)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: the mean of the mention, or [CLS] (§3.2)")
    # Objective
    version: Literal["v1", "v2", "v3"] = Field("v3", description="the loss: equation 1, 2 or 3 (§3.2)")
    graph: str = Field("", description="vectors of concepts, X.vectors; required for v3 (§4: ComplEx)")
    detach_margin: bool = Field(False, description="v3: no gradient through the margin (equation 3: it flows)")
    alpha: float = Field(2.0, gt=0, description="MS loss: weight of positive pairs (§4)")
    beta: float = Field(50.0, gt=0, description="MS loss: weight of negative pairs (§4)")
    lam: float = Field(0.5, description="v1: lambda (not stated; CODER's)")
    lambda_p: float = Field(1.0, description="v2: lambda of positive pairs (§3.2)")
    lambda_n: float = Field(0.5, description="v2, and v3 if the graph lacks a concept: lambda of negative pairs (§3.2)")
    eps: float = Field(0.1, description="MS loss: margin of the mining (§4)")
    mining: bool = Field(True, description="MS loss: only hard pairs of the batch count (§3.2)")
    # Optimisation
    epochs: float = Field(4.0, gt=0, description="how often every prototype is drawn (§4)")
    steps: int = Field(0, ge=0, description="optimiser steps, instead of epochs (§4: 50k batches, 6,250 steps of 8)")
    accumulation: int = Field(8, ge=1, description="batches per step (§4)")
    learning_rate: float = Field(2e-5, gt=0, description="peak learning rate (§4)")
    warmup_steps: int = Field(-1, ge=-1, description="steps of linear warm-up; -1: 40% of all (§4: 20k of 50k)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up: linear or cosine to 0, or constant (not stated)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (§4)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (§4)")

    ALIKE: ClassVar[str] = "mentions are drawn"


def train_margins(
    recipe: str,
    phase: Phase,
    config: MarginTraining,
    terminology: Terminology,
    encoder: str | Path,
    *,
    split: Split | None = None,
) -> dict[str, float]:
    """Train, save the model and return the last figures; in a dry run only measure and return nothing."""
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.settings import Length
    from alphita_lab.training.mentions.rows import tagged
    from alphita_lab.training.mentions.sampler import NONE, hard_negatives
    from alphita_lab.training.terms.batches import Batch, TermSteps
    from alphita_lab.training.terms.mining import refreshing
    from alphita_lab.training.terms.names import begin

    vectors = open_graph(config, split) if config.version == "v3" else None
    with tagged(str(encoder), config.mentions if config.contexts else "", split, seed=config.seed) as start:
        run = Run(recipe, replace(phase, name=""), config, start.encoder)
        names, _ = begin(run, terminology, split)
        rows, forward = start.rows(run, names, terminology, contexts=config.contexts, bare=config.bare)

        # Data: virtual batches of prototypes, each with k positives and m possible hard negatives.
        sampler = sampler_of(rows, config)
        index = hard_negatives(rows.concepts, config.negatives, run.work / "mined", exact_up_to=config.exact_up_to)
        epoch = sampler.steps_an_epoch / config.accumulation
        length = Length.of(
            config.steps or math.ceil(config.epochs * epoch), config.warmup_steps, config.learning_rate, share=WARMUP
        )
        run.say(
            f"training on {rows.windows:,} contexts and {len(rows) - rows.windows:,} names; of the "
            f"{len(np.unique(rows.concepts)):,} concepts {len(np.unique(sampler.prototype_concepts)):,} have "
            f"prototypes, {len(sampler.prototypes):,} in all; an epoch is {epoch:,.1f} steps, training takes "
            f"{length.steps:,}"
        )

        def draw(number: int) -> Batch:
            drawn = sampler[number]
            negatives = index.of(drawn.prototypes)
            together = np.concatenate([drawn.prototypes, *drawn.positives, negatives[negatives != NONE]])
            terms = np.unique(together)
            return Batch(terms, {"concept": rows.concepts[terms]}, rows=len(together))

        # Objective, loop, and the model.
        loss, fields = _objective(run, config, rows, terminology, vectors)
        name_of = lambda row: names.strings[rows.names[row]]  # noqa: E731
        steps = TermSteps(forward, rows.tokens, draw, loss, name=name_of, **run.parts)
        return run.fit(
            steps,
            f"{names.describe()}; {rows.describe()}",
            length=length,
            evaluate=names.dev,
            fields=fields,
            refresh=refreshing(
                run,
                index,
                lambda some: forward.vectors(rows.tokens, some),
                sampler.drawn,
                "looking for hard negatives",
                steps=length.steps,
                every=config.refresh_every or math.ceil(epoch),
            ),
        )


def _objective(
    run: Run, config: MarginTraining, rows: MentionRows, terminology: Terminology, vectors: EntityVectors | None
) -> tuple[BatchLoss, dict[str, Any]]:
    """Return the MS loss of all pairs of a batch, and what the manifest tells of it."""
    import torch

    from alphita_lab.objectives.kge_margin import ms_v1, ms_v2, ms_v3

    constants: dict[str, Any] = {"alpha": config.alpha, "beta": config.beta, "eps": config.eps, "mining": config.mining}
    fields: dict[str, Any] = {"phases": dict(run.phase.before)} if run.phase.before else {}
    if vectors is not None:
        entity, _ = vectors.rows_of_terminology(terminology)
        trained = np.unique(rows.concepts)
        unknown = int((entity[trained] < 0).sum())
        run.say(
            f"graph: {vectors.model}, {vectors.dim} numbers; {unknown:,} of {len(trained):,} concepts that train are "
            f"not in it: their negative pairs get lambda_n = {config.lambda_n:g}"
        )
        run.facts["graph"] = vectors_hash(vectors)
        fields["concepts_without_graph"] = unknown
        table = torch.from_numpy(np.array(vectors.vectors, np.float32)).to(run.forward.device)
        entity_of = torch.from_numpy(entity).to(run.forward.device)

    def loss(e: torch.Tensor, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return 1/m sum_i [log(1 + sum_P exp(-alpha (S - l_p))) / alpha + log(1 + sum_N exp(beta (S - l_n))) /
        beta]."""
        concept = given["concept"]
        if config.version == "v1":  # equation (1)
            value = ms_v1(e, concept, lam=config.lam, **constants)
        elif config.version == "v2":  # equation (2)
            value = ms_v2(e, concept, lambda_p=config.lambda_p, lambda_n=config.lambda_n, **constants)
        else:  # equation (3)
            entities = entity_of[concept]
            value = ms_v3(
                e,
                concept,
                table[entities.clamp(min=0)],
                entities >= 0,
                detach_margin=config.detach_margin,
                lambda_n=config.lambda_n,
                **constants,
            )
        return {"loss": value}

    return loss, fields


def open_graph(config: MarginTraining, split: Split | None) -> EntityVectors:
    """Open the graph's vectors."""
    from alphita_lab.graph.store import EntityVectors

    if not config.graph:
        raise UsageError(
            "version v3 takes its margins from the graph: give --set graph=X.vectors, made by alphita graph train, or "
            "choose version=v2"
        )
    vectors = EntityVectors.load(config.graph)
    noted = vectors.facts.get("split_hash")
    if split is not None and split.triples and noted != split.hash:
        made = "with another split" if noted else "without a split"
        raise InputError(
            f"these vectors were made {made}, so they may have learnt triples that training holds out",
            file=config.graph,
            remedy="train them with this --split: alphita graph train MODEL --split X.split",
        )
    return vectors


def vectors_hash(vectors: EntityVectors) -> str:
    """Return the hash of saved vectors."""
    from alphita import artefact
    from alphita_lab.graph.store import KIND

    assert vectors.path is not None, "the vectors were loaded"
    content: str = artefact.open_manifest(vectors.path, KIND)["content_hash"]
    return content


def sampler_of(rows: MentionRows, config: MarginTraining) -> MentionSampler:
    """Return what draws prototypes and positives from rows, each as if it were a window of its name."""
    from alphita_lab.training.mentions.sampler import MentionSampler

    return MentionSampler(
        rows.names,
        rows.concepts,
        seed=config.seed,
        batch=config.prototypes,
        positives=config.positives,
        prototypes_a_concept=config.prototypes_a_concept,
    )
