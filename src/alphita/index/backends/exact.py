"""Exact search in NumPy: the reference for all other backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.index import neighbours
from alphita.index.backends import Among, Probes
from alphita.index.neighbours import Vectors

DESCRIPTION = "exact search in NumPy, block by block; slow, the reference"

QUERY_BLOCK = 256
VECTOR_BLOCK = 8192


class ExactBackend:
    """Blockwise inner products; ties are in the order of their rows."""

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = vectors

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `neighbours.Backend`."""
        similarity = np.empty((len(queries), k), dtype=np.float32)
        rows = np.empty((len(queries), k), dtype=np.int64)
        for start in range(0, len(queries), QUERY_BLOCK):
            part = slice(start, start + QUERY_BLOCK)
            best, best_rows = np.empty((len(queries[part]), 0), np.float32), np.empty((len(queries[part]), 0), np.int64)
            for first, block in neighbours.blocks(self.vectors, VECTOR_BLOCK):
                products = queries[part] @ block.T
                block_rows = np.broadcast_to(np.arange(first, first + products.shape[1]), products.shape)
                best = np.concatenate([best, products], axis=1)
                best_rows = np.concatenate([best_rows, block_rows], axis=1)
                if best.shape[1] > k:
                    best, best_rows = _keep_greatest(best, best_rows, k)
            similarity[part], rows[part] = best, best_rows
        return similarity, rows

    def only(self, allowed: NDArray[np.bool_]) -> Among:
        rows = np.flatnonzero(allowed)
        return Among(ExactBackend(self.vectors[rows]), rows)


def _keep_greatest(
    values: NDArray[np.float32], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Keep the k greatest of each line; for ties, the lowest rows."""
    width = values.shape[1]
    kth = np.partition(values, width - k, axis=1)[:, width - k, None]
    line, column = np.nonzero(values >= kth)
    order = np.lexsort((rows[line, column], -values[line, column], line))
    line, column = line[order], column[order]
    place = np.arange(len(line)) - np.searchsorted(line, line)
    line, column = line[place < k], column[place < k]
    shape = (len(values), k)
    return values[line, column].reshape(shape), rows[line, column].reshape(shape)


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Prepare nothing."""
    return {}


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> ExactBackend:
    """Search `vectors` (n, d) without copying them."""
    return ExactBackend(vectors)
