"""`alphita vocabulary`: the tokens of an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from alphita import artefact, machine, progress
from alphita.cli._from_spec import Brief, with_options
from alphita.errors import InputError, Rejects, UsageError
from alphita.options import HOW, REMAKE, THREADS, option
from alphita_lab.cli._shared import TEXT_FIELD

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.terminology.store import Terminology

app = typer.Typer(help="The tokens of an encoder.", no_args_is_help=True)
PROTECTED = "Protected words"


@dataclass(frozen=True)
class _Texts:
    """The words of one language's names, or of one file's documents."""

    name: str
    texts: int
    words: Counter[str]


@app.callback()
def _vocabulary() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ExtendSpec:
    """Which encoder to extend, and by the tokens of which texts."""

    output: Path = option(..., "--output", "-o", help="Model folder to create.")
    encoder: str = option("minilm", help="WordPiece encoder to extend: alphita-en, minilm, a folder or a hub name.")
    corpus: tuple[Path, ...] = option((), help="Text to learn from: .txt or .jsonl, plain or .gz; repeatable.")
    terminology: Path | None = option(None, "--terminology", "-t", help="Terminology whose names to learn from.")
    languages: str = option("", help="Only names in these languages, such as it,de; all by default.")
    split: Path | None = option(None, help="Split whose held-out strings to leave out.")
    size: int = option(15_000, least=1, help="Size of the vocabulary trained on the texts, including known tokens.")
    keep: int | None = option(None, least=1, help="Maximum number of new tokens, those that save most; all by default.")
    protect: tuple[Path, ...] = option(
        (), panel=PROTECTED, help="Text whose words must not change, in the formats of --corpus; repeatable."
    )
    protect_languages: str = option(
        "", panel=PROTECTED, help="Languages of the terminology whose names must not change, such as en."
    )
    text_field: str = option("text", like=TEXT_FIELD, panel=HOW)
    min_frequency: int = option(2, least=1, panel=HOW, help="Minimum occurrences of a character, or of a pair to join.")
    seed: int = option(0, least=0, panel=HOW, help="Seed for initial embeddings that cannot be composed from old ones.")
    threads: int | None = option(None, like=THREADS, panel=HOW)
    force: bool = option(False, like=REMAKE)

    def check(self) -> None:
        """Make sure that there is something to learn from, and that the output may be made."""
        if not self.corpus and self.terminology is None:
            raise UsageError("say what to learn from: --corpus, --terminology")
        if self.terminology is None and (self.languages or self.protect_languages or self.split):
            raise UsageError("--languages, --protect-languages and --split choose among names: give --terminology")
        artefact.refuse_existing(self.output, self.force, " (the old one is moved aside)")


@app.command("extend", cls=Brief)
@with_options
def extend(spec: ExtendSpec) -> None:
    """Add tokens for another language or domain to an encoder; train it afterwards.

    alphita vocabulary extend --encoder minilm --corpus notes.txt -o extended

    A new embedding starts as the mean of the old tokens that it replaces.
    """
    machine.set_threads(spec.threads)
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology
    from alphita_lab.encoder import vocabulary, wordpieces

    spec.check()
    like = wordpieces.open_wordpiece(spec.encoder)
    terms = load_terminology(spec.terminology) if spec.terminology else None
    split = Split.load(spec.split) if spec.split else None
    hidden = split.cleaned if split is not None else frozenset()
    with Rejects(spec.output.with_name(f"{spec.output.name}.rejects.csv")) as rejects:
        learnt = [_of_file(file, like, spec.text_field, rejects, hidden) for file in spec.corpus]
        kept = [_of_file(file, like, spec.text_field, rejects) for file in spec.protect]
    rejects.tell(progress.say, "line")
    languages, protected = _tags(spec.languages), _tags(spec.protect_languages)
    if terms is not None:
        learnt += _of_languages(terms, languages, hidden, like)
        kept += _of_languages(terms, protected, hidden, like) if protected else []
    how: dict[str, Any] = {"size": spec.size, "keep": spec.keep, "min_frequency": spec.min_frequency}
    tokens = wordpieces.propose(_together(learnt), like=like, protected=_together(kept), **how)
    figures = _figures(learnt + kept, tokens, like)
    facts: dict[str, Any] = {
        "config": how,
        "corpus": {str(file): artefact.hash_file(file) for file in spec.corpus},
        "protected": {str(file): artefact.hash_file(file) for file in spec.protect},
        "terminology": terms.content_hash if terms is not None else None,
        "split": split.hash if split is not None else None,
        "languages": languages,
        "protected_languages": protected,
        "words_hash": artefact.hash_json(sorted(_together(learnt).items())),
        "texts": figures,
    }
    done = vocabulary.extend(spec.encoder, tokens, spec.output, seed=spec.seed, fields=facts, force=spec.force)
    print(
        f"{spec.output}: {done.tokens_before:,} tokens and {done.added:,} new ones, {done.composed:,} of them composed "
        f"of old ones and {done.added - done.composed:,} by chance"
    )
    _show(figures)
    progress.say(f"next: alphita train RECIPE --encoder {spec.output} ...")


def _tags(text: str) -> list[str]:
    from alphita.terminology import languages

    return list(dict.fromkeys(languages.known(part) for part in map(str.strip, text.split(",")) if part))


def _of_file(
    file: Path, like: Tokenizer, text_field: str, rejects: Rejects, hidden: frozenset[str] = frozenset()
) -> _Texts:
    """Count the words of a file, without the held-out strings in `hidden`."""
    from alphita_lab.encoder import wordpieces
    from alphita_lab.training.text.corpora import documents
    from alphita_lab.training.text.matching import HeldOut

    count = 0

    def texts() -> Iterator[str]:
        nonlocal count
        for text in documents([file], text_field=text_field, rejects=rejects):
            count += bool(text.strip())
            yield text

    words = wordpieces.count_words(HeldOut(hidden).cut_out(texts()) if hidden else texts(), like)
    return _Texts(file.name, count, words)


def _of_languages(terminology: Terminology, tags: list[str], exclude: frozenset[str], like: Tokenizer) -> list[_Texts]:
    """Return the names that may train, by language; of all languages, by tag, if `tags` is empty."""
    from alphita.terminology.text import clean_many
    from alphita_lab.encoder import wordpieces

    by_tag: dict[str, list[str]] = {}
    # Language by language: a name that a concept has in two of them counts in both.
    choices: list[str | None] = [*tags] or [None]
    for chosen in choices:
        rows, _ = terminology.training_terms(exclude=exclude, languages=None if chosen is None else [chosen])
        spoken = terminology.terms["language"].take(rows).to_pylist()
        strings = clean_many(terminology.terms["string"].take(rows).to_pylist())
        for tag, string in zip(spoken, strings, strict=True):
            by_tag.setdefault(chosen or tag or "none", []).append(string)
    if absent := [tag for tag in tags if tag not in by_tag]:
        there = sorted(filter(None, terminology.terms["language"].unique().to_pylist()))
        raise InputError(
            f"no name to learn from is in the language {absent[0]!r}",
            file=terminology.path,
            remedy=f"its languages are {', '.join(there)}; machine translations do not count",
        )
    return [_Texts(tag, len(by_tag[tag]), wordpieces.count_words(by_tag[tag], like)) for tag in tags or sorted(by_tag)]


def _together(texts: list[_Texts]) -> Counter[str]:
    words: Counter[str] = Counter()
    for one in texts:
        words.update(one.words)
    return words


def _figures(texts: list[_Texts], tokens: list[str], like: Tokenizer) -> list[dict[str, Any]]:
    """Return what the new tokens do to each of the texts."""
    from alphita_lab.encoder.wordpieces import changed, extended_model, fertility

    rows = []
    old, new = like.model, extended_model(tokens, like)
    for one in texts:
        before, after = fertility(one.words, old), fertility(one.words, new)
        rows.append(
            {
                "name": one.name,
                "texts": one.texts,
                "words": before.words,
                "tokens_a_text": [round(found.tokens / max(one.texts, 1), 4) for found in (before, after)],
                "tokens_a_word": [round(found.tokens_a_word, 4) for found in (before, after)],
                "unknown_words": [round(found.unknown_share, 6) for found in (before, after)],
                "split_otherwise": round(changed(one.words, old, new), 6),
            }
        )
    return rows


def _show(figures: list[dict[str, Any]]) -> None:
    width = max(len(row["name"]) for row in figures)
    print(f"  {'':{width}} {'texts':>10}  tokens a text   tokens a word    unknown words      split otherwise")
    for row in figures:
        text, word, unknown = row["tokens_a_text"], row["tokens_a_word"], row["unknown_words"]
        print(
            f"  {row['name']:{width}} {row['texts']:>10,}  {text[0]:5.2f} -> {text[1]:5.2f}  {word[0]:5.2f} -> "
            f"{word[1]:5.2f}  {unknown[0]:6.1%} -> {unknown[1]:6.1%}  {row['split_otherwise']:6.1%}"
        )
