"""A small store of reviews for tests, made and decided in few words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from alphita.mappings.record import Mapping, bare
from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore
from tests.review import samples

_numbers = itertools.count()


def candidate(
    concept: str | None, term: str, name: str = "", confidence: float | None = None, rank: int = 1
) -> Mapping:
    """Return a candidate with little said of it."""
    known = {"concept_name": name or term, "matched_term": term, "confidence": confidence, "relation": "exact"}
    return bare(1, None, "", concept, rank=rank, method="nearest", **known)


def row(mention: str, *candidates: Mapping, number: int = 1, frequency: int = 1, code: str = "") -> ReviewRow:
    """Return a row of the project "p"."""
    return ReviewRow(0, "p", number, code, mention, frequency, {}, candidates)


def store_of(
    path: Path, rows: Sequence[ReviewRow], release: str, name: str = "p", *, blind: bool = False
) -> ReviewStore:
    """Return a store with one project; its rows have the ids 1, 2, ..."""
    store = ReviewStore.open(samples.address(path), create=True)
    add(store, rows, release, name, blind=blind)
    return store


def add(store: ReviewStore, rows: Sequence[ReviewRow], release: str, name: str, *, blind: bool = False) -> None:
    """Add a project."""
    store.add_project(Project(name, "LAB", "description", release, "one", "m", "", blind))
    store.add_rows(name, rows)


def say(
    store: ReviewStore, number: int, kind: str, concept: str | None = None, reviewer: str = "ana", **more: str
) -> Decision:
    """Decide about the row with this id."""
    project = store.row(number).project
    uid = f"u{next(_numbers)}"
    return store.decide(Decision(uid, project, number, reviewer, kind, concept, **more))  # type: ignore[arg-type]


def decisions(store: ReviewStore, project: str = "p") -> list[Decision]:
    """Return all of them, oldest first."""
    return list(store.history(project))
