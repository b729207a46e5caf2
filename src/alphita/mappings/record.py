"""The record of a mapping: one target of one mention. Files, the command line and Python take their names from here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Dictionary
from dataclasses import MISSING, dataclass, fields, replace
from itertools import groupby, islice
from typing import Any, Literal

Method = Literal["exact", "abbreviation", "nearest", "nil", "reviewed"]
Decision = Literal["accept", "review", "nil"]
REVIEWED: Literal["reviewed"] = "reviewed"
# Joins the names of several targets, whose ids are joined by "|".
JOINT = " | "
Relation = Literal["exact", "broad", "narrow", "related"]
Status = Literal["unreviewed", "approved", "rejected", "flagged", "ignored"]
MappingType = Literal["maps_to", "maps_to_value", "maps_to_unit", "maps_to_operator", "maps_to_type", "maps_to_number"]


@dataclass(frozen=True, slots=True)
class OmopConcept:
    """What OMOP says of a concept, in the columns of its table CONCEPT; None where it says nothing.

    `standard_concept` is S, C or None (non-standard).
    """

    omop_concept_id: int
    concept_code: str | None = None
    vocabulary_id: str | None = None
    domain_id: str | None = None
    concept_class_id: str | None = None
    standard_concept: str | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """One target of one mention: a line of an output file; the fields are the columns, in every format.

    A mention has one mapping for each of its candidates or targets, next to one another. NIL is a mapping of rank 1
    without a concept; the nearest candidates may follow it.

    Attributes:
        row: 1-based number of the input row (a header is not counted).
        mention_code: the input's own code for the mention.
        mention: the input string, unchanged.
        frequency: how often the mention occurs, as the input says.
        rank: 1 for the answer, 2 and more for further candidates.
        concept_id: CURIE; None: no concept fits (NIL).
        concept_name: the concept's preferred term.
        omop_concept_id, concept_code, vocabulary_id, domain_id, concept_class_id, standard_concept: what OMOP says of
            the concept, see `OmopConcept`; None for concepts of other terminologies.
        matched_term: the concept's term that speaks for it, as the terminology writes it; given for NIL too, to show
            what was found too far away.
        similarity: cosine between mention (or its expansion) and matched term, -1 to 1; None without vectors.
        confidence: calibrated probability, 0 to 1, that the answer is right (for NIL: that no concept fits); None
            without calibration, and for candidates that are not the answer.
        decision: "accept", "review" or "nil"; "reviewed" where a person approved it; None without either.
        method: "exact" (equal after cleaning), "abbreviation" (by its expansion), "nearest", "nil" or "reviewed" (by
            what people had settled before).
        routes: the ways that found it, joined by `|`: exact, letters, vectors, abbreviation.
        relation: how the concept stands to the mention: "exact", "broad" (the concept is broader), "narrow" (the
            concept is narrower) or "related".
        scope: how the matched term stands to its concept: exact, narrow, broad or related.
        language: the matched term's language (BCP-47).
        source: where the matched term comes from.
        code: the matched term's code there.
        homonyms: ids of the other concepts that the matched term names, joined by `|`.
        expansion: what the mention was taken to stand for, if it is or holds an abbreviation.
        contradictions: in what mention and matched term contradict each other, joined by `|`, as "laterality: left
            against right".
        retired_concept: the retired concept whose term matched; `concept_id` is its replacement.
        nearest_id: for NIL, CURIE of the nearest concept, which is no answer.
        nearest_name: its preferred term.
        explanation: why this one, in one line; None unless asked for.
        status: what a person decided: "unreviewed", "approved", "rejected", "flagged" or "ignored".
        mapping_type: what the target gives of the mention, in OMOP's words: "maps_to", "maps_to_value", ...
        reviewer: who decided.
        reviewed_at: when, ISO 8601 with time zone.
        comment: theirs.
        mention_vocabulary: the vocabulary of `mention_code`, as the file that it was read from names it: a CURIE
            prefix, OMOP's vocabulary id, or a URI.
        extra: what that file says and no other field holds: a JSON object of texts by the file's own names, such as
            "ADD_INFO:ward" or "predicate_id".
    """

    row: int
    mention_code: str | None
    mention: str
    frequency: int | None
    rank: int
    concept_id: str | None
    concept_name: str | None
    omop_concept_id: int | None
    concept_code: str | None
    vocabulary_id: str | None
    domain_id: str | None
    concept_class_id: str | None
    standard_concept: str | None
    matched_term: str | None
    similarity: float | None
    confidence: float | None
    decision: str | None
    method: str
    routes: str | None
    relation: str | None
    scope: str | None
    language: str | None
    source: str | None
    code: str | None
    homonyms: str | None
    expansion: str | None
    contradictions: str | None
    retired_concept: str | None
    nearest_id: str | None = None
    nearest_name: str | None = None
    explanation: str | None = None
    status: str = "unreviewed"
    mapping_type: str = "maps_to"
    reviewer: str | None = None
    reviewed_at: str | None = None
    comment: str | None = None
    mention_vocabulary: str | None = None
    extra: str | None = None

    @property
    def extras(self) -> dict[str, str]:
        """What `extra` says, by name."""
        return json.loads(self.extra) if self.extra else {}

    def with_extras(self, extras: Dictionary[str, str]) -> Mapping:
        """Return the mapping with other extras; none are None."""
        return replace(self, extra=json.dumps(extras, ensure_ascii=False) if extras else None)


# What a person adds; not in the files that `normalize` writes as plain tables.
REVIEW = ("status", "mapping_type", "reviewer", "reviewed_at", "comment")
# What only files of mappings say, and answers never.
OF_FILES = ("mention_vocabulary", "extra")
COLUMNS = tuple(column.name for column in fields(Mapping))
# What a terminology says of a concept, not a mapping of its mention.
OMOP = tuple(column.name for column in fields(OmopConcept))
OTHERS = tuple(name for name in COLUMNS if name not in OMOP + OF_FILES)
_UNKNOWN: dict[str, Any] = {column.name: None for column in fields(Mapping) if column.default is MISSING}


def omop_cells(concept: OmopConcept | None) -> list[Any]:
    """Return the values of the columns `OMOP`, each None for a concept that OMOP does not have."""
    return [None] * len(OMOP) if concept is None else [getattr(concept, name) for name in OMOP]


def bare(row: int, code: str | None, mention: str, concept_id: str | None = None, /, **known: Any) -> Mapping:  # noqa: ANN401
    """Return the first mapping of a mention, of which no more is known than `known`, by the names of the fields."""
    method = "nil" if concept_id is None else "nearest"
    values = {
        "row": row,
        "mention_code": code,
        "mention": mention,
        "rank": 1,
        "concept_id": concept_id,
        "method": method,
    }
    return Mapping(**_UNKNOWN | values | {"decision": REVIEWED if known.get("status") == "approved" else None} | known)


def nearest(nil: Mapping) -> Mapping | None:
    """Return the nearest concept of a NIL as a candidate that follows it."""
    if nil.concept_id is not None or nil.nearest_id is None:
        return None
    known = {name: getattr(nil, name) for name in ("frequency", "matched_term", "similarity")}
    mention = (nil.row, nil.mention_code, nil.mention)
    return bare(*mention, nil.nearest_id, rank=2, concept_name=nil.nearest_name, **known)


def chunks(mappings: Iterable[Mapping], most: int) -> Iterator[list[Mapping]]:
    """Yield the mappings of at most `most` mentions together; none is cut in two."""
    mentions = (list(group) for _, group in groupby(mappings, key=lambda mapping: mapping.row))
    while chunk := [mapping for group in islice(mentions, most) for mapping in group]:
        yield chunk
