"""Stores of an older version: what follows from the decisions is worked out again, as this version does.

Version 1 kept meanings without their relation, version 2 no filters of a project.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from alphita.review import deciding, rows, schema

PAGE = 1000


def bring(path: Path, timeout: float) -> None:
    """Bring a store up to this version, all of it or nothing, and the time that is told up to its newest decision."""
    # Closing rolls back what was not committed.
    with closing(schema.connect(path, timeout)) as connection:
        rows.keep_ahead(connection)
        if schema.pragma(connection, "user_version") >= schema.VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        if schema.ADDED - schema.columns(connection):
            connection.execute("ALTER TABLE project ADD COLUMN filters TEXT NOT NULL DEFAULT '{}'")
        ids = [id for (id,) in connection.execute("SELECT DISTINCT row FROM decision ORDER BY row")]
        for start in range(0, len(ids), PAGE):
            deciding.refresh(connection, ids[start : start + PAGE])
        connection.execute(f"PRAGMA user_version = {schema.VERSION}")
        connection.execute("COMMIT")
