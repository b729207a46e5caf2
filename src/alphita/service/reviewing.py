"""The review API /api, and /mappings: earlier decisions.

In a blind project a reviewer is given their own decisions only, until a row is adjudicated or they have decided it.
Who may only adjudicate has nothing to decide blindly, and who administers a project exports all of it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from alphita import __version__, apart, drafts, registry
from alphita.answer.normalizer import Normalizer
from alphita.answer.omop import OmopConcepts
from alphita.errors import Rejects
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import Header, day_of
from alphita.mappings.record import JOINT, Relation
from alphita.options import from_values, options_of
from alphita.review.records import Decision, Kind, Order, ReviewRow, Standing, State
from alphita.review.store import Conflict, NoDisagreement, ReviewStore, Unknown
from alphita.service import audit, keys, review_files
from alphita.service.access import Asker, Identity
from alphita.service.concepts import Finders, choices, find_concept
from alphita.service.failures import Refusal, documented, media_type, unknown
from alphita.service.normalizing import check_strings, json_only
from alphita.service.review_files import Job
from alphita.service.settings import Settings
from alphita.terminology.store import Terminology

Uid = Annotated[
    str, Field(min_length=1, max_length=100, description="chosen by the client; a repeated uid counts once")
]
Comment = Annotated[str, Field(max_length=10_000)]
# SQLite's largest integer.
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]
ConceptId = Annotated[str, Field(min_length=1, max_length=1_000)]
ANSWER = ("concept_id", "concept_name", "matched_term", "similarity", "confidence", "decision", "relation")
ROW = ("id", "number", "code", "mention", "frequency", "context", "risk")
CONCEPTS_KEPT = 10_000
MAX_TARGETS = 20


def _like(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": [example]})


class Deciding(BaseModel):
    """One decision."""

    model_config = _like({"uid": "5e1c", "kind": "choose", "concept_id": "HP:0001250", "relation": "exact", "seen": 0})

    uid: Uid
    kind: Literal["accept", "choose", "nil", "reject", "skip", "flag"] = Field(
        description="accept (the first candidate), choose (`concept_id`), nil, reject, skip or flag"
    )
    concept_id: ConceptId | None = Field(None, description="CURIE; several targets joined by |")
    relation: Relation | None = Field(None, description="exact (by default), broad, narrow or related")
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


def decision_json(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON has it."""
    return asdict(decision) | {"shown": list(decision.shown)}


def standing_json(standing: Standing, reviewer: str) -> dict[str, Any]:
    """Return a row of the queue as JSON has it, for one reviewer."""
    row = standing.row
    mine = next((decision for decision in standing.decisions if decision.reviewer == reviewer), None)
    answer = row.candidates[0] if row.candidates else None
    return {name: getattr(row, name) for name in ROW} | {
        "types": list(row.types),
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
        "candidates": [asdict(candidate) | shown(candidate.concept_id or "") for candidate in standing.row.candidates],
        "decisions": [decision_json(decision) for decision in standing.decisions],
        "newest": newest.id if newest is not None else 0,
    }


def concepts(index: Index, terminology: Terminology | None) -> Callable[[str], dict[str, Any]]:
    """Return what looks up definition, parents, synonyms and types of a concept; empty for one that nobody knows."""

    @lru_cache(CONCEPTS_KEPT)
    def shown(concept_id: str) -> dict[str, Any]:
        concept = find_concept(concept_id, index, terminology) if concept_id else None
        if concept is None:
            return {"definition": None, "parents": [], "synonyms": [], "types": [], "maps_to": [], "omop": None}
        strings = [synonym.string for synonym in concept.synonyms if synonym.string != concept.name]
        return {
            "definition": concept.definition,
            "parents": [parent.model_dump() for parent in concept.parents],
            "synonyms": list(dict.fromkeys(strings)),
            **concept.model_dump(include={"types", "maps_to", "omop"}),
        }

    return shown


MAX_ROWS = 1_000
LARGEST = 2**63 - 1
RowId = Annotated[int, PathParameter(ge=1, le=LARGEST, examples=[1])]
Types = Annotated[list[str] | None, Query(alias="type", description="semantic types of the answer")]


