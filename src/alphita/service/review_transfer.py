"""Files into a review and out of it, over HTTP: a part of the review API (see `reviewing`)."""

from __future__ import annotations

import asyncio
import inspect
import json
from asyncio.subprocess import PIPE
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi import Path as PathParameter
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from alphita import apart, drafts, registry
from alphita.errors import Rejects
from alphita.index.store import Index
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import Header, day_of
from alphita.options import from_values, options_of
from alphita.review.store import ReviewStore
from alphita.service import keys, review_files
from alphita.service.failures import Refusal, documented
from alphita.service.review_files import Job
from alphita.service.settings import Settings

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
    "csv": "text/csv; charset=utf-8",
    "usagi": "text/csv; charset=utf-8",
    "omop": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "sssom": "text/tab-separated-values; charset=utf-8",
    "fhir_r4": "application/fhir+json",
    "fhir_r5": "application/fhir+json",
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
        kind = _kind(request)
        job = Job(
            store=str(store.path),
            index=str(index.path.resolve()),
            content_hash=index.content_hash,
            name=name,
            source=source,
            column=column,
            blind=blind,
            format=format_ or ("" if filename else BY_MEDIA_TYPE.get(kind, "csv")),
            filename=filename,
            by=reviewer,
            concepts=concepts.to_json(),
            max_rows=settings.max_upload_rows,
            max_bytes=settings.max_upload,
        )
        async with turn:
            return await _run(job, body, request)


async def _run(job: Job, body: bytes, request: Request) -> dict[str, Any]:
    """Import a file in a process of its own, which ends with the request, and return what is told of it.

    Raises:
        AlphitaError: it cannot be imported; nothing of it is.
        ClientDisconnect: the client left.
    """
    with drafts.scratch() as folder:
        # A format is told by the file's name and its first line.
        path = folder / f"given-{Path(job.filename).name[-50:]}".replace("\0", "")
        await run_in_threadpool(path.write_bytes, body)
        line, environment = apart.command("alphita.service.review_files:imported", MAX_MEMORY)
        process = await asyncio.create_subprocess_exec(*line, env=environment, cwd=folder, stdin=PIPE, stdout=PIPE)
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
            told.cancel()
            left.cancel()
            if process.returncode is None:
                process.kill()
            await process.wait()
    return dict(done)


def exporting(routes: APIRouter, store: ReviewStore, index: Index) -> None:
    """Add the export of a project; an index of OMOP vocabularies knows OMOP's numbers."""
    targets = review_files.omop_of(index)

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
        header = replace(said, date=day_of(said.date), target_info=targets.get if targets is not None else None)
        with drafts.scratch() as folder:
            path = folder / "out"
            written = review_files.export(store, name, writer, header, path, Rejects(), settled_only=settled)
            content = path.read_bytes()
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
    type_: Annotated[Several, Query(alias="type", description="only concepts with these semantic types")] = None,
    concept_source: Annotated[Several, Query(description="only concepts of these terminologies")] = None,
    language: Annotated[Several, Query(description="only terms in these languages")] = None,
    under: Annotated[Several, Query(description="only these concepts and those below them")] = None,
    standard_only: Annotated[bool, Query(description="only Standard Concepts (OMOP)")] = False,
) -> Concepts:
    """Return which concepts a project is answered with, as `alphita normalize` was told."""
    several = {"types": type_, "sources": concept_source, "languages": language, "under": under}
    given = {name: values for name, values in several.items() if values}
    return Concepts.from_json({"target": target, "standard_only": standard_only, **given})


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
    if _kind(request) in REFUSED_TYPES:
        raise Refusal(415, "unsupported_media_type", "send the file itself, as text/csv or application/octet-stream")
    return await request.body()


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
