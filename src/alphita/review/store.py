"""The store of reviews: projects, rows and every decision, in one SQLite file. A returned decision is on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Mapping as Dictionary
from contextlib import closing
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from alphita import artefact
from alphita.mappings.record import Mapping
from alphita.review import database, deciding, files, memory, queueing
from alphita.review import rows as rows_
from alphita.review.database import Busy, Conflict, Connections, NoDisagreement, NotStored, Unknown, explained
from alphita.review.records import (
    FINAL,
    Added,
    Bulk,
    Decision,
    Order,
    Progress,
    Project,
    QueuedRow,
    Rebase,
    Rebased,
    ReviewRow,
    Standing,
    State,
)

P = ParamSpec("P")
R = TypeVar("R")
__all__ = ["Busy", "Conflict", "NoDisagreement", "NotStored", "ReviewStore", "Unknown"]


class ReviewStore:
    """The store. Every method may raise `Busy` and `NotStored`, and with an unknown project, row or name `Unknown`."""

    def __init__(self, connections: Connections) -> None:
        self.path = connections.path
        self._connections = connections

    @classmethod
    def open(cls, path: str | Path, *, create: bool = False, timeout: float = 10.0) -> ReviewStore:
        """Open the store in a file, and make it readable by its owner only.

        Args:
            create: make it where it does not exist.
            timeout: seconds to wait for another program that is writing.

        Raises:
            InputError: no such file, a directory, another kind of file, a newer version, or a network share.
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_project(self, project: Project, rows: Iterable[ReviewRow] = (), *, by: str = files.UNNAMED) -> Added:
        """Add a project with rows (see `add_rows`), both or neither; an empty `created_at` becomes now."""
        with self._connections.writing() as connection:
            rows_.add_project(connection, project)
            return files.add_rows(connection, project.name, rows, by, guarded=False)

    def projects(self) -> list[Project]:
        return self._read(rows_.projects)

    def project(self, name: str) -> Project:
        return self._read(rows_.project, name)[1]

    def add_rows(
        self,
        project: str,
        rows: Iterable[ReviewRow],
        *,
        by: str = files.UNNAMED,
        guarded: bool = False,
        filters: dict[str, Any] | None = None,
    ) -> Added:
        """Add rows, all or none; a known pair of code and mention stays as it is.

        Decisions that they bring are stored with them, each once, unless its reviewer has overtaken it here.

        Args:
            by: who brings the decisions.
            guarded: a reviewer's decision here stands against a file of anybody else, however new it is.
            filters: the project's from now on, if given.

        Raises:
            InputError: a row is not valid; nothing is added.
        """
        with self._connections.writing() as connection:
            if filters:
                rows_.set_filters(connection, project, filters)
            return files.add_rows(connection, project, rows, by, guarded=guarded)

    def row(self, id: int) -> ReviewRow:
        return self._read(rows_.load, [id])[0]

    def standing(self, id: int, *, reviewer: str | None = None) -> Standing:
        """Return how a row stands for a reviewer; None sees all.

        In a blind project they see only their own decisions until the row is adjudicated.
        """
        return self._read(queueing.standing, id, reviewer)

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
            reviewer: who asks (see `standing`); rows that they skipped come last.
            order: "risk", "frequency": greatest first; "confidence": smallest first; "row": input order; "learning":
                by `set_learning`, then risk. Ties as in the input.
            search: a part of mention, code, context or the answer's id or name, in any case.
            types: any of these semantic types of the answer; none: all.
            offset: rows before the page; use `every` to see all.

        Raises:
            UsageError: an unknown order or state, or a negative limit or offset.
        """
        return self._read(
            queueing.page,
            project,
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

    def queued_rows(self, project: str) -> list[QueuedRow]:
        """Return what decides when each row is asked, in the order of the input."""
        return self._read(queueing.queued_rows, project)

    def set_learning(self, project: str, scores: Dictionary[int, float]) -> None:
        """Set the order "learning": a score for each row id, the greatest is asked first; rows left out come last."""
        self._write(queueing.set_learning, project, scores)

    def decide(self, decision: Decision, *, seen: int | None = None) -> Decision:
        """Store a decision; fill in time, confidence, candidates shown, release and relation where it has none.

        Args:
            decision: of any kind but undo; the same one twice (by its uid) is kept once, and returned as stored.
            seen: id of the newest decision that the reviewer has seen (see `newest`), 0 for none; None: do not check.

        Raises:
            Conflict: there is a newer one than `seen`.
            NoDisagreement: an adjudication of a row on which reviewers do not disagree.
            InputError: a missing or unknown kind, concept, relation or time, or a uid that is in use.
        """
        return self._write(deciding.decide, decision, seen)

    def newest(self, row: int, reviewer: str | None = None) -> Decision | None:
        """Return the newest decision about a row, undone ones and undos too, of a reviewer or (None) of anyone."""
        return self._read(deciding.newest, row, reviewer)

    def undo(self, project: str, reviewer: str, uid: str) -> tuple[Decision, ...]:
        """Take back a reviewer's newest decision in force, or whole bulk action; return them, newest first.

        It reaches back to the last change of release. The same `uid` twice does it once.
        """
        return self._write(deciding.undo, project, reviewer, uid)

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
        if preview:
            return self._read(queueing.preview_bulk, project, reviewer, threshold, types)
        return self._write(queueing.accept_bulk, project, reviewer, uid, threshold, types)

    def history(self, project: str, row: int | None = None, reviewer: str | None = None) -> Iterator[Decision]:
        """Yield every decision of a project, oldest first: superseded, undone and forgotten ones, and undos, too."""
        self.project(project)
        if row is not None:
            self.row(row)
        return self._streamed(project, lambda connection, id, _: deciding.history(connection, id, row, reviewer))

    def progress(self, project: str) -> Progress:
        return self._read(queueing.progress, project)

    def disagreements(self, project: str, *, reviewer: str | None = None) -> list[Standing]:
        """Return the rows to adjudicate, greatest risk first; in a blind project those the reviewer has decided."""
        found = self.queue(project, state="disagreed", limit=rows_.LARGEST)[1]
        if reviewer is None or not self.project(project).blind:
            return found
        return [
            row
            for row in found
            if any(decision.reviewer == reviewer and decision.kind in FINAL for decision in row.decisions)
        ]

    def mappings(self, project: str, *, settled_only: bool = False) -> Iterator[Mapping]:
        """Yield one mapping a row, in the order of the input, for the formats to write.

        Its status is approved (a concept or NIL), rejected, flagged (also disagreement) or unreviewed.
        """
        self.project(project)
        return self._streamed(project, lambda connection, id, one: memory.mappings(connection, id, one, settled_only))

    def remembered(self, source: str, mentions: Iterable[str], *, project: str | None = None) -> dict[str, Decision]:
        """Return the newest final decision about equal mentions (after cleaning) of a source, or in one project.

        Rejections do not count; unknown mentions are left out.
        """
        return self._read(memory.remembered, source, mentions, project)

    def settled(self, *, source: str | None = None, project: str | None = None) -> dict[str, Decision]:
        """Return all that was settled about strings of a source and project (None: any), as `remembered` would."""
        return self._read(memory.settled, source, project)

    def forget(
        self, *, source: str | None = None, project: str | None = None, reviewer: str | None = None, by: str
    ) -> int:
        """Remove the influence of all decisions so far of one source, project or reviewer; return how many.

        They stay in the history, as forgotten; later decisions count. `by` says who asks for it.
        """
        return self._write(memory.set_forgotten, source, project, reviewer, by, forgotten=True)

    def restore(
        self, *, source: str | None = None, project: str | None = None, reviewer: str | None = None, by: str
    ) -> int:
        """Take `forget` back, of the same source, project or reviewer; return how many decisions count again."""
        return self._write(memory.set_forgotten, source, project, reviewer, by, forgotten=False)

    def rebase(self, project: str, by: str, uid: str, change: Rebase) -> Rebased:
        """Move a project to another release, all or nothing; raises `Busy` if somebody decided after `change.seen`."""
        return self._write(deciding.rebase, project, by, uid, change)

    def _read(self, ask: Callable[Concatenate[sqlite3.Connection, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._connections.reading() as connection:
            return ask(connection, *args, **kwargs)

    def _write(
        self, change: Callable[Concatenate[sqlite3.Connection, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        with self._connections.writing() as connection:
            return change(connection, *args, **kwargs)

    def _streamed(self, project: str, read: Callable[[sqlite3.Connection, int, Project], Iterator[R]]) -> Iterator[R]:
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
