"""Ways to search an index's vectors. A module here is a choice of `alphita index --backend`.

Each module has `DESCRIPTION` (one line) and `attach(vectors) -> Backend`, which must not copy the vectors.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Backend(Protocol):
    """Finds the vectors with the greatest inner product."""

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of each query, in any order.

        Args:
            queries: (q, d) float32, C-contiguous, q >= 1.
            k: 1 <= k <= n.

        Returns:
            Inner products (q, k) float32 and rows (q, k) int64.
        """
        ...
