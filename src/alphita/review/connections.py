"""Connections to one store: any number that read, one at a time that writes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alphita.errors import AlphitaError
from alphita.review import schema
from alphita.review.failures import Busy, explained


class Connections:
    """Lends connections, each to one user at a time, and keeps those given back for the next."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        self._idle: list[sqlite3.Connection] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close those that are not in use now; the others follow when they are given back."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend one that sees the store as it is now, whatever others write meanwhile."""
        with explained(self.path), self._lent("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend one that writes: what was written is on disk when this ends, or none of it if it ends by an error."""
        if not self._writing.acquire(timeout=self.timeout):
            raise Busy(f"{self.path}: other requests are writing to it; try again")
        try:
            with explained(self.path), self._lent("BEGIN IMMEDIATE") as connection:
                yield connection
        finally:
            self._writing.release()

    @contextmanager
    def _lent(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise AlphitaError(f"{self.path}: this store was closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or schema.connect(self.path, self.timeout)
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error:
            # Whatever state it is in, nobody is to have it again; closing it rolls back.
            connection.close()
            raise
        except BaseException:
            self._end(connection)
            raise
        self._give_back(connection)

    def _end(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.close()
        else:
            self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
