"""The concepts of an index by FHIR: $lookup, $validate-code and $expand.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/codesystem-operation-lookup.html,
codesystem-operation-validate-code.html, valueset-operation-validate-code.html, valueset-operation-expand.html, and for
Parameters http://hl7.org/fhir/R4/operations.html. A value set is all codes of a system: its URI, with `?fhir_vs` (as
SNOMED CT), `/vs` (as LOINC) or nothing behind it.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import clock, registry, textio
from alphita.errors import shorten
from alphita.index.store import Index
from alphita.review import files
from alphita.service.concepts import Finder
from alphita.service.failures import FHIR_JSON
from alphita.terminology import prefixes
from alphita.terminology.languages import speaks
from alphita.terminology.text import clean

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
    wanted = {"boolean": bool, "integer": int, "group": list}.get(kind, dict if kind in COMPLEX else str)
    fits = isinstance(value, wanted) and isinstance(value, bool) == (wanted is bool)
    if not fits or (isinstance(value, int) and value < 0) or (isinstance(value, str) and not value.strip()):
        raise Fault("value", f"the parameter {name!r} must be a {kind}")


LOOKUP = types_of(
    "code:code system:uri version:string coding:Coding date:dateTime displayLanguage:code property:code "
    "useSupplement:uri"
)
LOOKUP_REPEATED = ("property", "useSupplement")


def look_up(index: Index, values: Values, release: Release) -> dict[str, Any]:
    """Return the Parameters resource of the concept that is asked for."""
    if "useSupplement" in values:
        raise Fault("not-supported", "this service has no supplements: leave out 'useSupplement'")
    curie = _asked_curie(values)
    row = int(index.concept_rows([curie])[0])
    concept = index.concept(row) if row >= 0 else None
    if concept is None:
        raise Fault("not-found", "this service's index has no concept with this code", 404)
    if prefixes.normalize(concept.id) != prefixes.normalize(curie):
        raise Fault("not-found", f"this code is retired or an alias: use {concept.id}", 404)
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


def _asked_curie(values: Values) -> str:
    code, whole = one(values, "code"), one(values, "coding")
    if (code is None) == (whole is None):
        raise Fault("required" if code is None else "invalid", "give either 'code' with 'system', or 'coding'")
    if code is not None:
        system = one(values, "system")
        if system is None:
            raise Fault("required", "'code' needs a 'system'")
    else:
        system, code = coding(whole, "coding")
    curie = files.curie_of(system, code)
    if curie is None:
        raise Fault("not-found", "this service has no concepts of this system", 404)
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
    return [files.coding_of(curie)[1] for curie in found if curie.partition(":")[0] == prefix]


EXPAND = types_of(
    "url:uri valueSetVersion:string filter:string offset:integer count:integer date:dateTime displayLanguage:code "
    "includeDesignations:boolean activeOnly:boolean excludeNested:boolean excludeNotForUI:boolean"
)
# Those that an answer follows, and says that it does.
FOLLOWED = ("filter", "offset", "count", "displayLanguage", "includeDesignations", "activeOnly")
SUFFIXES = ("?fhir_vs", "/vs")
# Codes of one answer.
MAX_CODES = 1_000
# Where other systems' concepts are in between, so many times as many are looked at.
WIDEST = 64


def system_of(index: Index, url: str) -> str:
    """Return the system whose codes a value set is."""
    for suffix in ("", *SUFFIXES):
        system = url.removesuffix(suffix)
        if (suffix == "" or system != url) and _prefix(index, system) is not None:
            return system
    raise Fault("not-found", "unknown value set: give the URI of a code system of this service, with ?fhir_vs", 404)


def same_system(left: str, right: str) -> bool:
    """Return whether two URIs name the same system."""
    return left == right or (_canonical(left) is not None and _canonical(left) == _canonical(right))


def expand(index: Index, finder: Finder, values: Values) -> dict[str, Any]:
    """Return the ValueSet with its expansion."""
    url = one(values, "url")
    if url is None:
        raise Fault("required", "'url' says of which value set: the system's URI with ?fhir_vs")
    prefix = _prefix(index, system_of(index, url))
    offset, count = one(values, "offset") or 0, one(values, "count")
    text = one(values, "filter")
    if count is not None and count > MAX_CODES:
        raise Fault(
            "too-costly", f"this service gives at most {MAX_CODES:,} codes at once: 'count' and 'offset' part them"
        )
    total: int | None
    if text is None:
        every = _rows(index)[str(prefix)]
        total = len(every)
        if count is None and total - offset > MAX_CODES:
            raise Fault("too-costly", f"{total:,} codes are too many for one answer: give 'filter', or 'count'")
        rows = every[offset:] if count is None else every[offset : offset + count]
    else:
        most = offset + (MAX_CODES if count is None else count)
        rows, total = _found(index, finder, text, prefix, most)[offset:], None
    return _value_set(index, url, values, rows, total)


def _found(index: Index, finder: Finder, text: str, prefix: str | None, most: int) -> NDArray[np.int64]:
    """Return the rows of the best concepts of a system, best first."""
    wider, ids = max(most, 1), []
    while True:
        found = finder.find(text, wider)
        ids = [one.id for one in found if one.id.partition(":")[0] == prefix]
        if len(ids) >= most or len(found) < wider or wider >= WIDEST * most:
            return index.concept_rows(ids[:most])
        wider *= 4


def _value_set(index: Index, url: str, values: Values, rows: NDArray[np.int64], total: int | None) -> dict[str, Any]:
    expansion: dict[str, Any] = {
        "identifier": f"urn:uuid:{uuid.uuid4()}",
        "timestamp": clock.now().isoformat(timespec="seconds"),
    }
    if total is not None:
        expansion["total"] = total
    if "offset" in values or "count" in values:
        expansion["offset"] = one(values, "offset") or 0
    said = [{"name": name, MEMBERS[EXPAND[name]][0]: one(values, name)} for name in FOLLOWED if name in values]
    if said:
        expansion["parameter"] = said
    language, spelled = one(values, "displayLanguage"), bool(one(values, "includeDesignations"))
    # FHIR has no empty list.
    if contains := [_contained(index, int(row), language, spelled) for row in rows]:
        expansion["contains"] = contains
    return {"resourceType": "ValueSet", "url": url, "status": "active", "expansion": expansion}


def _contained(index: Index, row: int, language: str | None, spelled: bool) -> dict[str, Any]:
    concept = index.concept(row)
    system, code = files.coding_of(concept.id)
    terms = terms_of(index, row) if language or spelled else []
    found = {"system": system, "code": code, "display": display_of(concept.name, terms, language)}
    if version := version_of(index, concept.id.partition(":")[0]):
        found["version"] = version
    designations = [
        {"value": string} | ({"language": spoken} if spoken else {})
        for string, spoken in terms
        if spelled and string != concept.name
    ]
    return found | ({"designation": designations} if designations else {})


def prefixes_of(index: Index) -> list[str]:
    """Return the CURIE prefixes of an index's concepts."""
    return list(_rows(index))


def _prefix(index: Index, system: str) -> str | None:
    """Return the CURIE prefix that a system's concepts have in an index; None where it has none of them."""
    wanted = _canonical(system)
    return next((prefix for prefix in _rows(index) if prefixes.canonical(prefix) == wanted), None)


def _canonical(system: str) -> str | None:
    curie = files.curie_of(system, "0")
    return None if curie is None else prefixes.canonical(curie.partition(":")[0])


@functools.lru_cache(maxsize=4)
def _rows(index: Index) -> dict[str, NDArray[np.int64]]:
    """Return the rows of the concepts by CURIE prefix."""
    ids = index.segment.concepts.column("id")
    held = pc.list_element(pc.split_pattern(ids, ":", max_splits=1), 0).combine_chunks().dictionary_encode()
    numbers = held.indices.to_numpy()
    return {prefix: np.flatnonzero(numbers == number) for number, prefix in enumerate(held.dictionary.to_pylist())}


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
    return {"resourceType": "Parameters", "parameter": entries}


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
    if prefixes.normalize(concept.id) != prefixes.normalize(curie):
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
