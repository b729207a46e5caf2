"""Approximate search in a compressed inverted file (IVF-PQ, 4 bits a part), scored again on the stored vectors.

Jégou, Douze and Schmid, "Product quantization for nearest neighbor search", 2011; the 4-bit codes are compared in
registers (André, Kermarrec and Le Scouarnec, "Cache locality is not enough", 2015). Vectors lie in lists around
centroids; a search looks through the `nprobe` lists nearest to the query. A vector of 384 numbers takes 48 bytes.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.index import half
from alphita.index.backends import IndexBackend, Probes
from alphita.index.backends import _approximate as approximate
from alphita.index.half import Vectors

DESCRIPTION = "approximate search in a compressed inverted file (FAISS IVF-PQ) with exact scoring; for many millions"

FILE = "ivf_pq.faiss"
# Numbers that one 4-bit code stands for.
NUMBERS_A_CODE = 4
MOST_LISTS = 8192
TRAINED_ON_A_LIST = 40
ROUNDS = 12
ADDED_AT_ONCE = 100_000
STEPS = [
    {"nprobe": lists, "scored_again": again}
    for lists, again in (
        (16, 128), (32, 128), (64, 256), (128, 256), (128, 512), (256, 512), (512, 1024), (1024, 1024), (2048, 1024),
        (4096, 2048),
    )
]  # fmt: skip


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Make the inverted file and choose how much of it to search; see `backends`."""
    import faiss

    n, dim = vectors.shape
    if n < approximate.FEWEST:
        return {}
    lists = min(MOST_LISTS, 2 ** round(math.log2(2 * math.sqrt(n))))
    codes = next(dim // size for size in range(NUMBERS_A_CODE, 0, -1) if dim % size == 0)
    inverted: Any = faiss.index_factory(dim, f"IVF{lists},PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)
    inverted.cp.niter = ROUNDS
    with progress.bar("Compressing vectors", total=n, unit="vectors") as bar:
        inverted.train(np.ascontiguousarray(half.full(vectors[:: max(1, n // (lists * TRAINED_ON_A_LIST))])))
        for _, block in half.blocks(vectors, ADDED_AT_ONCE):
            inverted.add(block)
            bar.advance(len(block))
    faiss.write_index(inverted, str(folder / FILE))
    return approximate.calibrate(
        "ivf_pq", vectors, probes, lambda settings: _search(vectors, inverted, settings), STEPS
    )


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> IndexBackend:
    """Search in the inverted file in `folder`, mapped.

    Raises:
        UsageError: there is none.
        InputError: it is damaged.
    """
    chosen = settings or STEPS[-1]
    return approximate.attach(
        vectors, folder and folder / FILE, "ivf_pq", lambda inverted: _search(vectors, inverted, chosen)
    )


def _search(vectors: Vectors, inverted: Any, settings: dict[str, Any]) -> approximate.Refined:  # noqa: ANN401
    import faiss

    probed, of = int(settings["nprobe"]), int(inverted.nlist)

    def make(allowed: NDArray[np.bool_] | None, share: float) -> approximate.Search:
        # As many allowed vectors are looked at as there would be of all.
        lists = min(of, math.ceil(probed / share))
        part = faiss.SearchParametersIVF(nprobe=lists, sel=approximate.selector(allowed))  # type: ignore[call-arg]

        def search(queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
            products, rows = inverted.search(queries, k, params=part)
            return products, rows

        return search

    return approximate.Refined(vectors, make, int(settings["scored_again"]))
