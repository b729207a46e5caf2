"""What the review API takes and gives: bodies of requests, and the store's records as JSON.

Mentions, names and comments go out as they are, as JSON strings: to show them as text is the page's part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from alphita.index.store import Index
from alphita.mappings.record import Mapping, Relation
from alphita.review.records import Decision, Order, Project, Standing
from alphita.service.concepts import find
from alphita.terminology.store import Terminology

Uid = Annotated[
    str, Field(min_length=1, max_length=100, description="chosen by the client; a repeated uid counts once")
]
Comment = Annotated[str, Field(max_length=10_000)]
# SQLite's largest integer.
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]
ConceptId = Annotated[str, Field(min_length=1, max_length=1_000)]
ANSWER = ("concept_id", "concept_name", "matched_term", "similarity", "confidence", "decision", "relation")
CONCEPTS_KEPT = 10_000


def _like(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class Deciding(BaseModel):
    """One decision."""

    model_config = _like({"uid": "5e1c", "kind": "choose", "concept_id": "HP:0001250", "relation": "exact", "seen": 0})

    uid: Uid
    kind: Literal["accept", "choose", "nil", "reject", "skip", "flag"]
    concept_id: ConceptId | None = None
    relation: Relation | None = None
    comment: Comment = ""
    seen: Number = Field(description="id of your newest decision that the page has loaded; 0: none")
    order: Order = Field("risk", description="order of the queue, for `next`")


class Undoing(BaseModel):
    """Taking back the newest decision, or a whole bulk action."""

    model_config = _like({"uid": "77ab"})

    uid: Uid


class Accepting(BaseModel):
    """Accepting in bulk."""

    model_config = _like({"uid": "a0f3", "threshold": 0.95, "preview": True})

    uid: Uid
    threshold: float = Field(ge=0.0, le=1.0, allow_inf_nan=False, description="minimum confidence")
    types: list[str] = Field([], max_length=1_000, description="semantic types; none: all")
    preview: bool = Field(False, description="only count, and accept nothing")


class Settling(BaseModel):
    """Settling a row on which reviewers disagree."""

    model_config = _like({"uid": "91d0", "concept_id": "HP:0001250", "relation": "exact"})

    uid: Uid
    concept_id: ConceptId | None = Field(None, description="null: no concept fits")
    relation: Relation | None = None
    comment: Comment = ""
    seen: Number | None = Field(None, description="id of the row's newest decision that the page has loaded")


def project_json(project: Project) -> dict[str, Any]:
    """Return a project as JSON has it."""
    return asdict(project)


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON has it."""
    return asdict(decision) | {"shown": list(decision.shown)}


def standing_json(standing: Standing, reviewer: str) -> dict[str, Any]:
    """Return a row of the queue as JSON has it, for one reviewer."""
    row = standing.row
    mine = next((decision for decision in standing.decisions if decision.reviewer == reviewer), None)
    answer = row.candidates[0] if row.candidates else None
    return {
        "id": row.id,
        "number": row.number,
        "code": row.code,
        "mention": row.mention,
        "frequency": row.frequency,
        "context": row.context,
        "types": list(row.types),
        "risk": row.risk,
        "state": standing.state,
        "settled": standing.settled,
        "concept_id": standing.concept_id,
        "mine": decision_json(mine) if mine is not None else None,
        "answer": {name: getattr(answer, name) for name in ANSWER} if answer is not None else None,
    }


def detail_json(
    standing: Standing, reviewer: str, newest: Decision | None, shown: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a row with all that is known of it."""
    return standing_json(standing, reviewer) | {
        "candidates": [_candidate(candidate, shown) for candidate in standing.row.candidates],
        "decisions": [decision_json(decision) for decision in standing.decisions],
        "newest": newest.id if newest is not None else 0,
    }


def concepts(index: Index, terminology: Terminology | None) -> Callable[[str], dict[str, Any]]:
    """Return what looks up definition, parents, synonyms and types of a concept; empty for one that nobody knows."""

    @lru_cache(CONCEPTS_KEPT)
    def shown(concept_id: str) -> dict[str, Any]:
        concept = find(concept_id, index, terminology) if concept_id else None
        if concept is None:
            return {"definition": None, "parents": [], "synonyms": [], "types": []}
        strings = [synonym.string for synonym in concept.synonyms if synonym.string != concept.name]
        return {
            "definition": concept.definition,
            "parents": [parent.model_dump() for parent in concept.parents],
            "synonyms": list(dict.fromkeys(strings)),
            "types": concept.types,
        }

    return shown


def _candidate(mapping: Mapping, shown: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return asdict(mapping) | shown(mapping.concept_id or "")
