"""Aligned pairs from a file: a TSV with the columns source, translation and language, or JSONL with such keys.

A column `concept` may name what both name, by CURIE; other columns are passed by, so what `alphita bitext` writes can
be read. Files may be gzipped. A row that is wrong goes to `Rejects` with its line.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import languages, prefixes
from alphita.terminology.concept_splits import names_of
from alphita.terminology.language_ranges import speaks
from alphita.terminology.loaders import _lines
from alphita.terminology.loaders._files import Member
from alphita.terminology.reading import rows_of
from alphita.terminology.text import clean_many
from alphita.training.terms.aligned_pairs import (
    EMPTY,
    EQUAL,
    HELD_OUT,
    NO_TAG,
    SCRIPT,
    SOURCE_SCRIPT,
    TOO_LONG,
    AlignedPairs,
    Collected,
)

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

COLUMNS = ("source", "translation", "language")
CONCEPT = "concept"
JSONL = (".jsonl", ".ndjson")
REMEDY = "a file of pairs has the columns source, translation and language (a BCP-47 tag); concept may follow"
BAD_ROW = "bad row"
RETIRED = "pair of a retired concept"
# What is wrong with a pair and can be mended in its row, and where; what is not here is counted and no more.
_FIELD = {
    EMPTY: "translation",
    TOO_LONG: "translation",
    EQUAL: "translation",
    SCRIPT: "translation",
    SOURCE_SCRIPT: "source",
    NO_TAG: "language",
}
Cells = dict[str, str]


def read(
    path: Path | str,
    rejects: Rejects,
    *,
    source: str = "en",
    terminology: Terminology | None = None,
    exclude: frozenset[str] = frozenset(),
    exclude_concepts: Collection[str] = frozenset(),
) -> AlignedPairs:
    """Read a file of pairs.

    Args:
        path: the file; one called .jsonl (or .jsonl.gz) has a JSON object a line, any other is a TSV with a header.
        rejects: takes the rows that are wrong: empty or too long strings, a translation equal to its source or in a
            script that its language does not use, an unknown language or the source's own, an id that no concept has.
        source: BCP-47 tag of the source language.
        terminology: where the ids in the column `concept` are looked up; None: pairs have no concept rows.
        exclude: cleaned strings that must not train (`Split.cleaned`).
        exclude_concepts: ids of concepts none of whose names may train: pairs of them are left out and, with a
            terminology, pairs with any of their names.

    Raises:
        InputError: the file is unreadable, lacks a column, or no row of it is left.
        UsageError: an unknown source language.
    """
    spoken = languages.normalize(source)
    if spoken is None:
        raise UsageError(f"{source!r}: {languages.UNKNOWN}")
    member = Member(Path(path))
    is_jsonl = member.name.lower().endswith(JSONL)
    set_aside = rejects.count
    rows = list((_jsonl if is_jsonl else _table)(member, rejects))
    own: dict[str, int] = {}
    held_out, held_ids = exclude, frozenset(prefixes.normalize(curie) for curie in exclude_concepts)
    held_rows: frozenset[int] = frozenset()
    if terminology is not None:
        own = rows_of(terminology, (cells[CONCEPT] for _, cells in rows if cells.get(CONCEPT)))
        held_rows = frozenset(rows_of(terminology, exclude_concepts).values())
        names = terminology.terms.column("string").take(names_of(terminology, exclude_concepts))
        held_out = held_out.union(clean_many(names.to_pylist()))
    collected = Collected(spoken, exclude=held_out)
    for line, cells in rows:
        tag, curie = languages.normalize(cells["language"]), cells.get(CONCEPT, "")
        concept = own.get(curie, -1)
        if tag is None or speaks(tag, spoken):
            problem = languages.UNKNOWN if tag is None else "a translation in the language of the source"
            rejects.add(problem, file=member.place, line=line, field="language", value=cells["language"])
        elif curie and terminology is not None and concept < 0:
            rejects.add("no concept has this id", file=member.place, line=line, field=CONCEPT, value=curie)
        elif concept in held_rows or prefixes.normalize(curie) in held_ids:
            collected.counts[HELD_OUT] += 1
        elif terminology is not None and concept >= 0 and terminology.retired[concept]:
            collected.counts[RETIRED] += 1
        else:
            refused = collected.add(cells["source"], cells["translation"], tag, origin=member.name, concept=concept)
            if refused in _FIELD:
                collected.counts[refused] -= 1
                rejects.add(refused, file=member.place, line=line, field=_FIELD[refused], value=cells[_FIELD[refused]])
    collected.counts[BAD_ROW] = rejects.count - set_aside
    pairs = collected.pairs()
    if not len(pairs):
        why = ", ".join(f"{count:,} {problem}" for problem, count in pairs.counts.items())
        raise InputError("no pair is left of this file" + (f": {why}" if why else ""), file=path, remedy=REMEDY)
    return pairs


def write(path: Path | str, pairs: AlignedPairs, margins: NDArray[np.floating[Any]] | None = None) -> None:
    """Write pairs as a TSV that `read` reads, with a column `margin` where they were mined."""
    with artefact.atomic_file(Path(path), "w") as file:
        file.write("\t".join([*COLUMNS, "margin"][: 3 + (margins is not None)]) + "\n")
        for row, (source, translation, language, _, _) in enumerate(pairs.rows()):
            margin = [] if margins is None else [f"{margins[row]:.4f}"]
            file.write("\t".join([source, translation, language, *margin]) + "\n")


def _table(member: Member, rejects: Rejects) -> Iterator[tuple[int, Cells]]:
    """Yield (line, cells by column) of a TSV file."""
    lines = _lines.lines(member, "utf-8", rejects)
    number, first = next(lines, (1, ""))
    header = textio.tab_cells(first)
    textio.check_header(header, COLUMNS, member.place, number, REMEDY)
    yield from textio.line_rows(lines, header, member.place, rejects)


def _jsonl(member: Member, rejects: Rejects) -> Iterator[tuple[int, Cells]]:
    """Yield (line, values by key) of a file of JSON objects, one a line."""
    for number, line in _lines.lines(member, "utf-8", rejects):
        if not line or line.isspace():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            rejects.add(f"not JSON: {error}", file=member.place, line=number, value=line)
            continue
        if not isinstance(row, dict):
            rejects.add("not a JSON object", file=member.place, line=number, value=line)
            continue
        wrong = next((name for name in COLUMNS if not isinstance(row.get(name), str)), None)
        wrong = wrong or (CONCEPT if not isinstance(row.get(CONCEPT) or "", str) else None)
        if wrong is not None:
            rejects.add("a string is wanted here", file=member.place, line=number, field=wrong, value=line)
            continue
        yield number, {name: row.get(name) or "" for name in (*COLUMNS, CONCEPT)}
