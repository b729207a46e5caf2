"""Gathering rows into columns, for loaders that read line by line."""

from __future__ import annotations

from typing import Any

import polars as pl

from alphita.terminology import model

_SCHEMAS: dict[str, dict[str, Any]] = {
    table: {name: kind for name, (kind, _) in columns.items()} | model.PLACE for table, columns in model.SCHEMAS.items()
}


# A row as a Python dict takes ten times the memory that it takes in a frame.
ROWS_AT_ONCE = 20_000


class Columns:
    """Rows of the tables of `model.SCHEMAS`, gathered one by one.

    Attributes:
        rows: by table, those that were not put into a frame yet. A loader may append rows here that it still changes;
            a table that is filled so must not be given to `add`.
    """

    def __init__(self) -> None:
        """Start with no rows."""
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _SCHEMAS}
        self._packed: dict[str, list[pl.DataFrame]] = {table: [] for table in _SCHEMAS}

    def add(self, table: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        """Add a row; columns left out take their default."""
        rows = self.rows[table]
        rows.append(values)
        if len(rows) >= ROWS_AT_ONCE:
            self._packed[table].append(_packed(table, rows))
            rows.clear()

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table; columns that no row has are left out."""
        frames, rows = self._packed[table], self.rows[table]
        if rows or not frames:
            frames = [*frames, _packed(table, rows)]
        return pl.concat(frames, how="diagonal")

    def frames(self) -> dict[str, pl.DataFrame]:
        """Return the tables."""
        return {table: self.frame(table) for table in _SCHEMAS}


def _packed(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = _SCHEMAS[table]
    given = set().union(*rows) if rows else set(schema)
    columns = {name: [row.get(name) for row in rows] for name in schema if name in given}
    return pl.DataFrame(columns, schema={name: schema[name] for name in columns})
