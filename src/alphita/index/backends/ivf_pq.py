"""Approximate search in a compressed inverted file (IVF-PQ, 4 bits per part), rescored with the stored vectors.

Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", 2011; the 4-bit codes are compared in
registers (André, Kermarrec and Le Scouarnec, "Cache locality is not enough", 2015). Vectors are in lists around
centroids; a search examines the `nprobe` lists nearest to the query. A vector of 384 numbers takes 48 bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.index import neighbours
from alphita.index.backends import IndexBackend, Probes
from alphita.index.backends import _approximate as approximate
from alphita.index.neighbours import Vectors

DESCRIPTION = "approximate search in a compressed inverted file (FAISS IVF-PQ) with exact scoring; for many millions"

FILE = "ivf_pq.faiss"
# Numbers encoded by one 4-bit code.
NUMBERS_A_CODE = 4
MAX_LISTS = 8192
TRAINED_ON_A_LIST = 40
ROUNDS = 12
ADDED_AT_ONCE = 100_000
# A search in a part examines this many times the share of vectors: its nearest are farther away, in less near lists.
MORE_IN_PART = 2
# Queries whose lists are sorted together: 256 by 8,192 lists take some 60 MB.
LISTED_AT_ONCE = 256
# nprobe: scored_again, smallest first.
WIDTHS = "16:128 32:128 64:256 128:256 128:512 256:256 256:512 512:256 512:512 512:1024 1024:512 1024:1024 2048:512 \
2048:1024 4096:2048"
STEPS = [
    {"nprobe": int(lists), "scored_again": int(again)}
    for lists, again in (width.split(":") for width in WIDTHS.split())
]


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Build the inverted file and choose how much of it to search; see `backends`."""
    import faiss

    n, dim = vectors.shape
    if n < approximate.FEWEST:
        (folder / FILE).unlink(missing_ok=True)
        return {}
    lists = min(MAX_LISTS, 2 ** round(math.log2(2 * math.sqrt(n))))
    inverted: Any = _earlier(folder / FILE, dim, lists)
    trained = inverted is None
    with progress.bar("Compressing vectors", total=n, unit="vectors") as bar:
        if trained:
            codes = next(dim // size for size in range(NUMBERS_A_CODE, 0, -1) if dim % size == 0)
            inverted = faiss.index_factory(dim, f"IVF{lists},PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)
            inverted.cp.niter = ROUNDS
            inverted.train(np.ascontiguousarray(neighbours.full(vectors[:: max(1, n // (lists * TRAINED_ON_A_LIST))])))
        for _, block in neighbours.blocks(vectors, ADDED_AT_ONCE):
            inverted.add(block)
            bar.advance(len(block))
    faiss.write_index(inverted, str(folder / FILE))
    try:
        return approximate.calibrate(
            "ivf_pq", vectors, probes, lambda settings: _search(vectors, inverted, settings), STEPS
        )
    except approximate.TooFewFound:
        if trained:
            raise
    (folder / FILE).unlink()
    return build(vectors, folder, probes)


def _earlier(file: Path, dim: int, lists: int) -> Any:  # noqa: ANN401
    """Return the inverted file of the index that is updated, without its vectors; None if it does not fit."""
    import faiss

    if not file.exists():
        return None
    inverted: Any = faiss.read_index(str(file))
    if (inverted.d, inverted.nlist) != (dim, lists):
        return None
    inverted.reset()
    return inverted


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> IndexBackend:
    """Search in the memory-mapped inverted file in `folder`."""
    chosen = settings or STEPS[-1]
    return approximate.attach(
        vectors, folder and folder / FILE, "ivf_pq", lambda inverted: _search(vectors, inverted, chosen)
    )


def _search(vectors: Vectors, inverted: Any, settings: dict[str, Any]) -> approximate.Refined:  # noqa: ANN401
    import faiss

    probed = int(settings["nprobe"])
    part = faiss.SearchParametersIVF(nprobe=probed)  # type: ignore[call-arg]

    def search(queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = inverted.search(queries, k, params=part)[1]
        return rows

    def among(allowed: NDArray[np.bool_]) -> approximate.Search:
        return _search_among(inverted, allowed, looked_at=MORE_IN_PART * probed * len(vectors) / inverted.nlist)

    return approximate.Refined(vectors, search, int(settings["scored_again"]), among)


def _search_among(inverted: Any, allowed: NDArray[np.bool_], *, looked_at: float) -> approximate.Search:  # noqa: ANN401
    """Return a search among allowed rows, which examines about `looked_at` of them."""
    import faiss

    ids = (
        faiss.rev_swig_ptr(inverted.invlists.get_ids(cell), inverted.get_list_size(cell))
        for cell in range(inverted.nlist)
    )
    counts = np.array([np.count_nonzero(allowed[some]) for some in ids])
    lists = np.flatnonzero(counts)
    counts, middles = counts[lists], inverted.quantizer.reconstruct_n(0, inverted.nlist)[lists]
    bits: Any = np.packbits(allowed, bitorder="little")
    chosen = faiss.IDSelectorBitmap(bits)  # type: ignore[call-arg]

    def search_some(queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        """Search for few enough queries that their lists can be sorted together."""
        products = queries @ middles.T
        order = np.argsort(-products, axis=1)
        before = np.cumsum(counts[order], axis=1) - counts[order]
        wanted = before < max(looked_at, k)
        most = int(wanted.sum(axis=1).max())
        probed = np.ascontiguousarray(np.where(wanted, lists[order], -1)[:, :most])
        near = np.ascontiguousarray(np.take_along_axis(products, order[:, :most], axis=1))
        part = faiss.SearchParametersIVF(nprobe=most, sel=chosen)  # type: ignore[call-arg]
        codes, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        arrays = [faiss.swig_ptr(array) for array in (probed, near, codes, rows)]
        # FAISS's Python API takes no parameters here.
        inverted.search_preassigned_c(len(queries), faiss.swig_ptr(queries), k, *arrays, False, part)
        return rows

    def search(queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        starts = range(0, len(queries), LISTED_AT_ONCE)
        return np.concatenate([search_some(queries[start : start + LISTED_AT_ONCE], k) for start in starts])

    return search
