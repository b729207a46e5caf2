"""Prometheus metrics, and logs: a JSON object a line, without mentions, which may be patient data.

Routes and error types are logged, not paths, queries or messages, unless `--log-mentions` is given.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alphita.errors import AlphitaError
from alphita.index.store import Index
from alphita.printing import visible
from alphita.service.batching import Batch
from alphita.service.failures import Gate, Network, Refusal, forwarded_client, refusal_of, refuse
from alphita.service.limits import Rate, secure

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
MEDIA_TYPE = CONTENT_TYPE_LATEST
M = TypeVar("M")


class Metrics:
    """Counts and times; see each one's own words."""

    def __init__(self, *, version: str, waiting: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def metric(kind: Callable[..., M], name: str, text: str, labels: tuple[str, ...] = (), **more: Any) -> M:  # noqa: ANN401
            return kind(name, text, labels, registry=self.registry, **more)

        self._requests = metric(Counter, "alphita_requests_total", "Requests answered.", ("route", "method", "status"))
        seconds = "Seconds from a request to the end of its answer."
        self._seconds = metric(Histogram, "alphita_request_seconds", seconds, ("route",), buckets=SECONDS)
        self._refused = metric(Counter, "alphita_refused_total", "Requests refused, by reason.", ("code",))
        self._open = metric(Gauge, "alphita_requests_open", "Requests being answered.")
        together = "Mentions and texts answered together."
        self._sizes = metric(Histogram, "alphita_batch_size", together, buckets=SIZES)
        self._batch_requests = metric(Histogram, "alphita_batch_requests", "Requests answered together.", buckets=SIZES)
        self._batch_seconds = metric(Histogram, "alphita_batch_seconds", "Seconds of a batch.", buckets=SECONDS)
        self._tokens = metric(Counter, "alphita_batch_tokens_total", "Tokens answered, about.")
        depth = metric(Gauge, "alphita_queue_depth", "Mentions and texts waiting or being answered.")
        depth.set_function(waiting)
        self._version = version
        self._build = metric(Gauge, "alphita_build_info", "What is running.", ("version", "index", "model"))

    def serve(self, index: Index) -> None:
        """Tell which index is in service."""
        self._build.clear()
        self._build.labels(self._version, index.content_hash, index.manifest["model_hash"]).set(1)

    def add(self, collector: Any) -> None:  # noqa: ANN401 - prometheus_client's are duck-typed
        self.registry.register(collector)

    def begin(self) -> None:
        self._open.inc()

    def end(self, route: str, method: str, status: int, seconds: float, refused: str | None) -> None:
        self._open.dec()
        self._requests.labels(route, method if method in METHODS else "other", str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if refused is not None:
            self._refused.labels(refused).inc()

    def batch(self, batch: Batch) -> None:
        self._sizes.observe(batch.questions)
        self._batch_requests.observe(batch.requests)
        self._batch_seconds.observe(batch.seconds)
        self._tokens.inc(batch.tokens)

    def text(self) -> bytes:
        return generate_latest(self.registry)


LOGGER = logging.getLogger("alphita.service")
FRAMES = 8
CLIENT_GONE = 499
MAX_PER_MINUTE = 100
STDERR = 2


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object; `extra={"fields": {...}}` adds to it."""

    def __init__(self, *, mentions: bool = False) -> None:
        super().__init__()
        self.mentions = mentions

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1], message=self.mentions)
        return visible(json.dumps(line, ensure_ascii=False, default=str))


def describe(error: BaseException, *, message: bool) -> dict[str, Any]:
    """Return an error's type, the places it came through, and its message: without `message` only our own, no value."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    described: dict[str, Any] = {"type": type(error).__name__}
    if message:
        described["message"] = str(error)
    elif isinstance(error, AlphitaError | OSError):
        described["message"] = refusal_of(error).message if isinstance(error, AlphitaError) else error.strerror
    return described | {"at": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]}


class Handler(logging.StreamHandler[TextIO]):
    """Writes lines, and of failures and refusals no more than `MAX_PER_MINUTE` of a kind."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rate, self._left_out = Rate(MAX_PER_MINUTE / 60, MAX_PER_MINUTE), defaultdict[str, int](int)
        self.problem, self._emitted, self.file = "", True, ""
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{STDERR}")
            self.file = name if os.path.isfile(name) and os.path.samestat(os.stat(name), os.fstat(STDERR)) else ""

    def emit(self, record: logging.LogRecord) -> None:
        self._emitted = True
        if (kind := _kind(record)) is not None:
            if self._rate.take(kind):
                self._left_out[kind] += 1
                return
            if count := self._left_out.pop(kind, 0):
                record.fields = {**getattr(record, "fields", {}), "left_out": count}
        super().emit(record)
        if self.problem and self._emitted:
            problem, self.problem = self.problem, ""
            warn("the log could not be written", cause=problem)

    def handleError(self, record: logging.LogRecord) -> None:
        """Keep why a line could not be written."""
        self.problem, self._emitted = str(sys.exc_info()[1]), False

    def reopen(self) -> None:
        """Where stderr is a file that was moved away, go on in a new one of its name."""
        with contextlib.suppress(OSError):
            if self.file:
                descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
                os.dup2(descriptor, STDERR)
                os.close(descriptor)


def _kind(record: logging.LogRecord) -> str | None:
    """Return of which kind a line is; None for one of a request that was answered, and of what happened once."""
    refused = getattr(record, "fields", {}).get("refused")
    if record.levelno <= logging.INFO:
        return refused
    error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
    # asyncio puts what it is about on the lines after the first.
    return f"{str(record.msg).partition(chr(10))[0]} {error}"


def configure(*, mentions: bool = False, stream: TextIO | None = None) -> None:
    """Send this service's, uvicorn's and asyncio's logs to `stream` (stderr) as JSON lines."""
    handler = Handler(stream or sys.stderr)
    handler.setFormatter(JsonLines(mentions=mentions))
    for name, level in ((LOGGER.name, logging.INFO), ("uvicorn", logging.WARNING), ("asyncio", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def reopen() -> None:
    """Reopen the file that the logs go to, if it is one: see `Handler.reopen`."""
    for handler in LOGGER.handlers:
        if isinstance(handler, Handler):
            handler.reopen()


def problem() -> str:
    """Return why the last line could not be written; "" if it was."""
    return next((handler.problem for handler in LOGGER.handlers if isinstance(handler, Handler)), "")


def warn(name: str, **fields: Any) -> None:  # noqa: ANN401 - JSON values
    """Log that something is wrong."""
    LOGGER.warning(name, extra={"fields": fields})


def event(name: str, **fields: Any) -> None:  # noqa: ANN401 - JSON values
    """Log that something happened."""
    LOGGER.info(name, extra={"fields": fields})


class RequestLog(Gate):
    """The outermost middleware: numbers requests, logs and counts them, and answers for what nothing else caught."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, *, mentions: bool = False, proxies: Sequence[Network] = ()
    ) -> None:
        super().__init__(app)
        self.metrics, self.mentions, self.proxies = metrics, mentions, proxies

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer, and tell of it."""
        state = scope.setdefault("state", {})
        number = state["request_id"] = secrets.token_hex(8)
        state["client"] = forwarded_client(scope, self.proxies)
        start = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                secure(message)
                message["headers"] = [*message["headers"], (b"x-request-id", number.encode())]
            await send(message)

        self.metrics.begin()
        try:
            await self.app(scope, receive, sending)
        except ClientDisconnect:
            status = CLIENT_GONE
        except Exception as error:
            LOGGER.error("failed", exc_info=error, extra={"fields": {"request": number, "route": route_of(scope)}})
            if not status:
                await refuse(scope, receive, sending, Refusal(500, "internal", f"see request {number} in the log"))
        finally:
            seconds = time.perf_counter() - start
            self.metrics.end(route_of(scope), scope["method"], status or CLIENT_GONE, seconds, state.get("refused"))
            self._log(scope, status or CLIENT_GONE, seconds)

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        state = scope["state"]
        fields = {
            "request": state["request_id"],
            "method": scope["method"][:16],
            "route": route_of(scope),
            "status": status,
            "ms": round(1000 * seconds, 1),
            "reviewer": state.get("reviewer"),
            "client": state["client"],
        }
        more = ("rows", "refused", *(["asked"] if self.mentions else []))
        event("request", **fields, **{name: state[name] for name in more if name in state})


def route_of(scope: Scope) -> str:
    """Return the template of the path that was asked for; "-" for none."""
    return str(getattr(scope.get("route"), "path", None) or "-")
