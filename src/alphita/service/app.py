"""The app: everything that is served, put together.

A request passes, from the outside in: `Watch` (log, figures, headers), `Origins` (which sites), `Doors` (who), `Ahead`
(batches wait for it), `Limits` (how much), then its route.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from alphita import __version__
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.answering.calibration_store import Assurance
from alphita.normalizer.answering.normalizer import Normalizer
from alphita.service import (
    annotating,
    failures,
    fhir,
    keys,
    logs,
    metrics,
    normalizing,
    reference,
    remembering,
    reviewing,
)
from alphita.service.batching import Batcher
from alphita.service.headers import Origins
from alphita.service.limits import Limits
from alphita.service.settings import Settings
from alphita.service.workers import Worker, is_room
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
State = Literal["starting", "ready", "failed", "stopping"]


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


class Ahead:
    """A middleware that announces a request to the batcher while it is being received."""

    def __init__(self, app: ASGIApp, batcher: Batcher[Any, Any]) -> None:
        """Announce to `batcher`."""
        self.app, self.batcher = app, batcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] not in normalizing.ASKED_TOGETHER:
            await self.app(scope, receive, send)
            return
        with self.batcher.announce() as arrival:
            scope.setdefault("state", {})["arrival"] = arrival
            await self.app(scope, receive, send)


class Lifetime:
    """Warms the server up when it begins, and tells in which state it is."""

    def __init__(self, batcher: Batcher[normalizing.Question, Any], further: Sequence[Worker] = ()) -> None:
        """Warm up what `batcher` asks, and then `further` workers for it."""
        self.state: State = "starting"
        self._batcher, self._further = batcher, further

    @contextlib.asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Run while the server does."""
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
            await self._batcher.ask(normalizing.Asked(1, False), questions)
            await self._batcher.ask(normalizing.Encoded(), questions)
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
            except RuntimeError as error:
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
    """Return the app.

    Args:
        settings: who may ask, and how much; see `Settings.check`.
        normalizer: answers.
        store: the reviews; without them there is no review page.
        terminology: what concepts are shown from; the index without one.
        further: processes that answer, too, of the same index.

    Raises:
        UsageError: the settings do not go together.
        InputError: the keys file is not as it should be.
    """
    settings.check()
    work = annotating.Work(normalizer)
    figures = metrics.Metrics(
        version=__version__,
        index=normalizer.index.content_hash,
        model=normalizer.index.manifest["model_hash"],
        waiting=lambda: batcher.waiting,
    )
    batcher: Batcher[normalizing.Question, Any] = Batcher(
        work,
        cost=annotating.cost,
        budget=settings.batch_tokens,
        window=settings.window_ms / 1000,
        capacity=settings.queue,
        observe=figures.batch,
    )
    lifetime = Lifetime(batcher, further)
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
        middleware=[
            Middleware(logs.Watch, figures, mentions=settings.log_mentions),
            Middleware(Origins, settings.hosts),
            Middleware(keys.Doors, settings, open_paths),
            Middleware(Ahead, batcher),
            Middleware(Limits, settings),
        ],
    )
    if settings.keys is not None:
        keys.load(settings.keys)  # at once; the middleware is made with the first request
    failures.install(app)
    app.include_router(normalizing.router(settings, normalizer, terminology, batcher))
    app.include_router(annotating.router(settings, normalizer, batcher))
    app.include_router(reviewing.router(store, normalizer, terminology))
    app.include_router(fhir.router(store, normalizer.index))
    if store is not None:
        app.include_router(remembering.router(settings, store))
    _operation(app, lifetime, normalizer, figures)
    if open_paths:
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    return app


def _operation(app: FastAPI, lifetime: Lifetime, normalizer: Normalizer, figures: metrics.Metrics) -> None:
    """Add what tells of the server itself, and the pages that describe what it answers."""

    @app.get("/health", tags=["Operation"], response_model=Health)
    async def health() -> dict[str, str]:
        """Tell that the server runs."""
        return {"status": "ok", "version": __version__}

    @app.get("/ready", tags=["Operation"], response_model=Readiness, responses={503: {"model": Readiness}})
    async def ready(response: Response) -> dict[str, Any]:
        """Tell whether the server can answer: 200 if so, else 503."""
        response.status_code = 200 if lifetime.state == "ready" else 503
        return {
            "status": lifetime.state,
            "index": normalizer.index.content_hash,
            "model": normalizer.index.manifest["model_hash"],
            "calibrated": normalizer.calibration is not None,
            "assurance": normalizer.assurance,
        }

    @app.get("/metrics", tags=["Operation"], response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Return the figures as Prometheus reads them."""
        return Response(figures.text(), media_type=metrics.MEDIA_TYPE)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return app.openapi()

    @app.get("/docs", include_in_schema=False)
    async def docs(_: Request) -> HTMLResponse:
        return HTMLResponse(reference.page(app.openapi()), headers={"Content-Security-Policy": reference.POLICY})


def page_paths() -> set[str]:
    """Return the paths of the review page's files; none where there is no page."""
    files = [path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()]
    return {"/", *(f"/{name}" for name in files)} if "index.html" in files else set()
