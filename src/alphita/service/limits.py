"""Limits of connections, requests a second, bytes and seconds; and which sites may send requests.

`Limits` reads the whole body before the app begins, so that memory stays flat however many ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import resource
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from alphita.service.batching import Shared
from alphita.service.failures import Gate, Refusal, anonymous, check_values, client_of
from alphita.service.settings import Settings

# Asked by machines that watch this one; they are always answered.
WATCHED = ("/health", "/ready", "/metrics")
UPLOADS = "/api/projects"
# Answered by the batcher, where clients take turns.
BATCHED = ("/normalize", "/annotate", "/embed")
TOO_MANY = 429
MAX_CLIENTS = 10_000
# Seconds before a client over its rate is told so: one that asks again at once would otherwise keep the server busy
# with refusals. No more than so many wait.
PAUSE = 0.25
MAX_PAUSING = 1_000
# Bytes of a body that count as much as a request.
BYTES_A_REQUEST = 10_000
# Seconds before a request's end at which no more of it is answered, so that this can still be said.
MARGIN = 0.1
# What does not wait for the batcher works in threads, so many of one client at once; and in so many, half of all, what
# a database or another program may hold up.
MAX_THREADS, MAX_HELD_UP = 2, 20


class Rate:
    """Requests a second of each client: a bucket that holds `burst` and fills by `rate` a second.

    What is charged once it is known, such as the size of a body, may leave it empty for longer, up to as much again.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, burst, clock
        # client -> what its bucket held, and when; the longest not seen first.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Count one request; return 0.0 if it may go on, else the seconds after which the client may ask again."""
        if not self.rate:
            return 0.0
        now = self._clock()
        held, when = self._buckets.pop(client, (float(self.burst), now))
        held = min(self.burst, held + (now - when) * self.rate)
        allowed = held >= 1
        self._buckets[client] = (held - 1 if allowed else held, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - held) / self.rate

    def charge(self, client: str, cost: float) -> None:
        """Count more for the request that was taken."""
        if client in self._buckets:
            held, when = self._buckets[client]
            self._buckets[client] = (max(held - cost, -float(self.burst)), when)


@dataclass
class _Body:
    """A body that is being read; `size` is counted for it until its request is answered."""

    content: bytearray
    size: int = 0
    given: bool = False


class Pause:
    """Lets a client that is over its rate wait a moment before it is told so."""

    def __init__(self) -> None:
        self.waiting = 0

    async def __call__(self) -> None:
        if self.waiting >= MAX_PAUSING:
            return
        self.waiting += 1
        try:
            await asyncio.sleep(PAUSE)
        finally:
            self.waiting -= 1


class Limits(Gate):
    """The middleware."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self.settings = settings
        self.rate = Rate(settings.rate, settings.burst)
        self.requests = Shared(settings.max_requests)
        self.bytes = Shared(settings.max_buffered)
        self._threads: dict[str, asyncio.Semaphore] = {}
        self._held_up = asyncio.Semaphore(MAX_HELD_UP)
        self.pause = Pause()

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer a request within the limits, or refuse it."""
        if scope["path"] in WATCHED:
            seconds = self.settings.seconds
            await self._timed(scope, receive, send, time.monotonic() + seconds, seconds)
            return
        state = scope.setdefault("state", {})
        reviewer = state.get("reviewer")
        named = {None: anonymous, "local": client_of}.get(reviewer)
        client = state["turn"] = named(scope) if named is not None else str(reviewer)
        await self._admit(client)
        self.requests.take(client, 1)
        try:
            await self._bounded(scope, receive, send, client)
        finally:
            self.requests.take(client, -1)
            if not self.requests.of(client):
                self._threads.pop(client, None)

    async def _admit(self, client: str) -> None:
        if wait := self.rate.take(client):
            await self.pause()
            problem = f"more than {self.settings.rate:g} requests a second, or {BYTES_A_REQUEST:,} times as many bytes"
            raise Refusal(TOO_MANY, "too_many_requests", problem, retry_after=wait)
        if not self.requests.has_room(client, 1):
            raise Refusal(503, "busy", "too many requests at once", retry_after=1)

    async def _bounded(self, scope: Scope, receive: Receive, send: Send, client: str) -> None:
        seconds = _seconds(scope, self.settings)
        deadline = time.monotonic() + seconds
        scope["state"]["deadline"] = deadline - min(MARGIN, seconds / 2)
        body = _Body(bytearray())

        async def replay() -> Message:
            if body.given:
                return await receive()
            body.given = True
            content, body.content = bytes(body.content), bytearray()
            return {"type": "http.request", "body": content, "more_body": False}

        try:
            if await self._read(scope, receive, body, seconds, client):
                turns = []
                if not _is_upload(scope):
                    check_values(body.content, self.settings.max_values)
                    self.rate.charge(client, body.size // BYTES_A_REQUEST)
                    if scope["path"] not in BATCHED:
                        own = self._threads.setdefault(client, asyncio.Semaphore(MAX_THREADS))
                        turns = [own, self._held_up] if _may_be_held_up(scope) else [own]
                await self._timed(scope, replay, send, deadline, seconds, turns)
        finally:
            self.bytes.take(client, -body.size)

    async def _read(self, scope: Scope, receive: Receive, body: _Body, seconds: float, client: str) -> bool:
        """Read the body; return False if the client went away.

        Raises:
            Refusal: it is too large, or too slow, or there is no room for it now.
        """
        limit = _limit(scope, self.settings)
        try:
            async with asyncio.timeout(seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return False
                    chunk = message.get("body", b"")
                    if not self.bytes.has_room(client, len(chunk)):
                        raise Refusal(503, "busy", "too much is being received at once", retry_after=1)
                    body.size += len(chunk)
                    self.bytes.take(client, len(chunk))
                    if body.size > limit:
                        raise _too_large(limit)
                    body.content += chunk
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Refusal(408, "too_slow", f"the body took more than {seconds:g} s") from None
        return True

    async def _timed(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        deadline: float,
        seconds: float,
        turns: Sequence[asyncio.Semaphore] = (),
    ) -> None:
        """Let the app answer; if it has not begun to by the deadline, say so.

        What it does in a thread goes on, so the answer does not say that nothing was done.
        """
        started = False
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())) as limit:

                async def sending(message: Message) -> None:
                    nonlocal started
                    if message["type"] == "http.response.start":
                        started = True
                        limit.reschedule(None)
                    await send(message)

                async with contextlib.AsyncExitStack() as held:
                    for turn in turns:
                        await held.enter_async_context(turn)
                    await self.app(scope, receive, sending)
        except TimeoutError:
            if started or not limit.expired():
                raise
            problem = f"no answer within {seconds:g} s; it may still be done"
            raise Refusal(504, "timeout", problem, retry_after=1) from None


