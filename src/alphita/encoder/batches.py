"""Batches by token budget: strings of near lengths together, so that nothing is padded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Batch:
    """Token lists laid end to end, longest first, so that rows of one length lie together.

    Attributes:
        ids: (tokens,) int64.
        runs: (rows, length) of each run of equally long rows, in order.
    """

    ids: NDArray[np.int64]
    runs: list[tuple[int, int]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(rows for rows, _ in self.runs)


def by_token_budget(
    token_lists: Sequence[Sequence[int]], budget: int, *, one_length: bool = False
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """Yield batches and the row numbers they hold, longest rows first: what is too large for the memory fails at
    once."""
    lengths = np.fromiter((len(row) for row in token_lists), np.int64, len(token_lists))
    order = np.argsort(-lengths, kind="stable")
    sizes = lengths[order]
    ends = np.cumsum(sizes)
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, side="right")))
        if one_length:
            stop = min(stop, int(np.searchsorted(-sizes, -sizes[start], side="right")))
        rows = order[start:stop]
        ids = np.fromiter((token for row in rows for token in token_lists[row]), np.int64, int(ends[stop - 1]) - before)
        values, counts = np.unique(-sizes[start:stop], return_counts=True)
        yield rows, Batch(ids, [(int(count), -int(value)) for value, count in zip(values, counts, strict=True)])
        start = stop
