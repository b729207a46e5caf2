"""The prefixes that a header declares, over those of `terminology/prefixes.tsv`."""

from __future__ import annotations

import functools
import hashlib
import re
import uuid
from collections.abc import Iterable
from urllib.parse import quote, unquote

from alphita.errors import UsageError
from alphita.mappings.formats import Header
from alphita.terminology import prefixes

# FHIR systems whose codes are whole CURIEs ("HP:0001250"); those of NCIT, of OBO as well, are local ids ("C3262").
CODED_BY_CURIES = ("http://human-phenotype-ontology.org",)
# The system of codes whose vocabulary nobody has given a URI.
SOURCE = "urn:alphita:source:"
# Of XML's names without a colon, as CURIEs want.
PREFIX = re.compile(r"[^\W\d][\w.-]*")


def prefixes_of(texts: Iterable[str] | None) -> dict[str, str]:
    """Return name -> URI of texts "NAME=URI"."""
    declared = {}
    for text in texts or ():
        name, equals, uri = text.partition("=")
        if not equals or not name or ":" not in uri:
            raise UsageError(f"--prefix {text!r} is not of the form LOCAL=https://example.org/codes/")
        if not PREFIX.fullmatch(name):
            raise UsageError(
                f"--prefix {text!r}: {name!r} can be no CURIE's prefix; take letters, digits, '.', '_' and '-', "
                "the first one a letter or '_'"
            )
        declared[name] = uri
    return declared


def uri(header: Header, prefix: str) -> str:
    """Return what a prefix stands for."""
    known = prefixes.table().get(prefixes.canonical(prefix))
    declared = header.prefixes.get(prefix) or header.curies.get(prefix) or (known.uri if known else "")
    if not declared:
        raise UsageError(
            f"the CURIE prefix {prefix!r} has no declared URI; declare it: --prefix {prefix}=https://example.org/"
        )
    return declared


def made_id(content: bytes) -> str:
    """Return the id of a set of mappings that nobody has named, made of its content."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(content).hexdigest())}"


def is_known(prefix: str, uri: str) -> bool:
    """Tell whether a prefix has this URI in `terminology/prefixes.tsv`."""
    known = prefixes.table().get(prefix)
    return known is not None and known.uri == uri


def prefix_of(header: Header, vocabulary: str) -> str:
    """Return the CURIE prefix of a vocabulary, by its name or URI; "" if it can have none."""
    if ":" not in vocabulary:
        name = prefixes.canonical(vocabulary)
        return name if PREFIX.fullmatch(name) else ""
    declared = {**header.curies, **header.prefixes}
    return next((name for name, uri in declared.items() if uri == vocabulary), _systems().get(vocabulary, ""))


def subject_uri(header: Header, prefix: str) -> str:
    """Return what the prefix of a mention's code stands for; one made of its name if nobody has declared it."""
    try:
        return uri(header, prefix)
    except UsageError:
        return f"{SOURCE}{quote(prefix, safe='')}:"


def local_code(prefix: str, code: str) -> str:
    """Return a code without the prefix of its vocabulary, which some write before it."""
    return code.removeprefix(f"{prefix}:") or code


def source_system(header: Header, vocabulary: str | None) -> str:
    """Return the FHIR system of a mention's code: what the header says, or else that of its vocabulary."""
    if header.source_system:
        return header.source_system
    vocabulary = header.source_vocabulary or vocabulary
    if not vocabulary or ":" in vocabulary:
        return vocabulary or ""
    try:
        return fhir_system(header, vocabulary)
    except UsageError:
        return SOURCE + quote(vocabulary, safe="")


def vocabulary_of(header: Header, system: str) -> str | None:
    """Return the vocabulary of the codes of a FHIR system: a CURIE prefix if one is known, or else the system."""
    if system == header.source_system and header.source_vocabulary:
        return header.source_vocabulary
    declared = next((name for name, uri in header.prefixes.items() if uri == system), _systems().get(system))
    return declared or (unquote(system.removeprefix(SOURCE)) if system.startswith(SOURCE) else system) or None


def fhir_system(header: Header, prefix: str) -> str:
    """Return the FHIR system of a prefix: its declared URI, the system FHIR knows it by, or else its URI."""
    known = prefixes.table().get(prefixes.canonical(prefix))
    return header.prefixes.get(prefix) or (known.fhir_system if known else "") or uri(header, prefix)


def fhir_code(curie: str) -> str:
    """Return the code of a concept in its FHIR system: the local id, or the CURIE where that is the code."""
    prefix, _, local = curie.partition(":")
    known = prefixes.table().get(prefixes.canonical(prefix))
    return curie if known and known.fhir_system in CODED_BY_CURIES else local


def from_fhir(header: Header, system: str, code: str) -> str | None:
    """Return the CURIE of a code in a FHIR system, or None if no prefix is known for the system."""
    prefix = next((name for name, declared in header.prefixes.items() if declared == system), _systems().get(system))
    if not system or prefix is None:
        return None
    return code if code.startswith(f"{prefix}:") else f"{prefix}:{code}"


@functools.cache
def _systems() -> dict[str, str]:
    """Return the prefix of each FHIR system, and of each URI that stands for one."""
    rows = list(prefixes.table().values())
    uris = {row.uri: row.prefix for row in rows if row.uri}
    return uris | {row.fhir_system: row.prefix for row in rows if row.fhir_system}
