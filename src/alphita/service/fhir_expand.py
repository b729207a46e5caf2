"""ValueSet/$expand over the concepts of an index: all codes of a system, or those that a text finds.

Specification: http://hl7.org/fhir/R4/valueset-operation-expand.html and the same of R5. The value sets are the implicit
ones: all codes of a system, by its URI with `?fhir_vs` behind it (as SNOMED CT has it), `/vs` (as LOINC) or nothing.
With `filter` it is the search as you type of /search, best first.
"""

from __future__ import annotations

import functools
import uuid
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import clock
from alphita.index.store import Index
from alphita.review import files
from alphita.service import fhir_lookup
from alphita.service.fhir_parameters import Fault, Values, one
from alphita.service.searching import Finder
from alphita.terminology import prefixes

KNOWN = {
    "url": "uri",
    "valueSetVersion": "string",
    "filter": "string",
    "offset": "integer",
    "count": "integer",
    "date": "dateTime",
    "displayLanguage": "code",
    "includeDesignations": "boolean",
    "activeOnly": "boolean",
    "excludeNested": "boolean",
    "excludeNotForUI": "boolean",
}
# Those that an answer follows, and says that it does.
HEEDED = ("filter", "offset", "count", "displayLanguage", "includeDesignations", "activeOnly")
SUFFIXES = ("?fhir_vs", "/vs")
# Codes of one answer.
MOST = 1_000
# Where other systems' concepts are in between, so many times as many are looked at.
WIDEST = 64


def system_of(index: Index, url: str) -> str:
    """Return the system whose codes a value set is."""
    for suffix in ("", *SUFFIXES):
        system = url.removesuffix(suffix)
        if (suffix == "" or system != url) and _prefix(index, system) is not None:
            return system
    raise Fault("not-found", "this service knows no such value set: give a system of its concepts, with ?fhir_vs", 404)


def same_system(left: str, right: str) -> bool:
    """Return whether two URIs name the same system."""
    return left == right or (_canonical(left) is not None and _canonical(left) == _canonical(right))


def answer(index: Index, finder: Finder, values: Values) -> dict[str, Any]:
    """Return the ValueSet with its expansion."""
    url = one(values, "url")
    if url is None:
        raise Fault("required", "'url' says of which value set: the system's URI with ?fhir_vs")
    prefix = _prefix(index, system_of(index, url))
    offset, count = one(values, "offset") or 0, one(values, "count")
    text = one(values, "filter")
    if count is not None and count > MOST:
        raise Fault("too-costly", f"this service gives at most {MOST:,} codes at once: 'count' and 'offset' part them")
    total: int | None
    if text is None:
        every = _rows(index)[str(prefix)]
        total = len(every)
        if count is None and total - offset > MOST:
            raise Fault("too-costly", f"{total:,} codes are too many for one answer: give 'filter', or 'count'")
        rows = every[offset:] if count is None else every[offset : offset + count]
    else:
        most = offset + (MOST if count is None else count)
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
    said = [
        {"name": name, _MEMBER.get(KNOWN[name], "valueString"): one(values, name)} for name in HEEDED if name in values
    ]
    if said:
        expansion["parameter"] = said
    language, spelled = one(values, "displayLanguage"), bool(one(values, "includeDesignations"))
    # FHIR has no empty list.
    if contains := [_contained(index, int(row), language, spelled) for row in rows]:
        expansion["contains"] = contains
    return {"resourceType": "ValueSet", "url": url, "status": "active", "expansion": expansion}


_MEMBER = {"integer": "valueInteger", "boolean": "valueBoolean", "code": "valueCode"}


def _contained(index: Index, row: int, language: str | None, spelled: bool) -> dict[str, Any]:
    concept = index.concept(row)
    system, code = files.coding_of(concept.id)
    terms = fhir_lookup.terms_of(index, row) if language or spelled else []
    found = {"system": system, "code": code, "display": fhir_lookup.display_of(concept.name, terms, language)}
    if version := fhir_lookup.version_of(index, concept.id.partition(":")[0]):
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
