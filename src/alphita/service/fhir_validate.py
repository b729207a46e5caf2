"""CodeSystem/$validate-code and ValueSet/$validate-code over the concepts of an index.

Specification: http://hl7.org/fhir/R4/codesystem-operation-validate-code.html, valueset-operation-validate-code.html and
the same of R5. A value set is all codes of one system (see `fhir_expand.system_of`), so both ask the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from alphita.index.store import Index
from alphita.review import files
from alphita.service import fhir_expand, fhir_lookup
from alphita.service.fhir_parameters import Fault, Release, Values, coding, one, parameter
from alphita.terminology import prefixes
from alphita.terminology.text import clean

_CODE = {
    "url": "uri",
    "code": "code",
    "display": "string",
    "coding": "Coding",
    "codeableConcept": "CodeableConcept",
    "date": "dateTime",
    "abstract": "boolean",
    "displayLanguage": "code",
}
OF_SYSTEM = {**_CODE, "version": "string"}
OF_SET = {**_CODE, "system": "uri", "systemVersion": "string", "valueSetVersion": "string", "inferSystem": "boolean"}


class Asked(NamedTuple):
    """A code that is to be validated."""

    system: str
    code: str
    display: str | None
    version: str | None


class Verdict(NamedTuple):
    """What is found: a message unless the code is valid; the display, where the code is known."""

    message: str | None
    display: str | None = None
    version: str | None = None


def answer(index: Index, values: Values, release: Release, *, of_set: bool) -> dict[str, Any]:
    """Return the Parameters resource that says whether a code is one of a system or value set."""
    url = one(values, "url")
    if of_set and url is None:
        raise Fault("required", "'url' says of which value set: the system's URI with ?fhir_vs")
    system = fhir_expand.system_of(index, url) if of_set and url is not None else url
    language = one(values, "displayLanguage")
    verdicts = [(asked, _verdict(index, asked, system, language)) for asked in _asked(values, system)]
    asked, verdict = next((pair for pair in verdicts if pair[1].message is None), verdicts[0])
    entries = [parameter("result", valueBoolean=verdict.message is None)]
    if verdict.message is not None:
        entries.append(parameter("message", valueString=verdict.message))
    if verdict.display is not None:
        entries.append(parameter("display", valueString=verdict.display))
    if release == "r5":
        entries += [parameter("code", valueCode=asked.code), parameter("system", valueUri=asked.system)]
        if verdict.version:
            entries.append(parameter("version", valueString=verdict.version))
    return {"resourceType": "Parameters", "parameter": entries}


def _asked(values: Values, system: str | None) -> list[Asked]:
    """Return the codes asked for: one, or those of a CodeableConcept, of which one is to be valid."""
    given = [name for name in ("code", "coding", "codeableConcept") if name in values]
    if len(given) != 1:
        raise Fault("invalid" if given else "required", "give one of 'code', 'coding' and 'codeableConcept'")
    version = one(values, "version", "systemVersion")
    if given == ["code"]:
        named = one(values, "system") or system
        if named is None:
            raise Fault("required", "'code' needs the 'url' of its system")
        return [Asked(named, values["code"][0], one(values, "display"), version)]
    whole = values[given[0]][0]
    parts = [whole] if given == ["coding"] else whole.get("coding")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise Fault("required", "the CodeableConcept needs a list of Codings")
    return [_of_coding(part, given[0], version) for part in parts]


def _of_coding(part: Mapping[str, Any], name: str, version: str | None) -> Asked:
    system, code = coding(part, name)
    display, own = part.get("display"), part.get("version")
    return Asked(system, code, display if isinstance(display, str) else None, own if isinstance(own, str) else version)


def _verdict(index: Index, asked: Asked, system: str | None, language: str | None) -> Verdict:
    # No message repeats a code or display, which may be a patient's.
    curie = files.curie_of(asked.system, asked.code)
    if curie is None:
        return Verdict("this service knows no concepts of this system")
    if system is not None and not fhir_expand.same_system(system, asked.system):
        return Verdict("the code is of another system")
    row = int(index.concept_rows([curie])[0])
    if row < 0:
        return Verdict("no concept of this service's index has this code")
    concept = index.concept(row)
    if prefixes.normalize(concept.id) != prefixes.normalize(curie):
        return Verdict("this code is no longer in use, or another name of a concept: look it up")
    version = fhir_lookup.version_of(index, concept.id.partition(":")[0])
    terms = fhir_lookup.terms_of(index, row)
    display = fhir_lookup.display_of(concept.name, terms, language)
    if asked.version is not None and version and asked.version != version:
        return Verdict("this service's index has another version of this system", display, version)
    names = {clean(name) for name, _ in [(concept.name, ""), *terms]}
    if asked.display is not None and clean(asked.display) not in names:
        return Verdict("the display is no name of this code", display, version)
    return Verdict(None, display, version)
