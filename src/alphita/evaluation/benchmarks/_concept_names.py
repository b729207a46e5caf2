"""The names by which benchmarks represent concepts: a terminology's exact, human-made terms, or those of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita import registry, textio
from alphita.errors import InputError, UsageError
from alphita.terminology.language_ranges import among
from alphita.terminology.store import Terminology

# First names of the columns by which a head line is known in a file of names.
HEADS = frozenset({"id", "cui", "concept", "concept_id", "code"})


def terms_in(terminology: Terminology, language: str | None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the terms' rows, concept by concept, the preferred ones first, and where each concept's begin.

    Args:
        terminology: whose terms; see `Terminology.training_terms` for which of them.
        language: the BCP-47 tag of the terms; None: of all languages.

    Raises:
        UsageError: no term is in the language.
    """
    if language is None:
        return terminology.training_terms()
    known = {one for one in terminology.terms.column("language").unique().to_pylist() if one is not None}
    if not among(known, [language]):
        raise UsageError(registry.unknown("language of the terminology", language, sorted(known)))
    return terminology.training_terms(languages=[language])


def read_names(path: Path) -> tuple[list[str], list[str]]:
    """Read a file of names: `id<TAB>name` a line, perhaps gzipped, perhaps with a head line (id, cui, concept, code).

    Raises:
        InputError: it cannot be read, a line is not of two fields, a field is empty, or there is no name.
    """
    ids, names = [], []
    for number, row in textio.rows(path, "\t"):
        if number == 1 and row[0].lower() in HEADS:
            continue
        if len(row) != 2 or not all(row):
            raise InputError("not an id, a tab and a name", file=path, line=number, value="\t".join(row))
        ids.append(row[0])
        names.append(row[1])
    if not names:
        raise InputError("holds no name", file=path)
    return ids, names
