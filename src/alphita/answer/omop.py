"""What an index of OMOP vocabularies says of its concepts, as answers, searches and files show it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.store import Index
from alphita.mappings.formats import TargetInfo
from alphita.mappings.record import OmopConcept

# The columns of the index for the fields of `OmopConcept`; an index of an earlier build can lack one.
COLUMNS = ("omop_concept_id", "concept_code", "vocabulary", "domain", "concept_class", "standard")


class OmopConcepts:
    """The concepts of an index in OMOP's table CONCEPT; none if it has no OMOP vocabularies."""

    def __init__(self, index: Index) -> None:
        self._index, table = index, index.segment.concepts
        self.known = COLUMNS[0] in table.column_names
        self._table = table.select(["id", *(name for name in COLUMNS if name in table.column_names)])

    def of_rows(self, rows: Sequence[int] | NDArray[np.int64]) -> list[OmopConcept | None]:
        """Return some concepts, by their rows; None for one that OMOP does not have."""
        if not self.known:
            return [None] * len(rows)
        taken = self._table.take(pa.array(rows, pa.int64()))
        empty = [None] * len(rows)
        ids, numbers, codes, *rest = (
            taken.column(name).to_pylist() if name in taken.column_names else empty for name in ("id", *COLUMNS)
        )
        # Only a code that the id does not say is kept.
        own = (None if curie.startswith("OMOP:") else curie.partition(":")[2] for curie in map(str, ids))
        codes = [code or of_id for code, of_id in zip(codes, own, strict=True)]
        every = zip(numbers, codes, *rest, strict=True)
        return [None if cells[0] is None else OmopConcept(*cells) for cells in every]

    def of_id(self, concept_id: str | None) -> OmopConcept | None:
        """Return the concept with an id or alias; None for another one."""
        row = -1 if concept_id is None else self._row(concept_id)
        return None if row < 0 else self.of_rows([row])[0]

    def targets(self, *, replaced: bool = True) -> Callable[[str], TargetInfo | None] | None:
        """Return what looks up a target by its id; None for an index of no OMOP vocabularies.

        Args:
            replaced: whether an id that was replaced is that of its replacement.
        """
        if not self.known:
            return None
        # Where no concept is a standard one, it was not told which are.
        is_told = bool(pc.any(pc.equal(self._table.column("standard").cast(pa.string()), "S")).as_py())

        @functools.cache
        def target(concept_id: str) -> TargetInfo | None:
            row = self._row(concept_id)
            concept = None if row < 0 else self.of_rows([row])[0]
            if concept is None:
                return None
            own = self._table.column("id")[row].as_py(), f"OMOP:{concept.omop_concept_id}"
            return TargetInfo.of(concept, is_told=is_told) if replaced or concept_id in own else None

        return target

    def _row(self, concept_id: str) -> int:
        return int(self._index.concept_rows([concept_id])[0]) if self.known else -1
