"""CURIE prefixes: one table (prefixes.tsv) maps prefix, URI, FHIR system and OMOP vocabulary id.

A blank cell means that the value is not known for certain, never that it does not exist.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from alphita import textio

# DOID and SYMP date their references: SNOMEDCT_US_2016_03_01, ICD9CM_2005.
_DATED = re.compile(r"(.+?)_(?:19|20)\d\d(?:_\d\d){0,2}")
# http and https, with and without www, are one address to those who write URIs.
_SCHEME = re.compile(r"https?://(?:www\.)?")
# The last underscore parts prefix and local id, for prefixes may have some: APOLLO_SV_00000032.
_OBO = re.compile(r"purl\.obolibrary\.org/obo/([A-Za-z]+(?:_[A-Za-z]+)*)_([^_]+)")
# They give ids of any terminology a URI: identifiers.org/mesh/D003920 or identifiers.org/mesh:D003920, and BioPortal.
_RESOLVER = re.compile(r"(?:identifiers\.org|purl\.bioontology\.org/ontology)/([^/:]+)[/:](.+)")


@dataclass(frozen=True)
class Prefix:
    """One row of the table."""

    prefix: str
    name: str
    uri: str
    fhir_system: str
    omop_vocabulary_id: str
    aliases: tuple[str, ...]


@functools.cache
def table() -> dict[str, Prefix]:
    """Return the table, by prefix."""
    rows = textio.packaged(__package__, "prefixes.tsv")
    return {row["prefix"]: Prefix(**row | {"aliases": tuple(filter(None, row["aliases"].split("|")))}) for row in rows}  # type: ignore[arg-type]


def omop_vocabulary(prefix: str) -> str:
    """Return OMOP's vocabulary id of a prefix; a prefix that the table does not know is one itself."""
    row = table().get(prefix)
    return row.omop_vocabulary_id or prefix if row else prefix


@functools.cache
def _spellings() -> dict[str, str]:
    return {spelling.lower(): row.prefix for row in table().values() for spelling in (row.prefix, *row.aliases)}


@functools.cache
def _uris() -> list[tuple[str, str]]:
    namespaces = [(_SCHEME.sub("", row.uri, count=1), row.prefix) for row in table().values() if row.uri]
    return sorted(namespaces, key=lambda pair: -len(pair[0]))


@functools.lru_cache(maxsize=4096)
def canonical(prefix: str) -> str:
    """Return the table's spelling of a prefix ("MSH" -> "MESH"); one that it does not know stays as it is."""
    spelling = prefix.strip().lower()
    prefix_of = _spellings().get(spelling)
    if prefix_of is None and (dated := _DATED.fullmatch(spelling)):
        prefix_of = _spellings().get(dated[1])
    return prefix_of or prefix.strip()


def parse_curie(curie: str) -> tuple[str, str] | None:
    """Split "HP:0001250" into ("HP", "0001250"), the prefix in the table's spelling; None if it is no CURIE."""
    prefix, colon, local = curie.partition(":")
    if not colon or not prefix or not local or local.startswith("//") or prefix.isspace():
        return None
    return canonical(prefix), local


def normalize(identifier: str) -> str:
    """Return an id as the CURIE Alphita writes: aliases and known URIs resolved; anything else unchanged."""
    identifier = identifier.strip()
    if "://" in identifier:
        return contract(identifier) or identifier
    parsed = parse_curie(identifier)
    return f"{parsed[0]}:{parsed[1]}" if parsed else identifier


def expand(curie: str) -> str | None:
    """Return the URI of a CURIE, or None where its prefix has none in the table."""
    parsed = parse_curie(curie)
    row = table().get(parsed[0]) if parsed else None
    return row.uri + parsed[1] if row and row.uri and parsed else None


def contract(uri: str) -> str | None:
    """Return the CURIE of a URI, or None where its prefix is not known."""
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return None
    rest = uri[scheme.end() :]
    if obo := _OBO.fullmatch(rest):
        return f"{canonical(obo[1])}:{obo[2]}"
    for start, prefix in _uris():
        if rest.startswith(start) and len(rest) > len(start):
            return f"{prefix}:{rest[len(start) :]}"
    match = _RESOLVER.fullmatch(rest)
    if match is None or (prefix := canonical(match[1])) not in table():
        return None
    return f"{prefix}:{match[2].removeprefix(f'{prefix}:')}"
