"""Search in a part of an approximate index: by the index's own search, and beside it all of the part compared.

    python bench/part_search.py --index X.index [--least 20000] [--queries 1000] [--repeats 5] [--out part_search.json]

The parts are the strings of each terminology (`--source`) and of each language (`--language`) that has so many. The
queries are strings of the whole index with noise. Every round times both in turn; the medians count. Recall@1 is the
share of queries for which the index's own search finds a string as near as the nearest of the part.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.encoder.encoder import TermEncoder
from alphita.errors import UsageError
from alphita.index.backends import Backend
from alphita.index.backends import _approximate as approximate
from alphita.index.neighbours import nearest, unit
from alphita.index.store import Index
from alphita.normalizer.filters import Filters
from normalize_speed import strings_of

DEPTH = 16


def parts(index: Index, least: int) -> dict[str, NDArray[np.bool_]]:
    """Return the strings of each source and language that has `least` of them, (n,) bool, by name."""
    segment = index.segment
    of_sources = [str(one) for one in segment.concepts.column("source").unique().to_pylist() if one]
    of_languages = [str(one) for one in segment.terms.column("language").unique().to_pylist() if one]
    found = {}
    for name, filters in [
        *((f"--source {one}", Filters(sources=(one,))) for one in sorted(of_sources)),
        *((f"--language {one}", Filters(languages=(one,))) for one in sorted(of_languages)),
    ]:
        try:
            strings = filters.strings(segment, filters.concepts(segment))
        except UsageError:
            continue  # no concept of this source is live
        if strings.sum() >= least:
            found[name] = strings
    return found


def timed(backend: Backend, n: int, queries: NDArray[np.float32]) -> tuple[float, NDArray[np.float32]]:
    """Return the seconds of a search for all queries at once, and the greatest similarity of each."""
    start = time.perf_counter()
    similarity, _ = nearest(backend, (n, queries.shape[1]), queries, DEPTH)
    return time.perf_counter() - start, similarity[:, 0]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--least", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    threads = machine.set_threads(None)
    index = Index.open(options.index)
    whole = index.backend
    if not isinstance(whole, approximate.Refined):
        parser.error("the index compares all strings; build it with --backend ivf_pq or hnsw")
    queries = unit(TermEncoder.load(index.model_path).encode(strings_of(index, options.queries, options.seed)))
    rows: list[dict[str, Any]] = []
    for name, strings in parts(index, options.least).items():
        n = int(strings.sum())
        ways: dict[str, Backend] = {
            "compared": approximate.flat.only(index.vectors, strings), "own": whole.part(strings)
        }  # fmt: skip
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        best: dict[str, NDArray[np.float32]] = {}
        for _ in range(options.repeats + 1):
            for way, backend in ways.items():
                took, best[way] = timed(backend, n, queries)
                seconds[way].append(took)
        median = {way: float(np.median(times[1:])) for way, times in seconds.items()}  # the first round warms up
        rows.append({
            "part": name, "strings": n, "share": round(n / len(index), 3),
            "recall_at_1": float((best["own"] >= best["compared"] - approximate.EQUAL).mean()),
            "queries_per_second": {way: round(len(queries) / median[way]) for way in ways},
            "times": round(median["compared"] / median["own"], 2),
        })  # fmt: skip
        print(rows[-1], flush=True)
    report = {
        "strings": len(index), "numbers": index.dim, "search": index.manifest["search"], "threads": threads,
        "queries": len(queries), "repeats": options.repeats, "seed": options.seed, "rows": rows,
        "index": index.content_hash, "machine": machine.describe(),
    }  # fmt: skip
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
