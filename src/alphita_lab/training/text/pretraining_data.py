"""What pre-training on text starts from: an encoder, new or given, and the corpus as sequences with spans.

`recipes.electra_em_pap` says what it is for; the settings here are those that decide it.
"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from alphita import artefact, drafts
from alphita.errors import InputError, Rejects, UsageError, counted
from alphita.progress import say
from alphita.terminology.store import load_terminology
from alphita_lab.training.engine.settings import TermTraining, language_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.text.masked_language import Masking
    from alphita_lab.training.text.sequences import Sequences


class Pretraining(TermTraining):
    """Settings of text and encoder; Liu, Jiang and Lyu's where they state them (sections are theirs)."""

    # Data
    corpus: str = Field("", description="files of text, FILE.txt,FILE.jsonl.gz,... (table 1)")
    text_field: str = Field("text", description="field of JSON Lines with the text (ours)")
    max_length: int = Field(128, ge=8, description="tokens per sequence, including special ones (§4.2.1)")
    pooling: Literal["cls", "mean"] = Field(
        "cls", description="E: [CLS], or the mean of the tokens (not stated; released code)"
    )
    segmenter: Literal["words", "jieba", "none"] = Field(
        "words", description="word segmenter: letters and digits, jieba for Chinese, or none (§3.1: a segmenter)"
    )
    entities: bool = Field(True, description="mask names of the terminology as a whole: EM (§3.1)")
    entities_from: str = Field(
        "",
        description="terminology whose names are the entities, such as what a tagger found, imported; empty: the "
        "products', which PAP learns too (§3.1: a recogniser)",
    )
    prepared: str = Field(
        "",
        description="folder that keeps vocabulary and sequences for other trainings on the corpus; empty: none (ours)",
    )
    attributes: str = Field("", description="relations that are attributes, a,b; empty: all (table 2: two)")
    dev_sequences: int = Field(0, ge=0, description="sequences held out to score RTD (not stated; ours)")
    dev_attributes: int = Field(0, ge=0, description="values of products held out to score PAP (ours)")
    # Model
    scratch: bool = Field(
        True, description="start from random weights, otherwise from those of --encoder (§4: from scratch)"
    )
    vocabulary: int = Field(
        21_128,
        ge=0,
        description="scratch: number of tokens trained on the corpus; 0: those of --encoder (Chinese BERT's number)",
    )
    lower_case: bool = Field(True, description="trained tokens ignore case (not stated; BERT's)")
    accents: bool = Field(False, description="trained tokens keep accents (not stated; BERT drops them)")
    layers: int = Field(12, ge=1, description="scratch: layers (§4.2.1)")
    hidden: int = Field(768, ge=8, description="scratch: width, a multiple of heads (§4.2.1)")
    heads: int = Field(12, ge=1, description="scratch: attention heads (§4.2.1)")
    intermediate: int = Field(0, ge=0, description="scratch: width of the feed-forward layers; 0: 4 hidden (ELECTRA's)")

    @model_validator(mode="after")
    def _has_sizes_that_fit(self) -> Pretraining:
        if self.scratch and self.hidden % self.heads:
            larger = self.hidden + self.heads - self.hidden % self.heads
            raise ValueError(f"hidden={self.hidden} must be a multiple of heads={self.heads}, as {larger} is")
        return self


@dataclass(frozen=True)
class Sources:
    """What is learnt from, and where what follows from it is kept while the run lasts."""

    terminology: Terminology
    split: Split | None
    corpus: dict[str, str]
    folder: Path  # for the starting encoder and the sequences
    rejects: Path | None  # file for lines that cannot be read; None: they are counted only

    @classmethod
    def of(
        cls, terminology: Terminology, split: Split | None, corpus: str, folder: Path, rejects: Path | None
    ) -> Sources:
        """Look at the files that `corpus` names."""
        from alphita_lab.training.text.corpora import files_of

        return cls(terminology, split, files_of(corpus), folder, rejects)

    @property
    def facts(self) -> dict[str, Any]:
        """What a result depends on, for the manifest."""
        held_out = self.split.hash if self.split else None
        return {"terminology": self.terminology.content_hash, "split": held_out, "corpus": self.corpus}

    @property
    def held_out(self) -> frozenset[str]:
        """Cleaned strings that must not train."""
        return self.split.cleaned if self.split else frozenset()

    def texts(self, field: str, rejects: Rejects | None = None) -> Iterator[str]:
        """Yield the corpus's documents; JSON Lines hold them in `field`."""
        from alphita_lab.training.text.corpora import documents

        return documents([Path(file) for file in self.corpus], text_field=field, rejects=rejects)


def starting_encoder(encoder: str, config: Pretraining, sources: Sources) -> str | Path:
    """Return the encoder to start from: the one given, or a new one with random weights."""
    from alphita.encoder.encoder import TermEncoder
    from alphita_lab.encoder import electra
    from alphita_lab.training.engine import ranks

    if not config.scratch:
        return encoder
    start, everyone = sources.folder / "start", ranks.connect()
    if everyone.first:
        shutil.rmtree(start, ignore_errors=True)
        with drafts.scratch() as aside:
            tokenizer = aside / "tokenizer.json"
            if config.vocabulary:
                _vocabulary(config, sources, tokenizer)
            else:
                TermEncoder.load(encoder, precision="fp32", device="cpu").save(aside, onnx=False)
            electra.scratch(
                start,
                tokenizer,
                layers=config.layers,
                hidden=config.hidden,
                heads=config.heads,
                intermediate=config.intermediate or 4 * config.hidden,
                positions=config.max_length,
                seed=config.seed,
            )
    everyone.wait()
    return start


