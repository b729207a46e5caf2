"""What an index of OMOP vocabularies says of its concepts, as answers show it."""

from __future__ import annotations

import pyarrow as pa

from alphita.index.store import Index
from alphita.mappings.record import NO_OMOP, OmopConcept


class OmopConcepts:
    """The OMOP facts of the concepts of an index; none if it has no OMOP vocabularies."""

    def __init__(self, index: Index) -> None:
        self._index, table = index, index.segment.concepts
        self.known = "omop_concept_id" in table.column_names
        names = ("omop_concept_id", "concept_code", "vocabulary", "domain", "concept_class", "standard")
        self._columns = [name if name in table.column_names else None for name in names] if self.known else []

    def of_rows(self, rows: pa.Array) -> list[OmopConcept]:
        """Return the facts of some concepts, by their rows."""
        if not self.known:
            return [NO_OMOP] * len(rows)
        taken = self._index.segment.concepts.take(rows)
        empty = [None] * len(rows)
        numbers, codes, *rest = (empty if name is None else taken.column(name).to_pylist() for name in self._columns)
        # Only a code that the id does not say is kept.
        own = (curie.partition(":")[2] for curie in taken.column("id").to_pylist())
        codes = [code or local for code, local in zip(codes, own, strict=True)]
        facts = zip(numbers, codes, *rest, strict=True)
        return [NO_OMOP if each[0] is None else OmopConcept(*each) for each in facts]

    def of_id(self, concept_id: str | None) -> OmopConcept:
        """Return the facts of the concept with an id or alias; nothing for another one."""
        row = -1 if concept_id is None or not self.known else int(self._index.concept_rows([concept_id])[0])
        return NO_OMOP if row < 0 else self.of_rows(pa.array([row]))[0]
