"""Terminologies of a few rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl

from alphita.errors import Rejects
from alphita.terminology import store
from alphita.terminology.model import SCHEMAS, Tables

Row = tuple[Any, ...]
COLUMNS = ("concept", "string", "language", "preferred", "scope", "status", "type")


def terminology_of(
    rows: Sequence[Row],
    path: Path,
    *,
    columns: Sequence[str] = COLUMNS,
    source: str = "T",
    retired: Collection[str] = (),
    **tables: Sequence[Row],
) -> store.Terminology:
    """Write and open a terminology, in place of what is there.

    Args:
        rows: its names; a row may end early, where the loaders' defaults hold.
        path: the folder.
        columns: of the rows; there may be more than a row has.
        source: of all rows without that column.
        retired: ids of concepts.
        tables: rows of other tables, in the order of their columns but for the source.
    """
    ids = sorted({row[columns.index("concept")] for row in rows})
    concepts = pl.DataFrame({"id": ids, "retired": [one in retired for one in ids]})
    others = {name: _frame(given, [one for one in SCHEMAS[name] if one != "source"]) for name, given in tables.items()}
    store.save(Tables(concepts, _frame(rows, columns), **others, source=source), path, force=True)
    return store.load_terminology(path)


def loaded(loader: ModuleType, files: Sequence[Path], path: Path, **options: Any) -> store.Terminology:
    """Import files, with options of a loader, and open what they give."""
    with Rejects() as rejects:
        store.save(loader.load(files, loader.Options(**options), rejects), path)
    return store.load_terminology(path)


def _frame(rows: Sequence[Row], columns: Sequence[str]) -> pl.DataFrame:
    width = max(map(len, rows), default=0)
    full = [(*row, *[None] * (width - len(row))) for row in rows]
    return pl.DataFrame(full, schema=list(columns[:width]), orient="row", infer_schema_length=None)
