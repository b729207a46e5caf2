"""The code system of the answers: concepts shown by their codes there."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.index.segment import Segment
from alphita.registry import unknown
from alphita.terminology.prefixes import canonical


class Targets:
    """The codes that an index's concepts have in one code system.

    A concept's codes there are its own id, if that is of the code system, and else what its terms bring along, those of
    its exact terms first.
    """

    def __init__(self, segment: Segment, target: str) -> None:
        self.target = canonical(target)
        ids = segment.concepts.column("id").to_pylist()
        codes: dict[int, dict[str, None]] = {
            row: {one: None} for row, one in enumerate(ids) if canonical(one.partition(":")[0]) == self.target
        }
        systems = {one.partition(":")[0] for one in ids[:100_000]}
        terms = segment.terms
        if {"source", "code"} <= set(terms.column_names):
            source = terms.column("source").cast(pa.string())
            spellings = {one: canonical(one) for one in pc.unique(source).drop_null().to_pylist()}
            systems |= set(spellings.values())
            own = [spelling for spelling, prefix in spellings.items() if prefix == self.target]
            kept = pc.and_(pc.is_in(source, value_set=pa.array(own, pa.string())), terms.column("code").is_valid())
            if "retired_concept" in terms.column_names:
                # Its code is the retired concept's.
                kept = pc.and_(kept, terms.column("retired_concept").is_null())
            rows = np.flatnonzero(pc.fill_null(kept, False).to_numpy(zero_copy_only=False))
            found = terms.column("code").take(pa.array(rows)).to_pylist()
            standing = segment.standing[rows].tolist()
            for _, code, row in sorted(zip(standing, found, segment.term_concept[rows].tolist(), strict=True)):
                if row in codes and canonical(ids[row].partition(":")[0]) == self.target:
                    continue
                codes.setdefault(row, {})[_curie(self.target, str(code))] = None
        if not codes:
            raise UsageError(unknown("target", target, sorted(systems)))
        self._codes = {row: "|".join(some) for row, some in codes.items()}

    @property
    def concepts(self) -> NDArray[np.int64]:
        """Rows of the concepts that have a code there, sorted."""
        return np.array(sorted(self._codes), np.int64)

    def ids(self, concepts: NDArray[Any]) -> list[str]:
        """Return the codes of some concepts that have one, each as CURIEs joined by `|`."""
        return [self._codes[int(row)] for row in concepts]

    def row(self, code: str) -> int:
        """Return the first concept that `ids` gives this code, alone or with others; -1: none."""
        return self._rows.get(code, -1)

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        rows: dict[str, int] = {}
        for row, codes in self._codes.items():
            for code in (codes, *codes.split("|")):
                rows.setdefault(code, row)
        return rows


def _curie(prefix: str, code: str) -> str:
    return code if code.startswith(f"{prefix}:") else f"{prefix}:{code}"
