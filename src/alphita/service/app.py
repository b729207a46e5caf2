"""The app. A request passes `RequestLog`, `Origins`, `Authentication`, `Announcement`, `Limits`, then its route."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

from fastapi import Depends, FastAPI, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from alphita import __version__
from alphita.answer.calibration_store import Assurance
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError
from alphita.index.store import Index
from alphita.review.store import ReviewStore
from alphita.service import access, failures, fhir, keys, logs, normalizing, oidc, pages, reconciling, reviewing
from alphita.service.audit import Audit, AuditFile
from alphita.service.batching import Batcher
from alphita.service.concepts import Finders
from alphita.service.limits import WATCHED, Limits, Origins
from alphita.service.parts import Parts
from alphita.service.settings import Settings
from alphita.service.usage import Usage
from alphita.service.workers import Worker, contents, contents_opened, is_room, pids_of
from alphita.terminology.store import Terminology

PAGE = Path(__file__).parent / "page"
WARM_UP = ("warm up", "warming up a server")
# FastAPI can hand requests to OpenTelemetry; they may hold patient data.
NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
State = Literal["starting", "ready", "replaced", "failed", "unwritable", "stopping"]
REPLACED = "the index or its calibration has changed since the server started; start the server again"
# Seconds between two looks at the index's folder.
LOOK = 1.0


class Health(BaseModel):
    """Whether the server runs."""

    status: Literal["ok"]
    version: str


class Readiness(BaseModel):
    """Whether the server can answer now."""

    status: State
    index: str
    model: str
    calibrated: bool
    assurance: Assurance | None
    unwritable: dict[str, str] = Field({}, description="what cannot be written (reviews, audit, log), and why")


class Announcement(failures.Gate):
    """A middleware that announces a request to the batcher, and refuses work once the index was replaced."""

    def __init__(self, app: ASGIApp, batcher: Batcher[Any, Any], lifetime: Lifetime) -> None:
        super().__init__(app)
        self.batcher, self.lifetime = batcher, lifetime

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer, unless the index was replaced."""
        if scope["path"] not in WATCHED and self.lifetime.now() == "replaced":
            raise failures.Refusal(503, "index_replaced", REPLACED)
        is_announced = scope["method"] == "POST" and scope["path"] in normalizing.ASKED_TOGETHER
        with self.batcher.announce() if is_announced else contextlib.nullcontext() as arrival:
            scope.setdefault("state", {})["arrival"] = arrival
            await self.app(scope, receive, send)


class Lifetime:
    """Warms the server up when it begins, and tells in which state it is."""

    def __init__(
        self, batcher: Batcher[normalizing.Question, Any], index: Index, further: Sequence[Worker] = ()
    ) -> None:
        self.state: State = "starting"
        self._batcher, self._further = batcher, further
        self._index, self._opened = index.path, contents_opened(index)
        self._looked, self._is_replaced = time.monotonic(), False

    def now(self) -> State:
        """Return the state, as the index's folder is now, or was a moment ago."""
        if time.monotonic() >= self._looked + LOOK:
            was, self._is_replaced = self._is_replaced, contents(self._index) != self._opened
            self._looked = time.monotonic()
            if self._is_replaced and not was:
                logs.warn("index replaced", index=str(self._index), message=REPLACED)
        return "replaced" if self._is_replaced and self.state == "ready" else self.state

    @contextlib.asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.get_running_loop().create_task(self._warm_up())
        try:
            yield
        finally:
            self.state = "stopping"
            logs.event("stopping", waiting=self._batcher.waiting)
            await asyncio.wait([warming])
            await self._batcher.close()
            for worker in self._further:
                worker.close()

    async def _warm_up(self) -> None:
        questions = [normalizing.Question(string) for string in WARM_UP]
        try:
            await self._batcher.ask(normalizing.NormalizeKind(1, False), questions)
            await self._batcher.ask(normalizing.EncodeKind(), questions)
        except Exception as error:
            self.state = "failed"
            logs.LOGGER.error("cannot answer", exc_info=error)
        else:
            self.state = "ready"
            logs.event("ready")
            await self._further_warm_up()

    async def _further_warm_up(self) -> None:
        """Let further workers help, one after the other, as long as there is memory for them."""
        for number, worker in enumerate(self._further, 2):
            if self.state == "stopping":
                return
            if not is_room():
                logs.event("no memory for further processes", processes=number - 1)
                return
            try:
                await run_in_threadpool(worker.warm_up)
            except (RuntimeError, AlphitaError) as error:
                logs.LOGGER.error("a further process cannot answer", exc_info=error)
                return
            self._batcher.add(worker)
            logs.event("answering", processes=number)


