"""CodeSystem/$lookup over the concepts of an index.

Specification: http://hl7.org/fhir/R4/codesystem-operation-lookup.html and
http://hl7.org/fhir/R5/codesystem-operation-lookup.html. Beside name, version and display it gives the terms
(designation), the parents (property `parent`) and the definition (R5: `definition`; R4: a property of that name).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from alphita.index.store import Index
from alphita.review import codings
from alphita.service.fhir_parameters import Fault, Release, Values, coding, one, parameter
from alphita.terminology import prefixes
from alphita.terminology.languages import speaks

KNOWN = {
    "code": "code",
    "system": "uri",
    "version": "string",
    "coding": "Coding",
    "date": "dateTime",
    "displayLanguage": "code",
    "property": "code",
    "useSupplement": "uri",
}
REPEATED = ("property", "useSupplement")


def answer(index: Index, values: Values, release: Release) -> dict[str, Any]:
    """Return the Parameters resource of the concept that is asked for."""
    if "useSupplement" in values:
        raise Fault("not-supported", "this service has no supplements: ask without 'useSupplement'")
    curie = _curie(values)
    row = int(index.concept_rows([curie])[0])
    concept = index.concept(row) if row >= 0 else None
    if concept is None:
        raise Fault("not-found", "no concept of this service's index has this code", 404)
    if prefixes.normalize(concept.id) != prefixes.normalize(curie):
        raise Fault("not-found", f"this code is no longer in use or another name of a concept: use {concept.id}", 404)
    asked = values.get("property", [])
    prefix = concept.id.partition(":")[0]
    version = version_of(index, prefix)
    if (wanted := one(values, "version")) is not None and version and wanted != version:
        raise Fault("not-found", "this service's index has another version of this system", 404)
    terms = terms_of(index, row)
    spoken = [one.removeprefix("lang.") for one in asked if one.startswith("lang.")]
    known = prefixes.table().get(prefixes.canonical(prefix))
    entries = [parameter("name", valueString=known.name if known else prefix)]
    if version:
        entries.append(parameter("version", valueString=version))
    entries.append(parameter("display", valueString=display_of(concept.name, terms, one(values, "displayLanguage"))))
    if concept.definition and _wants("definition", asked):
        entries.append(_definition(concept.definition, release))
    entries += [
        parameter("designation", part=_designation(string, language))
        for string, language in terms
        if string != concept.name and (_wants("designation", asked) or any(speaks(language, one) for one in spoken))
    ]
    if _wants("parent", asked):
        entries += [_property("parent", valueCode=code) for code in _parents(index, row, prefix)]
    return {"resourceType": "Parameters", "parameter": entries}


def _curie(values: Values) -> str:
    code, whole = one(values, "code"), one(values, "coding")
    if (code is None) == (whole is None):
        raise Fault("required" if code is None else "invalid", "give either 'code' with 'system', or 'coding'")
    if code is not None:
        system = one(values, "system")
        if system is None:
            raise Fault("required", "'code' needs a 'system'")
    else:
        system, code = coding(whole, "coding")
    curie = codings.curie_of(system, code)
    if curie is None:
        raise Fault("not-found", "this service knows no concepts of this system", 404)
    return curie


def _wants(name: str, asked: list[str]) -> bool:
    return not asked or name in asked


def version_of(index: Index, prefix: str) -> str:
    """Return the version of the source of a CURIE prefix, or ""."""
    found = (
        str(source.get("version") or "")
        for source in index.manifest.get("sources", ())
        if prefixes.canonical(str(source.get("name"))) == prefixes.canonical(prefix)
    )
    return next(found, "")


def terms_of(index: Index, row: int) -> list[tuple[str, str]]:
    """Return string and language of the terms that say exactly what the concept means, each once."""
    terms = index.segment.terms
    found = terms.take(np.flatnonzero((index.segment.term_concept == row) & ~index.segment.borrowed))
    if "retired_concept" in found.column_names:
        found = found.filter(pc.is_null(found.column("retired_concept")))
    columns = {
        name: found.column(name).to_pylist() for name in ("string", "language", "scope") if name in found.column_names
    }
    scopes = columns.get("scope") or ["exact"] * len(found)
    languages = columns.get("language") or [""] * len(found)
    pairs = zip(columns["string"], languages, scopes, strict=True)
    return list(dict.fromkeys((string, language or "") for string, language, scope in pairs if scope == "exact"))


def display_of(name: str, terms: list[tuple[str, str]], language: str | None) -> str:
    """Return the name in a language or, where no term is of it, in the wider one, "de" for "de-CH"."""
    own = next((found for string, found in terms if string == name), "")
    while language and not speaks(own, language):
        for string, found in terms:
            if speaks(found, language):
                return string
        language = language.rpartition("-")[0]
    return name


def _definition(text: str, release: Release) -> dict[str, Any]:
    if release == "r5":
        return parameter("definition", valueString=text)
    return _property("definition", valueString=text)


def _designation(string: str, language: str) -> list[dict[str, Any]]:
    said = [parameter("language", valueCode=language)] if language else []
    return [*said, parameter("value", valueString=string)]


def _property(code: str, **value: object) -> dict[str, Any]:
    return parameter("property", part=[parameter("code", valueCode=code), parameter("value", **value)])


def _parents(index: Index, row: int, prefix: str) -> list[str]:
    """Return the codes of the parents that are of the same system."""
    ids = index.segment.concepts.column("id")
    found = [str(ids[parent].as_py()) for parent in index.segment.parents_of(row).tolist()]
    return [codings.coding_of(curie)[1] for curie in found if curie.partition(":")[0] == prefix]
