"""A service over a small index and a store with one project, asked as a reviewer behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.testclient import TestClient

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita.mappings.record import Mapping, bare
from alphita.review.records import Project, ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import app
from alphita.service.settings import Settings
from tests.answer.rich import RichTerminology
from tests.doubles import HashEncoder

HEADER, GROUPS = "X-User", "X-Groups"
# Everyone may do what a key without a role may, and administrators all.
RIGHTS = """
["*"]
rights = ["read", "review", "adjudicate"]
[administrators]
rights = ["read", "review", "adjudicate", "administer", "metrics"]
[monitors]
rights = ["metrics"]
"""
# code, mention, frequency, concepts of the candidates, confidence of the answer
LINES: list[tuple[str, str, int, list[str | None], float | None]] = [
    ("L1", "headach", 10, ["AX:2", "AX:3"], 0.9),
    ("L2", "fevr", 4, ["AX:4"], 0.6),
    ("L3", "<script>alert(1)</script>", 1, [None], 0.95),
    ("", "dulorin", 2, ["BX:2", "BX:3"], 0.7),
]
NAMES = {
    "AX:2": "Ache of the head",
    "AX:3": "Ache of the left side of the head",
    "AX:4": "Fever",
    "BX:2": "Dulorin",
    "BX:3": "Dulorin 50 mg tablet",
}


def mapping(row: int, rank: int, concept: str | None, **fields: Any) -> Mapping:
    known = {"rank": rank, "concept_name": NAMES.get(concept or ""), "relation": "exact" if concept else None}
    return bare(row, None, "", concept, **known | fields)


def rows_of(lines=LINES) -> list[ReviewRow]:
    found = []
    for number, (code, mention, frequency, concepts, confidence) in enumerate(lines, 1):
        candidates = tuple(
            mapping(
                number,
                rank,
                concept,
                mention=mention,
                mention_code=code or None,
                frequency=frequency,
                confidence=confidence if rank == 1 else None,
                similarity=0.5,
            )
            for rank, concept in enumerate(concepts, 1)
        )
        found.append(ReviewRow(0, "", number, code, mention, frequency, {"ward": "B"}, candidates))
    return found


@dataclass
class Service:
    """An app with its parts."""

    app: FastAPI
    store: ReviewStore
    index: Index

    def as_(self, reviewer: str = "ann", groups: str = "") -> TestClient:
        """Return a client that asks as a reviewer, who may be an administrator."""
        return TestClient(self.app, headers={HEADER: reviewer, GROUPS: groups}, client=("127.0.0.1", 50_000))

    def ids(self, project: str = "lab") -> list[int]:
        """Return the ids of a project's rows, in the order of the input."""
        return [one.row.id for one in self.store.queue(project, order="row", state="all")[1]]


def index_of(folder: Path) -> Index:
    return build(RichTerminology(), HashEncoder(), folder / "rich.index")


def service(
    folder: Path,
    index: Index,
    *,
    source: str = "LAB",
    lines=LINES,
    blind: bool = True,
    rights: str = RIGHTS,
    **settings: Any,
) -> Service:
    store = ReviewStore.open(folder / "reviews.sqlite", create=True, timeout=0.2)
    store.add_project(Project("lab", source, "text", "t", "AX 1", "m", "", blind))
    store.add_rows("lab", rows_of(lines))
    (folder / "rights.toml").write_text(rights)
    known = {"trust_user_header": HEADER, "trust_groups_header": GROUPS, "rights": folder / "rights.toml"}
    made = app.create(Settings(rate=0, **known, **settings), Normalizer(index, encoder=HashEncoder()), store)
    return Service(made, store, index)


HERE = "http://127.0.0.1:8080"


@contextmanager
def client_of(
    normalizer: Normalizer,
    *,
    store: Any = None,
    terminology: Any = None,
    further: Any = (),
    reopen: Any = None,
    peer: str = "127.0.0.1",
    **settings: Any,
) -> Iterator[TestClient]:
    """Give a client of a new app that has started."""
    made = app.create(Settings(**settings), normalizer, store, terminology, further, reopen)
    with TestClient(made, base_url=HERE, client=(peer, 40_000), raise_server_exceptions=False) as client:
        yield client


def code_of(response: Any) -> str:
    """Return the code of an error, whose body has the one shape."""
    content = response.json()
    assert list(content) == ["error"]
    assert list(content["error"]) == ["code", "message", "field"]
    assert response.headers["content-type"] == "application/json"
    return content["error"]["code"]
