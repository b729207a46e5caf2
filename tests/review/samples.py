"""Projects, rows and decisions of a store for its tests, in few words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from alphita.mappings.record import Mapping, bare
from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore

TOE, FOOT, HAND = "HP:0000001", "HP:0000002", "HP:0000003"


def project(name: str = "codes", source: str = "LAB", **fields: Any) -> Project:
    values: dict[str, Any] = {"column": "text", "terminology": "t1", "release": "2026-01", "model": "m1"}
    return Project(name, source, **values | {"created_at": ""} | fields)


def candidate(concept: str | None = TOE, confidence: float | None = None, **fields: Any) -> Mapping:
    name = f"name of {concept}" if concept else None
    return bare(1, None, "", concept, **{"confidence": confidence, "concept_name": name} | fields)


def row(number: int, confidence: float | None = 0.5, frequency: int = 1, **fields: Any) -> ReviewRow:
    """Return a row whose answer is TOE, with FOOT behind it."""
    values: dict[str, Any] = {"code": f"c{number}", "mention": f"mention {number}"}
    values["candidates"] = (candidate(TOE, confidence), candidate(FOOT, rank=2))
    return ReviewRow(0, "", number, frequency=frequency, **values | fields)


def address(path: Path) -> str | Path:
    """Return where a store of a test is, by its file (see `conftest.each_database`)."""
    return path


def store(path: Path, rows: Iterable[ReviewRow] = (), **fields: Any) -> ReviewStore:
    """Return a store with the project "codes" of some rows; their ids count from 1."""
    made = ReviewStore.open(address(path / "reviews.sqlite"), create=True)
    made.add_project(project(**fields))
    made.add_rows("codes", rows)
    return made


def plan(reviews: ReviewStore, asked: Any, **values: Any) -> str:
    """Return how a database answers what is asked, if it does not sort or scan where it need not."""
    with reviews.database.reading() as connection:
        compiled = asked.compile(connection)
        known = {name: values.get(name, value) for name, value in compiled.params.items()}
        if compiled.positiontup is None:
            for way in ("seqscan", "sort", "hashjoin", "mergejoin"):
                connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
            found = connection.exec_driver_sql(f"EXPLAIN {compiled}", known)
        else:
            given = [json.dumps(one) if isinstance(one, list) else one for one in map(known.get, compiled.positiontup)]
            found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", tuple(given))
        return "\n".join(str(line[-1]) for line in found)


class Say:
    """Decides, with a uid of its own each time."""

    def __init__(self, reviews: ReviewStore, project: str = "codes") -> None:
        self.reviews, self.project, self.n = reviews, project, 0

    def __call__(
        self, reviewer: str, row: int, kind: str, concept: str | None = None, *, seen: int | None = None, **fields: Any
    ) -> Decision:
        self.n += 1
        concept = TOE if kind == "accept" and concept is None else concept
        made = Decision(f"{self.project} {self.n}", self.project, row, reviewer, kind, concept, **fields)
        return self.reviews.decide(made, seen=seen)

    def undo(self, reviewer: str) -> tuple[Decision, ...]:
        self.n += 1
        return self.reviews.undo(self.project, reviewer, f"{self.project} {self.n}")
