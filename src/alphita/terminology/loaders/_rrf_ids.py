"""From the ids of a release to the places of what they name."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

# Ids whose number is below this find their row by a plain table.
MAX_NUMBER = 200_000_000

Int32 = NDArray[np.int32]


class IdRows:
    """From ids to their places in a list.

    Ids of one letter or none and a number (C0000005, 161) are looked up in a plain table, 40 times as fast as strings
    by their hash; any others fall back on that.
    """

    def __init__(self, ids: pl.Series) -> None:
        """Take the ids, each once."""
        self.ids = ids
        self.start = ids[0][:1] if len(ids) and ids[0][:1].isalpha() else ""
        self.lengths = ids.str.len_bytes().to_numpy().astype(np.int32)
        self.table: Int32 | None = None
        numbers = self._numbers(ids)
        if numbers.null_count() or not len(ids) or int(numbers.max()) > MAX_NUMBER:  # type: ignore[arg-type]
            return
        table = np.full(int(numbers.max()) + 2, -1, np.int32)  # type: ignore[arg-type]
        table[numbers.to_numpy()] = np.arange(len(ids), dtype=np.int32)
        if len(ids) == numbers.n_unique():  # else 7 and 007 are two ids
            self.table = table

    def _numbers(self, ids: pl.Series) -> pl.Series:
        digits = ids.str.strip_prefix(self.start) if self.start else ids
        # "+7" and "CC7" would pass as numbers.
        plain = ids.str.starts_with(self.start) & ~ids.str.contains("+", literal=True)
        return digits.cast(pl.UInt32, strict=False).set(~plain, None)

    def of(self, ids: pl.Series) -> Int32:
        """Return each id's place; -1 where it is not among them."""
        if self.table is None:
            known = pl.DataFrame({"id": self.ids, "row": pl.int_range(len(self.ids), dtype=pl.Int32, eager=True)})
            found = ids.alias("id").to_frame().join(known, on="id", how="left", maintain_order="left")["row"]
            return found.fill_null(-1).to_numpy()
        numbers = self._numbers(ids).fill_null(len(self.table)).to_numpy()
        rows = self.table[np.minimum(numbers, len(self.table) - 1)]
        # The last place of the table is never filled; lengths tell 7 from 007.
        same = self.lengths[rows] == ids.str.len_bytes().to_numpy()
        return np.where(same, rows, np.int32(-1))
