"""Exact search by FAISS's flat inner-product kernel, on the mapped vectors themselves.

`IndexFlatIP.add` would copy the vectors into memory and `write_index` would store them a second time; `faiss.knn` runs
the same kernel over the matrix where it lies. On 100,000 x 384 with 256 queries: the same neighbours at the same speed.

A single query is bound by reading all vectors from memory (55 MB for 36,000 x 384, 4 ms and more). So few queries at
once first go through a copy in half precision (0.8 ms), and what may be among the nearest is scored on the vectors
themselves. Rounding to 11 significant bits changes an inner product by at most |q| |v| / 2048, by Cauchy and Schwarz:
where the first row that is left out lies twice as much behind the last that is wanted, none can be missing; else all
are compared.

Vectors that are stored in half precision are widened block by block, which takes as long as comparing them with some
dozens of queries does.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.index import half
from alphita.index.backends import Probes
from alphita.index.half import Vectors

DESCRIPTION = "exact search by FAISS (flat inner product) on the mapped vectors; the default for up to 150,000 strings"

# Batches of more queries than this go through matrix multiplication. FAISS 1.15 asks for 128,000 queries first, which
# makes batches of hundreds 16 times slower.
BLAS_THRESHOLD = 20
# Vectors multiplied at once; with 4,096 queries at once the products take 64 MB. 1.5 times as fast as FAISS's 1,024.
BLAS_VECTORS_AT_ONCE = 4096
# The copy in half precision is made when the first few queries come, if the vectors are so many and not too large.
HALVED_FROM = 4096
HALVED_UP_TO_BYTES = 256 * 2**20
# Rows scored again beyond those wanted.
SPARE = 64
# Of rounding to half precision; the rest is for what float32 sums differ by, and for the smallest numbers, which half
# precision keeps less exactly: hence only for lengths near 1.
ROUNDING = 1 / 2048 + 1e-5
LENGTHS = (0.5, 2.0)


class FaissBackend:
    """FAISS's flat search over a matrix that may be memory-mapped."""

    def __init__(self, vectors: Vectors) -> None:
        """Search `vectors` (n, d), C-contiguous."""
        import faiss

        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
        faiss.cvar.distance_compute_blas_database_bs = BLAS_VECTORS_AT_ONCE
        self.vectors = vectors
        self._half: Any = None
        self._longest = 0.0

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        n, dim = self.vectors.shape
        halved = n >= HALVED_FROM and 2 * n * dim <= HALVED_UP_TO_BYTES and k + SPARE <= n // 8
        if halved and len(queries) < BLAS_THRESHOLD and self._halve():
            return self._search_few(queries, k)
        return _compare(queries, self.vectors, k)

    def _halve(self) -> bool:
        """Make the copy in half precision, once; tell whether the vectors' lengths are fit for it."""
        import faiss

        if self._half is None:
            dim = self.vectors.shape[1]
            halved = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
            longest = 0.0
            for _, block in half.blocks(self.vectors):
                halved.add(block)
                longest = max(longest, float(np.einsum("nd,nd->n", block, block).max()))
            self._half, self._longest = halved, float(np.sqrt(longest))
        return LENGTHS[0] <= self._longest <= LENGTHS[1]

    def _search_few(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of each of a few queries (q, d)."""
        # FAISS gives a query to a thread.
        with machine.one_thread() if len(queries) == 1 else nullcontext():
            near, found = self._half.search(queries, k + SPARE)
        similarity, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        for place, query in enumerate(queries):
            rounding = ROUNDING * self._longest * float(np.linalg.norm(query))
            if near[place, -1] >= near[place, k - 1] - 2 * rounding:
                one = _compare(query[None], self.vectors, k)
                similarity[place], rows[place] = one[0][0], one[1][0]
                continue
            products = half.full(self.vectors[found[place]]) @ query
            best = np.argsort(-products, kind="stable")[:k]
            similarity[place], rows[place] = products[best], found[place][best]
        return similarity, rows


def _compare(queries: NDArray[np.float32], vectors: Vectors, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k nearest rows of each query, all compared; `vectors` (n, d) float32 are not copied."""
    import faiss

    def search(block: NDArray[Any], most: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        products, rows = faiss.knn(queries, block, most, metric=faiss.METRIC_INNER_PRODUCT)
        return products, rows

    if vectors.dtype == np.float32:
        return search(vectors, k)
    best, best_rows = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for start, block in half.blocks(vectors):
        products, rows = search(block, min(k, len(block)))
        best, best_rows = np.hstack([best, products]), np.hstack([best_rows, rows + start])
        order = np.argsort(-best, axis=1, kind="stable")[:, :k]
        best, best_rows = np.take_along_axis(best, order, axis=1), np.take_along_axis(best_rows, order, axis=1)
    return best, best_rows


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Nothing is prepared."""
    return {}


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> FaissBackend:
    """Search `vectors` (n, d) where they lie."""
    return FaissBackend(vectors)
