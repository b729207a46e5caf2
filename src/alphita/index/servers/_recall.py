"""How often a server finds the nearest string, against comparing all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.index.backends._approximate import EQUAL, RECALL
from alphita.index.neighbours import unit

__all__ = ["RECALL", "Measure"]

VECTORS_AT_ONCE = 65_536


class Measure:
    """The nearest of some vectors to some queries, found by comparing all of them.

    Attributes:
        queries: (p, d) float32 of length 1.
    """

    def __init__(self, vectors: NDArray[Any], queries: NDArray[np.float32]) -> None:
        """Compare all.

        Args:
            vectors: (n, d) float32 or float16, which may be mapped; read once, block by block.
            queries: (p, d) float32.
        """
        self.vectors, self.queries = vectors, unit(queries)
        self._nearest = np.full(len(queries), -np.inf, np.float32)
        for start in range(0, len(vectors), VECTORS_AT_ONCE):
            block = np.asarray(vectors[start : start + VECTORS_AT_ONCE], np.float32)
            np.maximum(self._nearest, (self.queries @ block.T).max(axis=1), out=self._nearest)

    def recall(self, rows: NDArray[np.int64]) -> float:
        """Return the share of queries for which the row found, (p,), is as near as the nearest; -1 is none found."""
        found = np.asarray(self.vectors[np.maximum(rows, 0)], np.float32)
        similarity = np.where(rows >= 0, np.einsum("pd,pd->p", self.queries, found), -np.inf)
        return float((similarity >= self._nearest - EQUAL).mean())
