"""Labelled mentions: a table of what people mapped, to fit and to measure with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from alphita import textio
from alphita.errors import InputError

COLUMNS = ("mention", "concept_id")
NO_CONCEPT = "NIL"


class Label(NamedTuple):
    """A mention that a person mapped; `concept_id` None: no concept fits."""

    mention: str
    concept_id: str | None


def read_labels(path: Path) -> list[Label]:
    """Read a CSV (or TSV, by its name) with the columns mention and concept_id; "NIL" for a mention of no concept."""
    found = []
    for line, (mention, concept) in textio.columns(path, COLUMNS):
        if not mention or not concept:
            name = "mention" if not mention else "concept_id"
            remedy = f"fill it in, or drop the row; {NO_CONCEPT} says that no concept fits"
            raise InputError("a row without a value", file=path, line=line, field=name, remedy=remedy)
        found.append(Label(mention, None if concept == NO_CONCEPT else concept))
    if not found:
        raise InputError("holds no labelled mention", file=path)
    return found
