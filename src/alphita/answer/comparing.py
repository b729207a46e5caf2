"""Numbers about candidates, beside the others of their mention, and about pairs of strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.answer.table import CandidateTable

Float32 = NDArray[np.float32]


class Ranked(NamedTuple):
    """How many candidates of its request are above each, (c,), and the greatest and second value of each request."""

    rank: NDArray[np.int64]
    best: Float32
    second: Float32


def rank_by(table: CandidateTable, values: Float32) -> Ranked:
    """Rank the candidates of each request by their values, (c,), the greatest first."""
    n = len(table.offsets) - 1
    order = np.lexsort((-values, table.request))
    request, in_order = table.request[order], values[order]
    place = np.arange(len(order)) - table.offsets[request]
    best, second = np.zeros(n, np.float32), np.zeros(n, np.float32)
    best[request[place == 0]] = in_order[place == 0]
    second[request[place == 1]] = in_order[place == 1]
    # Equal ones have one rank: which row stands first is chance.
    new = (place == 0) | (np.diff(in_order, prepend=np.float32(np.nan)) != 0)
    rank = np.empty(len(values), np.int64)
    rank[order] = place[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    return Ranked(rank, best, second)


def greatest(table: CandidateTable, values: NDArray[Any]) -> Float32:
    """Return the greatest of each request's values, which are 0 or more; 0 for one without candidates."""
    found = np.zeros(len(table.offsets) - 1, np.float32)
    np.maximum.at(found, table.request, values)
    return found


def tops(table: CandidateTable, values: Float32) -> NDArray[np.int64]:
    """Return the row of each request's greatest value; 0 for one without candidates."""
    top = np.zeros(len(table.offsets) - 1, np.int64)
    order = np.lexsort((values, table.request))
    top[table.request[order]] = order
    return top


def ratios(
    left: Sequence[str], left_rows: NDArray[np.int64], right: Sequence[str], right_rows: NDArray[np.int64]
) -> tuple[Float32, Float32, Float32]:
    """Return the Indel ratio of the strings, of their sorted words, and of the shorter in the longer; 0 to 1."""
    from rapidfuzz import fuzz, process

    def compared(scorer: Any, one: Sequence[str], other: Sequence[str]) -> Float32:  # noqa: ANN401
        first, second = np.array(one, object)[left_rows], np.array(other, object)[right_rows]
        found: Float32 = process.cpdist(first, second, scorer=scorer, dtype=np.float32, workers=1)
        return found / np.float32(100)

    in_order = [[" ".join(sorted(text.split())) for text in texts] for texts in (left, right)]
    return (
        compared(fuzz.ratio, left, right),
        compared(fuzz.ratio, *in_order),
        compared(fuzz.partial_ratio, left, right),
    )
