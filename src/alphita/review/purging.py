"""What is kept no longer than it must be: settled rows and their decisions, removed for good once they are old.

A decision is never changed, and never deleted but here: a row goes whole, with all that was ever decided about it, and
`forgetting` notes how many rows and decisions went, from which project, by whom and when. A project goes with its last
row.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, func, select, update

from alphita.review import memory, rows, tables
from alphita.review.database import Backend

_row, _decision = tables.row.c, tables.decision.c


@dataclass(frozen=True, slots=True)
class Purged:
    """What goes, or went, of one project: numbers of rows and decisions, and whether it goes itself."""

    project: str
    rows: int
    decisions: int
    is_whole: bool


def purge(
    connection: Connection, backend: Backend, project: str | None, before: str, by: str, *, apply: bool
) -> list[Purged]:
    """Remove, or only count, the settled rows about which nothing was decided since a time.

    Args:
        project: of which project; None: of all.
        before: the time, as the store writes it; a decision whose time is not known is not older.
        by: who asks for it.
    """
    chosen = rows.projects(connection) if project is None else [rows.project(connection, project)]
    found = []
    for name in (one.name for one in chosen):
        id, _ = rows.numbered(connection, name)
        old = (
            select(_decision.row)
            .join_from(tables.decision, tables.row, _row.id == _decision.row)
            .where(_decision.project == id, _row.state == "decided")
            .group_by(_decision.row)
            .having(func.max(_decision.at) < before, func.min(_decision.at) != "")
        )
        ids = list(connection.execute(old).scalars())
        if not ids:
            continue
        of_rows = tables.among(_decision.row, "rows")
        (n_decisions,) = connection.execute(select(func.count()).where(of_rows), {"rows": ids}).one()
        (n_rows,) = connection.execute(select(func.count()).where(_row.project == id)).one()
        purged = Purged(name, len(ids), n_decisions, n_rows == len(ids))
        found.append(purged)
        if apply:
            last = connection.execute(select(func.max(_row.id))).scalar_one()
            memory.note(connection, "purge", json.dumps(asdict(purged) | {"before": before}), last, by)
            with backend.unguarded(connection):
                _remove(connection, id, ids, is_whole=purged.is_whole)
    return found


def _remove(connection: Connection, project_id: int, ids: list[int], *, is_whole: bool) -> None:
    of = {"rows": ids}
    connection.execute(update(tables.row).where(tables.among(_row.id, "rows")).values(settled_by=None), of)
    for table in (tables.in_force, tables.decision, tables.detail, tables.row_type):
        connection.execute(delete(table).where(tables.among(table.c.row, "rows")), of)
    connection.execute(delete(tables.row).where(tables.among(_row.id, "rows")), of)
    if is_whole:
        connection.execute(delete(tables.batch).where(tables.batch.c.project == project_id))
        connection.execute(delete(tables.project).where(tables.project.c.id == project_id))
