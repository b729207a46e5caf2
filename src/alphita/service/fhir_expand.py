"""$expand by FHIR: all codes of a system, or those that a text finds.

Specification, of R4 and the same of R5: http://hl7.org/fhir/R4/valueset-operation-expand.html. How a filter finds codes
is left to the server: here each of its words begins a word of the same name of the concept, or it is the code.
"""

from __future__ import annotations

import functools
import unicodedata
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita import clock
from alphita.index.store import Index
from alphita.review import files
from alphita.service.failures import Fault
from alphita.service.fhir_codes import display_of, is_own, prefix_of, rows_of, system_of, terms_of, version_of
from alphita.service.fhir_parameters import MEMBERS, Values, one, types_of
from alphita.terminology.text import clean_many, strip_accents

EXPAND = types_of(
    "url:uri valueSetVersion:string filter:string offset:integer count:integer date:dateTime displayLanguage:code "
    "includeDesignations:boolean activeOnly:boolean excludeNested:boolean excludeNotForUI:boolean"
)
# Those that an answer follows, and says that it does.
FOLLOWED = ("filter", "offset", "count", "displayLanguage", "includeDesignations", "activeOnly")
# Codes of one answer.
MAX_CODES = 1_000
# Characters of a filter, and filters whose codes are kept for the next page.
MAX_FILTER, KEPT = 1_000, 16
# Letters, digits and the marks on them are parts of words; from U+2E80 on, there are no spaces between words.
PARTS = "LNM"
_BEGINNING = r"(?:^|[^\p{L}\p{N}\p{M}])"
UNSPACED = "\u2e80"


def expand(index: Index, values: Values) -> dict[str, Any]:
    """Return the ValueSet with its expansion, or a page of it."""
    url = one(values, "url")
    if url is None:
        raise Fault("required", "'url' says of which value set: the system's URI with ?fhir_vs")
    system = system_of(index, url)
    offset, count, text = one(values, "offset") or 0, one(values, "count"), one(values, "filter")
    if count is not None and count > MAX_CODES:
        raise Fault(
            "too-costly", f"this service gives at most {MAX_CODES:,} codes at once: 'count' and 'offset' part them"
        )
    if text is not None and len(text) > MAX_FILTER:
        raise Fault("too-long", f"'filter' may have {MAX_FILTER:,} characters at most")
    rows = rows_of(index)[str(prefix_of(index, system))] if text is None else matching(index, system, text)
    if text is None and count is None and len(rows) - offset > MAX_CODES:
        raise Fault("too-costly", f"{len(rows):,} codes are too many for one answer: give 'filter', or 'count'")
    page = rows[offset : offset + (MAX_CODES if count is None else count)]
    expansion: dict[str, Any] = {
        "identifier": f"urn:uuid:{uuid.uuid4()}",
        "timestamp": clock.now().isoformat(timespec="seconds"),
        "total": len(rows),
    }
    if "offset" in values or "count" in values or len(page) < len(rows):
        expansion["offset"] = offset
    # FHIR has no empty list.
    if said := [{"name": name, MEMBERS[EXPAND[name]][0]: one(values, name)} for name in FOLLOWED if name in values]:
        expansion["parameter"] = said
    language, spelled = one(values, "displayLanguage"), bool(one(values, "includeDesignations"))
    if contains := [_contained(index, int(row), language, spelled) for row in page]:
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


@functools.lru_cache(maxsize=KEPT)
def matching(index: Index, system: str, text: str) -> NDArray[np.int64]:
    """Return the rows of the concepts of a system that a filter finds: by code, then by the names that fit best.

    A name fits best if it is the filter, then if it begins with it; then the shortest.
    """
    cleaned = clean_many([text], index.rules)[0]
    strings = _with_words(index, cleaned)
    segment, names = index.segment, index.strings.array.take(pa.array(strings))
    best_first = np.lexsort((strings, pc.utf8_length(names), ~_flags(pc.starts_with(names, cleaned))))
    starts, ends = segment.offsets[strings[best_first]], segment.offsets[strings[best_first] + 1]
    # The terms of the first string, of the second, and so on.
    counts = ends - starts
    terms = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    # Its own names: not those of other vocabularies, nor of what it replaces.
    own = ~segment.borrowed[terms]
    if "retired_concept" in segment.terms.column_names:
        own &= segment.terms.column("retired_concept").take(pa.array(terms)).is_null().to_numpy()
    concepts = segment.term_concept[terms[own]].astype(np.int64)
    concepts = concepts[np.isin(concepts, rows_of(index)[str(prefix_of(index, system))])]
    found = np.concatenate([_coded(index, system, text.strip()), concepts])
    return found[np.sort(np.unique(found, return_index=True)[1])]


def _coded(index: Index, system: str, text: str) -> NDArray[np.int64]:
    """Return the row of the concept of which this is the code, or its part behind the prefix."""
    prefix = prefix_of(index, system)
    codes = dict.fromkeys((text, text.upper()))
    spelled = [curie for code in codes for curie in (files.curie_of(system, code), f"{prefix}:{code}", code)]
    known = [curie for curie in spelled if curie is not None]
    found = zip(known, index.concept_rows(known).tolist(), strict=True)
    own = [row for curie, row in found if row >= 0 and is_own(index.concept(row).id, curie)]
    return np.array([row for row in own if row in rows_of(index)[str(prefix)]][:1], np.int64)


def _with_words(index: Index, cleaned: str) -> NDArray[np.int64]:
    """Return the rows of the strings in which each word of a text begins a word; accents do not count."""
    spaced = "".join(sign if unicodedata.category(sign)[0] in PARTS else " " for sign in strip_accents(cleaned))
    words = sorted({*spaced.split()}, key=len, reverse=True)
    rows, strings = np.arange(len(index) if words else 0), _without_accents(index)
    for place, word in enumerate(words):
        # The whole of the strings is searched for letters alone, which is fast.
        fits = pc.match_substring(strings if place == 0 else strings.take(pa.array(rows)), word)
        rows = rows[_flags(fits)]
        start = "" if word[0] >= UNSPACED else _BEGINNING
        fits = pc.match_substring_regex(strings.take(pa.array(rows)), start + word)
        rows = rows[_flags(fits)]
    return rows


@functools.lru_cache(maxsize=1)
def _without_accents(index: Index) -> pa.Array:
    """Return the strings of an index without accents."""
    strings = index.strings.array
    marked = np.flatnonzero(~_flags(pc.string_is_ascii(strings)))
    bare = pa.array(list(map(strip_accents, strings.take(pa.array(marked)).to_pylist())), strings.type)
    mask = np.zeros(len(strings), bool)
    mask[marked] = True
    return pc.replace_with_mask(strings, pa.array(mask), bare)


def _flags(found: pa.BooleanArray) -> NDArray[np.bool_]:
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)
