"""Nearest vectors, whichever backend finds them: checks, limits and a fixed order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.index.backends import Backend
from alphita.index.float16 import Vectors, full


def unit(vectors: Vectors) -> NDArray[np.float32]:
    """Return the rows at length 1, so that an inner product is a cosine; a zero row stays zero.

    Args:
        vectors: (n, d) float32, or as an index stores them.

    Returns:
        (n, d) float32, C-contiguous.
    """
    vectors = full(vectors)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(length, np.float32(1e-12)), dtype=np.float32)


def nearest(
    backend: Backend, shape: tuple[int, int], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the nearest rows of each query, most similar first; equals by row number.

    Args:
        shape: (n, d) of the vectors it searches.
        queries: (q, d) float32.
    """
    n, dim = shape
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise UsageError(
            f"queries of shape {queries.shape} cannot be searched: the index holds vectors of {dim} numbers"
        )
    if k < 0:
        raise UsageError(f"k must be 0 or more, not {k}")
    k = min(k, n)
    if k == 0 or len(queries) == 0:
        return np.empty((len(queries), k), dtype=np.float32), np.empty((len(queries), k), dtype=np.int64)
    similarity, rows = backend.search(np.ascontiguousarray(queries, dtype=np.float32), k)
    order = np.lexsort((rows, -similarity), axis=1)
    return np.take_along_axis(similarity, order, axis=1), np.take_along_axis(rows, order, axis=1)
