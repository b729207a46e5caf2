"""The real service over a real store of made-up rows, for the page's tests, with faults on demand."""

from __future__ import annotations

import functools
import hashlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita.mappings.record import Mapping, bare
from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import keys
from alphita.service.app import create
from alphita.service.settings import Settings
from tests.answer.synthetic import quick_fit
from tests.doubles import HashEncoder, SmallTerminology

SITES = ("ear", "skin", "stomach", "knee", "heart", "kidney", "eye", "lung", "throat", "shoulder")
FINDINGS = ("pain", "swelling", "bleeding", "inflammation", "numbness")
SIGNS = ("pain", "numbness")
WARDS = ("emergency", "surgery", "paediatrics", "outpatients")
# CURIE -> site and finding.
CONCEPTS = {
    f"T:{10 * place + number:07d}": (site, finding)
    for place, site in enumerate(SITES)
    for number, finding in enumerate(FINDINGS)
}


class _Findings(SmallTerminology):
    def __init__(self) -> None:
        names = ("{1} of the {0}", "{0} {1}", "{0} with {1}", "{1}, {0}", "{1} in the {0}", "{0} has {1}")
        super().__init__([(one, name.format(*parts), "exact") for one, parts in CONCEPTS.items() for name in names])

    def side_table(self, name: str) -> pa.Table:
        concept = list(range(len(CONCEPTS)))
        if name == "definitions":
            text = [f"A {finding} that lasts longer than an hour." for _, finding in CONCEPTS.values()]
            return pa.table({"concept": concept, "text": text})
        if name == "semantic_types":
            types = ["Sign" if finding in SIGNS else "Finding" for _, finding in CONCEPTS.values()]
            return pa.table({"concept": concept, "semantic_type": types, "code": pa.nulls(len(types), pa.string())})
        return pa.table({})


@functools.cache
def _normalizer(*, calibrated: bool) -> Normalizer:
    folder = Path(tempfile.mkdtemp(prefix="alphita-page-"))
    encoder = HashEncoder()
    index: Index = build(_Findings(), encoder, folder / "findings.index")
    return Normalizer(index, encoder=encoder, calibration=quick_fit(index, encoder) if calibrated else None)


def _row(number: int) -> ReviewRow:
    drawn = int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:4], "big")
    ids = list(CONCEPTS)
    site, finding = CONCEPTS[ids[drawn % len(ids)]]
    written = (f"{site} {finding}", f"{finding[:4]}. {site}", f"lt {site} {finding} ++", f"? {finding} {site}")
    mention = f"{written[drawn // 64 % 4]} {number}"
    if number == 1:
        mention = "<img src=x onerror=document.title='hacked'> & co"
    confidence = 0.3 + 0.69 * (drawn // 512 % 1000) / 1000
    frequency, code = 1 + drawn // 4096 % 400, f"LAB-{number:05d}"
    nil = drawn % 17 == 0
    candidates: list[Mapping] = []
    for place, step in enumerate((0, 1, 7, 23, 31)):
        concept = ids[(drawn + step) % len(ids)]
        known = {"rank": place + 1, "similarity": 0.93 - 0.07 * place, "frequency": frequency, "method": "nearest"}
        if place == 0:
            known |= {"confidence": confidence, "decision": "accept" if confidence > 0.9 else "review"}
        if place == 1 and mention.startswith("lt"):
            known["contradictions"] = "laterality: left against right"
        if place == 0 and nil:
            candidates.append(bare(number, code, mention, **known | {"method": "nil", "decision": "nil"}))
            continue
        at, what = CONCEPTS[concept]
        known |= {"concept_name": f"{what} of the {at}", "matched_term": f"{at} {what}"}
        candidates.append(bare(number, code, mention, concept, relation="exact", routes="letters|vectors", **known))
    context = {"ward": WARDS[drawn % 4], "note": "as written by the nurse"} | (
        {} if drawn % 3 else {"unit": "day surgery"}
    )
    types = () if nil else ("Sign" if finding in SIGNS else "Finding",)
    return ReviewRow(0, "lab", number, code, mention, frequency, context, tuple(candidates), types)


class PageService:
    """A service with one project, "lab".

    Attributes:
        failing: statuses that the next posts get instead of an answer; 0 does what is asked for and answers 503.
        paged: where the pages of rows that were asked for begin.
        table: the rows, riskiest first.
    """

    def __init__(
        self, rows: int = 40, *, keys: dict[str, str] | None = None, calibrated: bool = True, failing: tuple = ()
    ) -> None:
        folder = Path(tempfile.mkdtemp(prefix="alphita-page-"))
        self.failing, self.paged = list(failing), list[int]()
        self.store = ReviewStore.open(folder / "reviews.sqlite", create=True)
        self.store.add_project(
            Project("lab", "LAB", "description", "t", "made up", "m", ""), map(_row, range(1, rows + 1))
        )
        self.table = [one.row for one in self.store.queue("lab", state="all", limit=rows)[1]]
        self.row_of = {row.id: row for row in self.table}
        self._keys = folder / "keys.tsv" if keys else None
        if keys:
            self._write(keys)
        settings = Settings(keys=self._keys, rate=0)
        self._app = create(settings, _normalizer(calibrated=calibrated), self.store)

    def _write(self, known: dict[str, str]) -> None:
        assert self._keys is not None
        self._keys.write_text("".join(f"{name}\t{keys.digest(key)}\n" for key, name in known.items()))

    def allow(self, known: dict[str, str]) -> None:
        """Let those ask from now on who have these keys; reviewers by key."""
        self._write(known)
        self._app.state.reload()

    @property
    def decisions(self) -> list[Decision]:
        """All decisions and undos, oldest first."""
        return list(self.store.history("lab"))

    def in_force(self, row: int) -> dict[str, str]:
        """Return the kind of the decision in force of each reviewer; an adjudication stands under ""."""
        decisions = self.store.standing(row).decisions
        return {"" if decision.kind == "adjudicate" else decision.reviewer: decision.kind for decision in decisions}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or fail as the test wants it."""
        if scope["type"] == "http" and scope["path"].endswith("/rows"):
            query = dict(pair.split("=", 1) for pair in scope["query_string"].decode().split("&") if "=" in pair)
            self.paged.append(int(query.get("offset", 0)))
        if scope["type"] != "http" or scope["method"] != "POST" or not self.failing:
            await self._app(scope, receive, send)
            return
        status = self.failing.pop(0)
        if not status:

            async def lost(message: Message) -> None:
                """Drop the answer."""

            await self._app(scope, receive, lost)
        message = "the disk is full" if status == 507 else "made to fail"
        content = {"error": {"code": str(status), "message": message, "field": ""}}
        await JSONResponse(content, status or 503)(scope, receive, send)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application on a free port of the loopback; give its address."""
    import uvicorn

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            thread.join(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
