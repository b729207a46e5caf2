"""The app. A request passes `RequestLog`, `Origins`, `Authentication`, `Announcement`, `Limits`, then its route."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fastapi import Depends, FastAPI, Response
from fastapi.dependencies import models
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.routing import BaseRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from alphita import __version__, machine
from alphita.answer.calibration_store import Assurance
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError
from alphita.review.store import ReviewStore
from alphita.service import access, failures, fhir, keys, logs, normalizing, oidc, pages, reconciling, reviewing
from alphita.service.audit import Audit, AuditFile
from alphita.service.batching import Batcher
from alphita.service.concepts import Finders
from alphita.service.limits import Limits, Origins
from alphita.service.parts import Parts
from alphita.service.settings import Settings
from alphita.service.usage import Usage
from alphita.service.workers import Contents, Opened, Worker, contents, contents_opened, is_room, pids_of
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
State = Literal["starting", "ready", "failed", "unwritable", "stopping"]
# Seconds between two looks at the index's folder, and at the requests of an index that is no longer in service.
LOOK, RETIRING = 1.0, 0.1


Reopen = Callable[[Contents], "Serving | None"]


class Health(BaseModel):
    """Whether the server runs."""

    status: Literal["ok"]
    version: str


class Readiness(BaseModel):
    """Whether the server can answer now."""

    status: State
    index: str
    model: str
    assurance: Assurance | None = Field(description="certified or estimated confidence; null: there is none")
    unwritable: dict[str, str] = Field({}, description="what cannot be written (reviews, audit, log), and why")


@dataclass(eq=False)
class Serving:
    """One opened index with all that answers from it; a request is answered by one alone.

    Attributes:
        starting: its further processes, as long as they do not answer yet.
        routes: those of the app, over this index.
        requests: those that began while it was in service.
    """

    normalizer: Normalizer
    batcher: Batcher[normalizing.Question, Any]
    further: Sequence[Worker]
    routes: list[BaseRoute] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self.starting = [*self.further]
        self.contents = contents_opened(self.normalizer.index)

    async def warm_up(self) -> None:
        questions = [normalizing.Question(string) for string in WARM_UP]
        await self.batcher.ask(normalizing.NormalizeKind(1, False), questions)
        await self.batcher.ask(normalizing.EncodeKind(), questions)

    async def start_further(self) -> None:
        """Let further processes help, one after the other, as long as there is memory for them."""
        while self.starting:
            processes = 1 + len(self.further) - len(self.starting)
            if not is_room():
                logs.event("no memory for further processes", processes=processes)
                return
            try:
                await run_in_threadpool(self.starting[0].warm_up)
            except (RuntimeError, AlphitaError) as error:
                logs.LOGGER.error("a further process cannot answer", exc_info=error)
                return
            if self.starting:
                self.batcher.add(self.starting.pop(0))
                logs.event("answering", processes=processes + 1)

    async def close(self) -> None:
        """Answer what is waiting, and end the processes."""
        self.starting = []
        await self.batcher.close()
        for worker in self.further:
            worker.close()


class Announcement(failures.Gate):
    """A middleware that announces a request to the batcher, and counts it for the index that is in service."""

    def __init__(self, app: ASGIApp, lifetime: Lifetime) -> None:
        super().__init__(app)
        self.lifetime = lifetime

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer."""
        is_announced = scope["method"] == "POST" and scope["path"] in normalizing.ASKED_TOGETHER
        serving = self.lifetime.serving
        serving.requests += 1
        try:
            with serving.batcher.announce() if is_announced else contextlib.nullcontext() as arrival:
                scope.setdefault("state", {})["arrival"] = arrival
                await self.app(scope, receive, send)
        finally:
            serving.requests -= 1


