"""The store of reviews: projects, their rows and every decision about them, in one SQLite file.

A decision that was returned is on disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Mapping as Dictionary
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from alphita import artefact
from alphita.mappings.record import Mapping
from alphita.review import database, deciding, files, memory, queueing
from alphita.review import rows as rows_
from alphita.review.database import Busy, Conflict, Connections, NotStored, Unknown, explained
from alphita.review.records import (
    FINAL,
    Added,
    Asked,
    Bulk,
    Decision,
    Order,
    Progress,
    Project,
    Rebase,
    Rebased,
    ReviewRow,
    Standing,
    State,
)

_Read = TypeVar("_Read")
__all__ = ["Busy", "Conflict", "NotStored", "ReviewStore", "Unknown"]


class ReviewStore:
    """See the module.

    Every method may raise `Busy` (locked by another program) and `NotStored` (disk full, ...), and those that are given
    a project, by its name, a row, a source or a reviewer `Unknown`: there is none; near ones are offered.
    """

    def __init__(self, connections: Connections) -> None:
        self.path = connections.path
        self._connections = connections

    @classmethod
    def open(cls, path: str | Path, *, create: bool = False, timeout: float = 10.0) -> ReviewStore:
        """Open the store in a file, which only its owner can read from then on.

        Args:
            path: the file; SQLite keeps `-wal` and `-shm` beside it.
            create: make it where it does not exist.
            timeout: seconds to wait for another program that is writing.

        Raises:
            InputError: no such file, a directory, a file of another kind or of a newer version, or on a network share.
        """
        path = artefact.resolved(Path(path))
        with explained(path):
            database.prepare(path, create=create, timeout=timeout)
            _upgrade(path, timeout)
        return cls(Connections(path, timeout))

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> ReviewStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_project(self, project: Project, rows: Iterable[ReviewRow] = (), *, by: str = files.UNNAMED) -> Added:
        """Add a project with rows (see `add_rows`), both or neither; `created_at` "" becomes now.

        Raises:
            InputError: there is one of that name, or it has no name or source; or a row is not sound.
        """
        with self._connections.writing() as connection:
            rows_.add_project(connection, project)
            return files.add_rows(connection, project.name, rows, by, guarded=False)

    def projects(self) -> list[Project]:
        with self._connections.reading() as connection:
            return rows_.projects(connection)

    def project(self, name: str) -> Project:
        with self._connections.reading() as connection:
            return rows_.project(connection, name)[1]

    def add_rows(
        self,
        project: str,
        rows: Iterable[ReviewRow],
        *,
        by: str = files.UNNAMED,
        guarded: bool = False,
        filters: dict[str, Any] | None = None,
    ) -> Added:
        """Add rows, all or none; a pair of code and mention that is there stays as it is.

        Decisions that they bring are stored with them, of known rows, too: each once, and none that its reviewer has
        overtaken here. An undo does not take them back. Nobody else can write while they are taken.

        Args:
            rows: their `id` and `project` are not looked at.
            by: who brings the decisions.
            guarded: what a reviewer has decided here stands against a file of anybody else's, however new it is.
            filters: the project's from now on, where any are given.

        Raises:
            InputError: a row is not sound (its frequency, say, is negative); nothing is added.
        """
        with self._connections.writing() as connection:
            if filters:
                rows_.set_filters(connection, project, filters)
            return files.add_rows(connection, project, rows, by, guarded=guarded)

    def row(self, id: int) -> ReviewRow:
        with self._connections.reading() as connection:
            return rows_.load(connection, [id])[0]

    def standing(self, id: int, *, reviewer: str | None = None) -> Standing:
        """Return how a row stands for a reviewer; None sees all.

        In a blind project they see only their own decisions until the row is adjudicated.
        """
        with self._connections.reading() as connection:
            row = rows_.load(connection, [id])
            return queueing.standings(connection, row, rows_.project(connection, row[0].project)[1], reviewer)[0]

    def queue(
        self,
        project: str,
        *,
        reviewer: str | None = None,
        order: Order = "risk",
        state: State = "open",
        search: str = "",
        types: Collection[str] = (),
        limit: int = 100,
        offset: int = 0,
    ) -> tuple[int, list[Standing]]:
        """Return how many rows there are to look at, and a page of them.

        Args:
            reviewer: who asks, see `standing`; the state is that of what they may see. Open rows that they skipped
                come after all others, longest ago first.
            order: "risk", "frequency": greatest first; "confidence": smallest first, before them those without; "row":
                as in the input; "learning": as `set_learning` said, then by risk. Ties as in the input.
            state: which rows.
            search: a part of mention, code, context or the answer's id or name, in any case.
            types: any of these semantic types of the answer; none given: all.
            limit: length of the page.
            offset: how many rows stand before it; they are counted each time, so take `every` to see all.

        Raises:
            UsageError: there is no such order or state, or a negative limit or offset.
        """
        with self._connections.reading() as connection:
            return queueing.page(
                connection,
                *rows_.project(connection, project),
                reviewer=reviewer,
                order=order,
                state=state,
                search=search,
                types=types,
                limit=limit,
                offset=offset,
            )

    def every(self, project: str, *, state: State = "all") -> Iterator[Standing]:
        """Yield how each row of these states stands, for who sees all, in the order of the input."""
        return self._streamed(project, lambda connection, id, one: queueing.every(connection, id, one, state))

    def asked(self, project: str) -> list[Asked]:
        """Return what decides when each row is asked, in the order of the input."""
        with self._connections.reading() as connection:
            return queueing.asked(connection, rows_.project(connection, project)[0])

    def set_learning(self, project: str, scores: Dictionary[int, float]) -> None:
        """Set the order "learning": a score for each row id, the greatest is asked first; rows left out come last."""
        with self._connections.writing() as connection:
            queueing.set_learning(connection, rows_.project(connection, project)[0], scores)

    def decide(self, decision: Decision, *, seen: int | None = None) -> Decision:
        """Store a decision; when this returns, it is on disk.

        What `Decision` leaves open is filled in: time, confidence, candidates shown, release; the relation of an
        accepted concept is the answer's, of another one "exact". A time that is given is kept.

        Args:
            decision: of any kind but undo. The same one twice (by its uid) is kept once, and returned as stored.
            seen: `Decision.id` of the newest decision that the reviewer had before them (see `newest`), 0 for none;
                None: do not check.

        Raises:
            Conflict: there is a newer one than `seen`.
            InputError: what it says is not sound: kind, concept or relation missing or unknown, a time that is none or
                still to come, an accepted concept that is not the answer, a uid that another decision has.
        """
        with self._connections.writing() as connection:
            return deciding.decide(connection, decision, seen)

    def newest(self, row: int, reviewer: str | None = None) -> Decision | None:
        """Return the newest decision about a row, undone ones and undos too: of a reviewer, or (None) of anyone.

        Its id is what `decide` takes as `seen`: the reviewer's own, or for an adjudication that of anyone.
        """
        with self._connections.reading() as connection:
            return deciding.newest(connection, row, reviewer)

    def undo(self, project: str, reviewer: str, uid: str) -> tuple[Decision, ...]:
        """Take back a reviewer's newest decision in force, a whole bulk action at once; return them, newest first.

        What they had decided of the row before is in force again. It reaches back to the last change of release, and
        takes an adjudication back that somebody else's has overtaken, too. The same `uid` twice does it once.

        Raises:
            InputError: another action has this uid.
        """
        with self._connections.writing() as connection:
            return deciding.undo(connection, project, reviewer, uid)

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

        An answer that no concept fits becomes a decision of kind nil. `types` chooses answers of any of these semantic
        types; a preview only says what it would do. The same `uid` twice does it once.

        Raises:
            InputError: a threshold out of range, or another action has this uid.
        """
        if preview:
            with self._connections.reading() as connection:
                return queueing.preview_bulk(connection, project, reviewer, threshold, types)
        with self._connections.writing() as connection:
            return queueing.accept_bulk(connection, project, reviewer, uid, threshold, types)

    def history(self, project: str, row: int | None = None, reviewer: str | None = None) -> Iterator[Decision]:
        """Yield every decision of a project, oldest first: superseded, undone and forgotten ones, and undos, too."""
        self.project(project)
        if row is not None:
            self.row(row)
        return self._streamed(project, lambda connection, id, _: deciding.history(connection, id, row, reviewer))

    def progress(self, project: str) -> Progress:
        with self._connections.reading() as connection:
            return queueing.progress(connection, rows_.project(connection, project)[0])

    def disagreements(self, project: str, *, reviewer: str | None = None) -> list[Standing]:
        """Return the rows to adjudicate, all decisions visible, greatest risk first.

        In a blind project a reviewer is given only the rows that they have decided themselves; None all.
        """
        found = self.queue(project, state="disagreed", limit=rows_.LARGEST)[1]
        if reviewer is None or not self.project(project).blind:
            return found
        return [row for row in found if any(one.reviewer == reviewer and one.kind in FINAL for one in row.decisions)]

    def mappings(self, project: str, *, settled_only: bool = False) -> Iterator[Mapping]:
        """Yield one mapping a row, in the order of the input, for the formats to write.

        Its status is approved (a concept, or that none fits), rejected, flagged (reviewers who disagree, too) or
        unreviewed, these two unless `settled_only`; reviewer, time, comment and relation are the decision's.
        """
        self.project(project)
        return self._streamed(project, lambda connection, id, one: memory.mappings(connection, id, one, settled_only))

    def remembered(self, source: str, mentions: Iterable[str], *, project: str | None = None) -> dict[str, Decision]:
        """Return what was settled about equal mentions (after cleaning) of a source, or in one project of it.

        By mention as given: the newest decision that settles one (accept, choose, nil or adjudicate; a rejection says
        of no concept that it is the one). Mentions that nothing is known of are left out.
        """
        with self._connections.reading() as connection:
            return memory.remembered(connection, source, mentions, project)

    def settled(self, *, source: str | None = None, project: str | None = None) -> dict[str, Decision]:
        """Return all that was settled about strings of a source and project (None: any), as `remembered` would."""
        with self._connections.reading() as connection:
            return memory.settled(connection, source, project)

    def forget(
        self, *, source: str | None = None, project: str | None = None, reviewer: str | None = None, by: str
    ) -> int:
        """Remove the influence of all decisions so far of a source, a project or a reviewer; return of how many.

        They stay in the history, as forgotten. Decisions made later count. `by` says who wants it so.

        Raises:
            UsageError: none or several are given.
        """
        with self._connections.writing() as connection:
            return memory.set_forgotten(connection, source, project, reviewer, by, forgotten=True)

    def restore(
        self, *, source: str | None = None, project: str | None = None, reviewer: str | None = None, by: str
    ) -> int:
        """Take `forget` back, of the same source, project or reviewer; return how many decisions count again.

        Raises:
            UsageError: none or several are given.
        """
        with self._connections.writing() as connection:
            return memory.set_forgotten(connection, source, project, reviewer, by, forgotten=False)

    def rebase(self, project: str, by: str, uid: str, change: Rebase) -> Rebased:
        """Move a project to another release: all of it or nothing; the same `uid` twice does it once.

        Raises:
            Unknown: no such decision in force or forgotten one.
            Busy: somebody decided after `change.seen`.
            InputError: another action has this uid.
        """
        with self._connections.writing() as connection:
            return deciding.rebase(connection, project, by, uid, change)

    def _streamed(
        self, project: str, read: Callable[[sqlite3.Connection, int, Project], Iterator[_Read]]
    ) -> Iterator[_Read]:
        """Yield what is read, all of it as it was at the first, whatever is written meanwhile."""
        with self._connections.reading() as connection:
            yield from read(connection, *rows_.project(connection, project))


def _upgrade(path: Path, timeout: float) -> None:
    """Bring a store up to this version, all of it or nothing: version 1 kept no relations, version 2 no filters."""
    # Closing rolls back what was not committed.
    with closing(database.connect(path, timeout)) as connection:
        rows_.keep_ahead(connection)
        if database.pragma(connection, "user_version") >= database.VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        if database.ADDED - database.columns(connection):
            connection.execute("ALTER TABLE project ADD COLUMN filters TEXT NOT NULL DEFAULT '{}'")
        ids = [id for (id,) in connection.execute("SELECT DISTINCT row FROM decision ORDER BY row")]
        for start in range(0, len(ids), memory.PAGE):
            deciding.refresh(connection, ids[start : start + memory.PAGE])
        connection.execute(f"PRAGMA user_version = {database.VERSION}")
        connection.execute("COMMIT")
