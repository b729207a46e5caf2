"""Exact search by FAISS's flat inner-product kernel, on the mapped vectors themselves.

`IndexFlatIP.add` would copy the vectors into memory and `write_index` would store them a second time; `faiss.knn` runs
the same kernel over the matrix where it lies. On 100,000 x 384 with 256 queries: the same neighbours at the same speed.

A single query is bound by reading all vectors from memory (55 MB for 36,000 x 384, 4 ms and more). So few queries at
once first go through a copy in whole numbers from -127 to 127, a quarter of that, and what may be among the nearest is
scored on the vectors themselves. With the rounded q' and v', by Cauchy and Schwarz,

    |q v - q' v'| <= |q - q'| |v| + |q'| |v - v'|,

so where the first row that is left out lies more than twice as much behind the last that is wanted, none can be
missing; else all are compared.

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
# The rounded copy is made when the first few queries come, if the vectors are so many and not too large.
ROUNDED_FROM = 4096
ROUNDED_UP_TO_BYTES = 128 * 2**20
# Rows scored again beyond those wanted: with 64, one query in thirty had to be compared with all.
SPARE = 192
GREATEST = 127
# A step for vectors that are all zero.
TINY = 1e-38
# What float32 sums differ by, of the lengths' product.
SUMS = 1e-5


class FaissBackend:
    """FAISS's flat search over a matrix that may be memory-mapped."""

    def __init__(self, vectors: Vectors) -> None:
        """Search `vectors` (n, d), C-contiguous."""
        import faiss

        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
        faiss.cvar.distance_compute_blas_database_bs = BLAS_VECTORS_AT_ONCE
        self.vectors = vectors
        self._rounded: _Rounded | None = None

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        n, dim = self.vectors.shape
        rounded = n >= ROUNDED_FROM and n * dim <= ROUNDED_UP_TO_BYTES and k + SPARE <= n // 8
        if rounded and len(queries) < BLAS_THRESHOLD:
            return self._search_few(queries, k)
        return _compare(queries, self.vectors, k)

    def _search_few(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of each of a few queries (q, d)."""
        if self._rounded is None:
            self._rounded = _Rounded(self.vectors)
        near, found, errors = self._rounded.search(queries, k + SPARE)
        similarity, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        for place, query in enumerate(queries):
            # "Not above" and not "below": vectors that are not finite are compared with all.
            if not near[place, -1] < near[place, k - 1] - 2 * errors[place]:
                one = _compare(query[None], self.vectors, k)
                similarity[place], rows[place] = one[0][0], one[1][0]
                continue
            products = half.full(self.vectors[found[place]]) @ query
            best = np.argsort(-products, kind="stable")[:k]
            similarity[place], rows[place] = products[best], found[place][best]
        return similarity, rows


class _Rounded:
    """Vectors in whole numbers, and how far they are from what they stand for."""

    def __init__(self, vectors: Vectors) -> None:
        """Round `vectors` (n, d), all by one step."""
        import faiss

        greatest = max(float(np.abs(block).max()) for _, block in half.blocks(vectors))
        self.step = np.float32(max(greatest / GREATEST, TINY))
        dim = vectors.shape[1]
        # Of this kind FAISS compares whole numbers with whole numbers: the query is rounded, too.
        self.index = faiss.IndexScalarQuantizer(
            dim, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
        )
        self.longest = self.error = 0.0
        for _, block in half.blocks(vectors):
            rounded = np.rint(block / self.step)
            self.index.add(rounded)
            self.longest = max(self.longest, _longest(block))
            self.error = max(self.error, _longest(block - rounded * self.step))

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the inner products of what is rounded (q, k), their rows (q, k), and how far they may be off (q,)."""
        greatest = np.abs(queries).max(axis=1, keepdims=True)
        step = np.maximum(greatest / np.float32(GREATEST), np.float32(TINY))
        rounded = np.rint(queries / step)
        # FAISS gives a query to a thread.
        with machine.one_thread() if len(queries) == 1 else nullcontext():
            products, rows = self.index.search(rounded, k)
        lengths, errors = (
            np.linalg.norm(some.astype(np.float64), axis=1) for some in (rounded * step, queries - rounded * step)
        )
        off = errors * self.longest + lengths * self.error + SUMS * (lengths + errors) * self.longest
        return products * (step.astype(np.float64) * self.step), rows, off


def _longest(vectors: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max()))


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