def create(
    settings: Settings,
    normalizer: Normalizer,
    store: ReviewStore | None = None,
    terminology: Terminology | None = None,
    further: Sequence[Worker] = (),
) -> FastAPI:
    """Return the app."""
    settings.check()
    work = normalizing.Work(normalizer)
    figures = logs.Metrics(
        version=__version__,
        index=normalizer.index.content_hash,
        model=normalizer.index.manifest["model_hash"],
        waiting=lambda: batcher.waiting,
    )
    batcher: Batcher[normalizing.Question, Any] = Batcher(
        work,
        cost=normalizing.cost,
        budget=settings.batch_tokens,
        window=settings.window_ms / 1000,
        capacity=settings.queue,
        observe=figures.batch,
    )
    lifetime = Lifetime(batcher, normalizer.index, further)
    networks = [ipaddress.ip_network(network) for network in settings.proxies]
    audit = AuditFile(settings.audit) if settings.audit is not None else None
    parts = Parts(store, audit)
    figures.add(Usage(parts.folders, lambda: {"server": os.getpid()} | pids_of(further)))
    ring = keys.KeyRing(settings.keys, settings.rights)
    issuer = oidc.Issuer(settings) if settings.oidc_issuer is not None else None
    open_paths = page_paths() if store is not None else set()
    app = FastAPI(
        title="Alphita",
        version=__version__,
        lifespan=lifetime.lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        description="Maps strings to the medical concepts that they name, and keeps what people decide about them.",
        telemetry=NO_TELEMETRY,
        dependencies=[Depends(access.check)],
        middleware=[
            Middleware(logs.RequestLog, figures, mentions=settings.log_mentions, proxies=networks),
            Middleware(Audit, audit),
            Middleware(Origins, settings),
            Middleware(keys.Authentication, settings, {*open_paths, *access.OPEN_PATHS}, ring, issuer),
            Middleware(Announcement, batcher, lifetime),
            Middleware(Limits, settings),
        ],
    )
    app.state.reload = functools.partial(reload, ring, further, audit)
    app.state.parts = parts
    failures.install(app)
    finders = Finders(normalizer.index, store)
    app.include_router(normalizing.router(settings, normalizer, terminology, batcher, finders))
    app.include_router(normalizing.annotation_router(settings, normalizer, batcher))
    app.include_router(reviewing.router(settings, store, normalizer, terminology, finders))
    app.include_router(reconciling.router(settings, normalizer, terminology, batcher, finders))
    app.include_router(fhir.router(store, normalizer.index, settings))
    if store is not None:
        app.include_router(reviewing.memory_router(settings, store))
    if issuer is not None:
        app.include_router(oidc.router(issuer))
    _operation(app, lifetime, normalizer, figures, parts)
    if open_paths:
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    return app


def reload(ring: keys.KeyRing, further: Sequence[Worker] = (), audit: AuditFile | None = None) -> None:
    """Reopen the logs, and read keys and roles anew."""
    logs.reopen()
    for worker in further:
        worker.reopen_logs()
    if audit is not None:
        audit.reopen()
    ring.reload()


def _operation(app: FastAPI, lifetime: Lifetime, normalizer: Normalizer, figures: logs.Metrics, parts: Parts) -> None:
    """Add what tells of the server itself, and the pages that describe what it answers."""

    @app.get("/health", tags=["Operation"], response_model=Health)
    async def health() -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", tags=["Operation"], response_model=Readiness, responses={503: {"model": Readiness}})
    async def ready(response: Response) -> dict[str, Any]:
        """Report whether the server can answer: 200 if so, otherwise 503."""
        state, unwritable = lifetime.now(), await parts.unwritable()
        if state == "ready" and unwritable:
            state = "unwritable"
        response.status_code = 200 if state == "ready" else 503
        return {
            "status": state,
            "index": normalizer.index.content_hash,
            "model": normalizer.index.manifest["model_hash"],
            "calibrated": normalizer.calibration is not None,
            "assurance": normalizer.assurance,
            "unwritable": unwritable,
        }

    @app.get("/metrics", tags=["Operation"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Return the metrics in Prometheus format."""
        return Response(figures.text(), media_type=logs.MEDIA_TYPE)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return pages.respond(*pages.reference(app.openapi()))


def page_paths() -> set[str]:
    """Return the paths of the review page's files; none where there is no page."""
    files = [path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()]
    return {"/", *(f"/{name}" for name in files)} if "index.html" in files else set()
