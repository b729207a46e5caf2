"""`alphita vocabulary`: the tokens of an encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphita import machine, progress
from alphita.cli._corpora import TextField, tell_unreadable
from alphita.errors import InputError, Rejects, UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from alphita.terminology.store import Terminology

app = typer.Typer(help="The tokens of an encoder.", no_args_is_help=True)


@dataclass(frozen=True)
class _Texts:
    """The words of one language's names, or of one file's documents."""

    name: str
    texts: int
    words: Counter[str]


@app.callback()
def _vocabulary() -> None:
    pass


@app.command("extend")
def extend(
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to create.")],
    encoder: Annotated[
        str, typer.Option(help="Of WordPiece tokens, to extend: alphita-en, minilm, a folder or a hub name.")
    ] = "minilm",
    corpus: Annotated[
        list[Path] | None, typer.Option(help="Text to learn from: .txt or .jsonl, plain or .gz; may be repeated.")
    ] = None,
    terminology: Annotated[Path | None, typer.Option("--terminology", "-t", help="Learn from its names.")] = None,
    languages: Annotated[
        str, typer.Option(help="Names of these languages only, such as it,de; by default of all.")
    ] = "",
    split: Annotated[Path | None, typer.Option(help="A split whose held-out strings are left out.")] = None,
    size: Annotated[
        int, typer.Option(min=1, help="Tokens of the vocabulary trained on the texts, the known ones among them.")
    ] = 15_000,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Add so many at most, those that save the most tokens; by default all.")
    ] = None,
    protect: Annotated[
        list[Path] | None, typer.Option(help="Text whose words stay as they are, like --corpus; may be repeated.")
    ] = None,
    protect_languages: Annotated[
        str, typer.Option(help="Languages of the terminology whose names stay as they are, such as en.")
    ] = "",
    text_field: TextField = "text",
    min_frequency: Annotated[
        int, typer.Option(min=1, help="Times a character, or a pair that is joined, must occur.")
    ] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Of the first embeddings that cannot be composed of old ones.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Move an existing folder aside and make a new one.")] = False,
) -> None:
    """Add tokens for another language or domain to an encoder; train it afterwards.

    An embedding starts as the mean of those of the old tokens that the new one replaces.
    """
    machine.set_threads(threads)
    from alphita import artefact
    from alphita.encoder import vocabulary, wordpieces
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    if not corpus and terminology is None:
        raise UsageError("say what to learn from: --corpus, --terminology")
    if terminology is None and (languages or protect_languages or split):
        raise UsageError("--languages, --protect-languages and --split choose among names: give --terminology")
    artefact.refuse_existing(output, force, " (the old one is moved aside)")  # said before the work, not after
    like = wordpieces.open_wordpiece(encoder)
    opened = load_terminology(terminology) if terminology else None
    held_out = Split.load(split) if split else None
    with Rejects(output.with_name(f"{output.name}.rejects.csv")) as rejects:
        hidden = held_out.cleaned if held_out is not None else frozenset()
        learnt = [_of_file(file, like, text_field, rejects, hidden) for file in corpus or ()]
        kept = [_of_file(file, like, text_field, rejects) for file in protect or ()]
    tell_unreadable(rejects)
    if opened is not None:
        learnt += _of_languages(opened, _tags(languages), hidden, like)
        kept += _of_languages(opened, _tags(protect_languages), hidden, like) if protect_languages else []
    tokens = wordpieces.propose(
        _together(learnt), size, like=like, min_frequency=min_frequency, keep=keep, protected=_together(kept)
    )
    figures = _figures(learnt + kept, tokens, like)
    facts: dict[str, Any] = {
        "config": {"size": size, "keep": keep, "min_frequency": min_frequency},
        "corpus": {str(file): artefact.hash_file(file) for file in corpus or ()},
        "protected": {str(file): artefact.hash_file(file) for file in protect or ()},
        "terminology": opened.content_hash if opened is not None else None,
        "split": held_out.hash if held_out is not None else None,
        "languages": _tags(languages),
        "protected_languages": _tags(protect_languages),
        "words_hash": artefact.hash_json(sorted(_together(learnt).items())),
        "texts": figures,
    }
    done = vocabulary.extend(encoder, tokens, output, seed=seed, fields=facts, force=force)
    print(
        f"{output}: {done.tokens_before:,} tokens and {done.added:,} new ones, {done.composed:,} of them composed of "
        f"old ones and {done.added - done.composed:,} by chance"
    )
    _show(figures)
    progress.say(f"next: alphita train RECIPE --encoder {output} ...")


def _tags(text: str) -> list[str]:
    from alphita.terminology import languages

    tags = []
    for part in filter(None, map(str.strip, text.split(","))):
        tag = languages.normalize(part)
        if tag is None:
            raise UsageError(f"{part!r}: {languages.UNKNOWN}")
        tags.append(tag)
    return list(dict.fromkeys(tags))


def _of_file(
    file: Path, like: Tokenizer, text_field: str, rejects: Rejects, hidden: frozenset[str] = frozenset()
) -> _Texts:
    """Count the words of a file, without the held-out strings in `hidden`."""
    from alphita.encoder import wordpieces
    from alphita.training.text.corpora import documents
    from alphita.training.text.matching import HeldOut

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
    from alphita.encoder import wordpieces
    from alphita.terminology.text import clean_many

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
    from alphita.encoder.wordpieces import changed, extended_model, fertility

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
