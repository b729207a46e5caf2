"""Ids in tables: a CURIE of some system, or a code of the table's own.

Where the table has a prefix of its own, its codes may look like anything: `DO:123`, `10:30`, `GLU 1`. So an id counts
as a CURIE only if its prefix is that one, or stands in the table of prefixes spelled just so, or if it is a URI that
has a CURIE; all else is a code. Without a prefix of its own everything with a prefix is a CURIE, aliases resolved.
"""

from __future__ import annotations

import re

import polars as pl

from alphita.terminology import prefixes

# What Python takes for white space, and polars does not in part.
WHITE = "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())

# An id has no space. "%20" in a code is written "%2520", so that it is not taken for one.
_TO_ENCODE = re.compile(r"\s|%(?=[0-9A-Fa-f]{2})")
_PLAIN_BYTES = 900


class Ids:
    """Makes CURIEs out of the cells of a table.

    Attributes:
        prefix: of the table's own codes, as Alphita writes it; "" where it has none.
    """

    def __init__(self, prefix: str) -> None:
        """Take `prefix` for the codes that have none."""
        self.prefix = prefixes.canonical(prefix)
        self.spellings = {prefix, self.prefix}

    def of(self, cell: str) -> tuple[str, str, str] | None:
        """Return (CURIE, prefix, code as it is written); None for a code without prefix that gets none here."""
        if not self.prefix:
            curie = prefixes.normalize(cell)
            parsed = prefixes.parse_curie(curie)
            return (curie, *parsed) if parsed else None
        contracted = prefixes.contract(cell) if "://" in cell else None
        prefix, _, code = (contracted or cell).partition(":")
        if contracted or (code and prefix in prefixes.table() and prefix not in self.spellings):
            return f"{prefix}:{code}", prefix, code
        if not code or prefix not in self.spellings:
            code = cell
        return f"{self.prefix}:{_TO_ENCODE.sub(_encoded, code)}", self.prefix, code

    def of_all(self, cells: pl.Series) -> pl.DataFrame:
        """Return the columns id, prefix and code as `of` does; null where a cell must be shown to `of` by itself."""
        parts = _parts(cells)
        found: dict[str, str | None] = {}
        for prefix in parts["prefix"].unique().drop_nulls():
            if not self.prefix:
                found[prefix] = prefixes.canonical(prefix)
            elif prefix in self.spellings:
                found[prefix] = self.prefix
            else:
                found[prefix] = prefix if prefix in prefixes.table() else None
        parts = parts.with_columns(known=pl.col("prefix").replace_strict(found, default=None, return_dtype=pl.String))
        curie = pl.when("plain").then(pl.concat_str("known", pl.lit(":"), "local"))
        if not self.prefix:
            return parts.select(id=curie, prefix="known", code="local")
        is_own = pl.col("known").is_null()
        own = pl.when("plain").then(pl.concat_str(pl.lit(f"{self.prefix}:"), "cell"))
        return parts.select(
            id=pl.when(is_own).then(own).otherwise(curie),
            prefix=pl.col("known").fill_null(self.prefix),
            code=pl.when(is_own).then("cell").otherwise("local"),
        )


def normalized(cells: pl.Series) -> pl.Series:
    """Return `prefixes.normalize` of each cell."""
    parts = _parts(cells)
    known = {prefix: prefixes.canonical(prefix) for prefix in parts["prefix"].unique().drop_nulls()}
    prefix = pl.col("prefix").replace_strict(known, default=None, return_dtype=pl.String)
    found = parts.select(found=pl.when("plain").then(pl.concat_str(prefix, pl.lit(":"), "local")))["found"]
    if not found.has_nulls():
        return found
    return pl.Series(
        [prefixes.normalize(cell) if curie is None else curie for cell, curie in zip(cells, found, strict=True)],
        dtype=pl.String,
    )


def _parts(cells: pl.Series) -> pl.DataFrame:
    """Return the columns cell, prefix and local (null without a colon), and plain: whether nothing is odd about it."""
    cell = pl.col("cell")
    halves = cell.str.splitn(":", 2)
    local = halves.struct.field("field_1")
    is_odd = (
        (cell == "")
        | (local == "")
        | cell.str.starts_with(":")
        | cell.str.contains(r"[\s\x1c-\x1f%]")
        | cell.str.contains("://", literal=True)
        | (cell.str.len_bytes() > _PLAIN_BYTES)
    )
    return cells.to_frame("cell").select(
        "cell",
        prefix=pl.when(local.is_not_null()).then(halves.struct.field("field_0")),
        local=local,
        plain=~is_odd.fill_null(False),
    )


def _encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())
