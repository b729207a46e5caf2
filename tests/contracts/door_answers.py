"""What the doors of `doors.py` say, read from the forms in which they say it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

DECIMALS = 6


class Answer(NamedTuple):
    """What a door said of a mention."""

    concept_id: str | None
    confidence: float | None
    decision: str | None

    def agrees(self, other: Answer | None) -> bool:
        """Tell whether another door said the same, confidence to six decimals, give or take one of the last."""
        if other is None or (self.concept_id, self.decision) != (other.concept_id, other.decision):
            return False
        if self.confidence is None or other.confidence is None:
            return self.confidence is other.confidence
        # The encoder adds up the tokens of a string alone in another order than among several: the last bits differ.
        return abs(self.confidence - other.confidence) < 1.5 * 10**-DECIMALS

    def __str__(self) -> str:
        """Return it as a cell of the table."""
        confidence = "" if self.confidence is None else f"{self.confidence:.6f}"
        return f"{self.concept_id or 'none'} {confidence} {self.decision or ''}".strip()


def answer(line: dict[str, Any]) -> Answer:
    """Return the answer of a line; an empty cell is a missing value."""
    concept_id, confidence, decision = (None if line.get(name) == "" else line.get(name) for name in Answer._fields)
    return Answer(concept_id, None if confidence is None else round(float(confidence), DECIMALS), decision)


def of_results(results: Iterable[Any]) -> list[Answer | None]:
    """Return the answers of results."""
    return [None if one is None else answer(fields_of(one)) for one in results]


def fields_of(record: Any) -> dict[str, Any]:
    """Return what of a record makes an answer."""
    return {name: getattr(record, name) for name in Answer._fields}


def of_fhir(document: dict[str, Any]) -> Answer:
    """Return what a $translate answered; the normaliser's confidence and decision are extensions or properties."""
    # Of R5's NIL, which is no match, the result tells.
    result, *others = document["parameter"]
    match = next((one for one in others if one["name"] == "match"), result)
    parts = {part["name"]: part for part in match.get("part", ()) if part["name"] != "property"}
    found = {one["url"]: one for one in match.get("extension", ())}
    for one in match.get("part", ()):
        if one["name"] == "property":
            uri, value = one["part"]
            found[uri["valueUri"]] = value
    said = {uri.rpartition("-")[2]: one.get("valueDecimal", one.get("valueCode")) for uri, one in found.items()}
    if "concept" in parts:
        from alphita.review.files import curie_of

        concept = parts["concept"]["valueCoding"]
        said["concept_id"] = curie_of(concept["system"], concept["code"])
    return answer(said)