class Route(APIRoute):
    """A route that answers 404 for what the store does not know, and 409 with the newest decision."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        handle = super().get_route_handler()

        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except Conflict as conflict:
                error = {"code": "conflict", "message": str(conflict), "field": "seen"}
                return JSONResponse({"error": error, "newest": decision_json(conflict.newest)}, 409)
            except NoDisagreement as error:
                raise Refusal(409, "no_disagreement", str(error)) from None
            except Unknown as error:
                raise unknown(error) from None

        return answered


def router(
    settings: Settings,
    store: ReviewStore | None,
    normalizer: Normalizer,
    terminology: Terminology | None,
    finders: Finders,
) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(prefix="/api", route_class=Route, tags=["Review"])
    index = normalizer.index

    @routes.get("/me", summary="Current user and server")
    def me(asker: Asker) -> dict[str, Any]:
        """Return who asks, their rights (in each project), and what the server has."""
        return {
            "reviewer": asker.name,
            "rights": asker.rights(),
            "login": settings.access == "oidc",
            "projects": _projects(store, asker) if store else [],
            "version": __version__,
            "release": review_files.release_of(index),
            "model": index.manifest["model_hash"],
            "terminology": index.manifest["terminology_hash"],
            "assurance": normalizer.assurance,
            "choices": choices(index),
        }

    if store is not None:
        _reading(routes, store, concepts(index, terminology), finders, index.learned)
        _deciding(routes, store, _Chosen(finders, index, terminology))
        importing(routes, settings, store, normalizer.index)
        exporting(routes, store, normalizer.index)
    else:
        methods = ["GET", "POST"]
        routes.add_api_route("/{path:path}", _no_store, methods=methods, include_in_schema=False)
    return routes


def _no_store(path: str) -> None:
    raise Refusal(404, "no_store", "this service was started without a store of reviews (--mappings reviews.sqlite)")


def _reading(
    routes: APIRouter, store: ReviewStore, shown: Callable[[str], dict[str, Any]], finders: Finders, learned: int | None
) -> None:
    """Add what only reads; `shown` says what a concept is; the index learned so many confirmed phrases."""
    formats = registry.names(FORMATS)

    @routes.get("/projects", summary="All projects that the caller may read")
    def projects(asker: Asker) -> dict[str, Any]:
        return {"projects": _projects(store, asker), "formats": formats}

    @routes.get("/projects/{name}", summary="One project", responses=documented(404))
    def project(name: Name, reviewer: Caller) -> dict[str, Any]:
        return asdict(store.project(name))

    @routes.get("/projects/{name}/rows", summary="The queue", responses=documented(404))
    def rows(
        name: Name,
        reviewer: Caller,
        order: Order = "risk",
        state: State = "open",
        search: Annotated[str, Query(max_length=1_000)] = "",
        types: Types = None,
        offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=0, le=MAX_ROWS)] = 100,
    ) -> dict[str, Any]:
        total, page = store.queue(
            name,
            reviewer=reviewer,
            order=order,
            state=state,
            search=search,
            types=types or (),
            limit=limit,
            offset=offset,
        )
        audit.note(rows=[standing.row.id for standing in page])
        return {"total": total, "rows": [standing_json(standing, reviewer) for standing in page]}

    @routes.get("/projects/{name}/rows/{row}", summary="One row, with its candidates", responses=documented(404))
    def one_row(name: Name, row: RowId, reviewer: Caller) -> dict[str, Any]:
        standing = store.standing(row, reviewer=reviewer)
        _check_project(standing.row, name)
        allowed = finders.of(name).allowed

        def within(concept_id: str) -> dict[str, Any]:
            known = shown(concept_id)
            return known | {"maps_to": [target for target in known["maps_to"] if allowed.row(target["id"]) >= 0]}

        return detail_json(standing, reviewer, store.newest(row, reviewer), within)

    @routes.get("/projects/{name}/progress", summary="Progress and agreement", responses=documented(404))
    def progress(name: Name, asker: Asker) -> dict[str, Any]:
        """Return counts; in a blind project a reviewer is not told who else decided, and what."""
        found = store.progress(name)
        others = {*found.by_reviewer} - {asker.name}
        if others and _is_blind(store, name, asker):
            seen = store.disagreements(name, reviewer=asker.name) if asker.may("adjudicate", name) else ()
            own = {one: count for one, count in found.by_reviewer.items() if one == asker.name}
            disagreed = tuple(one.row.id for one in seen)
            found = replace(found, by_kind={}, by_reviewer=own, pair=None, disagreed=disagreed)
        return found.to_json() | {"learned": learned}

    @routes.get("/projects/{name}/disagreements", summary="Rows to adjudicate", responses=documented(404))
    def disagreements(name: Name, asker: Asker) -> dict[str, Any]:
        """Return the rows on which reviewers disagree; in a blind project, a reviewer only their own.

        `newest` is the id of the row's newest decision (an undone one or an undo too); send it as `seen` to settle it.
        """
        blind_to = asker.name if _is_blind(store, name, asker) else None
        # Before the rows are read: what is decided between is then not taken as seen.
        newest = {one.row.id: store.newest(one.row.id) for one in store.disagreements(name, reviewer=blind_to)}
        found = store.disagreements(name, reviewer=blind_to)
        details = [detail_json(one, asker.name, newest.get(one.row.id), lambda _: {}) for one in found]
        return {"total": len(found), "rows": details}


class _Chosen:
    """Makes decisions of what was asked for, with a concept that is known."""

    def __init__(self, finders: Finders, index: Index, terminology: Terminology | None) -> None:
        self.finders, self.index, self.terminology = finders, index, terminology

    def decision(self, row: ReviewRow, reviewer: str, asked: Deciding | Settling) -> Decision:
        answer = row.candidates[0].concept_id if row.candidates else None
        kind = asked.kind if isinstance(asked, Deciding) else "adjudicate"
        concept_id = asked.concept_id
        if kind == "accept" and concept_id is None:
            # The answer; to accept NIL is to say that no concept fits.
            kind, concept_id = ("accept", answer) if answer is not None else ("nil", None)
        if concept_id is not None and kind not in ("accept", "choose", "adjudicate"):
            raise Refusal(422, "invalid", f"a decision of kind {kind} has no concept", field="concept_id")
        if kind == "choose" and concept_id is None:
            raise Refusal(422, "invalid", "say which concept", field="concept_id")
        relation, name = (None, None) if concept_id is None else (asked.relation, self._name(row, concept_id))
        by = row.project, row.id, reviewer
        return Decision(asked.uid, *by, kind, concept_id, relation, asked.comment, concept_name=name)

    def _name(self, row: ReviewRow, concept_id: str) -> str | None:
        for candidate in row.candidates:
            if candidate.concept_id == concept_id:
                return candidate.concept_name
        concept = find_concept(concept_id, self.index, self.terminology)
        if concept is not None and concept.retired:
            instead = f"; use {' or '.join(concept.replaced_by)}" if concept.replaced_by else ""
            raise Refusal(422, "retired_concept", f"this concept is no longer to be used{instead}", field="concept_id")
        if concept is not None:
            return concept.name
        place = self.finders.of(row.project).allowed.row(concept_id)
        if place >= 0:
            return self.index.concept(place).name
        # Several targets of one row.
        several = concept_id.split("|")
        if 1 < len(several) == len({*several}) <= MAX_TARGETS:
            return JOINT.join(self._name(row, one) or one for one in several)
        message = "no concept has this id; search for one at /search"
        raise Refusal(422, "unknown_concept", message, field="concept_id")


def _deciding(routes: APIRouter, store: ReviewStore, chosen: _Chosen) -> None:
    """Add what decides."""

    def decided(name: str, row: int, asked: Deciding | Settling, reviewer: str) -> dict[str, Any]:
        about = store.row(row)
        _check_project(about, name)
        decision = store.decide(chosen.decision(about, reviewer, asked), seen=asked.seen)
        audit.note(decisions=[decision.id], kind=decision.kind, uid=asked.uid)
        standing = standing_json(store.standing(row, reviewer=reviewer), reviewer)
        return {"decision": decision_json(decision), "standing": standing}

    @routes.post(
        "/projects/{name}/rows/{row}/decisions", status_code=201, summary="Decide", responses=documented(404, 409, 422)
    )
    def decide(name: Name, row: RowId, asked: Deciding, reviewer: Caller) -> dict[str, Any]:
        answer = decided(name, row, asked, reviewer)
        _, page = store.queue(name, reviewer=reviewer, order=asked.order, state="open", limit=2)
        return answer | {"next": next((other.row.id for other in page if other.row.id != row), None)}

    @routes.post("/projects/{name}/undo", summary="Undo the newest decision", responses=documented(404, 422))
    def undo(name: Name, asked: Undoing, reviewer: Caller) -> dict[str, Any]:
        undone = store.undo(name, reviewer, asked.uid)
        audit.note(decisions=[decision.id for decision in undone], kind="undo", uid=asked.uid)
        return {"undone": [decision_json(decision) for decision in undone], "row": undone[0].row if undone else None}

    @routes.post("/projects/{name}/bulk", summary="Accept above a threshold", responses=documented(404, 422))
    def bulk(name: Name, asked: Accepting, reviewer: Caller) -> dict[str, Any]:
        done = store.bulk(
            name, reviewer, asked.uid, threshold=asked.threshold, types=asked.types, preview=asked.preview
        )
        told = {name: getattr(done, name) for name in ("rows", "occurrences", "expected_wrong")}
        audit.note(rows=done.rows, applied=not asked.preview, uid=asked.uid)
        return told | {"applied": not asked.preview}

    @routes.post(
        "/projects/{name}/rows/{row}/adjudicate",
        status_code=201,
        summary="Settle a disagreement",
        responses=documented(404, 409, 422),
    )
    def adjudicate(name: Name, row: RowId, asked: Settling, asker: Asker) -> dict[str, Any]:
        """Settle a row on which reviewers disagree; in a blind project, a reviewer decides on it first."""
        _check_project(store.row(row), name)
        if _is_blind(store, name, asker) and not store.standing(row, reviewer=asker.name).settled:
            raise Refusal(409, "not_decided", "decide on this row yourself before you settle it")
        return decided(name, row, asked, asker.name)


def _projects(store: ReviewStore, asker: Identity) -> list[dict[str, Any]]:
    """Return the projects that somebody may read, with their rights there."""
    found = (project for project in store.projects() if asker.may("read", project.name))
    return [asdict(project) | {"rights": asker.rights(project.name)} for project in found]


def _is_blind(store: ReviewStore, name: str, asker: Identity) -> bool:
    """Tell whether somebody still has to decide without knowing what others did."""
    return store.project(name).blind and asker.may("review", name) and not asker.may("administer", name)


def _check_project(row: ReviewRow, name: str) -> None:
    if row.project != name:
        raise Refusal(404, "not_found", f"unknown row {row.id}")


class Remembering(BaseModel):
    """Strings of one source."""

    model_config = _like({"source": "LAB_SYSTEM", "mentions": ["hart attack", "T2DM"]})

    source: str = Field(description="source of the strings, as named in the projects")
    mentions: list[str] = Field(description="the strings; compared after cleaning")
    project: str | None = Field(None, description="only decisions of this project")


class Remembered(BaseModel):
    """A decision that settles what a string means."""

    mention: str = Field(description="as it was sent", examples=["hart attack"])
    kind: Kind = Field(examples=["accept"])
    concept_id: str | None = Field(description="CURIE; null: no concept fits", examples=["HP:0001658"])
    relation: Relation | None = Field(description="how the concept stands to the string", examples=["exact"])
    reviewer: str = Field(examples=["ann"])
    at: str = Field(description="ISO 8601, UTC; empty: not known", examples=["2030-06-15T09:30:00+00:00"])
    project: str = Field(examples=["lab 2030"])


class Memory(BaseModel):
    """One decision per string, in order; null where nothing is settled."""

    mappings: list[Remembered | None]


def memory_router(settings: Settings, store: ReviewStore) -> APIRouter:
    """Return the route."""
    routes = APIRouter(tags=["Review"], responses=documented(401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504))

    @routes.post("/mappings", dependencies=[Depends(json_only)])
    def mappings(request: Request, asked: Annotated[Remembering, Body()], asker: Asker) -> Memory:
        """Return earlier decisions on equal strings of a source; not those that the caller still has to decide."""
        check_strings("mentions", asked.mentions, settings.max_rows, settings.max_characters)
        check_strings("source", [asked.source], 1, settings.max_characters)
        check_strings("project", [asked.project], 1, settings.max_characters)
        request.state.rows, request.state.asked = len(asked.mentions), asked.mentions
        asker.need("read", asked.project)
        names = [one.name for one in store.projects() if one.source == asked.source and asker.may("read", one.name)]
        known: dict[str, Decision] = {}
        try:
            for name in names if asked.project is None else [asked.project]:
                for mention, decision in store.remembered(asked.source, asked.mentions, project=name).items():
                    before = known.get(mention)
                    if (before is None or (before.at, before.id) < (decision.at, decision.id)) and asker.sees(
                        store, name, decision.row
                    ):
                        known[mention] = decision
        except Unknown as error:
            raise unknown(error, "unknown_project", "project") from None
        audit.note(mentions=len(asked.mentions), found=len(known))
        found = [known.get(mention) for mention in asked.mentions]
        pairs = zip(asked.mentions, found, strict=True)
        return Memory(mappings=[None if known is None else _remembered(mention, known) for mention, known in pairs])

    return routes


def _remembered(mention: str, decision: Decision) -> Remembered:
    names = ("kind", "concept_id", "relation", "reviewer", "at", "project")
    return Remembered(mention=mention, **{name: getattr(decision, name) for name in names})


FORMATS = "alphita.mappings.formats"
MAX_MEMORY = 2 * 2**30
Caller = Annotated[str, Depends(keys.reviewer)]
Several = list[str] | None
Name = Annotated[str, PathParameter(max_length=review_files.MAX_CHARACTERS, examples=["lab"])]
# What a browser sends to another site without asking that site first; a file comes with neither.
REFUSED_TYPES = ("", "text/plain", "multipart/form-data", "application/x-www-form-urlencoded")
# What a body is, where neither a format nor a file name is given.
BY_MEDIA_TYPE = {
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/tab-separated-values": "sssom",
    "application/vnd.apache.parquet": "parquet",
}
MEDIA_TYPES = {
    **dict.fromkeys(("csv", "usagi", "omop"), "text/csv; charset=utf-8"),
    **dict.fromkeys(("fhir_r4", "fhir_r5"), "application/fhir+json"),
    "jsonl": "application/x-ndjson",
    "sssom": "text/tab-separated-values; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html; charset=utf-8",
}
LOSSES, SET_ASIDE = "X-Alphita-Losses", "X-Alphita-Set-Aside"


def importing(routes: APIRouter, settings: Settings, store: ReviewStore, index: Index) -> None:
    """Add the import of a file, one at a time; what the index knows of its answers is noted."""
    turn = asyncio.Semaphore(1)

    @routes.post(
        "/projects",
        status_code=201,
        summary="Import a file of `alphita normalize`",
        responses=documented(413, 415, 422),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    kind: {"schema": {"type": "string", "format": "binary"}}
                    for kind in ("text/csv", "application/octet-stream")
                },
            }
        },
    )
    async def imported(
        request: Request,
        reviewer: Caller,
        name: Annotated[str, Query(max_length=review_files.MAX_CHARACTERS)],
        source: Annotated[str, Query(max_length=1_000)],
        column: Annotated[str, Query(max_length=1_000)] = "",
        format_: Annotated[str, Query(alias="format", description="by default from the file's name")] = "",
        filename: Annotated[str, Query(max_length=1_000, description="the file's name")] = "",
        blind: bool = True,
        concepts: Annotated[Concepts, Depends(_answered)] = review_files.ALL,
        body: bytes = Depends(_file),
    ) -> dict[str, Any]:
        """Import a file of mappings into a project, which is created if it does not exist."""
        job = Job(
            store=store.address,
            index=str(index.path.resolve()),
            content_hash=index.content_hash,
            name=name,
            source=source,
            column=column,
            blind=blind,
            format=format_ or ("" if filename else BY_MEDIA_TYPE.get(media_type(request), "csv")),
            filename=filename,
            by=reviewer,
            concepts=concepts.to_json(),
            max_rows=settings.max_upload_rows,
            max_bytes=settings.max_upload,
        )
        audit.note(project=name)
        async with turn:
            done = await _run(job, body, request)
        audit.note(rows=done["new"] + done["known"], decisions=done["decided"])
        return done


async def _run(job: Job, body: bytes, request: Request) -> dict[str, Any]:
    """Import a file in a process of its own, which ends with the request; return its summary."""
    with drafts.scratch() as folder:
        # A format is told by the file's name and its first line.
        path = folder / f"given-{Path(job.filename).name[-50:]}".replace("\0", "")
        await run_in_threadpool(path.write_bytes, body)
        line, environment = apart.command("alphita.service.review_files:imported", MAX_MEMORY)
        # What it says of the file is not for the log.
        process = await asyncio.create_subprocess_exec(
            *line, env=environment, cwd=folder, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(apart.encoded({"path": path.name, "job": asdict(job)}))
        told = asyncio.ensure_future(process.stdout.read())
        left = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait([told, left], return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                raise ClientDisconnect
            (done,) = apart.values(told.result().splitlines(keepends=True), MAX_MEMORY)
        finally:
            # One that has told all ends by itself; to kill it then would take its end from who waits for it.
            if not told.done():
                process.kill()
            told.cancel()
            left.cancel()
            await process.wait()
    return dict(done)


def exporting(routes: APIRouter, store: ReviewStore, index: Index) -> None:
    """Add the export of a project; an index of OMOP vocabularies knows OMOP's numbers."""
    targets = OmopConcepts(index).targets(replaced=False)

    @routes.get("/projects/{name}/export", summary="Export", responses=documented(404, 422), response_class=Response)
    def exported(
        name: Name,
        reviewer: Caller,
        said: Annotated[Header, Depends(_said)],
        format_: Annotated[str, Query(alias="format")] = "csv",
        settled: bool = True,
    ) -> Response:
        """Export a project as a file; headers report what the format cannot hold."""
        writer = registry.load(FORMATS, format_)
        header = replace(said, date=day_of(said.date), target_info=targets, tell=lambda _: None)
        with drafts.scratch() as folder:
            path = folder / "out"
            written = review_files.export(store, name, writer, header, path, Rejects(), settled_only=settled)
            content = path.read_bytes()
        audit.note(rows=written.mappings, format=format_)
        called = name + writer.SUFFIXES[0]
        plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in called)
        headers = {
            "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(called, safe='')}",
            LOSSES: json.dumps(written.losses),
            SET_ASIDE: str(written.set_aside),
            "Cache-Control": "no-store",
        }
        return Response(content, headers=headers, media_type=MEDIA_TYPES.get(format_, "application/octet-stream"))


