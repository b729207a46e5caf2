"""What OMOP says of concepts of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from alphita.index.segment import Segment

COLUMNS = ("omop_concept_id", "vocabulary", "domain", "concept_class", "standard")


@dataclass(frozen=True, slots=True)
class OmopFacts:
    """A concept's cells in OMOP's table CONCEPT; `standard_concept` is S, C or "" (non-standard)."""

    omop_concept_id: int
    concept_code: str
    vocabulary_id: str
    domain_id: str
    concept_class_id: str
    standard_concept: str


def omop_facts(segment: Segment, rows: Sequence[int]) -> list[OmopFacts | None]:
    """Return the facts of the concepts at some rows; None for one that OMOP does not have.

    A concept whose code does not name it alone has the code "".
    """
    if "omop_concept_id" not in segment.concepts.column_names:
        return [None] * len(rows)
    table = segment.concepts.select(["id", *COLUMNS]).take(pa.array(rows, pa.int64()))
    return [
        None if number is None else OmopFacts(number, "" if prefix == "OMOP" else code, *(cell or "" for cell in cells))
        for curie, number, *cells in zip(*(column.to_pylist() for column in table.columns), strict=True)
        for prefix, _, code in [curie.partition(":")]
    ]
