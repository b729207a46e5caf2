"""The audit log: who read, decided, imported and exported what. It holds no mentions and no comments.

A line is on disk before what it tells of goes out; what changes something has a line before it is done, too. A request
whose line cannot be written is refused, for a log that lacks some lines proves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import stat
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alphita import clock
from alphita.errors import AlphitaError
from alphita.printing import visible
from alphita.service.failures import Gate, Refusal, refuse
from alphita.service.limits import SAFE, TOO_MANY
from alphita.service.logs import CLIENT_GONE, LOGGER, route_of

AUDITED = ("/api/", "/mappings", "/fhir/", "/admin/", "/login/", "/logout")
MAX_SHOWN = 200
_noted: ContextVar[dict[str, Any] | None] = ContextVar("noted", default=None)


def note(**what: Any) -> None:  # noqa: ANN401 - JSON values
    """Add ids and counts to the line of the request that is being answered."""
    if (noted := _noted.get()) is not None:
        noted.update(what)


def _line(fields: dict[str, Any]) -> bytes:
    line = {"time": clock.now().isoformat(timespec="milliseconds")} | fields
    return visible(json.dumps(line, ensure_ascii=False)).encode("utf-8", "backslashreplace") + b"\n"


class _Batch:
    """Lines that are written together."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.problem = "not written"


class AuditFile:
    """The file; `problem` says why the last line could not be written."""

    def __init__(self, path: Path) -> None:
        self.path, self.problem = path, ""
        self._batch, self._turn = _Batch(), asyncio.Lock()
        self._descriptor = self._opened()

    def _opened(self) -> int:
        try:
            # A pipe that nobody reads is an error, and is not waited for.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o600)
            os.set_blocking(descriptor, True)
        except OSError as error:
            raise AlphitaError(f"the audit log {self.path} cannot be opened: {error.strerror}") from None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
        return descriptor

    def reopen(self) -> None:
        """Go on in a new file of this name, where the other one was moved away."""
        try:
            descriptor = self._opened()
        except AlphitaError as error:
            LOGGER.error("the audit log goes on in the file that was open", exc_info=error)
            return
        os.dup2(descriptor, self._descriptor, inheritable=False)
        os.close(descriptor)
        self.problem = self._put(_line({"event": "reopened"}))

    async def write(self, **fields: Any) -> None:  # noqa: ANN401 - JSON values
        """Write a line, together with those that wait at the same time.

        Raises:
            Refusal: it is not on disk.
        """
        batch = self._batch
        batch.lines.append(_line(fields))
        async with self._turn:
            if batch is self._batch:
                self._batch = _Batch()
                batch.problem = await run_in_threadpool(self._put, b"".join(batch.lines))
                if batch.problem and not self.problem:
                    LOGGER.error("the audit log cannot be written", extra={"fields": {"cause": batch.problem}})
                self.problem = batch.problem
        if batch.problem:
            raise Refusal(503, "no_audit", "the audit log cannot be written; nothing is answered without it")

    async def retry(self) -> None:
        """Where it could not be written, try again."""
        if self.problem:
            with contextlib.suppress(Refusal):
                await self.write(event="resumed")

    def _put(self, lines: bytes) -> str:
        size = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, lines) != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno == errno.EINVAL:  # a pipe, which has no disk
                return ""
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, size)
            return error.strerror or str(error)
        return ""


class Audit(Gate):
    """The middleware that writes it."""

    def __init__(self, app: ASGIApp, file: AuditFile | None) -> None:
        super().__init__(app)
        self.file = file

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the app answer, and write who asked what, and what came of it."""
        if self.file is None or not scope["path"].startswith(AUDITED):
            await self.app(scope, receive, send)
            return
        file, state, noted = self.file, scope["state"], dict[str, Any]()
        asks, answers, status = scope["method"] not in SAFE, None, CLIENT_GONE

        def who() -> dict[str, Any]:
            request = {"request": state["request_id"], "user": state.get("reviewer"), "client": state["client"]}
            return request | {"method": scope["method"][:16]}

        async def receiving() -> Message:
            nonlocal asks
            # Its sender is known by now, and nothing is done yet.
            if asks:
                asks = False
                await file.write(event="asked", **who(), path=scope["path"][:MAX_SHOWN])
            return await receive()

        async def sending(message: Message) -> None:
            nonlocal answers
            if answers is None:
                answers = message["status"] == TOO_MANY or await self._told(scope, who() | noted, message["status"])
                if not answers:
                    await refuse(scope, receive, send, Refusal(503, "no_audit", "the audit log cannot be written"))
            if answers:
                await send(message)

        token = _noted.set(noted)
        try:
            await self.app(scope, receiving, sending)
        except Exception:
            status = 500
            raise
        finally:
            _noted.reset(token)
            if answers is None:
                await self._told(scope, who() | noted, status)

    async def _told(self, scope: Scope, fields: dict[str, Any], status: int) -> bool:
        assert self.file is not None
        named = (scope.get("path_params", {}).get(name) for name in ("name", "row"))
        project, row = (place if place is None else str(place)[:MAX_SHOWN] for place in named)
        about = {"route": route_of(scope), "project": project, "row": row} | fields
        state = {"status": status, "refused": scope["state"].get("refused")}
        known = {name: value for name, value in (about | state).items() if value is not None}
        try:
            await self.file.write(event="answered", **known)
        except Refusal:
            return False
        return True
