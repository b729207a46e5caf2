"""Exact search among all vectors of an index: through whole numbers, as it stands, and beside it FAISS comparing all.

    python bench/flat_search.py --index X.index [--queries 2048] [--k 16] [--repeats 9] [--out flat_search.json]

The queries are the index's own strings with noise, asked one by one and so many at once. Every round times both in
turn; the medians count. "Same": the share of neighbours that both find.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.index.backends import faiss
from alphita.index.neighbours import unit
from alphita.index.store import Index
from normalize_speed import strings_of

AT_ONCE = (1, 8, 64, 2048)
Search = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.int64]]]


def timed(search: Search, queries: NDArray[np.float32], at_once: int) -> tuple[float, NDArray[np.int64]]:
    """Return the seconds a query, and the rows found, sorted."""
    found = []
    start = time.perf_counter()
    for first in range(0, len(queries), at_once):
        found.append(search(queries[first : first + at_once])[1])
    seconds = time.perf_counter() - start
    return seconds / len(queries), np.sort(np.concatenate(found), axis=1)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=2048)
    parser.add_argument("--k", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    threads = machine.set_threads(None)
    index = Index.open(options.index, backend="faiss")
    vectors = index.segment.vectors
    queries = unit(TermEncoder.load(index.model_path).encode(strings_of(index, options.queries, options.seed)))
    ours = faiss.attach(vectors)
    ways: dict[str, Search] = {
        "all compared": lambda some: faiss._compare(some, vectors, options.k),
        "whole numbers": lambda some: ours.search(some, options.k),
    }
    rows: list[dict[str, Any]] = []
    for at_once in AT_ONCE:
        # A part is enough where they are asked one by one.
        asked = queries[: max(at_once, min(len(queries), 256))]
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        found: dict[str, NDArray[np.int64]] = {}
        for _ in range(options.repeats):
            for name, search in ways.items():
                took, found[name] = timed(search, asked, at_once)
                seconds[name].append(took)
        median = {name: float(np.median(values)) for name, values in seconds.items()}
        rows.append({
            "at once": at_once, "ms a query": {name: round(1e3 * value, 3) for name, value in median.items()},
            "times": round(median["all compared"] / median["whole numbers"], 2),
            "same": round(float((found["all compared"] == found["whole numbers"]).mean()), 5),
        })  # fmt: skip
        print(rows[-1], flush=True)
    report = {
        "strings": len(index), "numbers": index.dim, "k": options.k, "repeats": options.repeats, "threads": threads,
        "rows": rows, "index": index.content_hash, "machine": machine.describe(),
    }  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
