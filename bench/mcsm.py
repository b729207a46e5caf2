"""MCSM: this package's against a loop over concepts, on the same vectors; interleaved, the median round counts.

    python bench/mcsm.py [--concepts 20000] [--repeats 5] [--only-ours] [--out mcsm.json]

Loops take one concept after the other: its cosine to all concepts (vectors are brought to length 1 once), the nearest
of them, and the sum over those of its own type. Rows: "loop, torch, top-k" picks the nearest 41 as the scorer released
with CODER does; "loop, NumPy, sort" and "loop, torch, sort" sort all of them. All give the same scores.

`--only-ours --concepts 157726` measures the size of SNOMED CT in the papers, with the peak of memory.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.evaluation.scoring.mcsm import discounts, mcsm

OURS = "alphita"
Score = Callable[[], NDArray[np.float64]]


def made_up(concepts: int, dim: int, types: int, seed: int) -> tuple[NDArray[np.float32], list[int]]:
    """Return vectors that lie in a cloud a type, and the type of each."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, types, concepts)
    vectors = rng.standard_normal((concepts, dim), np.float32)
    vectors += 0.25 * rng.standard_normal((types, dim), np.float32)[kinds]
    return vectors, kinds.tolist()


def loop(vectors: NDArray[np.float32], kinds: list[int], k: int) -> NDArray[np.float64]:
    """Return each concept's score, one after the other."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = discounts(k).tolist()
    found = np.empty(len(kinds))
    for concept, kind in enumerate(kinds):
        # The nearest is the concept itself.
        order = np.argsort(-(unit @ unit[concept]))[1 : k + 1]
        found[concept] = sum(weight for weight, other in zip(weights, order, strict=True) if kinds[other] == kind)
    return found


def loop_torch(vectors: NDArray[np.float32], kinds: list[int], k: int, nearest: str) -> NDArray[np.float64]:
    """Return each concept's score, one after the other, by torch."""
    import torch

    unit = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1)
    weights = discounts(k).tolist()
    found = np.empty(len(kinds))
    for concept, kind in enumerate(kinds):
        cosines = torch.matmul(unit, unit[concept])
        order = torch.topk(cosines, k + 1).indices if nearest == "top-k" else torch.argsort(cosines, descending=True)
        score = 0.0
        for place in range(1, k + 1):
            if kinds[order[place]] == kind:
                score += weights[place - 1]
        found[concept] = score
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Return the report: seconds by row, times as fast as each loop, the greatest difference of a score."""
    vectors, kinds = made_up(options.concepts, options.dim, options.types, options.seed)
    table = np.eye(options.types, dtype=bool)[kinds]

    def ours() -> NDArray[np.float64]:
        return np.nansum(mcsm(vectors, table, options.k), axis=1)

    compared: dict[str, Score] = {OURS: ours}
    if not options.only_ours:
        compared |= {
            "loop, torch, top-k": lambda: loop_torch(vectors, kinds, options.k, "top-k"),
            "loop, torch, sort": lambda: loop_torch(vectors, kinds, options.k, "sort"),
            "loop, NumPy, sort": lambda: loop(vectors, kinds, options.k),
        }
    seconds: dict[str, list[float]] = {label: [] for label in compared}
    scores: dict[str, NDArray[np.float64]] = {}
    for number in range(options.repeats):
        for label, score in compared.items():
            start = time.perf_counter()
            scores[label] = score()
            seconds[label].append(time.perf_counter() - start)
        shown = ", ".join(f"{values[-1]:.2f} s" for values in seconds.values())
        print(f"round {number + 1} of {options.repeats}: {shown}", flush=True)
    median = {label: statistics.median(values) for label, values in seconds.items()}
    rows = {
        label: {
            "seconds": [round(value, 3) for value in seconds[label]], "median": round(median[label], 3),
            "ours_is_times_as_fast": round(median[label] / median[OURS], 1),
            "mean_score": round(float(scores[label].mean()), 6),
            # Where two neighbours are as good as equally near, rounding may swap them.
            "scores_that_differ": int((np.abs(scores[label] - scores[OURS]) > 1e-6).sum()),
        }
        for label in compared
    }  # fmt: skip
    return {
        "concepts": options.concepts, "dimensions": options.dim, "types": options.types, "k": options.k, "rows": rows,
        "peak_memory_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }  # fmt: skip


def main() -> None:
    """Measure, print the report as JSON and write it."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--concepts", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--types", type=int, default=6)
    parser.add_argument("--k", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--only-ours", action="store_true", help="leave the loops out")
    parser.add_argument("--out", type=Path, help="write the report here as JSON")
    options = parser.parse_args()
    machine.set_threads(options.threads)
    report = measure(options) | {
        "machine": machine.describe(), "threads": options.threads, "repeats": options.repeats,
        "load_average": os.getloadavg()[:2],  # well above `threads`: others were using the cores, measure again
        "versions": {package: importlib.metadata.version(package) for package in ("numpy", "torch")},
    }  # fmt: skip
    text = json.dumps(report, indent=1)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
