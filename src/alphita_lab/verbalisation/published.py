"""Texts of concepts as others publish them, by name and not by id: AGCT's definitions, BioLORD's pairs.

    "zinc supplement" refers to a medication that ...      a line of text, or a column `text` (AGCT: Remy et al. 2023)
    zinc supplement <tab> a medication that ...            a table of names and texts (BioLORD's authors' pairs)

A name stands for the concept that it names; of several, for the one whose preferred name it is, if that is but one.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean

QUOTED = re.compile(r'"(?P<name>.+?)"\s+(?P<text>refers to\s.+)', re.DOTALL)
# What tables call names and their texts, beside which two columns are taken in this order.
NAMES = ("name", "concept", "term", "anchor", "sentence1", "text1")
TEXTS = ("definition", "description", "text", "positive", "sentence2", "text2")
TABLES = (".tsv", ".csv", ".parquet")


def is_published(path: Path) -> bool:
    """Tell whether a file is one of these, by its name."""
    return path.name.removesuffix(".gz").endswith((*TABLES, ".txt"))


def read_published(path: Path, terminology: Terminology, rejects: Rejects) -> dict[str, list[str]]:
    """Return the texts of each concept that a name of the file names; what cannot be used goes to `rejects`."""
    found: dict[str, dict[str, None]] = {}
    known: dict[str, str | None] = {}
    for number, name, text in _named(path, rejects):
        if name not in known:
            known[name] = _concept(terminology, name)
        concept = known[name]
        if concept is None:
            rejects.add("no concept alone has this name", file=path, line=number, value=name)
        elif not clean(text):
            rejects.add("the text is empty", file=path, line=number, value=name)
        else:
            found.setdefault(concept, {})[text] = None
    if not found:
        raise InputError(
            "no text of it is of a concept of the terminology",
            file=path,
            remedy='give lines of "NAME" refers to TEXT, or names and texts, and a terminology with these names',
        )
    return {concept: list(texts) for concept, texts in found.items()}


def _concept(terminology: Terminology, name: str) -> str | None:
    """Return the id of the concept that a name names."""
    key = terminology.find_key(clean(name))
    if key is None:
        return None
    terms = terminology.terms_of_key(key)
    live = [term for term in terms.tolist() if not terminology.retired[terminology.term_concept[term]]]
    concepts = {int(terminology.term_concept[term]) for term in live}
    if len(concepts) > 1:
        preferred = terminology.terms["preferred"]
        concepts = {int(terminology.term_concept[term]) for term in live if preferred[term].as_py()}
    return terminology.concept_id(concepts.pop()) if len(concepts) == 1 else None


def _named(path: Path, rejects: Rejects) -> Iterator[tuple[int, str, str]]:
    """Yield the names and texts of a file, each with its line or row."""
    if path.suffix == ".parquet":
        rows, header = _parquet(path)
    elif path.name.removesuffix(".gz").endswith(".txt"):
        yield from _quoted(textio.streamed(path), path, rejects)
        return
    else:
        comma = path.name.removesuffix(".gz").endswith(".csv")
        rows = (
            iter(textio.held_rows(path))
            if comma
            else ((n, textio.tab_cells(line)) for n, line in textio.streamed(path))
        )
        first = next(rows, (1, []))
        header = [cell.strip().lower() for cell in first[1]]
        if not {*header} & {*NAMES, *TEXTS}:
            rows, header = itertools.chain([first], rows), []
    if header == ["text"]:
        yield from _quoted(((number, cells[0]) for number, cells in rows), path, rejects)
        return
    name, text = (next((header.index(one) for one in those if one in header), None) for those in (NAMES, TEXTS))
    if name is None or text is None:
        name, text = 0, 1
    for number, cells in rows:
        if len(cells) > max(name, text):
            yield number, cells[name].strip(), cells[text].strip()
        else:
            rejects.add("needs a name and a text", file=path, line=number, value=cells[0] if cells else "")


def _parquet(path: Path) -> tuple[Iterator[tuple[int, list[str]]], list[str]]:
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"cannot be read: {error}", file=path, remedy="fetch the file again") from None
    strings = [name for name, kind in frame.schema.items() if kind == pl.String]
    if not strings:
        raise InputError("has no column of text", file=path, remedy="give one with a column text, or with two")
    rows = frame.select(pl.col(strings).fill_null("")).iter_rows()
    return ((number, list(row)) for number, row in enumerate(rows, 1)), [name.lower() for name in strings]


def _quoted(lines: Iterator[tuple[int, str]], path: Path, rejects: Rejects) -> Iterator[tuple[int, str, str]]:
    for number, line in lines:
        if match := QUOTED.fullmatch(line.strip()):
            yield number, match["name"], f"{match['name']} {match['text']}"
        elif line.strip():
            rejects.add('is not of the form "NAME" refers to TEXT', file=path, line=number, value=line)
