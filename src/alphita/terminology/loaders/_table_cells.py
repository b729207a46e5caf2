"""Cells of a table of terms: what may stand in them, and what holds where nothing does."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from alphita.terminology import model

TRUE = frozenset({"1", "true", "t", "yes", "y"})
FALSE = frozenset({"", "0", "false", "f", "no", "n"})
# In lower case, by the option that names the column.
ALLOWED: dict[str, frozenset[str]] = {
    "scope_column": frozenset({"", *model.SCOPES}),
    "status_column": frozenset({"", *model.STATUSES}),
    "preferred_column": TRUE | FALSE,
    "retired_column": TRUE | FALSE,
}


class Defaults:
    """What stands in a column of cells, or else a default: where the cell is empty, or no such column is there."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = columns

    def __call__(self, field: str, default: str | pl.Expr | None, value: pl.Expr | None = None) -> pl.Expr:
        """Return the value of the cells (by default the cell itself) where they have one, else the default."""
        other = default if isinstance(default, pl.Expr) else pl.lit(default, pl.String)
        if field not in self.columns:
            return other
        return pl.when(pl.col(field) == "").then(other).otherwise(pl.col(field) if value is None else value)


def values_of(cells: pl.DataFrame, field: str) -> list[str]:
    """Return the distinct values of a field; none where no such column is there."""
    return cells[field].unique().to_list() if field in cells.columns else []


def is_odd(cells: pl.DataFrame, tags: dict[str, str]) -> pl.Series:
    """Tell which rows of terms must be checked one by one; some of them may turn out good."""
    odd = [pl.col("term_column") == ""]
    for field in cells.columns:
        if field in ALLOWED:
            odd.append(~pl.col(field).str.to_lowercase().is_in(list(ALLOWED[field])))
        elif field == "language_column":
            odd.append(pl.col(field).is_in([tag for tag, known in tags.items() if tag and not known]))
        elif field != "line":
            limit = model.MAX_TEXT_CHARACTERS if field == "definition_column" else model.MAX_TERM_CHARACTERS
            odd.append(pl.col(field).str.len_bytes() > limit)
    return cells.select(odd=pl.any_horizontal(odd))["odd"]
