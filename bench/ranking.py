"""Ranking speed against the algorithm of published scorers: same vectors, same machine, runs interleaved.

    python bench/ranking.py [--mentions 1000] [--names 76000] [--dim 384] [--k 25] [--repeats 5] [--out ranking.json]

The base is what the script released with SapBERT does: one mention at a time, its similarity to every name, a full
sort, the first k. Rows beside it: the same loop with NumPy's sort and with NumPy's partition; one product of everything
with a top k, as the script released with CODER has it for its small lists; and the search that `alphita evaluate`
does. On CPU. Every round runs each row once, in turn, so that a machine that slows down slows all rows; the median
round counts. Names come from a few hundred centres, as synonyms of concepts do, and mentions are names with noise.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.evaluation.systems._shared import nearest_vectors
from alphita.index.neighbours import unit

BASE = "loop, full sort (SapBERT)"
OURS = "alphita"
CENTRES = 500
Vectors = NDArray[np.float32]
Rank = Callable[[Vectors, Vectors, int], NDArray[np.int64]]


def made_up(mentions: int, names: int, dim: int, seed: int = 0) -> tuple[Vectors, Vectors]:
    """Return unit vectors of mentions (m, dim) and of names (n, dim)."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((CENTRES, dim), np.float32)
    targets = unit(centres[rng.integers(0, CENTRES, names)] + rng.standard_normal((names, dim), np.float32))
    noise = rng.standard_normal((mentions, dim), np.float32) * np.float32(0.5 / dim**0.5)
    return unit(targets[rng.integers(0, names, mentions)] + noise), targets


def loop_full_sort(mentions: Vectors, names: Vectors, k: int) -> NDArray[np.int64]:
    """Sort all names for each mention, in torch."""
    import torch

    best = []
    for mention in mentions:
        similarity = np.matmul(mention[None], names.T)
        best.append(torch.argsort(torch.tensor(similarity), dim=1, descending=True)[:, :k].numpy())
    return np.concatenate(best)


def loop_numpy_sort(mentions: Vectors, names: Vectors, k: int) -> NDArray[np.int64]:
    """Sort all names for each mention, in NumPy."""
    return np.concatenate([np.argsort(-np.matmul(mention[None], names.T), axis=1)[:, :k] for mention in mentions])


def loop_partition(mentions: Vectors, names: Vectors, k: int) -> NDArray[np.int64]:
    """Find the first k of all names for each mention, then sort those."""
    best = []
    for mention in mentions:
        similarity = np.matmul(mention[None], names.T)
        found = np.argpartition(similarity, -k, axis=1)[:, -k:]
        order = np.argsort(-np.take_along_axis(similarity, found, axis=1), axis=1)
        best.append(np.take_along_axis(found, order, axis=1))
    return np.concatenate(best)


def all_at_once(mentions: Vectors, names: Vectors, k: int) -> NDArray[np.int64]:
    """Multiply everything at once, then take the first k in torch."""
    import torch

    best: NDArray[np.int64] = torch.topk(torch.from_numpy(np.dot(mentions, names.T)), k=k)[1].numpy()
    return best


def ours(mentions: Vectors, names: Vectors, k: int) -> NDArray[np.int64]:
    """Search as the evaluation does."""
    return nearest_vectors(mentions, names, k)[1]


ROWS: dict[str, Rank] = {
    BASE: loop_full_sort,
    "loop, NumPy's sort": loop_numpy_sort,
    "loop, partition": loop_partition,
    "all at once, top k (CODER)": all_at_once,
    OURS: ours,
}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the report: seconds, ratio to the base, share of mentions whose first k names are the base's."""
    mentions, names = made_up(options.mentions, options.names, options.dim)
    seconds: dict[str, list[float]] = {label: [] for label in ROWS}
    found: dict[str, NDArray[np.int64]] = {}
    for rank in ROWS.values():
        rank(mentions[:32], names, options.k)
    for number in range(options.repeats):
        for label, rank in ROWS.items():
            start = time.perf_counter()
            found[label] = rank(mentions, names, options.k)
            seconds[label].append(time.perf_counter() - start)
        last = ", ".join(f"{values[-1]:.2f} s" for values in seconds.values())
        print(f"round {number + 1} of {options.repeats}: {last}", flush=True)
    median = {label: statistics.median(values) for label, values in seconds.items()}
    return {
        label: {
            "seconds": [round(value, 4) for value in seconds[label]],
            "median_seconds": round(median[label], 4),
            "times_the_base": round(median[BASE] / median[label], 2),
            "same_first": round(float((found[label][:, 0] == found[BASE][:, 0]).mean()), 5),
            "same_all": round(float((found[label] == found[BASE]).all(axis=1).mean()), 5),
        }
        for label in ROWS
    }


def main() -> None:
    """Measure, print the table and write the report."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--mentions", type=int, default=1000)
    parser.add_argument("--names", type=int, default=76_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--k", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--out", type=Path, help="write the report here as JSON")
    options = parser.parse_args()
    machine.set_threads(options.threads)
    where = machine.describe()
    print(f"{where['processor']}, {options.threads} threads; processor flags: {', '.join(where['flags']) or 'none'}")
    rows = measure(options)
    print(
        f"{options.mentions:,} mentions, {options.names:,} names of {options.dim} dimensions, first {options.k}, "
        f"median of {options.repeats} rounds"
    )
    print(f"{'':32}{'seconds':>10}{'times':>9}{'same first':>12}{'same all':>10}")
    for label, row in rows.items():
        print(
            f"{label:32}{row['median_seconds']:>10.3f}{row['times_the_base']:>8.2f}x{row['same_first']:>12.2%}"
            f"{row['same_all']:>10.2%}"
        )
    report = {
        "mentions": options.mentions,
        "names": options.names,
        "dim": options.dim,
        "k": options.k,
        "rows": rows,
        "machine": where,
        "threads": options.threads,
        "repeats": options.repeats,
        "load_average": os.getloadavg()[:2],  # well above `threads`: others were using the cores, measure again
        "versions": {package: importlib.metadata.version(package) for package in ("numpy", "torch", "faiss-cpu")},
    }
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
