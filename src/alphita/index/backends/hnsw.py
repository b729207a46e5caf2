"""Approximate search with a graph of near neighbours (HNSW), on 8-bit vectors, rescored with the stored ones.

Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small World
graphs", 2018. A search moves from vector to nearer vector and keeps the `efSearch` nearest ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.index import neighbours
from alphita.index.backends import IndexBackend, Probes
from alphita.index.backends import _approximate as approximate
from alphita.index.neighbours import Vectors

DESCRIPTION = "approximate search by a graph of neighbours (FAISS HNSW) with exact scoring; for up to some millions"

FILE = "hnsw.faiss"
NEIGHBOURS = 32
EF_CONSTRUCTION = 120
TRAINED_ON = 50_000
ADDED_AT_ONCE = 10_000
STEPS = [
    {"efSearch": ef, "scored_again": again} for ef, again in ((48, 32), (96, 64), (192, 96), (384, 128), (768, 256))
]


def build(vectors: Vectors, folder: Path, probes: Probes) -> dict[str, Any]:
    """Build the graph and choose the search width; see `backends`."""
    import faiss

    if len(vectors) < approximate.FEWEST:
        return {}
    dim = vectors.shape[1]
    kind: Any = faiss.ScalarQuantizer.QT_8bit
    graph = faiss.IndexHNSWSQ(dim, kind, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EF_CONSTRUCTION
    graph.train(neighbours.full(vectors[:: -(-len(vectors) // TRAINED_ON)]))
    with progress.bar("Linking vectors", total=len(vectors), unit="vectors") as bar:
        for _, block in neighbours.blocks(vectors, ADDED_AT_ONCE):
            graph.add(block)
            bar.advance(len(block))
    faiss.write_index(graph, str(folder / FILE))
    return approximate.calibrate("hnsw", vectors, probes, lambda step: _search(vectors, graph, step), STEPS)


def attach(vectors: Vectors, folder: Path | None = None, settings: dict[str, Any] | None = None) -> IndexBackend:
    """Search with the memory-mapped graph in `folder`."""
    chosen = settings or STEPS[-1]
    return approximate.attach(vectors, folder and folder / FILE, "hnsw", lambda graph: _search(vectors, graph, chosen))


def _search(vectors: Vectors, graph: Any, settings: dict[str, Any]) -> approximate.Refined:  # noqa: ANN401
    import faiss

    width = int(settings["efSearch"])

    def search(queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
        wide = faiss.SearchParametersHNSW(efSearch=max(width, k))  # type: ignore[attr-defined]
        rows: NDArray[np.int64] = graph.search(queries, k, params=wide)[1]
        return rows

    return approximate.Refined(vectors, search, int(settings["scored_again"]))
