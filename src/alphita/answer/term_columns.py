"""What an index's terms say of themselves, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.segment import SCOPES, STATUSES, Segment
from alphita.terminology.languages import primary


def term_features(segment: Segment) -> dict[str, NDArray[np.bool_]]:
    """Return what a term's own columns say, (n_terms,) each."""
    terms = segment.terms
    n = len(terms)

    def text(name: str) -> pa.ChunkedArray | None:
        return terms.column(name).cast(pa.string()) if name in terms.column_names else None

    def equals(column: pa.ChunkedArray | None, value: str) -> NDArray[np.bool_]:
        if column is None:
            return np.zeros(n, bool)
        return np.asarray(pc.fill_null(pc.equal(column, value), False).to_numpy(zero_copy_only=False), bool)

    scope, kind, status = text("scope"), text("type"), text("status")
    return {
        "preferred": np.asarray(terms.column("preferred").to_numpy(zero_copy_only=False), bool),
        **{f"scope_{name}": equals(scope, name) for name in SCOPES[1:]},
        "abbreviation_term": equals(kind, "abbreviation"),
        "layperson_term": equals(kind, "layperson"),
        "not_official": ~equals(status, STATUSES[0]) if status is not None else np.zeros(n, bool),
        "retired_term": _given(text("retired_concept"), n),
        "borrowed_term": segment.borrowed,
    }


def _given(column: pa.ChunkedArray | None, n: int) -> NDArray[np.bool_]:
    if column is None:
        return np.zeros(n, bool)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)


class Languages(NamedTuple):
    """The languages of an index's terms.

    Attributes:
        names: primary language subtags.
        of_term: (n_terms,) int16, a place in `names`; -1 where a term has none.
    """

    names: dict[str, int]
    of_term: NDArray[np.int16]

    def given(self, languages: Sequence[str | None]) -> NDArray[np.int64]:
        """Return the place of each language, -1 for None; one that no term has gets a place of its own."""
        other = len(self.names)
        return np.array([-1 if not name else self.names.get(primary(name), other) for name in languages], np.int64)


def languages_of(segment: Segment) -> Languages:
    """Return the languages of a segment's terms."""
    if "language" not in segment.terms.column_names:
        return Languages({}, np.full(len(segment.terms), -1, np.int16))
    column = segment.terms.column("language").cast(pa.string()).combine_chunks().dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    names: dict[str, int] = {}
    of_value = [names.setdefault(primary(value or ""), len(names)) for value in column.dictionary.to_pylist()]
    codes = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    lookup = np.array([*of_value, -1], np.int16)
    return Languages(names, lookup[codes])
