"""What several formats need: a concept's system, and what a patient has by the text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated, Annotation
from alphita.terminology import prefixes
from alphita.terminology.text import whole_characters


class Finding(NamedTuple):
    """What a text says of one concept and the patient.

    Attributes:
        is_possible: it is only thought of.
    """

    annotations: list[Annotation]
    is_negated: bool
    is_possible: bool
    is_historical: bool


def findings_of(header: Header, document: Annotated, *, possible: bool) -> list[Finding]:
    """Return what a text says of the patient, each concept once, in the order of the first mentions."""
    found: dict[str, list[Annotation]] = {}
    for one in document.annotations:
        said = one.said
        for category in ("family", "hypothetical", *(() if possible else ("possible",))):
            if category in said:
                header.lose(f"{category} mentions")
                break
        else:
            found.setdefault(one.concept_id, []).append(one)
    return [_finding(header, some) for some in found.values()]


def _finding(header: Header, some: list[Annotation]) -> Finding:
    for kind in (("negated",), ("negated", "possible")):
        plain = [one for one in some if not set(kind) & set(one.said)]
        if plain and len(plain) < len(some):
            if kind == ("negated",):
                header.lose("negations of what is affirmed elsewhere", len(some) - len(plain))
            some = plain
    first = some[0].said
    historical = all("historical" in one.said for one in some)
    return Finding(some, "negated" in first, "possible" in first and "negated" not in first, historical)


def system_of(concept_id: str) -> tuple[str, str]:
    """Return the system (a URI) and the code of a concept for FHIR; of an unknown prefix that, as a URN."""
    prefix, _, code = concept_id.partition(":")
    known = prefixes.table().get(prefix)
    if known is None:
        return f"urn:alphita:{prefix}", code
    system = known.fhir_system or known.uri or f"urn:alphita:{prefix}"
    # HPO's codes in FHIR are the whole CURIEs.
    return system, concept_id if prefix == "HP" else code


def text_of_json(value: object, *, indent: int | None = None) -> bytes:
    """Return JSON in UTF-8; half characters become U+FFFD."""
    return whole_characters(json.dumps(value, ensure_ascii=False, indent=indent)).encode("utf-8")


def array(start: str, items: Iterable[Any], end: str) -> Iterable[bytes]:
    """Yield a JSON document that holds a long array, item by item."""
    yield start.encode()
    for number, item in enumerate(items):
        yield (b",\n" if number else b"\n") + text_of_json(item)
    yield f"\n{end}\n".encode()
