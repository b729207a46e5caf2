"""FHIR's Parameters and OperationOutcome: what an operation is asked, what it answers, and what went wrong.

Specification: http://hl7.org/fhir/R4/operations.html and http://hl7.org/fhir/R5/operations.html. A GET carries
primitive values in its query, a POST a Parameters resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from alphita import registry, textio
from alphita.errors import shorten
from alphita.service.failures import FHIR_JSON

Release = Literal["r4", "r5"]
Values = dict[str, list[Any]]
MEDIA_TYPE = FHIR_JSON
JSON_TYPES = (MEDIA_TYPE, "application/json", "text/json", "json")
# Of every request; `_format` is looked at where the answer's type is settled.
COMMON = ("_format", "_pretty")
# The types of parameters, and the member of a Parameters resource that may hold one. Some servers' clients write a code
# or a uri as a string.
MEMBERS: dict[str, tuple[str, ...]] = {
    "code": ("valueCode", "valueString", "valueUri"),
    "uri": ("valueUri", "valueUrl", "valueCanonical", "valueString"),
    "string": ("valueString", "valueCode", "valueId"),
    "boolean": ("valueBoolean",),
    "integer": ("valueInteger", "valueUnsignedInt", "valuePositiveInt"),
    "dateTime": ("valueDateTime",),
    "Coding": ("valueCoding",),
    "CodeableConcept": ("valueCodeableConcept",),
    "ConceptMap": ("resource",),
    "group": ("part",),
}
_INTEGER = re.compile(r"[0-9]{1,9}")
COMPLEX = ("Coding", "CodeableConcept", "ConceptMap", "group")


class Fault(Exception):
    """What is wrong with a request, as FHIR says it."""

    def __init__(self, code: str, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.code, self.text, self.status = code, text, status


def outcome(code: str, text: str) -> dict[str, Any]:
    """Return an OperationOutcome of one error."""
    issue = {"severity": "error", "code": code, "details": {"text": text}, "diagnostics": text}
    return {"resourceType": "OperationOutcome", "issue": [issue]}


def from_query(pairs: Iterable[tuple[str, str]], known: Mapping[str, str], repeated: tuple[str, ...] = ()) -> Values:
    """Return the parameters of a GET."""
    values: Values = {}
    for name, text in pairs:
        if name in COMMON:
            continue
        kind = _kind(name, known)
        if kind in COMPLEX:
            raise Fault("invalid", f"the parameter {name!r} is a {kind}: send it in a Parameters resource by POST")
        if not text.strip():
            raise Fault("value", f"the parameter {name!r} is empty")
        if kind == "boolean" and text not in ("true", "false"):
            raise Fault("value", f"the parameter {name!r} must be true or false")
        if kind == "integer" and not _INTEGER.fullmatch(text):
            raise Fault("value", f"the parameter {name!r} must be a whole number from 0")
        value = {"boolean": text == "true", "integer": int(text) if kind == "integer" else 0}.get(kind, text)
        _add(values, name, value, repeated)
    return values


def from_resource(body: bytes, known: Mapping[str, str], repeated: tuple[str, ...] = ()) -> Values:
    """Return the parameters of a Parameters resource; see `from_query`."""
    try:
        found = textio.json_value(body)
    except ValueError:
        raise Fault("structure", "the body is not JSON") from None
    if not isinstance(found, dict) or found.get("resourceType") != "Parameters":
        raise Fault("structure", "the body must be a resource of type Parameters")
    entries = found.get("parameter", [])
    if not isinstance(entries, list):
        raise Fault("structure", "Parameters.parameter must be a list")
    values: Values = {}
    for place, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise Fault("structure", f"Parameters.parameter[{place}] has no name")
        kind = _kind(name, known)
        member = next((one for one in MEMBERS[kind] if one in entry), None)
        if member is None:
            raise Fault("structure", f"the parameter {name!r} must have a {MEMBERS[kind][0]}")
        value = entry[member]
        _check(name, kind, value)
        _add(values, name, value, repeated)
    return values


def one(values: Values, *names: str) -> Any:  # noqa: ANN401 - of the parameter's type
    """Return the value of the one parameter that was given under any of its names, or None."""
    given = [name for name in names if name in values]
    if len(given) > 1:
        raise Fault("invalid", f"{given[0]!r} and {given[1]!r} say the same; give one of them")
    return values[given[0]][0] if given else None


def coding(value: Mapping[str, Any], name: str) -> tuple[str, str]:
    """Return system and code of a Coding."""
    system, code = value.get("system"), value.get("code")
    if not isinstance(system, str) or not system or not isinstance(code, str) or not code:
        raise Fault("required", f"the Coding in {name!r} needs a system and a code")
    return system, code


def parameter(name: str, **value: object) -> dict[str, Any]:
    """Return one parameter of an answer: `parameter("result", valueBoolean=True)`."""
    return {"name": name, **value}


def _kind(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise Fault("not-supported", shorten(registry.unknown("parameter", shorten(name, 40), known), 1_000))
    return known[name]


def _add(values: Values, name: str, value: object, repeated: tuple[str, ...]) -> None:
    if name in values and name not in repeated:
        raise Fault("invalid", f"the parameter {name!r} was given twice")
    values.setdefault(name, []).append(value)


def _check(name: str, kind: str, value: object) -> None:
    """Make sure that a JSON value is of the parameter's type."""
    if kind == "boolean":
        fits = isinstance(value, bool)
    elif kind == "integer":
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    elif kind == "group":
        fits = isinstance(value, list)
    elif kind in COMPLEX:
        fits = isinstance(value, dict)
    else:
        fits = isinstance(value, str) and bool(value.strip())
    if not fits:
        raise Fault("value", f"the parameter {name!r} is no {kind}")