class Lifetime:
    """Warms the server up when it begins, puts another index into service, and tells in which state it is."""

    def __init__(self, serving: Serving, put: Callable[[Serving], None], reopen: Reopen | None = None) -> None:
        self.state: State = "starting"
        self.serving = serving
        self._put, self._reopen = put, reopen
        self._tried = serving.contents
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        warming, looking = self._begin(self._warm_up()), self._begin(self._look())
        try:
            yield
        finally:
            self.state = "stopping"
            logs.event("stopping", waiting=self.serving.batcher.waiting)
            looking.cancel()
            self.serving.starting = []
            await asyncio.wait([warming, *self._tasks])
            await self.serving.close()
            gc.unfreeze()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _warm_up(self) -> None:
        try:
            await self.serving.warm_up()
        except Exception as error:
            self.state = "failed"
            logs.LOGGER.error("cannot answer", exc_info=error)
        else:
            machine.settle()
            self.state = "ready"
            logs.event("ready")
            await self.serving.start_further()

    async def _look(self) -> None:
        """Reload the index when its folder has changed."""
        while self._reopen is not None:
            await asyncio.sleep(LOOK)
            there = contents(self.serving.normalizer.index.path)
            if self.state == "ready" and there not in (self.serving.contents, self._tried) and None not in there[:1]:
                self._tried = there
                await asyncio.wait([self._reload()])

    def reload_soon(self) -> None:
        """Reload: to be called by a signal."""
        if self._reopen is not None and self.state == "ready":
            self._loop.call_soon_threadsafe(self._reload)

    async def reload(self) -> None:
        """Open the index anew, if there is another one, and put it into service; raise what is wrong with it."""
        await asyncio.shield(self._reload())

    def _reload(self) -> asyncio.Task[None]:
        if self._reloading is None or self._reloading.done():
            self._reloading = self._begin(self._change())
            # Of one that nobody waits for, the log says why it failed.
            self._reloading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reloading

    async def _change(self) -> None:
        was = self.serving
        try:
            if self._reopen is None:
                raise AlphitaError("this server cannot open another index; start it again")
            if (new := await run_in_threadpool(self._reopen, was.contents)) is None:
                return
            try:
                await new.warm_up()
                await new.start_further()
            except BaseException:
                await new.close()
                raise
        except Exception as error:
            logs.LOGGER.error("the index stays as it was", exc_info=error)
            raise
        self._put(new)
        self.serving = new
        logs.event("index reloaded", index=new.normalizer.index.content_hash)
        self._begin(self._retire(was, new))

    async def _retire(self, was: Serving, new: Serving) -> None:
        """Let an index answer the requests that began with it; then its processes and its memory are free."""
        while was.requests and self.state != "stopping":
            await asyncio.sleep(RETIRING)
        await was.close()
        del was
        _forget_routes()
        await new.start_further()


def _forget_routes() -> None:
    """Clear what FastAPI remembers of the functions of routes, for those hold an index that is no longer in service."""
    for remembered in vars(models).values():
        if hasattr(remembered, "cache_clear"):
            remembered.cache_clear()
    # They refer to one another, and what is referred to so is else looked for seldom.
    machine.settle()


