"""ConceptMap/$translate over the final decisions of a store.

Specification: http://hl7.org/fhir/R4/conceptmap-operation-translate.html and
http://hl7.org/fhir/R5/conceptmap-operation-translate.html; the names of both are understood in both. A project is a
ConceptMap (`files.set_id`, `files.source_system`). In R4 an equivalence is that of the translation: in reverse, wider
is narrower; in R5 the relationship stays the map's. Where people agreed with the normalizer, its confidence and
decision come along: in R5 as properties of the match, in R4 (and for NIL) as extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from alphita.mappings.formats import fhir_r4, fhir_r5
from alphita.mappings.record import REVIEWED
from alphita.review import files
from alphita.review.memory import FinalMapping, FinalMappings
from alphita.service.failures import Fault
from alphita.service.fhir_parameters import Release, Values, answered, coding, one, parameter, types_of

KNOWN = types_of(
    "url:uri conceptMap:ConceptMap conceptMapVersion:string code:code system:uri version:string source:uri "
    "coding:Coding codeableConcept:CodeableConcept target:uri targetsystem:uri reverse:boolean dependency:group "
    "sourceCode:code sourceSystem:uri sourceVersion:string sourceScope:uri sourceCoding:Coding "
    "sourceCodeableConcept:CodeableConcept targetCode:code targetCoding:Coding targetCodeableConcept:CodeableConcept "
    "targetScope:uri targetSystem:uri"
)
REPEATED = ("dependency",)
# What says what to translate, and for a code, what may give its system.
_SYSTEMS: dict[str, tuple[str, ...]] = {
    "code": ("system", "sourceSystem"),
    "sourceCode": ("system", "sourceSystem"),
    "targetCode": ("system", "targetSystem", "targetsystem"),
}
ASKED_BY = {
    name: _SYSTEMS.get(name, ())
    for start in ("", "source", "target")
    for kind in ("code", "coding", "codeableConcept")
    for name in [start + kind[0].upper() + kind[1:] if start else kind]
}
NOT_DONE = {
    "conceptMap": "translates by the maps of this service only",
    "dependency": "has no maps that depend on anything",
}
# A value set of all codes of a system.
ALL_CODES = "?fhir_vs"
REVERSED = {"wider": "narrower", "narrower": "wider"}
# Of what the normaliser had said: an extension's url, a property's uri.
SAID = "https://github.com/alphita/alphita/StructureDefinition/normalizer-"
Coding = tuple[str, str]


class Question(NamedTuple):
    """The question: system and code of each coding, the map's url ("": all), the system wanted ("": any)."""

    codes: list[Coding]
    reverse: bool
    url: str
    wanted: str


class Match(NamedTuple):
    """One settled row that answers, the coding it leads to (None for NIL), and its display."""

    row: FinalMapping
    found: Coding | None
    display: str | None


def question_of(values: Values) -> Question:
    """Return what the parameters ask."""
    for name, why in NOT_DONE.items():
        if name in values:
            raise Fault("not-supported", f"the parameter {name!r} is not served: this service {why}")
    if "conceptMapVersion" in values:
        raise Fault("not-found", "maps of this service have no versions: leave out 'conceptMapVersion'", 404)
    kinds = [name for name in ASKED_BY if name in values]
    if len(kinds) != 1:
        said = f"{kinds[0]!r} and {kinds[1]!r} were given" if kinds else "none was given"
        raise Fault("invalid" if kinds else "required", f"give one of {list(ASKED_BY)}; {said}")
    name = kinds[0]
    back, from_target = one(values, "reverse") is True, name.startswith("target")
    if from_target and back:
        raise Fault("invalid", f"{name!r} already asks in reverse; leave 'reverse' out")
    codes, wanted = _codes(values, name), _wanted(values, from_target, back)
    if not (back or from_target) and (scope := _scope(values, "sourceScope")):
        codes = [pair for pair in codes if pair[0] == scope]
    return Question(codes, back or from_target, one(values, "url") or "", wanted)


def _codes(values: Values, name: str) -> list[Coding]:
    """Return system and code of all that one parameter asks for."""
    value = values[name][0]
    if KNOWN[name] == "code":
        system = next((values[one][0] for one in ASKED_BY[name] if one in values), None)
        if system is None:
            raise Fault("required", f"{name!r} needs a 'system'")
        return [(system, value)]
    if KNOWN[name] == "Coding":
        return [coding(value, name)]
    several = value.get("coding")
    if not isinstance(several, list) or not several or not all(isinstance(some, dict) for some in several):
        raise Fault("required", f"the CodeableConcept in {name!r} needs at least one coding")
    found: list[Coding] = []
    for some in several:
        # A local code or a text beside those that can be translated.
        with suppress(Fault):
            found.append(coding(some, name))
    return found or [coding(several[0], name)]


