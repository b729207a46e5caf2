"""The store of reviews: projects, rows and every decision, in one database. A returned decision is on its disk."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, func, select

from alphita.mappings.record import Mapping
from alphita.review import adding, deciding, memory, purging, queueing, rows, rules, tables
from alphita.review.database import Database, backend_of
from alphita.review.records import (
    Bulk,
    Busy,
    Conflict,
    Decision,
    NoDisagreement,
    NotStored,
    Project,
    Standing,
    State,
    Unknown,
)

P = ParamSpec("P")
R = TypeVar("R")
__all__ = ["Busy", "Conflict", "NoDisagreement", "NotStored", "ReviewStore", "Unknown"]
Method = Callable[Concatenate["ReviewStore", P], R]


def _reading(ask: Callable[Concatenate[Connection, P], R]) -> Method[P, R]:
    """Return a method that asks in a transaction."""

    @functools.wraps(ask)
    def method(self: ReviewStore, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.database.reading() as connection:
            return ask(connection, *args, **kwargs)

    return method


def _writing(change: Callable[Concatenate[Connection, P], R]) -> Method[P, R]:
    """Return a method that changes something in a transaction."""

    @functools.wraps(change)
    def method(self: ReviewStore, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.database.writing() as connection:
            return change(connection, *args, **kwargs)

    return method


class ReviewStore:
    """The store. Every method may raise `Busy` and `NotStored`, and with an unknown project, row or name `Unknown`."""

    def __init__(self, database: Database) -> None:
        self.database, self.name, self.address = database, database.backend.name, database.backend.address

    @classmethod
    def open(cls, address: str | Path, *, create: bool = False, timeout: float = 10.0) -> ReviewStore:
        """Open the store in a file, which only its owner can read then, or in a database of PostgreSQL.

        Args:
            address: the file, or postgresql://user@host/database.
            create: make it where it does not exist.
            timeout: seconds to wait for another program that is writing.

        Raises:
            InputError: no such file, a directory, another kind of file, another version, or a network share.
        """
        database = Database(backend_of(address, timeout))
        try:
            database.prepare(create=create)
            with database.reading() as connection:
                rules.keep_ahead(connection.execute(select(func.max(tables.decision.c.at))).scalar())
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> ReviewStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    add_project = _writing(adding.add_project)
    add_rows = _writing(adding.add_rows)
    projects = _reading(rows.projects)
    project = _reading(rows.project)
    row = _reading(rows.row)
    standing = _reading(queueing.standing)
    queue = _reading(queueing.page)
    queued_rows = _reading(queueing.queued_rows)
    set_learning = _writing(queueing.set_learning)
    decide = _writing(deciding.decide)
    newest = _reading(deciding.newest)
    undo = _writing(deciding.undo)
    progress = _reading(queueing.progress)
    disagreements = _reading(queueing.disagreements)
    remembered = _reading(memory.remembered)
    settled = _reading(memory.settled)
    forget = _writing(memory.forget)
    rebase = _writing(deciding.rebase)
    purgeable = _reading(purging.find)

    def restore(
        self, *, source: str | None = None, project: str | None = None, reviewer: str | None = None, by: str
    ) -> int:
        """Take `forget` back, of the same source, project or reviewer; return how many decisions count again."""
        return self.forget(source=source, project=project, reviewer=reviewer, by=by, forgotten=False)

    def bulk(
        self,
        project: str,
        reviewer: str,
        uid: str,
        *,
        threshold: float,
        types: Collection[str] = (),
        preview: bool = False,
    ) -> Bulk:
        """Accept the answer of all rows open for a reviewer whose confidence is at least `threshold`, 0 to 1.

        NIL becomes a decision of kind nil; `types` selects semantic types. The same `uid` twice does it once.
        """
        with self.database.reading() if preview else self.database.writing() as connection:
            return queueing.bulk(connection, project, reviewer, uid, threshold=threshold, types=types, preview=preview)

    def every(self, project: str, *, state: State = "all") -> Iterator[Standing]:
        """Yield how each row of these states stands, for who sees all, in the order of the input."""
        return self._streamed(project, lambda connection, id, one: queueing.every(connection, id, one, state))

    def history(self, project: str, row: int | None = None, reviewer: str | None = None) -> Iterator[Decision]:
        """Yield every decision of a project, oldest first: superseded, undone and forgotten ones, and undos, too."""
        self.project(project)
        if row is not None:
            self.row(row)
        about: dict[str, Any] = {
            name: value for name, value in (("row", row), ("reviewer", reviewer)) if value is not None
        }
        chosen = deciding.history(*about)
        return self._streamed(
            project, lambda connection, id, _: deciding.read(connection, chosen, streamed=True, in_project=id, **about)
        )

    def mappings(self, project: str, *, settled_only: bool = False) -> Iterator[Mapping]:
        """Yield one mapping a row, in the order of the input, for the formats to write.

        Its status is approved (a concept or NIL), rejected, flagged (also disagreement) or unreviewed.
        """
        self.project(project)
        return self._streamed(project, lambda connection, id, one: memory.mappings(connection, id, one, settled_only))

    def purge(self, project: str | None, before: str, by: str) -> list[purging.Purged]:
        """Remove for good the rows that were settled before a time, with all decisions about them; see `purging`."""
        with self.database.writing() as connection:
            found = purging.find(connection, project, before)
            purging.remove(connection, self.database.backend, found, before, by)
        return found

    def shrink(self) -> None:
        """Give back the space of what was purged."""
        with self.database.explained():
            self.database.backend.shrink()

    def is_there(self) -> bool:
        """Tell whether the store answers."""
        try:
            self.projects()
        except (Busy, NotStored):
            return False
        return True

    def _streamed(self, project: str, read: Callable[[Connection, int, Project], Iterator[R]]) -> Iterator[R]:
        """Yield what is read, all of it as it was at the first, whatever is written meanwhile."""
        with self.database.reading() as connection:
            yield from read(connection, *rows.numbered(connection, project))
