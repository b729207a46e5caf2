"""The greatest of many values, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Values of which only the greatest is looked at first.
GROUP = 32
# For `powers`: any value comes to above 1 by it.
EVERY_VALUE = np.float32(2.0**-40)


def reaching(values: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the places of the k greatest values above 0 (n,), of what equals the last, and of few more."""
    width, bound = len(values) // GROUP, np.float32(0)
    if width >= k:
        # Of k groups the greatest are at least this, so the k-th of all is.
        most = values[: width * GROUP].reshape(GROUP, width).max(axis=0)
        bound = np.partition(most, width - k)[width - k]
    return np.flatnonzero(values >= bound if bound > 0 else values > 0)


def powers(found: csr_matrix, depth: int) -> NDArray[np.float32]:
    """Return for each row a power of two that brings the last of its `depth` values to between 1 and 2.

    Where there are fewer values, it is so great that every value comes to above 1.
    """
    last = np.full(found.shape[0], EVERY_VALUE, np.float32)
    full = np.flatnonzero(np.diff(found.indptr) == depth)
    last[full] = found.data[found.indptr[full][:, None] + np.arange(depth)].min(axis=1)
    powers: NDArray[np.float32] = np.ldexp(np.float32(1), 1 - np.frexp(last)[1])
    return powers


def greatest(
    query: NDArray[np.int64], string: NDArray[Any], value: NDArray[np.float32], n: int, k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k greatest values of each of n queries, and their strings; equals by row."""
    similarity, rows = np.zeros((n, k), np.float32), np.full((n, k), -1, np.int64)
    order = np.lexsort((string, -value, query))
    query = query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    order, query, place = order[place < k], query[place < k], place[place < k]
    similarity[query, place], rows[query, place] = value[order], string[order]
    return similarity, rows