def _wanted(values: Values, from_target: bool, back: bool) -> str:
    """Return the system of the codes wanted; a value set is understood if it is all of a system."""
    source = ("source", "sourceScope", "sourceSystem")
    if from_target:
        return _scope(values, *source)
    found = _scope(values, "target", "targetScope", "targetsystem", "targetSystem")
    return found or (_scope(values, *source[:2]) if back else "")


def _scope(values: Values, *names: str) -> str:
    found: str = one(values, *names) or ""
    if "/ValueSet/" in found or (ALL_CODES in found and not found.endswith(ALL_CODES)):
        given = next(name for name in names if name in values)
        raise Fault(
            "not-supported",
            f"the value set in {given!r} is not known here; name a code system in "
            "'targetsystem' (R4) or 'targetSystem' (R5)",
        )
    return found.removesuffix(ALL_CODES)


def matches(settled: FinalMappings, projects: Iterable[str], question: Question) -> Iterator[Match]:
    """Yield the settled rows that answer."""
    if question.url and question.url not in map(files.set_id, projects):
        raise Fault("not-found", "this service has no reviewed map with this url", 404)
    for given in question.codes:
        for row in settled.by_concept(_is(given)) if question.reverse else settled.by_code(given[1]):
            if question.url in ("", files.set_id(row.project)):
                yield from _back(row, question) if question.reverse else _forward(row, given[0], question)


def _is(target: Coding) -> Callable[[str], bool]:
    return lambda curie: files.coding_of(curie) == target


def _back(row: FinalMapping, question: Question) -> Iterator[Match]:
    systems = _systems(row)
    if question.wanted in ("", *systems):
        yield Match(row, (systems[0], row.code), row.mention or None)


def _forward(row: FinalMapping, system: str, question: Question) -> Iterator[Match]:
    if system not in _systems(row):
        return
    targets = [files.coding_of(curie) for curie in (row.concept_id or "").split("|") if curie]
    for target in targets:
        if question.wanted in ("", target[0]):
            yield Match(row, target, row.concept_name if len(targets) == 1 else None)
    if not targets:
        yield Match(row, None, None)


def _systems(row: FinalMapping) -> tuple[str, str]:
    """Return what the source is known by, its URI first."""
    return files.source_system(row.source), row.source


def answer(found: Iterable[Match], question: Question, release: Release) -> dict[str, Any]:
    """Return the Parameters resource: result, message, and each match once."""
    said: list[list[dict[str, Any]]] = []
    matches: list[dict[str, Any]] = []
    nil: FinalMapping | None = None
    has_match = False
    for match in found:
        if match.found is None:
            nil = nil or match.row
            if release == "r5":
                continue
        parts = _parts(match, question, release)
        if parts not in said:
            said.append(parts)
            matches.append(_match(parts, match.row, release))
        has_match |= match.found is not None
    result = parameter("result", valueBoolean=has_match)
    entries = [result]
    if not has_match:
        why = "reviewed: no concept of the target fits" if nil else "no reviewed mapping of this code"
        entries.append(parameter("message", valueString=why))
        if nil and release == "r5":
            result.update(_extensions(nil))
    return answered(*entries, *matches)


def _parts(match: Match, question: Question, release: Release) -> list[dict[str, Any]]:
    relation = match.row.relation
    if release == "r5":
        said = parameter("relationship", valueCode=fhir_r5.RELATIONSHIPS[relation])
        origin = "originMap"
    else:
        code = "unmatched" if match.found is None else fhir_r4.EQUIVALENCES[relation]
        said = parameter("equivalence", valueCode=REVERSED.get(code, code) if question.reverse else code)
        origin = "source"
    parts = [said]
    if match.found is not None:
        system, code = match.found
        facts = {"system": system, "code": code, "display": match.display}
        parts.append(parameter("concept", valueCoding={name: value for name, value in facts.items() if value}))
    return [*parts, parameter(origin, valueUri=files.set_id(match.row.project))]


def _match(parts: list[dict[str, Any]], row: FinalMapping, release: Release) -> dict[str, Any]:
    """Return a match with what the normaliser had said."""
    if release == "r4":
        return parameter("match", **_extensions(row), part=parts)
    properties = [
        parameter("property", part=[parameter("uri", valueUri=uri), parameter("value", **value)])
        for uri, value in _normalizer_facts(row)
    ]
    return parameter("match", part=[*parts, *properties])


def _extensions(row: FinalMapping) -> dict[str, Any]:
    found = [{"url": uri, **value} for uri, value in _normalizer_facts(row)]
    return {"extension": found} if found else {}


def _normalizer_facts(row: FinalMapping) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield uri and value of what the normaliser had said."""
    if row.confidence is not None:
        yield SAID + "confidence", {"valueDecimal": row.confidence}
    if row.decision not in (None, REVIEWED):
        yield SAID + "decision", {"valueCode": row.decision}