def _answered(
    target: Annotated[str | None, Query(max_length=1_000, description="answer with codes of this system")] = None,
    type_: Annotated[Several, Query(alias="type", description="only concepts of these types, domains or kinds")] = None,
    concept_source: Annotated[Several, Query(description="only concepts of these terminologies")] = None,
    language: Annotated[Several, Query(description="only terms in these languages")] = None,
    under: Annotated[Several, Query(description="only these concepts and those below them")] = None,
    standard_only: Annotated[bool, Query(description="only Standard Concepts (OMOP)")] = False,
    billable: Annotated[bool, Query(description="only codes that can be billed (ICD-10-CM)")] = False,
) -> Concepts:
    """Return which concepts a project is answered with, as `alphita normalize` was told."""
    several = {"types": type_, "sources": concept_source, "languages": language, "under": under}
    given = {name: values for name, values in several.items() if values}
    return Concepts.from_json({"target": target, "standard_only": standard_only, "billable": billable, **given})


def _said(**values: str) -> Header:
    """Return what a request says of a file: the options of `Header`, under the names that are typed for them."""
    return from_values(
        Header, {each.name: values[each.flags[0].strip("-").replace("-", "_")] for each in options_of(Header)}
    )


_said.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        inspect.Parameter(
            each.flags[0].strip("-").replace("-", "_"),
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=each.hint,
        )
        for each in options_of(Header)
    ]
)


async def _file(request: Request) -> bytes:
    if media_type(request) in REFUSED_TYPES:
        raise Refusal(415, "unsupported_media_type", "send the file itself, as text/csv or application/octet-stream")
    return await request.body()