def _seconds(scope: Scope, settings: Settings) -> float:
    """Return how long a request may take until its answer begins."""
    is_export = scope["method"] == "GET" and scope["path"].endswith("/export")
    return settings.file_seconds if is_export or _is_upload(scope) else settings.seconds


def _is_upload(scope: Scope) -> bool:
    """Tell whether a file is imported, in a process of its own."""
    return bool(scope["method"] == "POST" and scope["path"] == UPLOADS)


def _may_be_held_up(scope: Scope) -> bool:
    """Tell whether a request asks the store of reviews, or (a batch) may do so."""
    path = scope["path"].rstrip("/")
    in_project = path == "/search" and b"project=" in scope["query_string"]
    return in_project or path.startswith("/api/") or path.endswith(("/mappings", "/$translate", "/fhir/r4", "/fhir/r5"))


def _limit(scope: Scope, settings: Settings) -> int:
    """Return the bytes that a body may have."""
    limit = settings.max_upload if _is_upload(scope) else settings.max_body
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            raise _too_large(limit)
    return limit


def _too_large(limit: int) -> Refusal:
    return Refusal(413, "too_large", f"the body has more than {limit:,} bytes")


SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD", "OPTIONS")
OWN_PAGES = ("same-origin", "none")
# Of CORS: keys go in a header of their own, never as a browser's credentials.
SHARED = {"Vary": "Origin", "Access-Control-Expose-Headers": "Retry-After, X-Request-Id"}
PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST",
    "Access-Control-Allow-Headers": "Accept, Authorization, Content-Type, Prefer",
    "Access-Control-Max-Age": "600",
}
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([\w.-]+))(?::\d+)?")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def secure(message: Message) -> None:
    """Add the headers to the message that begins a response; those it has stay."""
    headers = MutableHeaders(scope=message)
    for name, value in SECURITY.items():
        headers.setdefault(name, value)


class Origins(Gate):
    """A middleware that refuses what another site's page sends, unless its origin is allowed (CORS)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        super().__init__(app)
        self._hosts = {host.lower() for host in settings.hosts}
        self._origins = {*settings.origins}

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer what its own pages, allowed ones, or no page, ask under one of its names."""
        headers = Headers(scope=scope)
        host, site, origin = headers.get("host", ""), headers.get("sec-fetch-site"), headers.get("origin")
        if self._hosts and _name(host) not in self._hosts:
            raise Refusal(403, "wrong_host", "this host name is not allowed; add it with --allow-host")
        if origin is not None and origin in self._origins:
            await self._share(scope, receive, send, origin)
            return
        is_own = origin is None or urlsplit(origin).netloc.lower() == host.lower()
        if scope["method"] not in SAFE and not (is_own if site is None else site in OWN_PAGES):
            problem = "another site's page may not send anything here, unless --allow-origin names its origin"
            raise Refusal(403, "other_site", problem)
        await self.app(scope, receive, send)

    async def _share(self, scope: Scope, receive: Receive, send: Send, origin: str) -> None:
        """Answer an allowed origin so that its page may read it; a preflight is answered without a key."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SHARED | {"Access-Control-Allow-Origin": origin})
            await send(message)

        is_preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in Headers(scope=scope)
        await (Response(status_code=204, headers=PREFLIGHT) if is_preflight else self.app)(scope, receive, sending)


def _name(host: str) -> str:
    """Return the host of a Host header, without its port; "" if it is none."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""


