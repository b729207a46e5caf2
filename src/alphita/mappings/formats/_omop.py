"""OMOP's numbers of target concepts."""

from __future__ import annotations

import re

from alphita.errors import UsageError
from alphita.mappings.formats import Header, TargetInfo

_NUMBER = re.compile(r"OMOP:(0|[1-9]\d{0,9})")
NONE = TargetInfo(0, "", "None")


def target(header: Header, concept_id: str | None) -> TargetInfo | None:
    """Return what OMOP says of a concept: number 0 of vocabulary "None" for NIL, None where it has no number."""
    if concept_id is None:
        return NONE
    found = header.target_info(concept_id) if header.target_info is not None else None
    if found is not None:
        return found
    if number := _NUMBER.fullmatch(concept_id):
        return TargetInfo(int(number[1]), "", "")
    if header.target_info is None:
        raise UsageError(
            f"this format needs OMOP's concept ids, and {concept_id} has none; normalise with an index of a "
            "terminology from 'alphita terminology import omop', or write CSV and convert that with "
            "alphita mappings convert and --concepts CONCEPT.csv"
        )
    return None
