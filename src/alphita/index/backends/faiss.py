"""Exact search by FAISS's flat inner-product kernel, on the mapped vectors themselves.

`IndexFlatIP.add` would copy the vectors into memory and `write_index` would store them a second time; `faiss.knn` runs
the same kernel over the matrix where it lies. On 100,000 x 384 with 256 queries: the same neighbours at the same speed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DESCRIPTION = "exact search by FAISS (flat inner product) on the mapped vectors; the default"

# Batches of more queries than this go through matrix multiplication. FAISS 1.15 asks for 128,000 queries first, which
# makes batches of hundreds 16 times slower.
BLAS_THRESHOLD = 20
# Vectors multiplied at once; with 4,096 queries at once the products take 64 MB. 1.5 times as fast as FAISS's 1,024.
BLAS_VECTORS_AT_ONCE = 4096


class FaissBackend:
    """FAISS's flat search over a matrix that may be memory-mapped."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        """Search `vectors` (n, d) float32, C-contiguous."""
        import faiss

        faiss.cvar.distance_compute_blas_threshold = BLAS_THRESHOLD
        faiss.cvar.distance_compute_blas_database_bs = BLAS_VECTORS_AT_ONCE
        self.vectors = vectors

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        import faiss

        similarity, rows = faiss.knn(queries, self.vectors, k, metric=faiss.METRIC_INNER_PRODUCT)
        return similarity, rows


def attach(vectors: NDArray[np.float32]) -> FaissBackend:
    """Search `vectors` (n, d) float32 where they lie."""
    return FaissBackend(vectors)
