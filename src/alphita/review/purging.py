"""What is kept no longer than it must be: settled rows and their decisions, removed for good once they are old.

A decision is never changed, and never deleted but here: a row goes whole, with all that was ever decided about it, and
`forgetting` notes how many rows and decisions went, from which project, by whom and when. A project goes with its last
row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, select, update

from alphita.errors import InputError
from alphita.review import memory, rows, tables
from alphita.review.database import Backend
from alphita.review.tables import among

_row, _decision = tables.row.c, tables.decision.c


@dataclass(frozen=True, slots=True)
class Purged:
    """What goes, or went, of one project; `left`: how many rows stay, and without any it goes itself."""

    project: str
    rows: int
    decisions: int
    left: int
    ids: list[int] = field(repr=False)


def find(connection: Connection, project: str | None, before: str) -> list[Purged]:
    """Return what is settled, and about which nothing was decided since a time.

    Args:
        project: of which project; None: of all.
        before: the time, as the store writes it; a decision whose time is not known is not older.
    """
    found = []
    for one in rows.projects(connection) if project is None else [rows.project(connection, project)]:
        id, _ = rows.numbered(connection, one.name)
        old = select(_decision.row, func.count()).where(_decision.project == id, _row.state == "decided")
        old = old.join_from(tables.decision, tables.row, _row.id == _decision.row).group_by(_decision.row)
        old = old.having(func.max(_decision.at) < before, func.min(_decision.at) != "")
        counts: dict[int, int] = dict(connection.execute(old).all())
        n_rows = connection.execute(select(func.count()).where(_row.project == id)).scalar_one()
        if counts:
            found.append(Purged(one.name, len(counts), sum(counts.values()), n_rows - len(counts), list(counts)))
    return found


def remove(connection: Connection, backend: Backend, found: Iterable[Purged], before: str, by: str) -> None:
    """Remove what was found, and note it."""
    if not by.strip():
        raise InputError("must not be empty", field="by")
    for one in found:
        last = connection.execute(select(func.max(_row.id))).scalar_one()
        told = {"project": one.project, "rows": one.rows, "decisions": one.decisions, "before": before}
        memory.note(connection, "purge", json.dumps(told), last, by)
        id, _ = rows.numbered(connection, one.project)
        of = {"rows": one.ids}
        with backend.unguarded(connection):
            connection.execute(update(tables.row).where(among(_row.id, "rows")).values(settled_by=None), of)
            for table in (tables.in_force, tables.decision, tables.detail, tables.row_type):
                connection.execute(delete(table).where(among(table.c.row, "rows")), of)
            connection.execute(delete(tables.row).where(among(_row.id, "rows")), of)
            if not one.left:
                connection.execute(delete(tables.batch).where(tables.batch.c.project == id))
                connection.execute(delete(tables.project).where(tables.project.c.id == id))