def _vocabulary(config: Pretraining, sources: Sources, file: Path) -> None:
    """Write the tokenizer of a vocabulary trained on the corpus to `file`; one that is kept is taken."""
    given = [config.vocabulary, config.lower_case, config.accents, config.languages, config.text_field]
    key = artefact.hash_json([*given, {**sources.facts, "corpus": list(sources.corpus.values())}])
    kept = Path(config.prepared) / f"vocabulary-{key[:16]}.json"
    if config.prepared and kept.is_file():
        shutil.copyfile(kept, file)
        return
    _train_vocabulary(config, sources, file)
    if config.prepared:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with artefact.atomic_file(kept, "wb") as target:
            target.write(file.read_bytes())


def _train_vocabulary(config: Pretraining, sources: Sources, file: Path) -> None:
    """Train a vocabulary on the corpus and on the terminology's names, and write its tokenizer to `file`."""
    from alphita_lab.encoder.wordpieces import TooSmall, count_words
    from alphita_lab.training.terms.names import TrainingNames
    from alphita_lab.training.text import corpora
    from alphita_lab.training.text.matching import HeldOut

    like = corpora.empty(lower_case=config.lower_case, accents=config.accents)
    with Rejects(sources.rejects, private=True) as rejects:
        words = count_words(HeldOut(sources.held_out).cut_out(sources.texts(config.text_field, rejects)), like)
    if not words:
        unread = f"; {_unusable(rejects.count, sources)}" if rejects.count else ""
        raise InputError(
            f"has no word to learn from{unread}",
            file=next(iter(sources.corpus)),
            remedy="look at corpus, text_field and --split",
        )
    languages = language_weights(config.languages)
    names = TrainingNames(sources.terminology, exclude=sources.held_out, languages=languages)
    words.update(count_words(names.strings, like))
    try:
        tokens = corpora.train(words, config.vocabulary, file, lower_case=config.lower_case, accents=config.accents)
    except TooSmall as error:
        special = len(corpora.SPECIAL)
        raise UsageError(
            f"vocabulary={config.vocabulary} is below the {error.characters:,} characters of corpus and names and the "
            f"{special} special tokens; set vocabulary={error.characters + special} or more"
        ) from None
    say(f"vocabulary: {tokens:,} tokens trained on {len(words):,} words")


def sequences_of(start: str | Path, config: Pretraining, sources: Sources, length: int) -> Sequences:
    """Return the corpus as sequences of `length` tokens at most, words and entities marked; made once."""
    from alphita_lab.training.engine import ranks
    from alphita_lab.training.text import sequences
    from alphita_lab.training.text.corpora import open_tokenizer
    from alphita_lab.training.text.matching import HeldOut

    tokenizer, tokenizer_hash, specials = open_tokenizer(start)
    segmenter = sequences.load(config.segmenter)
    forms = None
    if config.entities:
        languages = list(language_weights(config.languages))
        named = load_terminology(config.entities_from) if config.entities_from else sources.terminology
        forms = sequences.surface_forms(named, languages=languages, held_out=sources.held_out)
    hashes = {**sources.facts, "corpus": list(sources.corpus.values())}
    given = [tokenizer_hash, config.text_field, hashes]
    made = sequences.made_of(given, length=length, segmenter=segmenter, forms=forms)
    folder, everyone = sources.folder / "sequences", ranks.connect()
    if config.prepared:
        folder = Path(config.prepared) / f"sequences-{artefact.hash_json(made)[:16]}"
    if everyone.first and sequences.made_with(folder) != made:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Rejects(sources.rejects, private=True) as rejects:
            sequences.pack_spans(
                sources.texts(config.text_field, rejects),
                tokenizer,
                specials,
                folder,
                length=length,
                segmenter=segmenter,
                forms=forms,
                held_out=HeldOut(sources.held_out),
                made_with=given,
                rejects=rejects,
            )
    everyone.wait()
    packed = sequences.read_spans(folder)
    # Said where a run goes on, too.
    rejected = packed.counts["rejected"]
    if rejected and everyone.first:
        say(_unusable(rejected, sources))
    if forms is not None and not packed.counts["entities"] and everyone.first:
        say("no name of the terminology stands in the corpus: only words are masked whole")
    return packed


def _unusable(lines: int, sources: Sources) -> str:
    """Say how many lines of the corpus are passed over, and where they are listed."""
    where = f"see {sources.rejects}" if sources.rejects else "--dry-run lists none"
    return f"{counted(lines, 'line')} of the corpus left out; {where}"


def masking(start: str | Path, share: float, shown: float) -> Masking:
    """Return ELECTRA's masking for an encoder: `share` of the tokens is drawn, `shown` of these become [MASK]."""
    from alphita_lab.training.text.corpora import open_tokenizer
    from alphita_lab.training.text.masked_language import masking_of

    tokenizer, _, specials = open_tokenizer(start)
    return dataclasses.replace(masking_of(tokenizer, specials, share=share), masked=shown, random=0.0)
