"""What HNSW and the inverted file share: scoring again on the vectors themselves, and the recall measured at build.

Both find rows by compressed vectors. The first few hundred of them are compared by the index's own float32 vectors, so
that similarities are exact and only a row that was not found at all can be missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.index.backends import Probes
from alphita.index.backends import faiss as flat

RECALL = 0.99
# Two cosines this close are equally near: the vectors are float32.
EQUAL = 1e-6
# For fewer vectors nothing is built: comparing them all takes less than a millisecond or so.
FEWEST = 5000
# Where so large a part of the vectors is wanted, all are compared.
PART_WANTED = 0.25
QUERIES_AT_ONCE = 4096

Search = Callable[[NDArray[np.float32], int], tuple[NDArray[np.float32], NDArray[np.int64]]]


class Refined:
    """An approximate search whose answers are scored again on the vectors, which may be memory-mapped."""

    def __init__(self, vectors: NDArray[np.float32], search: Search, scored_again: int) -> None:
        """Search with `search(queries, k)` and score at least `scored_again` of its rows again."""
        self.vectors, self._search, self._scored_again = vectors, search, scored_again

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return inner products (q, k) and rows (q, k); see `Backend`."""
        depth = max(self._scored_again, 2 * k)
        if depth > PART_WANTED * len(self.vectors):
            return flat.attach(self.vectors).search(queries, k)
        similarity = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            similarity[part], rows[part] = self._refine(queries[part], k, depth)
        return similarity, rows

    def _refine(
        self, queries: NDArray[np.float32], k: int, depth: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        import faiss

        _, found = self._search(queries, depth)
        products = np.empty(found.shape, np.float32)
        pointers = [faiss.swig_ptr(array) for array in (products, queries, self.vectors, found)]
        # NumPy would copy the vectors out first.
        faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]
            *pointers, queries.shape[1], len(queries), depth
        )
        products[found < 0] = -np.inf
        best = np.argpartition(-products, k - 1, axis=1)[:, :k]
        similarity, rows = np.take_along_axis(products, best, axis=1), np.take_along_axis(found, best, axis=1)
        few = np.flatnonzero((rows < 0).any(axis=1))
        if len(few):
            # Not enough rows in the part that was searched.
            similarity[few], rows[few] = flat.attach(self.vectors).search(np.ascontiguousarray(queries[few]), k)
        return similarity, rows


def calibrate(
    name: str,
    vectors: NDArray[np.float32],
    probes: Probes,
    attach: Callable[[dict[str, Any]], Refined],
    steps: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the first step whose recall@1 on the probes is enough, with that recall.

    Recall@1 is the share of probes for which the search finds a vector as near as the nearest of all.

    Args:
        name: of the backend.
        vectors: (n, d) float32.
        probes: see `backends`.
        attach: makes the search of a step.
        steps: settings, the quickest first.

    Raises:
        InputError: no step reaches `RECALL`.
    """
    queries = probes()
    nearest = flat.attach(vectors).search(queries, 1)[0][:, 0]
    recall = 0.0
    for settings in steps:
        found = attach(settings).search(queries, 1)[0][:, 0]
        recall = float((found >= nearest - EQUAL).mean())
        if recall >= RECALL:
            return {**settings, "recall_at_1": round(recall, 4), "probes": len(queries)}
    raise InputError(
        f"{name} finds the nearest string for only {recall:.1%} of {len(queries):,} misspelt strings, even with "
        f"{steps[-1]}; {RECALL:.0%} are needed", remedy="compare all of them: --backend faiss",
    )  # fmt: skip


def attach(
    vectors: NDArray[np.float32], file: Path | None, name: str, search: Callable[[Any], Refined]
) -> flat.FaissBackend | Refined:
    """Open what was built for some vectors; too few of them are all compared.

    Args:
        vectors: (n, d) float32, which may be mapped.
        file: what FAISS wrote.
        name: of the backend.
        search: makes the search of what FAISS opened.

    Raises:
        UsageError: the index was not built for this backend.
        InputError: the file is damaged.
    """
    return flat.attach(vectors) if len(vectors) < FEWEST else search(read(file, name))


def read(file: Path | None, name: str) -> Any:  # noqa: ANN401 - FAISS has no types
    """Open what FAISS wrote, mapped.

    Raises:
        UsageError: the index was not built for this backend.
        InputError: the file is damaged.
    """
    import faiss

    if file is None or not file.exists():
        raise UsageError(f"this index was not built for {name}; build it again with --backend {name}")
    try:
        return faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise InputError(f"damaged: {error}", file=file, remedy="build the index again") from None