# For a request's header, for the next request, and to take so many bytes of what is sent.
CONNECTION_SECONDS = 10.0
MIN_TAKEN = 65_536
NOT_SENT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
# Bytes of answers that clients have not taken yet, in all; of one client, who may have one of any size.
MAX_UNTAKEN = 256 * 2**20
MAX_HEADER = 65_536
MAX_CONNECTIONS = 2_048
BACKLOG = 512


@functools.cache
def connection_limits() -> tuple[int, int]:
    """Return how many connections may be open, and how many may be accepted at once, within the file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = MAX_CONNECTIONS * 2 if soft == resource.RLIM_INFINITY else soft
    return min(MAX_CONNECTIONS, soft // 2), min(BACKLOG, soft // 4)


# A line that ends otherwise, or is folded: two programs may not agree on where such a header ends.
_ODD_LINES = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]")


class Strict(h11.Connection):
    """Reads requests, and refuses those that another program, say a proxy before it, might read as other requests."""

    _head = bytearray()

    def receive_data(self, data: bytes) -> None:
        """Take what came, and keep the bytes of a header."""
        if self.their_state is h11.IDLE:
            self._head = self._head or bytearray()
            self._head += data
        super().receive_data(data)

    def start_next_cycle(self) -> None:
        """Begin the next request."""
        super().start_next_cycle()
        self._head = bytearray(self.trailing_data[0])

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return what comes next; 400 is the answer to the error that this may raise."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            head, self._head = self._head[: len(self._head) - len(self.trailing_data[0])], bytearray()
            names = {name for name, _ in event.headers}
            lengths = names & {b"content-length", b"transfer-encoding"}
            known = event.http_version == b"1.1" or (event.http_version == b"1.0" and b"transfer-encoding" not in names)
            whole = event.target.startswith(b"/") or (event.method, event.target) == (b"OPTIONS", b"*")
            if len(lengths) > 1 or not known or not whole or _ODD_LINES.search(head):
                raise h11.RemoteProtocolError("a request that can be read in two ways")
        return event


class Connection(H11Protocol):
    """A connection that ends when its client leaves the server waiting.

    Where there are too many, the one that has been waited for longest makes room. uvicorn's own `limit_concurrency`
    would refuse whoever comes, and keep those that ask for nothing.
    """

    _limit: asyncio.TimerHandle | None = None
    _left, _client = 0, ""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - see `H11Protocol`
        super().__init__(*arguments, **named)
        self.conn = Strict(h11.SERVER, MAX_HEADER)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Else the kernel holds megabytes, and what is taken of them is not seen; a Unix socket holds little.
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, NOT_SENT, MIN_TAKEN // 2)
        self._watch()
        if len(self.connections) > connection_limits()[0]:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one._limit is not None]
            min(waiting, key=lambda one: one._limit.when() if one._limit else 0.0)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; one of a header gives no more time for the others."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; the answer to a HEAD may have no body."""
        with contextlib.suppress(h11.LocalProtocolError):
            super().send_400_response(msg)
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait until the client takes what was sent, unless it has left more than its share already."""
        super().pause_writing()
        self._watch()
        # Of whom; the next request on this connection may be of somebody else.
        self._client = str(self.scope["state"].get("turn", ""))
        held = Counter[str]()
        for one in self.connections:
            if isinstance(one, Connection) and one.flow.write_paused:
                held[one._client] += one.transport.get_write_buffer_size()
        theirs, last = held[self._client], self.transport.get_write_buffer_size()
        if held.total() > MAX_UNTAKEN and theirs > max(last, MAX_UNTAKEN / len(held)):
            self._end()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused:
            self._forget()
        elif self._limit is None:
            self._left = self.transport.get_write_buffer_size()
            self._limit = self.loop.call_later(CONNECTION_SECONDS, self._over)

    def _forget(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _over(self) -> None:
        self._forget()
        if self._left - self.transport.get_write_buffer_size() >= MIN_TAKEN:
            self._watch()
        else:
            self._end()

    def _end(self) -> None:
        self._forget()
        # Closing it would wait until what was sent is taken.
        self.transport.abort()
