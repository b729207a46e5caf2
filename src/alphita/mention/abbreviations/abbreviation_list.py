"""A user's own list of abbreviations: CSV or TSV with the columns short and long, and language if wanted.

    short,long,language
    hx,history,en
    CHF,congestive heart failure,en
    HFpEF,HF with preserved ejection fraction,en
    HF,heart failure,en

Several rows for one short form make it ambiguous. A long form that holds short forms of the list is expanded in turn:
HFpEF is "heart failure with preserved ejection fraction".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from alphita import textio
from alphita.errors import InputError
from alphita.mention.abbreviations.short_forms import MAX_TOKENS, TOKEN, Meaning, ShortForms, is_shouted, written
from alphita.terminology.text import clean

COLUMNS = ("short", "long")
# Meanings of one short form after expansion, and the length of each.
MAX_MEANINGS = 8
MAX_CHARACTERS = 1_000


# Signs that a short form may end in.
SIGNS = "/+-."


class Found(NamedTuple):
    """A short form inside a text: its place, and what it may stand for."""

    start: int
    end: int
    meanings: list[Meaning]


class _Row(NamedTuple):
    line: int
    meaning: Meaning


def read(path: Path) -> list[Meaning]:
    """Read a list; long forms are expanded through the list's own short forms."""
    rows = list(_rows(path))
    forms = ShortForms()
    for row in rows:
        forms.add(row.meaning)
    return _expanded(path, rows, forms)


def inside(text: str, forms: Sequence[ShortForms]) -> list[Found]:
    """Return the short forms in a text, left to right, not overlapping, longer ones first."""
    tokens = list(TOKEN.finditer(text))
    shouted = is_shouted(text)
    known = [source.first_tokens for source in forms if source.first_tokens]
    found, place = [], 0
    while place < len(tokens):
        first = tokens[place][0].lower()
        if not any(first in some for some in known):
            place += 1
            continue
        start = tokens[place].start()
        for count in range(min(MAX_TOKENS, len(tokens) - place), 0, -1):
            end = tokens[place + count - 1].end()
            meanings = _meanings(text[start:end], forms, shouted)
            if not meanings and text[end : end + 1] in SIGNS and text[end : end + 1]:
                # "w/" and "K+" end in a sign.
                meanings, end = _meanings(text[start : end + 1], forms, shouted), end + 1
            if meanings:
                found.append(Found(start, end, meanings))
                break
        place += count if meanings else 1
    return found


def _meanings(string: str, forms: Sequence[ShortForms], shouted: bool) -> list[Meaning]:
    return [meaning for source in forms for meaning in source.of(string, shouted=shouted)]


def _rows(path: Path) -> Iterator[_Row]:
    remedy = "begin the file with: short,long; put a cell that holds the delimiter in quotes"
    for line, cells in textio.columns(path, COLUMNS, optional=("language",), remedy=remedy):
        yield _row(path, line, cells)


def _row(path: Path, line: int, cells: list[str]) -> _Row:
    short, long = (" ".join(cell.split()) for cell in cells[:2])
    for name, cell in zip(COLUMNS, (short, long), strict=True):
        if not clean(cell) or not TOKEN.search(clean(cell)):
            raise InputError(
                "an empty cell" if not cell else "no letter or digit",
                file=path,
                line=line,
                field=name,
                value=cell,
                remedy="fill it in, or take the row out",
            )
    if clean(short) == clean(long):
        raise InputError(
            "a short form that stands for itself",
            file=path,
            line=line,
            field="long",
            value=long,
            remedy="give the long form, or take the row out",
        )
    return _Row(line, Meaning(short, long, (), cells[2] or None))


def _expanded(path: Path, rows: Sequence[_Row], forms: ShortForms) -> list[Meaning]:
    """Replace in every long form the short forms that it holds, those within them first."""
    by_short: dict[str, list[_Row]] = {}
    for row in rows:
        by_short.setdefault(written(row.meaning.short), []).append(row)
    held = {id(row): inside(written(row.meaning.long), [forms]) for row in rows}
    needs = {
        short: list(
            dict.fromkeys(
                written(meaning.short) for row in own for found in held[id(row)] for meaning in found.meanings
            )
        )
        for short, own in by_short.items()
    }
    longs: dict[str, list[str]] = {}
    for short in _innermost_first(path, by_short, needs):
        texts = [text for row in by_short[short] for text in _replaced(path, row, held[id(row)], longs)]
        longs[short] = list(dict.fromkeys(texts))[:MAX_MEANINGS]
    return [
        Meaning(row.meaning.short, text, (), row.meaning.language)
        for row in rows
        for text in _replaced(path, row, held[id(row)], longs)
    ]


def _replaced(path: Path, row: _Row, found: list[Found], longs: dict[str, list[str]]) -> list[str]:
    if not found:
        return [row.meaning.long]
    text = written(row.meaning.long)
    pieces: list[list[str]] = []
    place = 0
    for start, end, meanings in found:
        choices = [long for meaning in meanings for long in longs[written(meaning.short)]]
        pieces += [[text[place:start]], list(dict.fromkeys(choices))]
        place = end
    pieces.append([text[place:]])
    texts = ["".join(choice) for choice in itertools.islice(itertools.product(*pieces), MAX_MEANINGS)]
    if max(map(len, texts)) > MAX_CHARACTERS:
        raise InputError(
            f"its expansion has more than {MAX_CHARACTERS} characters",
            file=path,
            line=row.line,
            field="short",
            value=row.meaning.short,
            remedy="write the long form out",
        )
    return texts


def _innermost_first(path: Path, by_short: dict[str, list[_Row]], needs: dict[str, list[str]]) -> Iterator[str]:
    """Yield each short form after those that its long forms hold."""
    done: set[str] = set()
    for first in by_short:
        trail: dict[str, Iterator[str]] = {} if first in done else {first: iter(needs[first])}
        while trail:
            short = next(reversed(trail))
            following = next((need for need in trail[short] if need not in done), None)
            if following is None:
                del trail[short]
                done.add(short)
                yield short
            elif following in trail:
                names = list(trail)
                circle = [*names[names.index(following) :], following]
                line = by_short[following][0].line
                raise InputError(
                    "short forms that stand for one another in a circle",
                    file=path,
                    line=line,
                    field="long",
                    value=" -> ".join(circle),
                    remedy="write one of the long forms out",
                )
            else:
                trail[following] = iter(needs[following])
