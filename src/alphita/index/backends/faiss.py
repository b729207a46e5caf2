"""Exact search by FAISS's flat inner-product kernel, on the mapped vectors themselves.

`IndexFlatIP.add` would copy the vectors into memory and `write_index` would store them a second time; `faiss.knn` runs
the same kernel over the matrix where it lies. On 100,000 x 384 with 256 queries: the same neighbours at the same speed.

A single query is bound by reading all vectors from memory (55 MB for 36,000 x 384, 4 ms and more). So few queries at
once first go through a copy in half precision (0.8 ms), and what may be among the nearest is scored on the vectors
themselves. Rounding to 11 significant bits changes an inner product by at most |q| |v| / 2048, by Cauchy and Schwarz:
where the first row that is left out lies twice as much behind the last that is wanted, none can be missing; else all
are compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.index.backends import Probes

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

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Search `vectors` (n, d) float32, C-contiguous."""
        import faiss

        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
        faiss.cvar.distance_compute_blas_database_bs = BLAS_VECTORS_AT_ONCE
        self.vectors = vectors
        self._half: Any = None
        self._longest = 0.0

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        import faiss

        n, dim = self.vectors.shape
        halved = n >= HALVED_FROM and 2 * n * dim <= HALVED_UP_TO_BYTES and k + SPARE <= n // 8
        if halved and len(queries) < BLAS_THRESHOLD and self._halve():
            return self._search_few(queries, k)
        similarity, rows = faiss.knn(queries, self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        return similarity, rows

    def _halve(self) -> bool:
        """Make the copy in half precision, once; tell whether the vectors' lengths are fit for it."""
        import faiss

        if self._half is None:
            dim = self.vectors.shape[1]
            half = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
            half.add(self.vectors)
            self._longest = float(np.sqrt(np.einsum("nd,nd->n", self.vectors, self.vectors).max()))
            self._half = half
        return LENGTHS[0] <= self._longest <= LENGTHS[1]

    def _search_few(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of each of a few queries (q, d)."""
        import faiss

        near, found = self._half.search(queries, k + SPARE)
        similarity, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        for place, query in enumerate(queries):
            rounding = ROUNDING * self._longest * float(np.linalg.norm(query))
            if near[place, -1] >= near[place, k - 1] - 2 * rounding:
                one = faiss.knn(query[None], self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
                similarity[place], rows[place] = one[0][0], one[1][0]
                continue
            products = self.vectors[found[place]] @ query
            best = np.argsort(-products, kind="stable")[:k]
            similarity[place], rows[place] = products[best], found[place][best]
        return similarity, rows


def build(vectors: NDArray[np.float32], folder: Path, probes: Probes) -> dict[str, Any]:
    """Nothing is prepared."""
    return {}


def attach(
    vectors: NDArray[np.float32], folder: Path | None = None, settings: dict[str, Any] | None = None
) -> FaissBackend:
    """Search `vectors` (n, d) float32 where they lie."""
    return FaissBackend(vectors)
