"""The parameters of FHIR's operations, and what is wrong with them.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/operations.html and
http://hl7.org/fhir/R4/operationoutcome.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from alphita import registry
from alphita.errors import shorten
from alphita.service.failures import FHIR_JSON, Fault

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


def types_of(table: str) -> dict[str, str]:
    """Return the types of an operation's parameters by name, from "name:type name:type"."""
    return dict(pair.split(":") for pair in table.split())


def values_of(
    pairs: Iterable[tuple[str, str]], resource: object, known: Mapping[str, str], repeated: tuple[str, ...] = ()
) -> Values:
    """Return the parameters of a request.

    Args:
        pairs: of the query or of a form, as text.
        resource: a Parameters resource, as JSON gives it; None: there is none.
        known: name -> type of those that the operation takes.
        repeated: those that may be given several times.
    """
    values: Values = {}

    def add(name: str, value: object) -> None:
        if name in values and name not in repeated:
            raise Fault("invalid", f"the parameter {name!r} was given twice")
        values.setdefault(name, []).append(value)

    for name, text in pairs:
        # A search box that was emptied filters nothing.
        if name not in COMMON and (name != "filter" or text.strip()):
            add(name, _from_text(name, _kind(name, known), text))
    for name, entry in _entries(resource):
        kind = _kind(name, known)
        member = next((one for one in MEMBERS[kind] if one in entry), None)
        if member is None:
            raise Fault("structure", f"the parameter {name!r} must have a {MEMBERS[kind][0]}")
        _check(name, kind, entry[member])
        add(name, entry[member])
    return values


def _from_text(name: str, kind: str, text: str) -> object:
    if kind in COMPLEX:
        raise Fault("invalid", f"the parameter {name!r} is a {kind}: send it in a Parameters resource by POST")
    if not text.strip():
        raise Fault("value", f"the parameter {name!r} is empty")
    if kind == "boolean" and text not in ("true", "false"):
        raise Fault("value", f"the parameter {name!r} must be true or false")
    if kind == "integer" and not _INTEGER.fullmatch(text):
        raise Fault("value", f"the parameter {name!r} must be a whole number from 0")
    return {"boolean": text == "true", "integer": int(text) if kind == "integer" else 0}.get(kind, text)


def _entries(resource: object) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield name and content of the entries of a Parameters resource."""
    if resource is None:
        return
    if not isinstance(resource, dict) or resource.get("resourceType") != "Parameters":
        raise Fault("structure", "the body must be a resource of type Parameters")
    entries = resource.get("parameter", [])
    if not isinstance(entries, list):
        raise Fault("structure", "Parameters.parameter must be a list")
    for place, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise Fault("structure", f"Parameters.parameter[{place}] has no name")
        yield name, entry


def one(values: Values, *names: str) -> Any:  # noqa: ANN401 - of the parameter's type
    """Return the value of the one parameter that was given under any of its names, or None."""
    given = [name for name in names if name in values]
    if len(given) > 1:
        raise Fault("invalid", f"{given[0]!r} and {given[1]!r} have the same meaning; give one of them")
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


def answered(*entries: dict[str, Any]) -> dict[str, Any]:
    """Return the Parameters resource of an answer."""
    return {"resourceType": "Parameters", "parameter": [*entries]}


def _kind(name: str, known: Mapping[str, str]) -> str:
    if name not in known:
        raise Fault("not-supported", shorten(registry.unknown("parameter", shorten(name, 40), known), 1_000))
    return known[name]


def _check(name: str, kind: str, value: object) -> None:
    """Make sure that a JSON value is of the parameter's type."""
    wanted = {"boolean": bool, "integer": int, "group": list}.get(kind, dict if kind in COMPLEX else str)
    fits = isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)
    if not fits or (isinstance(value, int) and value < 0) or (isinstance(value, str) and not value.strip()):
        raise Fault("value", f"the parameter {name!r} must be a {kind}")
