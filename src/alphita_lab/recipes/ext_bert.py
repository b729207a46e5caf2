"""ext-BERT: a vocabulary for the corpus's language and domain, then masked language modelling (the Italian system).

A WordPiece vocabulary is trained on a corpus and merged with the encoder's. A new token starts as the mean of the
embeddings of the old tokens that spell it (*polmonare*: *pol*, *mona*, *re*), by chance where none do. Then the encoder
goes on as a masked language model of the corpus. The paper had 15,000 tokens trained, 55% of them known to the Italian
BERT, 94% of the others composed. It works for any language and any encoder of WordPieces; with vocabulary=0 the
vocabulary stays as it is, and any encoder that has a mask token will do.

Two phases: `extend`, whose model is kept in OUT.phases/extended (the encoder before it has read anything), and `read`,
whose model is OUT. The head is kept beside it, as masked_language_head.safetensors.

Deviations from the paper, and what it leaves open:
- Of masked language modelling nothing is stated: steps, batch, sequence length, learning rate. The defaults are ours.
- The paper finds that masked language modelling makes similarities worse (§4): train on terms after it.
- Words of the terminology's names are counted with the corpus's (names=false: the corpus alone). Names are not read.
- What a split holds out is neither counted where it stands in the corpus nor read: see
  `training.text.sequences`.
- Tokens are masked one by one, and anew each epoch. A head of the encoder's own goes on; else a new one is drawn.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

from pydantic import Field, model_validator

from alphita.errors import InputError, Rejects
from alphita_lab.training.engine.settings import TermTraining, language_weights

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.runs import Mode, Phase
    from alphita_lab.training.text.corpora import Specials
    from alphita_lab.training.text.matching import HeldOut

CITATION = (
    "D. Amore Bondarenko, R. Ferrod, L. Di Caro. Combining contrastive learning and knowledge graph embeddings to "
    "develop medical word embeddings for the Italian language."
)
WARMUP = 0.1


class Config(TermTraining):
    """ext-BERT's settings; the defaults are the paper's where it states them."""

    # Data
    corpus: str = Field("", description="files of text, FILE.txt,FILE.jsonl.gz,... (§3.1: 36 M words of Italian)")
    text_field: str = Field("text", description="field of JSON Lines with the text (ours)")
    max_length: int = Field(128, ge=3, description="tokens per sequence, including special ones (not stated; ours)")
    pooling: Literal["cls", "mean"] = Field("mean", description="vector: [CLS] or the mean of the tokens (§3.2)")
    dev_share: float = Field(
        0.01, ge=0, lt=1, description="share of the sequences held out for scoring; 0: none (not stated; ours)"
    )
    # Vocabulary
    vocabulary: int = Field(
        15_000, ge=0, description="size of the trained vocabulary, including known tokens; 0: no new vocabulary (§3)"
    )
    min_frequency: int = Field(
        2, ge=1, description="minimum occurrences of a character, or of a pair to join (not stated; tokenizers' 2)"
    )
    names: bool = Field(True, description="also count the words of the terminology's names (ours)")
    # Masked language modelling
    masked: float = Field(0.15, gt=0, le=1, description="share of the tokens to predict (§3.2; Devlin et al.)")
    batch: int = Field(32, ge=1, description="sequences per batch (not stated; ours)")
    epochs: float = Field(3.0, gt=0, description="epochs over the sequences (not stated; ours)")
    steps: int = Field(0, ge=0, description="optimiser steps, instead of epochs; 0: by epochs (ours)")
    accumulation: int = Field(1, ge=1, description="batches per step (not stated)")
    learning_rate: float = Field(5e-5, gt=0, description="learning rate (not stated; ours)")
    warmup_steps: int = Field(
        -1, ge=-1, description="steps of linear warm-up; -1: 10% of all (not stated; the injection's, §4)"
    )
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="schedule after the warm-up (not stated)"
    )
    weight_decay: float = Field(0.01, ge=0, description="AdamW's weight decay (not stated; the other phases', §4)")
    clip: float = Field(1.0, gt=0, description="maximum gradient norm (not stated; the other phases', §4)")

    ALIKE: ClassVar[str] = "names are counted"

    @model_validator(mode="after")
    def _is_scored_by_text(self) -> Config:
        if self.dev_synonyms:
            raise ValueError("dev_synonyms: masked text is scored here, not synonyms; set dev_share")
        if self.keep == "best" and not self.dev_share:
            raise ValueError("keep=best needs dev scores: set dev_share and evaluate_every")
        return self


# What decides the vocabulary, beside the corpus.
OF_VOCABULARY = ("text_field", "vocabulary", "min_frequency", "names", "languages", "seed")


def train(
    terminology: Terminology, encoder: str, out: Path, config: Config, split: Split | None = None, **mode: Unpack[Mode]
) -> dict[str, float]:
    """Extend the encoder's vocabulary, train it as a masked language model and save it to `out`."""
    from alphita.progress import say
    from alphita_lab.training.engine import ranks
    from alphita_lab.training.engine.runs import Phases
    from alphita_lab.training.text.corpora import files_of
    from alphita_lab.training.text.matching import HeldOut

    corpus = files_of(config.corpus)
    _check_encoder(encoder, config)
    everyone = ranks.connect()
    held_out = HeldOut(split.cleaned if split else ())
    sources = {"terminology": terminology.content_hash, "split": split.hash if split else None, "corpus": corpus}
    names = ["extended", "trained"] if config.vocabulary else ["trained"]
    phases = Phases(out, names, **mode)
    phases.check()
    if split is not None and everyone.first:
        say(f"held out by the split: {len(split.cleaned):,} strings, {held_out.too_short:,} too short to be searched")
    with everyone.scratch() as scratch:
        # A dry run makes vocabulary and sequences too, to know their sizes, but not beside the model.
        folder = scratch if phases.dry_run else phases.folder
        start: str | Path = encoder
        if "extended" in phases:
            start = folder / "extended"
            if everyone.first:
                phase = dataclasses.replace(phases["extended"], out=start)
                phases.add("extended", extend(terminology, config, encoder, phase, sources, split, held_out), encoder)
            everyone.wait()
        figures = read(config, start, folder / "sequences", phases["trained"], sources, held_out)
    if everyone.first and not phases.dry_run:
        with _no_empty_folder(phases.folder):
            shutil.rmtree(phases.folder / "sequences", ignore_errors=True)
    everyone.wait()
    return figures


