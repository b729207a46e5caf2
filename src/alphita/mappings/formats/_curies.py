"""The prefixes that a header declares, over those of `terminology/prefixes.tsv`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from alphita.errors import UsageError
from alphita.mappings.formats import Header
from alphita.terminology import prefixes

# FHIR systems whose codes are whole CURIEs ("HP:0001250"); those of NCIT, of OBO as well, are local ids ("C3262").
CODED_BY_CURIES = ("http://human-phenotype-ontology.org",)
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
    declared = header.prefixes.get(prefix) or (known.uri if known else "")
    if not declared:
        raise UsageError(
            f"the CURIE prefix {prefix!r} has no declared URI; declare it: --prefix {prefix}=https://example.org/"
        )
    return declared


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
