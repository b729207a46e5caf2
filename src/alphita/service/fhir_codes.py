"""One code by FHIR: $lookup, $validate-code and $subsumes.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/codesystem-operation-lookup.html,
codesystem-operation-validate-code.html, codesystem-operation-subsumes.html and valueset-operation-validate-code.html.
A value set is all codes of a system: its URI, with `?fhir_vs` (as SNOMED CT), `/vs` (as LOINC) or nothing behind it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.index.store import Index
from alphita.review import files
from alphita.service.failures import Fault
from alphita.service.fhir_parameters import Release, Values, answered, coding, one, parameter, types_of
from alphita.terminology import prefixes
from alphita.terminology.languages import speaks
from alphita.terminology.text import clean

LOOKUP = types_of(
    "code:code system:uri version:string coding:Coding date:dateTime displayLanguage:code property:code "
    "useSupplement:uri"
)
LOOKUP_REPEATED = ("property", "useSupplement")


def look_up(index: Index, values: Values, release: Release) -> dict[str, Any]:
    """Return the Parameters resource of the concept that is asked for."""
    if "useSupplement" in values:
        raise Fault("not-supported", "this service has no supplements: leave out 'useSupplement'")
    row = _asked_row(index, values)
    concept = index.concept(row)
    asked = values.get("property", [])
    prefix = concept.id.partition(":")[0]
    terms = terms_of(index, row)
    spoken = [one.removeprefix("lang.") for one in asked if one.startswith("lang.")]
    known = prefixes.table().get(prefixes.canonical(prefix))
    entries = [parameter("name", valueString=known.name if known else prefix)]
    if version := version_of(index, prefix):
        entries.append(parameter("version", valueString=version))
    entries.append(parameter("display", valueString=display_of(concept.name, terms, one(values, "displayLanguage"))))
    if concept.definition and _wants("definition", asked):
        entries.append(_definition(concept.definition, release))
    entries += [
        parameter("designation", part=_designation(string, language))
        for string, language in terms
        if string != concept.name and (_wants("designation", asked) or any(speaks(language, one) for one in spoken))
    ]
    segment = index.segment
    for name, is_wanted, kin in (
        ("parent", _wants("parent", asked), segment.parents_of),
        ("child", "child" in asked, segment.children_of),
    ):
        if is_wanted:
            entries += [_property(name, valueCode=code) for code in _codes(index, kin(row), prefix)]
    return answered(*entries)


def _asked_row(index: Index, values: Values, end: str = "") -> int:
    """Return the row of the concept that the parameters ask for; "A" and "B" end their names where there are two."""
    code, whole = one(values, f"code{end}"), one(values, f"coding{end}")
    if (code is None) == (whole is None):
        problem = f"give either 'code{end}' with 'system', or 'coding{end}'"
        raise Fault("required" if code is None else "invalid", problem)
    system = one(values, "system")
    if whole is not None:
        system, code = coding(whole, f"coding{end}")
    elif system is None:
        raise Fault("required", f"'code{end}' needs a 'system'")
    curie = files.curie_of(system, code)
    if curie is None:
        raise Fault("not-found", "this service has no concepts of this system", 404)
    row = int(index.concept_rows([curie])[0])
    if row < 0:
        raise Fault("not-found", "this service's index has no concept with this code", 404)
    found = index.concept(row).id
    if not is_own(found, curie):
        raise Fault("not-found", f"this code is retired or an alias: use {found}", 404)
    version = version_of(index, found.partition(":")[0])
    if (wanted := one(values, "version")) is not None and version and wanted != version:
        raise Fault("not-found", "this service's index has another version of this system", 404)
    return row


def is_own(found: str, asked: str) -> bool:
    """Return whether the id of a concept is the one asked for, not another that leads to it."""
    return prefixes.normalize(found) == prefixes.normalize(asked)


SUBSUMES = types_of("codeA:code codeB:code system:uri version:string codingA:Coding codingB:Coding")


def subsumes(index: Index, values: Values) -> dict[str, Any]:
    """Return the Parameters resource that says which of two concepts is above the other, if one is."""
    upper, lower = (_asked_row(index, values, end) for end in ("A", "B"))
    if not has_parents(index):
        raise Fault("not-supported", "this service's index has no hierarchy")
    if upper == lower:
        said = "equivalent"
    elif _is_above(index, upper, lower):
        said = "subsumes"
    else:
        said = "subsumed-by" if _is_above(index, lower, upper) else "not-subsumed"
    return answered(parameter("outcome", valueCode=said))


def has_parents(index: Index) -> bool:
    """Return whether an index knows which concept is above which."""
    return index.segment.parents is not None and len(index.segment.parents) > 0


def _is_above(index: Index, upper: int, lower: int) -> bool:
    seen, left = {lower}, [lower]
    while left and upper not in seen:
        further = {*index.segment.parents_of(left.pop()).tolist()} - seen
        seen |= further
        left += further
    return upper in seen


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


def _codes(index: Index, rows: NDArray[Any], prefix: str) -> list[str]:
    """Return the codes of the concepts that are of a system."""
    ids = index.segment.concepts.column("id")
    found = [str(ids[row].as_py()) for row in rows.tolist()]
    return [files.coding_of(curie)[1] for curie in found if curie.partition(":")[0] == prefix]


_VALIDATE = types_of(
    "url:uri code:code display:string coding:Coding codeableConcept:CodeableConcept date:dateTime abstract:boolean "
    "displayLanguage:code"
)
OF_SYSTEM = {**_VALIDATE, "version": "string"}
OF_SET = _VALIDATE | types_of("system:uri systemVersion:string valueSetVersion:string inferSystem:boolean")


class Code(NamedTuple):
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


def validate(index: Index, values: Values, release: Release, *, of_set: bool) -> dict[str, Any]:
    """Return the Parameters resource that says whether a code is one of a system or value set."""
    url = one(values, "url")
    if of_set and url is None:
        raise Fault("required", "'url' says of which value set: the system's URI with ?fhir_vs")
    system = system_of(index, url) if of_set and url is not None else url
    language = one(values, "displayLanguage")
    verdicts = [(asked, _verdict(index, asked, system, language)) for asked in _asked_codes(values, system)]
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
    return answered(*entries)


def _asked_codes(values: Values, system: str | None) -> list[Code]:
    """Return the codes asked for: one, or those of a CodeableConcept, of which one is to be valid."""
    given = [name for name in ("code", "coding", "codeableConcept") if name in values]
    if len(given) != 1:
        raise Fault("invalid" if given else "required", "give one of 'code', 'coding' and 'codeableConcept'")
    version = one(values, "version", "systemVersion")
    if given == ["code"]:
        named = one(values, "system") or system
        if named is None:
            raise Fault("required", "'code' needs the 'url' of its system")
        return [Code(named, values["code"][0], one(values, "display"), version)]
    whole = values[given[0]][0]
    parts = [whole] if given == ["coding"] else whole.get("coding")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise Fault("required", "the CodeableConcept needs a list of Codings")
    return [_of_coding(part, given[0], version) for part in parts]


def _of_coding(part: Mapping[str, Any], name: str, version: str | None) -> Code:
    system, code = coding(part, name)
    display, own = part.get("display"), part.get("version")
    return Code(system, code, display if isinstance(display, str) else None, own if isinstance(own, str) else version)


def _verdict(index: Index, asked: Code, system: str | None, language: str | None) -> Verdict:
    # No message repeats a code or display, which may be a patient's.
    curie = files.curie_of(asked.system, asked.code)
    if curie is None:
        return Verdict("this service has no concepts of this system")
    if system is not None and not same_system(system, asked.system):
        return Verdict("the code is of another system")
    row = int(index.concept_rows([curie])[0])
    if row < 0:
        return Verdict("this service's index has no concept with this code")
    concept = index.concept(row)
    if not is_own(concept.id, curie):
        return Verdict("this code is retired or an alias of another: look it up")
    version = version_of(index, concept.id.partition(":")[0])
    terms = terms_of(index, row)
    display = display_of(concept.name, terms, language)
    if asked.version is not None and version and asked.version != version:
        return Verdict("this service's index has another version of this system", display, version)
    names = {clean(name) for name, _ in [(concept.name, ""), *terms]}
    if asked.display is not None and clean(asked.display) not in names:
        return Verdict("the display is not a name of this code", display, version)
    return Verdict(None, display, version)


SUFFIXES = ("?fhir_vs", "/vs")


def system_of(index: Index, url: str) -> str:
    """Return the system whose codes a value set is."""
    for suffix in ("", *SUFFIXES):
        system = url.removesuffix(suffix)
        if (suffix == "" or system != url) and prefix_of(index, system) is not None:
            return system
    raise Fault("not-found", "unknown value set: give the URI of a code system of this service, with ?fhir_vs", 404)


def same_system(left: str, right: str) -> bool:
    """Return whether two URIs name the same system."""
    return left == right or (_canonical(left) is not None and _canonical(left) == _canonical(right))


def prefix_of(index: Index, system: str) -> str | None:
    """Return the CURIE prefix that a system's concepts have in an index; None where it has none of them."""
    wanted = _canonical(system)
    return next((prefix for prefix in rows_of(index) if prefixes.canonical(prefix) == wanted), None)


def _canonical(system: str) -> str | None:
    curie = files.curie_of(system, "0")
    return None if curie is None else prefixes.canonical(curie.partition(":")[0])


@functools.lru_cache(maxsize=4)
def rows_of(index: Index) -> dict[str, NDArray[np.int64]]:
    """Return the rows of the concepts by CURIE prefix."""
    ids = index.segment.concepts.column("id")
    held = pc.list_element(pc.split_pattern(ids, ":", max_splits=1), 0).combine_chunks().dictionary_encode()
    numbers = held.indices.to_numpy()
    return {prefix: np.flatnonzero(numbers == number) for number, prefix in enumerate(held.dictionary.to_pylist())}