def _check_encoder(encoder: str, config: Config) -> None:
    """Refuse before any work, and not after the vocabulary's, an encoder that cannot be trained so."""
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.training.text.corpora import open_tokenizer
    from alphita_lab.training.text.masked_language import masking_of

    _check_plain(TermEncoder.load(encoder, precision="fp32", device="cpu"))
    tokenizer, _, specials = open_tokenizer(encoder)
    masking_of(tokenizer, specials, share=config.masked)


def _check_plain(encoder: TermEncoder) -> None:
    from alphita_lab.encoder.injected_bert import InjectedBert

    if isinstance(encoder.module.model, InjectedBert):
        raise InputError("the encoder has entities injected", file=encoder.folder, remedy="give a plain one")


# The vocabulary.


def extend(
    terminology: Terminology,
    config: Config,
    encoder: str,
    phase: Phase,
    sources: Mapping[str, Any],
    split: Split | None,
    held_out: HeldOut,
) -> dict[str, float]:
    """Train a vocabulary, write the encoder with its new tokens to the phase's folder, and return the figures."""
    from alphita.encoder.encoder import TermEncoder
    from alphita.progress import say
    from alphita_lab.encoder import vocabulary
    from alphita_lab.encoder.wordpieces import count_words, open_wordpiece
    from alphita_lab.training.engine import runs
    from alphita_lab.training.terms.names import TrainingNames
    from alphita_lab.training.text import corpora
    from alphita_lab.training.text.corpora import documents

    like = open_wordpiece(encoder)
    settings = {name: value for name, value in config.model_dump().items() if name in OF_VOCABULARY}
    hashed = TermEncoder.load(encoder, precision="fp32", device="cpu").content_hash
    facts = {"recipe": "ext_bert", "phase": phase.name, "config": settings, "encoder": hashed, **sources}
    fingerprint = runs.fingerprint(facts)
    if (done := phase.finished(fingerprint)) is not None:
        return done
    texts = documents([Path(file) for file in sources["corpus"]], text_field=config.text_field)
    words = {"corpus": count_words(held_out.cut_out(texts), like)}
    if not words["corpus"]:
        first = next(iter(sources["corpus"]))
        raise InputError("has no word to learn from", file=first, remedy="look at corpus, text_field and --split")
    if config.names:
        names = TrainingNames(
            terminology, exclude=split.cleaned if split else frozenset(), languages=language_weights(config.languages)
        )
        words["names"] = count_words(names.strings, like)
    learnt = corpora.learn(words, config.vocabulary, like=like, min_frequency=config.min_frequency)
    figures = learnt.figures
    fields = {**facts, "fingerprint": fingerprint, "figures": figures, "examples": learnt.examples}
    vocabulary.extend(encoder, learnt.tokens, phase.out, seed=config.seed, fields=fields, force=phase.force)
    say(
        f"vocabulary: {figures['trained']:,} tokens trained, {figures['in_common']:.0%} of them in common; "
        f"{figures['added']:,} added, {figures['composed']:.0%} of them composed"
    )
    for name in words:
        before, after = (figures[f"{name}_tokens_a_word_{when}"] for when in ("before", "after"))
        say(f"tokens a word, {name}: {before:.2f} before, {after:.2f} after")
    return figures


