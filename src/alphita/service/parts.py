"""What a server writes: reviews, audit log and log; whether each can be written, and why not."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import tempfile
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from alphita.review.records import Away
from alphita.review.store import ReviewStore
from alphita.service import logs
from alphita.service.audit import AuditFile

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_FULL = re.compile(r"disk is full|disk I/O|reading or writing failed|no space left", re.IGNORECASE)
PROBE_BYTES = 2**20
# Seconds in which a database that is there answers.
PATIENCE = 3.0
AWAY = "the database does not answer"


class Parts:
    """The parts that are written."""

    def __init__(self, store: ReviewStore | None, audit: AuditFile | None) -> None:
        self.audit, self._store = audit, store
        is_file = store is not None and "://" not in store.address
        files = {
            "reviews": Path(store.address) if store is not None and is_file else None,
            "audit": audit.path if audit is not None else None,
        }
        self.folders = {name: file.resolve().parent for name, file in files.items() if file is not None}
        self._reviews = ""
        self._asking: asyncio.Future[bool] | None = None

    def failed(self, error: BaseException) -> bool:
        """Log an error that a request met, if it is one of the database or of the disk; note the latter, and tell."""
        if isinstance(error, Away):
            logs.LOGGER.error("the reviews cannot be reached", extra={"fields": {"cause": str(error)}})
        cause: BaseException | None = error
        while cause is not None and not _is_of_disk(cause):
            cause = cause.__cause__ or cause.__context__
        if cause is not None:
            self._reviews = getattr(cause, "strerror", None) or str(cause)
            fields = {"cause": self._reviews}
            logs.LOGGER.error("the reviews cannot be written", exc_info=error, extra={"fields": fields})
        return cause is not None

    async def unwritable(self) -> dict[str, str]:
        """Return why which parts cannot be written; those that could not be are tried again."""
        if self.audit is not None:
            await self.audit.retry()
        if self._reviews:
            self._reviews = await run_in_threadpool(_problem, self.folders.get("reviews"))
        if not self._reviews and self._store is not None and not await self._is_there(self._store):
            self._reviews = AWAY
        audit = self.audit.problem if self.audit is not None else ""
        found = {"reviews": self._reviews, "audit": audit, "log": logs.problem()}
        return {name: problem for name, problem in found.items() if problem}

    async def _is_there(self, store: ReviewStore) -> bool:
        """Ask the store, once for all who wait: of a database that hangs, many would hold every thread."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(run_in_threadpool(store.is_there))
        asking = self._asking
        done, _ = await asyncio.wait([asking], timeout=PATIENCE)
        return bool(done) and asking.result()


def _is_of_disk(error: BaseException) -> bool:
    return (isinstance(error, OSError) and error.errno in FULL) or bool(_FULL.search(str(error)))


def _problem(folder: Path | None) -> str:
    """Return why nothing can be written in a folder; "" if something can."""
    if folder is None:
        return ""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""
