"""A server of the review page's interface, in memory: made-up rows, and faults on demand.

What it knows is all in `FakeReview`, so that a test can look at what was acknowledged and say what goes wrong next.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Body, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles

PAGE = Path(__file__).parents[2] / "src" / "alphita" / "service" / "page"
FINAL = ("accept", "choose", "nil", "reject", "adjudicate")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'"
)
SITES = ("ear", "skin", "stomach", "knee", "heart", "kidney", "eye", "lung", "throat", "shoulder")
FINDINGS = {
    "pain": "An unpleasant feeling",
    "swelling": "More size than usual, by water,",
    "bleeding": "A loss of blood",
    "inflammation": "Heat, redness and hurt",
    "numbness": "Less feeling than usual",
}
WARDS = ("emergency", "surgery", "paediatrics", "outpatients")


@dataclass
class FakeReview:
    """Rows, concepts and decisions of one project.

    Attributes:
        rows: number of rows.
        keys: reviewers by key; without any, everybody is "local".
        failing: statuses that the next posts get instead of an answer; 0 keeps the decision and answers 503.
        slow: seconds that every post takes.
    """

    rows: int = 40
    keys: dict[str, str] = field(default_factory=dict)
    blind: bool = True
    calibrated: bool = True
    failing: list[int] = field(default_factory=list)
    slow: float = 0.0
    name: str = "lab"
    decisions: list[dict[str, Any]] = field(default_factory=list)
    bulks: dict[str, int] = field(default_factory=dict)
    imported: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paged: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make concepts and rows."""
        self.lock = threading.Lock()
        self.concepts = [
            {
                "id": f"T:{10 * place + number:07d}",
                "name": f"{finding} of the {site}",
                "definition": f"{words} in the {site}, whatever it comes from, for longer than an hour.",
                "synonyms": [
                    {"string": text, "language": "en", "scope": "exact"}
                    for text in (f"{site} {finding}", f"{site} with {finding}", f"{finding}, {site}")
                ],
                "parents": [{"id": f"T:9{place:06d}", "name": f"disorder of the {site}"}],
                "types": ["Sign" if finding in ("pain", "numbness") else "Finding"],
                "retired": False,
                "replaced_by": None,
            }
            for place, site in enumerate(SITES)
            for number, (finding, words) in enumerate(FINDINGS.items())
        ]
        self.by_id = {concept["id"]: concept for concept in self.concepts}
        self.table = sorted((self._row(number) for number in range(1, self.rows + 1)), key=_by_risk)
        self.row_of = {row["id"]: row for row in self.table}

    def _row(self, number: int) -> dict[str, Any]:
        drawn = int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:4], "big")
        first = self.concepts[drawn % len(self.concepts)]
        site, finding = first["name"].split(" of the ")[::-1]
        mention = (f"{site} {finding}", f"{finding[:4]}. {site}", f"lt {site} {finding} ++", f"? {finding} {site}")[
            drawn // 64 % 4
        ]
        confidence = 0.3 + 0.69 * (drawn // 512 % 1000) / 1000
        nil = drawn % 17 == 0
        others = [self.concepts[(drawn + step) % len(self.concepts)] for step in (1, 7, 23, 31)]
        candidates = [self._candidate(concept, mention, place) for place, concept in enumerate([first, *others])]
        candidates[0] |= {"confidence": confidence, "decision": "accept" if confidence > 0.9 else "review"}
        if mention.startswith("lt"):
            candidates[1]["contradictions"] = "laterality: left against right"
        if nil:
            candidates[0] |= {"concept_id": None, "concept_name": None, "method": "nil", "decision": "nil"}
        frequency = 1 + drawn // 4096 % 400
        text = mention if number > 1 else "<img src=x onerror=document.title='hacked'> & co"
        return {
            "id": 1000 + number,
            "number": number,
            "code": f"LAB-{number:05d}",
            "mention": f"{text} {number}" if number > 1 else text,
            "frequency": frequency,
            "context": {
                "ward": WARDS[drawn % 4],
                "unit": "" if drawn % 3 else "day surgery",
                "note": "as written by the nurse",
            },
            "risk": frequency * (1 - confidence),
            "answer": {
                name: candidates[0].get(name)
                for name in (
                    "concept_id",
                    "concept_name",
                    "matched_term",
                    "similarity",
                    "confidence",
                    "decision",
                    "relation",
                )
            },
            "candidates": candidates,
        }

    def _candidate(self, concept: dict[str, Any], mention: str, place: int) -> dict[str, Any]:
        term = concept["synonyms"][place % 3]["string"]
        return {
            "rank": place + 1,
            "concept_id": concept["id"],
            "concept_name": concept["name"],
            "matched_term": term,
            "similarity": 0.93 - 0.07 * place,
            "confidence": None,
            "decision": None,
            "method": "nearest",
            "routes": "letters|vectors",
            "relation": "exact",
            "language": "en",
            "homonyms": None,
            "expansion": None,
            "contradictions": None,
            "retired_concept": None,
            "explanation": f"“{term}” by letters and vectors; 2 of 3 words are equal",
            "definition": concept["definition"],
            "parents": concept["parents"],
            "synonyms": concept["synonyms"],
            "types": concept["types"],
        }

    # --- Decisions ---

    def in_force(self, row: int) -> dict[str, dict[str, Any]]:
        """Newest decision of each reviewer that was not taken back; an adjudication stands under ""."""
        undone = {decision["undoes"] for decision in self.decisions if decision["undoes"]}
        found = {}
        for one in self.decisions:
            if one["row"] == row and one["kind"] != "undo" and one["id"] not in undone:
                found["" if one["kind"] == "adjudicate" else one["reviewer"]] = one
        return found

    def shown(self, row: dict[str, Any], reviewer: str) -> dict[str, Any]:
        """Return a row as a reviewer sees it, in the list."""
        force = self.in_force(row["id"])
        final = [one for one in force.values() if one["kind"] in FINAL]
        if "" in force:
            state = "decided"
        elif len({_meaning(one) for one in final}) > 1:
            state = "disagreed"
        elif any(one["kind"] == "flag" for one in force.values()):
            state = "flagged"
        else:
            state = "decided" if final else "open"
        mine = force.get(reviewer)
        settled = "" in force or (bool(final) and state == "decided" and len({_meaning(one) for one in final}) == 1)
        if self.blind and "" not in force and not (mine and mine["kind"] in FINAL):
            settled, state = False, ("flagged" if mine and mine["kind"] == "flag" else "open")
        found = {name: value for name, value in row.items() if name != "candidates"}
        return found | {"state": state, "settled": settled, "mine": mine}

    def seen_by(self, row: dict[str, Any], reviewer: str) -> list[dict[str, Any]]:
        """Return the decisions on a row that a reviewer may see, newest first."""
        force = self.in_force(row["id"])
        if self.blind and "" not in force:
            force = {who: one for who, one in force.items() if who == reviewer}
        return sorted(force.values(), key=lambda one: -one["id"])

    def newest(self, row: int, reviewer: str) -> dict[str, Any] | None:
        """Return a reviewer's newest decision on a row, an undo too."""
        return next((one for one in reversed(self.decisions) if (one["row"], one["reviewer"]) == (row, reviewer)), None)

    def keep(self, **fields: Any) -> dict[str, Any]:
        """Append a decision."""
        decision = (
            {
                "uid": "",
                "project": self.name,
                "row": 0,
                "reviewer": "local",
                "kind": "accept",
                "concept_id": None,
                "relation": None,
                "comment": "",
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "undoes": None,
                "bulk": "",
            }
            | fields
            | {"id": len(self.decisions) + 1}
        )
        self.decisions.append(decision)
        return decision

    def undo(self, reviewer: str, uid: str) -> list[dict[str, Any]]:
        """Take back the newest decision of a reviewer, a bulk action as a whole; return what was taken back."""
        done = [one for one in self.decisions if one["uid"] == uid]
        if done:
            return [self.decisions[one["undoes"] - 1] for one in done]
        undone = {one["undoes"] for one in self.decisions}
        mine = [
            one
            for one in self.decisions
            if one["reviewer"] == reviewer and one["kind"] != "undo" and one["id"] not in undone
        ]
        if not mine:
            return []
        taken = [one for one in mine if one["bulk"] and one["bulk"] == mine[-1]["bulk"]] or [mine[-1]]
        for one in taken:
            self.keep(uid=uid, row=one["row"], reviewer=reviewer, kind="undo", undoes=one["id"])
        return taken

    def listed(self, reviewer: str, *, order: str, state: str, search: str, kind: str) -> list[dict[str, Any]]:
        """Return the rows of a list."""
        orders = {"frequency": lambda row: -row["frequency"], "row": lambda row: row["number"]}
        rows = [row for row in self.table if search.lower() in row["mention"].lower()]
        if kind:
            rows = [row for row in rows if kind in row["candidates"][0]["types"]]
        if order in orders:
            rows.sort(key=orders[order])
        decided = {one["row"] for one in self.decisions}
        shown = [
            self.shown(row, reviewer)
            if row["id"] in decided
            else {**row, "state": "open", "settled": False, "mine": None}
            for row in rows
        ]
        for one in shown:
            one.pop("candidates", None)
        if state == "open":
            # What was skipped comes last.
            still = [row for row in shown if row["state"] == "open"]
            return sorted(still, key=lambda row: row["mine"]["id"] if row["mine"] else 0)
        return [row for row in shown if state in ("all", row["state"])]


def _by_risk(row: dict[str, Any]) -> tuple[float, int]:
    return -row["risk"], row["id"]


def _meaning(decision: dict[str, Any]) -> tuple[Any, ...]:
    return decision["concept_id"], decision["kind"] if decision["concept_id"] is None else ""


def _error(status: int, message: str, **more: Any) -> JSONResponse:
    return JSONResponse({"error": {"code": str(status), "message": message, "field": ""}, **more}, status)


def application(fake: FakeReview) -> FastAPI:
    """Return the server of a fake."""
    app = FastAPI()

    @app.middleware("http")
    async def guard(request: Request, answer: Any) -> Response:
        who = "local"
        served = request.url.path.startswith(("/api/", "/search", "/concepts/"))
        if served and fake.keys:
            who = fake.keys.get(request.headers.get("Authorization", "").removeprefix("Bearer "), "")
            if not who:
                return _error(401, "no such key")
        request.state.reviewer = who
        late = False
        if request.method == "POST":
            if fake.slow:
                await asyncio.sleep(fake.slow)
            if fake.failing:
                status = fake.failing.pop(0)
                if status:
                    return _error(status, "the disk is full" if status == 507 else "made to fail")
                late = True
        response = await answer(request)
        if late:
            return _error(503, "made to fail after it was kept")
        response.headers["Content-Security-Policy"] = CONTENT_POLICY
        response.headers["Cache-Control"] = "no-store"
        return response

    @app.get("/api/me")
    def me(request: Request) -> Any:
        return {
            "reviewer": request.state.reviewer,
            "projects": [fake.name] if fake.rows else [],
            "version": "0",
            "release": "made up",
            "model": "0",
            "calibrated": fake.calibrated,
        }

    @app.get("/api/projects")
    def projects() -> Any:
        formats = ["csv", "fhir_r4", "fhir_r5", "html", "jsonl", "omop", "parquet", "sssom", "usagi"]
        return {"projects": [], "formats": formats}

    @app.get("/api/projects/{project}")
    def project(project: str) -> Any:
        return {"name": project, "source": "LAB", "column": "description", "blind": fake.blind}

    @app.get("/api/projects/{project}/rows")
    def rows(
        request: Request,
        order: str = "risk",
        state: str = "open",
        search: str = "",
        type: str = "",
        offset: int = 0,
        limit: int = 100,
    ) -> Any:
        with fake.lock:
            fake.paged.append(offset)
            found = fake.listed(request.state.reviewer, order=order, state=state, search=search, kind=type)
        return {"total": len(found), "rows": found[offset : offset + limit]}

    @app.get("/api/projects/{project}/rows/{row}")
    def one(request: Request, row: int) -> Any:
        if row not in fake.row_of:
            return _error(404, "no such row")
        with fake.lock:
            known = fake.row_of[row]
            shown = fake.shown(known, request.state.reviewer)
            decisions = fake.seen_by(known, request.state.reviewer)
            newest = fake.newest(row, request.state.reviewer)
        return shown | {
            "candidates": known["candidates"],
            "decisions": decisions,
            "newest": newest["id"] if newest else 0,
        }

    @app.post("/api/projects/{project}/rows/{row}/decisions", status_code=201)
    def decide(request: Request, row: int, body: dict[str, Any] = Body()) -> Any:
        with fake.lock:
            known = next((one for one in fake.decisions if one["uid"] == body["uid"]), None)
            newest = fake.newest(row, request.state.reviewer)
            if known is None and newest and newest["id"] > body["seen"]:
                return _error(409, "decided already", newest=newest)
            if set(body) - {"uid", "kind", "concept_id", "relation", "comment", "seen"}:
                return _error(422, "more than is known")
            if body["kind"] in ("accept", "choose") and body.get("concept_id") not in fake.by_id:
                return _error(422, "no such concept")
            sent = {name: body[name] for name in ("uid", "kind", "concept_id", "relation", "comment") if name in body}
            decision = known or fake.keep(row=row, reviewer=request.state.reviewer, **sent)
            return {
                "decision": decision,
                "standing": fake.shown(fake.row_of[row], request.state.reviewer),
                "next": None,
            }

    @app.post("/api/projects/{project}/undo")
    def undo(request: Request, body: dict[str, Any] = Body()) -> Any:
        with fake.lock:
            undone = fake.undo(request.state.reviewer, body["uid"])
        return {"undone": undone, "row": undone[0]["row"] if undone else None}

    @app.post("/api/projects/{project}/bulk")
    def bulk(request: Request, body: dict[str, Any] = Body()) -> Any:
        who = request.state.reviewer
        with fake.lock:
            if body["uid"] in fake.bulks and not body["preview"]:
                return {"rows": fake.bulks[body["uid"]], "occurrences": 0, "expected_wrong": 0.0, "applied": True}
            kinds = body.get("types") or [""]
            rows = [
                row
                for kind in kinds
                for row in fake.listed(who, order="risk", state="open", search="", kind=kind)
                if row["answer"]["concept_id"] and row["answer"]["confidence"] >= body["threshold"]
            ]
            if not body["preview"]:
                fake.bulks[body["uid"]] = len(rows)
                for place, row in enumerate(rows):
                    fake.keep(
                        uid=f"{body['uid']}-{place}",
                        row=row["id"],
                        reviewer=who,
                        concept_id=row["answer"]["concept_id"],
                        relation="exact",
                        bulk=body["uid"],
                    )
        return {
            "rows": len(rows),
            "occurrences": sum(row["frequency"] for row in rows),
            "expected_wrong": sum(1 - row["answer"]["confidence"] for row in rows),
            "applied": not body["preview"],
        }

    @app.get("/api/projects/{project}/progress")
    def progress(request: Request) -> Any:
        with fake.lock:
            force = {row: fake.in_force(row) for row in {one["row"] for one in fake.decisions}}
        final = {row: [one for one in by.values() if one["kind"] in FINAL] for row, by in force.items()}
        compared = {row: many for row, many in final.items() if len({one["reviewer"] for one in many}) > 1}
        agreed = [row for row, many in compared.items() if len({_meaning(one) for one in many}) == 1]
        decided = [row for row, many in final.items() if many and len({_meaning(one) for one in many}) == 1]
        every = [one for by in force.values() for one in by.values()]
        return {
            "rows": len(fake.table),
            "occurrences": sum(row["frequency"] for row in fake.table),
            "decided": len(decided),
            "decided_occurrences": sum(fake.row_of[row]["frequency"] for row in decided),
            "by_kind": Counter(one["kind"] for one in every),
            "by_reviewer": Counter(one["reviewer"] for one in every),
            "compared": len(compared),
            "agreed": len(agreed),
            "kappa": len(agreed) / len(compared) if len(compared) > 1 else None,
            "pair": sorted({one["reviewer"] for one in every})[:2] if compared else None,
            "disagreed": [row for row in compared if row not in agreed and "" not in force[row]],
        }

    @app.get("/api/projects/{project}/disagreements")
    def disagreements(request: Request) -> Any:
        with fake.lock:
            rows = []
            for row in fake.table:
                force = fake.in_force(row["id"])
                final = [one for one in force.values() if one["kind"] in FINAL]
                if "" not in force and len({_meaning(one) for one in final}) > 1:
                    newest = max(one["id"] for one in fake.decisions if one["row"] == row["id"])
                    rows.append({**row, "state": "disagreed", "decisions": final, "newest": newest})
        return {"rows": rows}

    @app.post("/api/projects/{project}/rows/{row}/adjudicate", status_code=201)
    def adjudicate(request: Request, row: int, body: dict[str, Any] = Body()) -> Any:
        with fake.lock:
            newest = max((one for one in fake.decisions if one["row"] == row), key=lambda one: one["id"])
            if newest["id"] > body["seen"]:
                return _error(409, "decided already", newest=newest)
            decision = fake.keep(
                row=row,
                reviewer=request.state.reviewer,
                kind="adjudicate",
                **{name: value for name, value in body.items() if name != "seen"},
            )
        return {"decision": decision}

    @app.get("/api/projects/{project}/export")
    def export(format: str, settled: bool = False) -> Response:
        with fake.lock:
            lines = [
                f"{row['mention']},{one['concept_id']}"
                for row in fake.table
                for one in fake.in_force(row["id"]).values()
            ]
        text = "\n".join([f"format,{format}", f"settled,{settled}", *lines])
        return Response(
            text, media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="lab.{format}"'}
        )

    @app.post("/api/projects", status_code=201)
    async def new(request: Request) -> Any:
        body = await request.body()
        fake.imported.append((dict(request.query_params), body))
        return {"new": body.count(b"\n") - 1, "known": 0}

    @app.get("/search")
    def search(q: str, top: int = 20) -> Any:
        words = q.lower().split()
        found = [
            {"id": one["id"], "name": one["name"], "matched_term": one["synonyms"][0]["string"], "similarity": 1.0}
            for one in fake.concepts
            if all(word in f"{one['id']} {one['name']}".lower() for word in words)
        ]
        return {"concepts": found[:top]}

    @app.get("/concepts/{concept}")
    def concept(concept: str) -> Any:
        return fake.by_id.get(concept) or _error(404, "no such concept")

    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


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


if __name__ == "__main__":
    import sys
    import time

    with serving(application(FakeReview(rows=int(sys.argv[1]) if sys.argv[1:] else 40))) as address:
        print(address, flush=True)
        time.sleep(1e6)
