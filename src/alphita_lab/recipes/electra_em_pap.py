"""ELECTRA with entity masking and product attribute prediction, for the search of medicinal products.

Liu, Jiang and Lyu train an encoder from scratch, on text and on a table of products, so that a search for a symptom
finds the medicines that treat it. Each step is of one of two tasks, chosen by chance (algorithm 1):

    RTD  words and entities of a text are masked whole; a small generator guesses them, and the encoder
         (the discriminator) tells which tokens were replaced: ELECTRA with entity masking ("EM").            (1)
    PAP  a title with the name of an attribute is brought near to the attribute's values, and away from values
         that other products have: ||f(E(t + n)) - f(E(v))||, margin gamma.                                (2), (3)

Entities are the names of the terminology, or of another (`entities_from`). Its products train PAP: a head concept's
name is a title, the relation's name an attribute, the tail's name a value (`alphita terminology import products` makes
such a terminology of a table; any with relations will do). Text comes from `corpus`:

    alphita terminology import products catalogue.tsv -o P.terminology
    alphita train electra_em_pap -t P.terminology -o MODEL --set corpus=text.txt
    alphita search build -t P.terminology --model MODEL -o P.search

ELECTRA+EM is rho=0; ELECTRA as it was, rho=0, entities=false, segmenter=none. With scratch=false the encoder given by
--encoder goes on. Beside the model lie generator, replaced_head and attribute_projection.

Deviations from the paper, and what it leaves open:
- Equation (1) as printed lacks a sign and the sum over tokens; it is ELECTRA's: the generator's cross-entropy plus 50
  times the mean binary cross-entropy of all tokens. See `objectives.replaced_token`.
- The steps, 420M and 3400M as printed, cannot be run to their end; 420K and 3400K are taken. Batch 128 goes with the
  first (EM), 16 with the second (EM + PAP), which has 1.01 times the sequences. The default is the second. The released
  scripts have 420M (batch 120) and 3200M too: cut wherever it was, such a training keeps its peak rate after the
  warm-up, as schedule=constant does.
- Where entities are the names of the products' terminology, EM masks what PAP learns: for the two apart, set
  `entities_from`. The paper has a recogniser, the released code words of jieba alone.
- What a batch of PAP is, is not stated: here `attribute_batch` titles, each with one attribute and its values.
- Title and attribute's name are one text (§3.2), though figure 1 shows two.
- E, the vector of a text, is not stated: the released code's [CLS], or with pooling=mean the mean of the tokens.
- A negative is no value that the product has, under any attribute. With negatives_by=frequency a value is a negative as
  often as it is a positive, so that being frequent tells nothing.
- The released code masks the first three quarters of a sequence only, and lets negatives be told by their sign (see
  `objectives.attribute_prediction`): not followed.
- Weight decay spares biases and layer norms, as in all recipes here; accumulation and clipping are not stated.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from alphita.errors import InputError
from alphita.terminology.store import load_terminology
from alphita_lab.training.engine.settings import language_weights
from alphita_lab.training.text.pretraining_data import Pretraining, Sources, masking, sequences_of, starting_encoder

if TYPE_CHECKING:
    import torch

    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.runs import Mode, Phase
    from alphita_lab.training.engine.steps import MicroSteps
    from alphita_lab.training.products.attribute_data import Products
    from alphita_lab.training.products.attribute_steps import AttributeSteps
    from alphita_lab.training.text.masked_steps import ReplacedTokenSteps

CITATION = (
    "K. Liu, J. Jiang, F. Lyu. A domain knowledge enhanced pre-trained language model for vertical search: case study "
    "on medicinal products. COLING 2022."
)


class Config(Pretraining):
    """Settings of the pre-training; the defaults are the paper's where it states them."""

    # Model
    generator: float = Field(1 / 3, gt=0, le=1, description="the generator's share of the width (§4.2.1)")
    # Objective
    masked: float = Field(0.15, gt=0, le=1, description="share of the tokens masked (§3.1)")
    mask_tokens: float = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the masked tokens shown as [MASK]; the rest is guessed unchanged (§3.1: all; released "
        "code: 0.85)",
    )
    weight: float = Field(50.0, gt=0, description="lambda, weight of finding replaced tokens (not stated; ELECTRA's)")
    rho: float = Field(0.05, ge=0, lt=1, description="share of the steps that are PAP; 0: none (§4.3.2)")
    gamma: float = Field(4.0, gt=0, description="PAP's margin (§4.3.2)")
    negatives: int = Field(2, ge=1, description="negatives for each value (§3.2)")
    negatives_by: Literal["uniform", "frequency", "any"] = Field(
        "uniform",
        description="how to draw negatives: the attribute's values alike (§3.2) or by their frequency (ours), or any "
        "attribute's values, with repeats, but those shown as positive (released code)",
    )
    values: int = Field(32, ge=1, description="maximum values of a title's attribute per batch (not stated; ours)")
    # Optimisation
    batch: int = Field(16, ge=1, description="sequences per batch (§4.2.1: 128 without PAP, 16 with)")
    attribute_batch: int = Field(16, ge=1, description="titles with one attribute per batch of PAP (not stated; batch)")
    steps: int = Field(3_400_000, ge=1, description="optimiser steps (§4.2.1: 420 000 without PAP, 3 400 000 with)")
    accumulation: int = Field(1, ge=1, description="batches per step (not stated)")
    learning_rate: float = Field(2e-4, gt=0, description="peak learning rate (§4.2.1)")
    warmup_steps: int = Field(10_000, ge=0, description="steps of linear warm-up (§4.2.1: as ELECTRA)")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up (as ELECTRA)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (as ELECTRA)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (as ELECTRA's code)")

    ALIKE: ClassVar[str] = "names are taken"

    @model_validator(mode="after")
    def _is_scored_by_its_tasks(self) -> Config:
        if self.dev_synonyms:
            raise ValueError("dev_synonyms: text and products are scored here; set dev_sequences, dev_attributes")
        if self.keep == "best" and not (self.dev_sequences or self.dev_attributes):
            raise ValueError("keep=best needs dev scores: set dev_sequences or dev_attributes, and evaluate_every")
        if self.dev_attributes and not self.rho:
            raise ValueError("dev_attributes: without PAP (rho=0) its projection is not trained")
        return self


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Pre-train an encoder and save it to `out`."""
    from alphita.progress import say
    from alphita_lab.training.engine import ranks, runs
    from alphita_lab.training.engine.runs import Phase

    everyone, phase = ranks.connect(), Phase("", out, **mode)
    if everyone.first and not phase.dry_run:
        runs.check(out, resume=phase.resume, force=phase.force)
    everyone.wait()
    with everyone.scratch() as scratch:
        # Vocabulary and sequences follow from the corpus; they are kept beside the run until it is finished.
        prepared = scratch if phase.dry_run else out.with_name(f"{out.name}.prepared")
        rejects = None if phase.dry_run else out.with_name(f"{out.name}.rejects.csv")
        sources = Sources.of(terminology, split, config.corpus, prepared, rejects)
        if split is not None and everyone.first:
            say(f"held out by the split: {len(split.cleaned):,} strings")
        # Text may take hours to read, so what is wrong with the products is told before.
        table = _table(config, sources) if config.rho else None
        start = starting_encoder(encoder, config, sources)
        figures = _pretrain(start, phase, config, sources, table)
    if everyone.first and not phase.dry_run:
        shutil.rmtree(prepared, ignore_errors=True)
    everyone.wait()
    return figures


# The two tasks.


def _table(config: Config, sources: Sources) -> Products:
    """Return the products that train PAP, and those held out to score with."""
    from alphita_lab.training.products.attribute_data import Products, read_products

    products = read_products(
        sources.terminology,
        attributes=config.attributes,
        languages=list(language_weights(config.languages)),
        split=sources.split,
    )
    table = Products(products, dev=config.dev_attributes, seed=config.seed, negatives_by=config.negatives_by)
    if config.dev_attributes and not len(table.dev):
        raise InputError(
            "no value of a product can be held out: of a triple that is, title and value must both have others",
            file=sources.terminology.path,
            field="dev_attributes",
            remedy="set dev_attributes=0, or dev_sequences",
        )
    return table


def _pretrain(
    start: str | Path, phase: Phase, config: Config, sources: Sources, table: Products | None
) -> dict[str, float]:
    """Train the encoder `start` by RTD and PAP in turn, save it, and return the last figures; in a dry run none."""
    from alphita_lab.encoder.electra import GENERATOR, HEAD
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.steps import SwitchingSteps
    from alphita_lab.training.products.attribute_steps import NAME

    run = Run("electra_em_pap", phase, config, start)
    run.facts |= sources.facts
    if config.entities and config.entities_from:
        run.facts["entities"] = load_terminology(config.entities_from).content_hash
    texts, dev = _texts(run, config, start, sources)
    modules: dict[str, torch.nn.Module] = {GENERATOR: texts.generator, HEAD: texts.head}
    sequences = texts.sequences.counts
    counts, steps, products = {"sequences": sequences}, cast("MicroSteps", texts), None
    sizes = [
        f"sequences: {len(texts.sequences) - len(dev):,} with {sequences['tokens']:,} tokens, "
        f"{sequences['entities']:,} entities in the text; an epoch is {texts.batches.batches:,.1f} batches"
    ]
    if table is not None:
        products = _products(run, config, table)
        modules[NAME], counts["products"] = products.projection, products.products.counts
        steps = switching = SwitchingSteps(
            texts,
            products,
            share=config.rho,
            steps=config.steps,
            accumulation=config.accumulation,
            seed=config.seed,
            prefix="attribute_",
        )
        if products.cut:
            length = run.encoder.max_length
            sizes.append(f"titles with attributes that fill {length} tokens, cut perhaps: {products.cut:,}")
        sizes += [*table.lines(), f"batches: {switching.shares[0]:,} of text, {switching.shares[1]:,} of products"]
    told = "\n  ".join(sizes)
    if not phase.dry_run:
        run.say(told)

    def score(_: TermEncoder) -> dict[str, float]:
        figures = texts.score(dev) if len(dev) else {}
        return (products.score() if products is not None else {}) | figures

    # The generator stays beside the model, to go on with.
    return run.fit(
        steps,
        told,
        modules=modules,
        evaluate=score if config.dev_sequences or config.dev_attributes else None,
        final=score,
        fields=counts,
    )


def _texts(
    run: Run, config: Config, start: str | Path, sources: Sources
) -> tuple[ReplacedTokenSteps, NDArray[np.int64]]:
    """Return RTD: generator, discriminator and its head, on text with words and entities marked; and what scores it."""
    from alphita_lab.encoder.electra import ReplacedHead
    from alphita_lab.training.text.masked_steps import ReplacedTokenSteps, SequenceBatches
    from alphita_lab.training.text.sequences import hold_out

    generator = _generator(run.encoder, config)
    head = ReplacedHead.of(run.encoder, seed=config.seed)
    sequences = sequences_of(start, config, sources, run.encoder.max_length)
    rows, dev = hold_out(len(sequences), config.dev_sequences, [config.seed, 48])
    steps = ReplacedTokenSteps(
        run.forward,
        generator,
        head,
        sequences,
        SequenceBatches(rows, batch=config.batch, seed=config.seed),
        masking(start, config.masked, config.mask_tokens),
        weight=config.weight,
        **run.parts,
    )
    return steps, dev


def _products(run: Run, config: Config, table: Products) -> AttributeSteps:
    """Return PAP: products of the terminology."""
    import torch

    from alphita_lab.objectives.attribute_prediction import AttributeProjection
    from alphita_lab.training.products.attribute_steps import AttributeSteps, load_projection

    projection = load_projection(run.encoder.folder, run.encoder.dim)
    if projection is None:
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)
            projection = AttributeProjection(run.encoder.dim)
    return AttributeSteps(
        run.forward,
        projection.to(run.forward.device),
        table,
        batch=config.attribute_batch,
        margin=config.gamma,
        negatives=config.negatives,
        most=config.values,
        **run.parts,
    )


def _generator(student: TermEncoder, config: Config) -> Any:  # noqa: ANN401 - encoder.electra.Generator
    """Return the generator that lies beside the encoder, if it has these sizes, or else a new one."""
    from safetensors.torch import load_file

    from alphita_lab.encoder.electra import GENERATOR, Generator

    generator = Generator.of(student.module.model, share=config.generator, seed=config.seed)
    file = student.folder / f"{GENERATOR}.safetensors"
    if file.is_file():
        saved, own = load_file(file), generator.state_dict()
        if {name: value.shape for name, value in saved.items()} == {name: value.shape for name, value in own.items()}:
            generator.load_state_dict(saved)
    return generator
