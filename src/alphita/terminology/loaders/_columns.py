"""Gathering rows into columns, for loaders that read line by line."""

from __future__ import annotations

from typing import Any

import polars as pl

from alphita.terminology import model

_SCHEMAS: dict[str, dict[str, Any]] = {
    table: {name: kind for name, (kind, _) in columns.items()} | model.PLACE for table, columns in model.SCHEMAS.items()
}


class Columns:
    """Rows of the tables of `model.SCHEMAS`, gathered one by one."""

    def __init__(self) -> None:
        """Start with no rows."""
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _SCHEMAS}

    def add(self, table: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        """Add a row; columns left out take their default."""
        self.rows[table].append(values)

    def frames(self) -> dict[str, pl.DataFrame]:
        """Return the tables."""
        found = {}
        for table, schema in _SCHEMAS.items():
            rows = self.rows[table]
            given = set().union(*rows[:1], *rows[-1:]) if rows else set(schema)
            for name in schema:
                if name not in given and any(name in row for row in rows):
                    given.add(name)
            columns = {name: [row.get(name) for row in rows] for name in schema if name in given}
            found[table] = pl.DataFrame(columns, schema={name: kind for name, kind in schema.items() if name in given})
        return found
