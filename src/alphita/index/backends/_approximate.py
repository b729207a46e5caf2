"""Shared by HNSW and the inverted file: rescoring with the original vectors, and measuring recall when building.

Both find rows with compressed vectors. The first few hundred are rescored with the index's vectors, so that
similarities are exact, and only a row that was not found at all can be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.index import neighbours
from alphita.index.backends import IndexBackend, Probes
from alphita.index.backends import faiss as flat
from alphita.index.neighbours import Vectors

RECALL = 0.99
# Cosines this close count as equal, because the vectors are float32.
EQUAL = 1e-6
# For fewer vectors nothing is built: comparing all of them takes less than about a millisecond.
FEWEST = 5000
# If at least this share of the vectors is requested, all are compared.
PART_WANTED = 0.25
QUERIES_AT_ONCE = 4096
# The nearest of a part may be far, and codes are less exact for far vectors: this many times more are rescored.
AGAIN_IN_PART = 4


class TooFewFound(InputError):
    """No setting of an approximate search finds the nearest vector often enough."""


Search = Callable[[NDArray[np.float32], int], NDArray[np.int64]]
"""Queries (q, d) and k -> rows (q, k), -1 where there are no more."""
SearchAmong = Callable[[NDArray[np.bool_]], Search]
"""Which rows are allowed, (n,) -> a search among these."""


class Refined:
    """An approximate search whose results are rescored with the vectors, which may be memory-mapped."""

    def __init__(
        self,
        vectors: Vectors,
        search: Search,
        scored_again: int,
        among: SearchAmong | None = None,
        allowed: NDArray[np.bool_] | None = None,
    ) -> None:
        self.vectors, self._search, self._scored_again, self._among = vectors, search, scored_again, among
        self._allowed = allowed
        self._n = len(vectors) if allowed is None else int(allowed.sum())

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `neighbours.Backend`; candidates are scored again exactly."""
        depth = max(self._scored_again, 2 * k)
        if depth > PART_WANTED * self._n:
            return self._exact.search(queries, k)
        similarity = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            similarity[part], rows[part] = self._refine(queries[part], k, depth)
        return similarity, rows

    def only(self, allowed: NDArray[np.bool_]) -> IndexBackend:
        both = allowed if self._allowed is None else allowed & self._allowed
        if self._among is None or flat.is_small(int(both.sum()), self.vectors.shape[1]):
            return flat.only(self.vectors, both)
        return self.part(both)

    def part(self, allowed: NDArray[np.bool_]) -> Refined:
        """Return an approximate search among the allowed rows, (n,) bool, however few."""
        assert self._among is not None
        return Refined(self.vectors, self._among(allowed), AGAIN_IN_PART * self._scored_again, self._among, allowed)

    @cached_property
    def _exact(self) -> IndexBackend:
        return flat.attach(self.vectors) if self._allowed is None else flat.only(self.vectors, self._allowed)

    def _refine(
        self, queries: NDArray[np.float32], k: int, depth: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        nearest_rows = self._search(queries, depth)
        products = neighbours.products_of_rows(queries, self.vectors, nearest_rows)
        products[nearest_rows < 0] = -np.inf
        best = np.argpartition(-products, k - 1, axis=1)[:, :k]
        similarity, rows = np.take_along_axis(products, best, axis=1), np.take_along_axis(nearest_rows, best, axis=1)
        few = np.flatnonzero((rows < 0).any(axis=1))
        if len(few):
            # Not enough rows in the searched part.
            similarity[few], rows[few] = self._exact.search(np.ascontiguousarray(queries[few]), k)
        return similarity, rows


def calibrate(
    name: str,
    vectors: Vectors,
    probes: Probes,
    attach: Callable[[dict[str, Any]], Refined],
    steps: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the first step with sufficient recall@1 on the probes, and that recall."""
    queries = probes()
    nearest = flat.attach(vectors).search(queries, 1)[0][:, 0]
    recall = 0.0
    for settings in steps:
        nearest_rows = attach(settings).search(queries, 1)[0][:, 0]
        recall = float((nearest_rows >= nearest - EQUAL).mean())
        if recall >= RECALL:
            return {**settings, "recall_at_1": round(recall, 4), "probes": len(queries)}
    raise TooFewFound(
        f"{name} finds the nearest string for only {recall:.1%} of {len(queries):,} misspelt strings, even with "
        f"{steps[-1]}; {RECALL:.0%} are needed",
        remedy="compare all of them: --backend faiss",
    )


def attach(
    vectors: Vectors, file: Path | None, name: str, search: Callable[[Any], Refined]
) -> flat.FaissBackend | Refined:
    """Open the FAISS file for vectors (n, d), memory-mapped; if there are too few, compare all."""
    if len(vectors) < FEWEST:
        return flat.attach(vectors)
    import faiss

    if file is None or not file.exists():
        raise UsageError(f"this index was not built for {name}; build it again with --backend {name}")
    try:
        return search(faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC))
    except RuntimeError as error:
        raise InputError(f"damaged: {error}", file=file, remedy="build the index again") from None
