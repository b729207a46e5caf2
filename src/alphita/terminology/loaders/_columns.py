"""Gathering rows into columns, for loaders that read line by line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from alphita.errors import Rejects, UsageError
from alphita.terminology import model, prefixes
from alphita.terminology.text import whole_characters

_SCHEMAS: dict[str, dict[str, Any]] = {
    table: {name: kind for name, (kind, _) in columns.items()} | model.PLACE for table, columns in model.SCHEMAS.items()
}


# A row as a Python dict takes ten times the memory that it takes in a frame.
ROWS_AT_ONCE = 20_000


class Columns:
    """Rows of the tables of `model.SCHEMAS`, gathered one by one; what of a file is refused, and what is left out.

    Rows that are appended to `rows` may still be changed; a table that is filled so must not be given to `add`.
    """

    def __init__(self, rejects: Rejects) -> None:
        self.rejects = rejects
        self.dropped: Counter[str] = Counter()
        # That is being read.
        self.file = ""
        self._seen: set[tuple[str, ...]] = set()
        self.rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _SCHEMAS}
        self._packed: dict[str, list[pl.DataFrame]] = {table: [] for table in _SCHEMAS}

    def add(self, table: str, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        """Add a row; columns left out take their default."""
        rows = self.rows[table]
        rows.append(values)
        if len(rows) >= ROWS_AT_ONCE:
            self._packed[table].append(_packed(table, rows))
            rows.clear()

    def put(self, table: str, line: int, **values: Any) -> None:  # noqa: ANN401 - cells of any type
        """Add a row of a line of the file."""
        self.add(table, line=line, file=self.file, **values)

    def refuse(self, problem: str, line: int, field: str | None, value: str | None = None) -> None:
        """Report what is wrong in a line of the file."""
        self.rejects.add(problem, file=self.file, line=line, field=field, value=value)

    def fits(self, string: str, line: int, field: str, limit: int = model.MAX_TERM_CHARACTERS) -> bool:
        """Tell whether a string has words, and no more than are read; report one that does not."""
        problem = model.too_long(string, limit) if string.strip() else "an empty string"
        if problem:
            self.refuse(problem, line, field, string if string.strip() else None)
        return not problem

    def is_new(self, *values: str) -> bool:
        """Tell whether this was not asked of the same values before."""
        n_seen = len(self._seen)
        self._seen.add(values)
        return len(self._seen) > n_seen

    def frame(self, table: str) -> pl.DataFrame:
        """Return a table; columns that no row has are left out."""
        frames, rows = self._packed[table], self.rows[table]
        if rows or not frames:
            frames = [*frames, _packed(table, rows)]
        return pl.concat(frames, how="diagonal")

    def frames(self) -> dict[str, pl.DataFrame]:
        """Return the tables."""
        return {table: self.frame(table) for table in _SCHEMAS}

    def tables(self, sources: list[dict[str, Any]]) -> model.Tables:
        """Return what a loader hands over: the tables, the files they were read from, and what was left out of them."""
        return model.Tables(**self.frames(), sources=sources, dropped=dict(self.dropped))  # type: ignore[arg-type]


def _packed(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = _SCHEMAS[table]
    given = set().union(*rows) if rows else set(schema)
    columns = {name: [row.get(name) for row in rows] for name in schema if name in given}
    types = {name: schema[name] for name in columns}
    try:
        return pl.DataFrame(columns, schema=types)
    except UnicodeEncodeError:
        # A cell that its loader did not look at, such as a reference.
        whole = {
            name: [whole_characters(cell) if isinstance(cell, str) else cell for cell in cells]
            for name, cells in columns.items()
        }
        return pl.DataFrame(whole, schema=types)


def commonest(uses: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """Return the string that each concept is called by most often; of equal ones, the first of the alphabet."""
    return dict(sorted(sorted(uses, reverse=True), key=uses.__getitem__))


def type_by_branches(columns: Columns, option: str) -> None:
    """Give every concept below a root the semantic types that are the root's children above it, or itself."""
    if option in ("", "namespace"):
        return
    roots = [prefixes.normalize(root) for root in option.split(",")]
    terms = model.complete("terms", columns.frame("terms")).filter("preferred")
    names = dict(terms.unique("concept", keep="first").select("concept", "string").iter_rows())
    known = set(columns.frame("concepts")["id"])
    children = defaultdict(list)
    relations = columns.frame("relations").filter(pl.col("relation") == model.IS_A)
    for parent, child in relations.select("tail", "head").iter_rows():
        children[parent].append(child)
    branches: dict[str, None] = {}
    for root in roots:
        if root not in known:
            raise UsageError(f"semantic_type: no concept has the id {root!r}")
        # A root that lies below another root is divided itself, not a type.
        branches |= dict.fromkeys(branch for branch in children[root] if branch not in roots)
    for branch in branches:
        seen, waiting = {branch}, [branch]
        while waiting:
            new = [child for child in children[waiting.pop()] if child not in seen]
            seen.update(new)
            waiting.extend(new)
        prefix, _, code = branch.rpartition(":")
        for concept in sorted(seen & known):
            name = names.get(branch, branch)
            columns.add("semantic_types", concept=concept, semantic_type=name, code=code, source=prefix)
