"""One concept, as a person looks at it: made when asked for, from the mapped columns."""

from __future__ import annotations

from dataclasses import dataclass

# What OMOP says of a concept: a property, the predicate of an xref, the code of a semantic type.
STANDARD, MAPS_TO, DOMAIN = "standard_concept", "OMOP:maps_to", "domain_id"


@dataclass(frozen=True)
class Term:
    """One string that names a concept; the fields are those of `Terminology.terms`."""

    string: str
    language: str
    scope: str
    preferred: bool
    type: str | None
    status: str
    source: str
    code: str | None
    term_type: str | None
    reference: str | None


@dataclass(frozen=True)
class Definition:
    """One definition of a concept, with where the source took it from."""

    text: str
    language: str
    source: str
    reference: str | None


@dataclass(frozen=True)
class Concept:
    """All that a terminology knows of one concept.

    Attributes:
        id: CURIE.
        row: its row; of no use outside the folder it was read from.
        name: the preferred term.
        source: prefix of the terminology it comes from.
        retired: no longer to be used.
        terms: all terms, the preferred one first.
        definitions: of all sources and languages.
        semantic_types: names of its categories.
        parents: CURIEs.
        children: CURIEs.
        relations: (label, CURIE of the tail) of every triple with this concept as head, parents included.
        xrefs: (predicate, CURIE in another terminology).
        alt_ids: other ids it answers to.
        replaced_by: what to use instead of it, if retired.
        consider: what to look at instead of it, if retired.
        properties: (name, value): subset, comment, level, ...
    """

    id: str
    row: int
    name: str
    source: str
    retired: bool
    terms: list[Term]
    definitions: list[Definition]
    semantic_types: list[str]
    parents: list[str]
    children: list[str]
    relations: list[tuple[str, str]]
    xrefs: list[tuple[str, str]]
    alt_ids: list[str]
    replaced_by: list[str]
    consider: list[str]
    properties: list[tuple[str, str]]