def create(
    settings: Settings,
    normalizer: Normalizer,
    store: ReviewStore | None = None,
    terminology: Terminology | None = None,
    further: Sequence[Worker] = (),
    reopen: Callable[[Contents], Opened | None] | None = None,
) -> FastAPI:
    """Return the app.

    Args:
        reopen: opens what is to be served when the server is told to reload; None: it is what was opened already.
    """
    settings.check()
    figures = logs.Metrics(version=__version__, waiting=lambda: lifetime.serving.batcher.waiting)
    networks = [ipaddress.ip_network(network) for network in settings.proxies]
    audit = AuditFile(settings.audit) if settings.audit is not None else None
    parts = Parts(store, audit)
    figures.add(Usage(parts.folders, lambda: {"server": os.getpid()} | pids_of(lifetime.serving.further)))
    ring = keys.KeyRing(settings.keys, settings.rights)
    issuer = oidc.Issuer(settings) if settings.oidc_issuer is not None else None
    open_paths = page_paths() if store is not None else set()

    def serving(opened: Opened) -> Serving:
        normalizer, terminology, further = opened
        batcher = normalizing.batcher(normalizing.Work(normalizer), settings, figures.batch)
        made, routes, finders = (
            Serving(normalizer, batcher, further),
            FastAPI(openapi_url=None, dependencies=[Depends(access.check)]),
            Finders(normalizer.index, store),
        )
        routes.include_router(normalizing.router(settings, normalizer, terminology, batcher, finders))
        routes.include_router(normalizing.annotation_router(settings, normalizer, batcher))
        routes.include_router(reviewing.router(settings, store, normalizer, terminology, finders))
        routes.include_router(reconciling.router(settings, normalizer, terminology, batcher, finders))
        routes.include_router(fhir.router(store, normalizer.index, settings, batcher))
        if store is not None:
            routes.include_router(reviewing.memory_router(settings, store))
        made.routes = routes.router.routes
        return made

    def put(serving: Serving) -> None:
        # The router reads the list once a request.
        app.router.routes = [*serving.routes, *own]
        app.openapi_schema = None
        figures.serve(serving.normalizer.index)

    def opened_anew(known: Contents) -> Serving | None:
        opened = reopen(known) if reopen is not None else None
        return serving(opened) if opened is not None else None

    first = serving(Opened(normalizer, terminology, further))
    lifetime = Lifetime(first, put, opened_anew if reopen is not None else None)
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
            Middleware(Announcement, lifetime),
            Middleware(Limits, settings),
        ],
    )
    app.state.parts = parts
    failures.install(app)

    def reload_all() -> None:
        reload(ring, lifetime.serving.further, audit)
        lifetime.reload_soon()

    app.state.reload = reload_all
    if issuer is not None:
        app.include_router(oidc.router(issuer))
    _operation(app, lifetime, figures, parts)
    if open_paths:
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    own = app.router.routes
    put(first)
    return app


def reload(ring: keys.KeyRing, further: Sequence[Worker] = (), audit: AuditFile | None = None) -> None:
    """Reopen the logs, and read keys and roles anew; what fails is logged, and the rest is done."""
    logs.reopen()
    ring.reload()
    for worker in further:
        worker.reopen_logs()
    if audit is not None:
        try:
            audit.reopen()
        except AlphitaError as error:
            logs.LOGGER.error("the audit log stays as it was", exc_info=error)


def _operation(app: FastAPI, lifetime: Lifetime, figures: logs.Metrics, parts: Parts) -> None:
    """Add what tells of the server itself, and the pages that describe what it answers."""

    async def readiness() -> dict[str, Any]:
        normalizer, state, unwritable = lifetime.serving.normalizer, lifetime.state, await parts.unwritable()
        return {
            "status": "unwritable" if state == "ready" and unwritable else state,
            "index": normalizer.index.content_hash,
            "model": normalizer.index.manifest["model_hash"],
            "assurance": normalizer.assurance,
            "unwritable": unwritable,
        }

    @app.get("/health", tags=["Operation"], response_model=Health)
    async def health() -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", tags=["Operation"], response_model=Readiness, responses={503: {"model": Readiness}})
    async def ready(response: Response) -> dict[str, Any]:
        """Report whether the server can answer: 200 if so, otherwise 503."""
        told = await readiness()
        response.status_code = 200 if told["status"] == "ready" else 503
        return told

    @app.post(
        "/admin/reload", tags=["Operation"], response_model=Readiness, responses=failures.documented(401, 403, 503, 504)
    )
    async def reload_index() -> dict[str, Any]:
        """Open the index anew and put it into service; the one before answers until then, and if this fails."""
        await lifetime.reload()
        return await readiness()

    @app.get("/metrics", tags=["Operation"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Return the metrics in Prometheus format."""
        return Response(figures.text(), media_type=logs.MEDIA_TYPE)

    @app.get("/openapi.json", include_in_schema=False)
    def openapi() -> dict[str, Any]:
        return app.openapi()

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        return pages.respond(*pages.reference(app.openapi()))


def page_paths() -> set[str]:
    """Return the paths of the review page's files; none where there is no page."""
    files = [path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()]
    return {"/", *(f"/{name}" for name in files)} if "index.html" in files else set()