# Masked language modelling.


def read(
    config: Config, encoder: str | Path, folder: Path, phase: Phase, sources: Mapping[str, Any], held_out: HeldOut
) -> dict[str, float]:
    """Train `encoder` on the corpus, packed into `folder`, and return the last figures; in a dry run none."""
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.settings import Length, steps_of
    from alphita_lab.training.text import sequences
    from alphita_lab.training.text.corpora import open_tokenizer
    from alphita_lab.training.text.masked_language import NAME, MaskedLanguageHead, masking_of
    from alphita_lab.training.text.masked_steps import MaskedSteps, SequenceBatches

    run = Run("ext_bert", phase, config, encoder, label="ext_bert")
    run.facts |= sources
    _check_plain(run.encoder)
    head = MaskedLanguageHead.of(run.encoder, seed=config.seed)

    # Data: the corpus as sequences, some of them held out.
    opened = open_tokenizer(encoder)
    masking = masking_of(opened[0], opened[2], share=config.masked)
    if run.ranks.first:
        _pack(config, folder, phase, sources, held_out, run.encoder.max_length, opened)
    run.ranks.wait()
    tokens, counts = sequences.read(folder)
    held_out_of_all = max(1, round(config.dev_share * len(tokens))) if config.dev_share else 0
    trained_on, dev = sequences.hold_out(len(tokens), held_out_of_all, [config.seed, 5], field="dev_share")
    batches = SequenceBatches(trained_on, batch=config.batch, seed=config.seed)
    sizes = (
        f"sequences: {len(trained_on):,} of {counts['documents']:,} documents and {counts['tokens']:,} tokens, "
        f"{len(dev):,} more to score with; pieces dropped for a held-out string: {counts['pieces_with_held_out']:,}; "
        f"lines that cannot be used: {counts.get('rejected', 0):,}"
    )

    # Loop, and the model.
    steps = config.steps or steps_of(batches.batches, config.epochs, config.accumulation)
    micro = MaskedSteps(run.forward, head, tokens, batches.batch, masking, **run.parts)
    before = 0.0
    if not phase.dry_run:
        run.say(sizes)
        run.say(f"an epoch is {batches.batches / config.accumulation:,.1f} steps; training takes {steps:,}")
        before = micro.score(dev)["dev_log_probability"] if len(dev) and run.ranks.first else 0.0
    return run.fit(
        micro,
        sizes,
        length=Length.of(steps, config.warmup_steps, config.learning_rate, share=WARMUP),
        modules={NAME: head},
        evaluate=(lambda _: micro.score(dev)) if len(dev) else None,
        final=(lambda _: {"dev_log_probability_before": before, **micro.score(dev)}) if len(dev) else None,
        fields={"sequences": counts},
    )


def _pack(
    config: Config,
    folder: Path,
    phase: Phase,
    sources: Mapping[str, Any],
    held_out: HeldOut,
    length: int,
    opened: tuple[Tokenizer, str, Specials],
) -> None:
    """Pack the corpus into `folder`, unless it is there; unreadable lines go to OUT.rejects.csv."""
    from alphita_lab.training.text import sequences
    from alphita_lab.training.text.corpora import documents

    tokenizer, tokenizer_hash, specials = opened
    hashes = list(sources["corpus"].values())
    made_with = [tokenizer_hash, length, config.text_field, hashes, sources["split"]]
    if sequences.made_with(folder) == made_with:
        return
    aside = None if phase.dry_run else phase.out.with_name(f"{phase.out.name}.rejects.csv")
    with Rejects(aside, private=True) as rejects, _no_empty_folder(folder.parent):
        texts = documents([Path(file) for file in sources["corpus"]], text_field=config.text_field, rejects=rejects)
        sequences.pack(
            texts, tokenizer, specials, folder, length=length, held_out=held_out, made_with=made_with, rejects=rejects
        )


@contextlib.contextmanager
def _no_empty_folder(folder: Path) -> Iterator[None]:
    """Remove `folder` if nothing came into it: else it would be taken for an unfinished run's."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()
