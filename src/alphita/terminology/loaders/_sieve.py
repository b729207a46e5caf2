"""Takes bad and unwanted rows out of frames, for loaders that read millions of rows at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.errors import Rejects
from alphita.terminology import model


def listed(option: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    return [part.strip() for part in option.split(",") if part.strip()]


class Sieve:
    """Takes rows out of frames: the bad ones are reported, the unwanted ones counted.

    A frame has the columns `file` and `line`, which say where a row stands.

    Attributes:
        rejects: what is reported.
        dropped: what was left out on purpose, counted.
    """

    def __init__(self, rejects: Rejects) -> None:
        self.rejects = rejects
        self.dropped: Counter[str] = Counter()

    def refuse(self, frame: pl.DataFrame, field: str, bad: pl.Expr, problem: str) -> pl.DataFrame:
        """Report the rows for which `bad` holds or is null, with the value of `field`; return the others."""
        mask = frame.select(bad.fill_null(True).alias("bad"))["bad"]
        if not mask.any():
            return frame
        for value, line, file in frame.filter(mask).select(field, "line", "file").iter_rows():
            self.rejects.add(problem, file=file, line=line, field=field, value=value)
        return frame.filter(~mask)

    def count(self, reason: str, number: int) -> None:
        """Count rows that were left out on purpose."""
        if number:
            self.dropped[reason] += number

    def drop(self, frame: pl.DataFrame, unwanted: pl.Expr | pl.Series, reason: str) -> pl.DataFrame:
        """Leave rows out on purpose, and count them under `reason`."""
        kept = frame.filter(~unwanted)
        self.count(reason, len(frame) - len(kept))
        return kept

    def once(self, frame: pl.DataFrame, columns: Sequence[str], reason: str) -> pl.DataFrame:
        """Keep the first of the rows that are alike in some columns, in order; count the others under `reason`."""
        kept = frame.unique(columns, keep="first", maintain_order=True)
        self.count(reason, len(frame) - len(kept))
        return kept

    def strings(
        self, frame: pl.DataFrame, field: str, what: str, limit: int = model.MAX_TERM_CHARACTERS
    ) -> pl.DataFrame:
        """Refuse rows whose `field`, which messages call `what`, is blank or has more than `limit` characters."""
        cell = pl.col(field)
        frame = self.refuse(frame, field, cell.str.strip_chars() == "", f"an empty {what}")
        # Bytes are there already, characters must be counted.
        long = (cell.str.len_bytes() > limit) & (cell.str.len_chars() > limit)
        return self.refuse(frame, field, long, f"longer than {limit:,} characters")

    def dates(self, frame: pl.DataFrame, *fields: str) -> pl.DataFrame:
        """Refuse rows in which a field is not a date of the form YYYYMMDD."""
        for field in fields:
            cell = pl.col(field)
            # The calendar alone would take fewer digits, too.
            bad = ~cell.str.contains(r"^[0-9]{8}$") | cell.str.to_date("%Y%m%d", strict=False).is_null()
            frame = self.refuse(frame, field, bad, "not a date of the form YYYYMMDD")
        return frame

    def at_concepts(
        self, frame: pl.DataFrame, field: str, ids: NDArray[np.int64], left_out: NDArray[np.int64], reason: str
    ) -> pl.DataFrame:
        """Replace the numbers of concepts by their rows, and refuse rows with a number that no concept has.

        Args:
            ids: (n,) of the concepts, sorted.
        """
        wanted = frame[field].cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
        rows = np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)).astype(np.int32)
        known = ids[rows] == wanted
        frame = frame.with_columns(_row=pl.Series(rows), _known=pl.Series(known))
        if not known.all():
            frame = self.drop(frame, pl.Series(np.isin(wanted, left_out) & ~known), reason)
            frame = self.refuse(frame, field, ~pl.col("_known"), "no concept has this id")
        return frame.with_columns(pl.col("_row").alias(field)).drop("_row", "_known")
