"""Concepts and local codes as FHIR codes them: CURIE to system and code, and back.

A source whose URI nobody has said has the system `urn:alphita:source:NAME`, and such a CURIE prefix
`urn:alphita:terminology:NAME`.
"""

from __future__ import annotations

import functools
import re
from urllib.parse import quote, unquote

from alphita.errors import UsageError
from alphita.mappings.formats import Header, _curies
from alphita.terminology import prefixes

SOURCE, TERMINOLOGY = "urn:alphita:source:", "urn:alphita:terminology:"
_PLAIN = Header()
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s]+")


def source_system(source: str) -> str:
    """Return the URI of a source's codes: itself if it is one, that of a known terminology, or one made of its name."""
    known = prefixes.table().get(prefixes.canonical(source))
    if known is not None and (known.fhir_system or known.uri):
        return known.fhir_system or known.uri
    return source if _URI.fullmatch(source) else SOURCE + quote(source, safe="")


def system_of(prefix: str) -> str:
    """Return the FHIR system of a CURIE prefix."""
    try:
        return _curies.fhir_system(_PLAIN, prefix)
    except UsageError:
        return TERMINOLOGY + quote(prefix, safe="")


@functools.lru_cache(100_000)
def coding_of(curie: str) -> tuple[str, str]:
    """Return system and code of a concept."""
    return system_of(curie.partition(":")[0]), _curies.fhir_code(curie)


def curie_of(system: str, code: str) -> str | None:
    """Return the concept that a code of a system means, or None for a system that no prefix is known for."""
    if system.startswith(TERMINOLOGY):
        return f"{unquote(system.removeprefix(TERMINOLOGY))}:{code}"
    return _curies.from_fhir(_PLAIN, system, code)
