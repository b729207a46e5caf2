"""Labelled mentions: a table of what people mapped, to fit and to measure with."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from alphita.errors import InputError

COLUMNS = ("mention", "concept_id")
NO_CONCEPT = "NIL"


class Label(NamedTuple):
    """A mention that a person mapped; `concept_id` None: no concept fits."""

    mention: str
    concept_id: str | None


def read_labels(path: Path) -> list[Label]:
    """Read a CSV (or TSV, by its name) with the columns mention and concept_id; "NIL" for a mention of no concept.

    Raises:
        InputError: it cannot be read, lacks a column, or a row lacks a value.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            for name in COLUMNS:
                if name not in (reader.fieldnames or ()):
                    raise InputError(
                        f"has no column {name!r}",
                        file=path,
                        line=1,
                        value=reader.fieldnames,
                        remedy="needs the columns mention and concept_id",
                    )
            found = []
            for row in reader:
                mention, concept = ((row[name] or "").strip() for name in COLUMNS)
                if not mention or not concept:
                    name = "mention" if not mention else "concept_id"
                    remedy = f"fill it in, or drop the row; {NO_CONCEPT} says that no concept fits"
                    raise InputError(
                        "a row without a value", file=path, line=reader.line_num, field=name, remedy=remedy
                    )
                found.append(Label(mention, None if concept == NO_CONCEPT else concept))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as a table: {error}", file=path) from None
    if not found:
        raise InputError("holds no labelled mention", file=path)
    return found
