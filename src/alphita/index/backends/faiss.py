"""Exact search with FAISS's flat inner-product kernel, directly on the mapped vectors.

`IndexFlatIP.add` would copy the vectors into memory and `write_index` would store them a second time; `faiss.knn` runs
the same kernel on the matrix in place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.index import neighbours
from alphita.index.backends import Among, IndexBackend, Probes, _rounded
from alphita.index.backends._rounded import Rounded, Way
from alphita.index.neighbours import Vectors

DESCRIPTION = "exact search by FAISS (flat inner product) on the mapped vectors; the default for up to 100,000 strings"

# Batches of more queries than this go through matrix multiplication. FAISS 1.15 does so only from 128,000 queries on,
# which makes batches of hundreds 16 times slower.
BLAS_THRESHOLD = 20
# Vectors multiplied at once; with 4,096 queries at once the products take 64 MB. 1.5 times as fast as FAISS's 1,024.
BLAS_VECTORS_AT_ONCE = 4096
# The rounded copy is made if there are this many vectors and they are not too large, and so many queries were asked:
# it takes as long as ten of them.
ROUNDED_FROM, ASKED_BEFORE = 4096, 10
ROUNDED_UP_TO_BYTES = 128 * 2**20
# Rows selected by filters are copied if they are not larger than this in total; this is twice as fast.
COPIED_UP_TO_BYTES = 2 * 2**30
# Batch size from which torch is loaded even if the encoder does not need it: that takes seconds, and 0.3 GB.
LOADS_TORCH = 256
# If this many more queries had to be compared with all vectors than the copy answered, it is not used any more.
MAX_IN_VAIN = 200


class FaissBackend:
    """FAISS's flat search over a matrix that may be memory-mapped."""

    def __init__(self, vectors: Vectors) -> None:
        import faiss

        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
        faiss.cvar.distance_compute_blas_database_bs = BLAS_VECTORS_AT_ONCE
        self.vectors = vectors
        self._rounded: dict[Way, Rounded] = {}
        self._making = threading.Lock()
        self._in_vain = self._asked = 0

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return similarities and rows, (q, k) each, of the k nearest vectors of queries (q, d), best first."""
        n, dim = self.vectors.shape
        if n < ROUNDED_FROM or n * dim > ROUNDED_UP_TO_BYTES:
            return _compare(queries, self.vectors, k)
        self._asked += len(queries)
        if self._asked <= ASKED_BEFORE:
            return _compare(queries, self.vectors, k)
        try:
            copy = self._copy(len(queries))
        except MemoryError:
            # Without this, it is slower.
            return _compare(queries, self.vectors, k)
        if not copy.serves(len(queries), k) or self._in_vain > MAX_IN_VAIN:
            return _compare(queries, self.vectors, k)
        similarity, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        at_once = copy.at_once()
        for start in range(0, len(queries), at_once):
            block = slice(start, start + at_once)
            similarity[block], rows[block] = self._by_rounded(copy, queries[block], k)
        return similarity, rows

    def only(self, allowed: NDArray[np.bool_]) -> IndexBackend:
        return only(self.vectors, allowed)

    def _copy(self, queries: int) -> Rounded:
        """Return the rounded copy, created when it is first needed for this many queries."""
        torch = queries >= LOADS_TORCH or "torch" in sys.modules
        way = _rounded.by_torch(queries) if torch else "faiss"
        if way == "faiss" and queries >= _rounded.FEW:
            way = "numpy"
        with self._making:
            if way not in self._rounded:
                self._rounded[way] = Rounded(self.vectors, way)
            return self._rounded[way]

    def _by_rounded(
        self, rounded: Rounded, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of queries (q, d), scored with the original vectors."""
        query, row, products, unsure = rounded.candidates(queries, k)
        order = np.lexsort((row, -products, query))
        best = order[np.searchsorted(query, np.flatnonzero(~unsure))[:, None] + np.arange(k)]
        similarity, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        similarity[~unsure], rows[~unsure] = products[best], row[best]
        # If vectors are randomly distributed, hundreds are about as near as the nearest one, for every query.
        count = int(unsure.sum())
        self._in_vain = max(0, self._in_vain + count - (len(queries) - count))
        if count:
            similarity[unsure], rows[unsure] = _compare(queries[unsure], self.vectors, k)
        return similarity, rows


class Scattered:
    """Exact search among some rows of a matrix, too many to be copied: they are gathered block by block."""

    def __init__(self, vectors: Vectors, rows: NDArray[np.int64]) -> None:
        self.vectors, self._rows = vectors, rows

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        similarity, places = _compare_blocks(queries, neighbours.blocks(self.vectors, chosen=self._rows), k)
        return similarity, self._rows[places]

    def only(self, allowed: NDArray[np.bool_]) -> IndexBackend:
        both = np.zeros(len(self.vectors), bool)
        both[self._rows] = allowed[self._rows]
        return only(self.vectors, both)


def is_small(n: int, dim: int) -> bool:
    """Whether n vectors are few enough for a fast exact search with integers."""
    return n * dim <= ROUNDED_UP_TO_BYTES


def only(vectors: Vectors, allowed: NDArray[np.bool_]) -> IndexBackend:
    """Return an exact search among the allowed rows (n,) of `vectors` (n, d)."""
    if allowed.all():
        return FaissBackend(vectors)
    rows = np.flatnonzero(allowed)
    if len(rows) * vectors.shape[1] * vectors.itemsize <= COPIED_UP_TO_BYTES:
        return Among(FaissBackend(vectors[rows]), rows)
    return Scattered(vectors, rows)


def _compare(queries: NDArray[np.float32], vectors: Vectors, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k nearest rows of each query, all compared; `vectors` (n, d) float32 are not copied."""
    if vectors.dtype == np.float32:
        return _nearest(queries, vectors, k)
    return _compare_blocks(queries, neighbours.blocks(vectors), k)


def _nearest(
    queries: NDArray[np.float32], block: NDArray[Any], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    import faiss

    products, rows = faiss.knn(queries, block, k, metric=faiss.METRIC_INNER_PRODUCT)
    return products, rows


def _compare_blocks(
    queries: NDArray[np.float32], blocks: Iterable[tuple[int, NDArray[np.float32]]], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k nearest of all rows of the blocks, given with the number of their first row."""
    best, best_rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for start, block in blocks:
        products, rows = _nearest(queries, block, min(k, len(block)))
        best, best_rows = np.hstack([best, products]), np.hstack([best_rows, rows + start])
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, best_rows = np.take_along_axis(best, order, axis=1), np.take_along_axis(best_rows, order, axis=1)
    return best, best_rows


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Prepare nothing."""
    return {}


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> FaissBackend:
    """Search `vectors` (n, d) without copying them."""
    return FaissBackend(vectors)
