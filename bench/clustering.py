"""Theta sweep of clustering pairs against the published algorithm: same neighbour lists, same machine, interleaved.

    python bench/clustering.py [--terms 100000] [--repeats 3] [--threads N] [--out clustering.json]

The published program (CODER++, Zeng et al. 2022) counts pairs anew for each of 20 thresholds, pair by pair; here it is
written anew with sets of integers, without the strings that it builds for every pair, which makes it faster than it
was. Ours sorts the pairs once. Both start from the 30 nearest neighbours of each term and the concepts; the counts must
be the same at every threshold, or the script fails. The terms are made up: vectors around concepts, concepts around
families, so that synonyms and others lie both sides of the thresholds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.evaluation.scoring import clustering
from alphita.evaluation.scoring.clustering_terms import Terms
from alphita.evaluation.scoring.similar_pairs import pairs_of_neighbours
from alphita.index.backends import exact
from alphita.index.neighbours import nearest, unit

NEIGHBOURS = 30
THRESHOLDS = np.arange(0.98, 0.59, -0.02)
Counts = list[tuple[int, int, int]]


def made_up(terms: int, dim: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors (terms, dim) of length 1 and the concept of each term: 2.5 terms a concept on average."""
    rng = np.random.default_rng(seed)
    concepts = max(1, int(terms / 2.5))
    concept = np.concatenate([np.arange(concepts), rng.integers(0, concepts, terms - concepts)])
    families = rng.normal(size=(max(1, concepts // 10), dim))
    centres = families[rng.integers(0, len(families), concepts)] + 0.7 * rng.normal(size=(concepts, dim))
    spread = rng.uniform(0.2, 1.2, (terms, 1))
    return unit((centres[concept] + spread * rng.normal(size=(terms, dim))).astype(np.float32)), concept


def published(similarity: NDArray[np.float32], near: NDArray[np.int64], concept: NDArray[np.int64]) -> Counts:
    """Return (pairs predicted, rightly, synonym pairs) at each threshold, counted anew for each."""
    groups: dict[int, list[int]] = {}
    for term, one in enumerate(concept.tolist()):
        groups.setdefault(one, []).append(term)
    counts = []
    for threshold in THRESHOLDS:
        values = similarity.copy()
        seen = set()
        right = positives = predicted = 0
        for group in groups.values():
            for left, other in itertools.combinations(group, 2):
                if (left, other) in seen:
                    continue
                seen.add((left, other))
                positives += 1
                if other in near[left]:
                    right += bool(values[left, np.where(near[left] == other)][0][0] > threshold)
                elif left in near[other]:
                    right += bool(values[other, np.where(near[other] == left)][0][0] > threshold)
        for term in range(len(near)):
            for place in range(1, near.shape[1]):
                if values[term][place] > threshold:
                    predicted += 1
                    other = near[term][place]
                    if term in near[other]:
                        values[other][near[other] == term] = 0
        counts.append((predicted, right, positives))
    return counts


def ours(similarity: NDArray[np.float32], near: NDArray[np.int64], concept: NDArray[np.int64]) -> Counts:
    """Return the same from one sorted pass."""
    n = len(concept)
    terms = Terms([""] * n, [""] * (int(concept.max()) + 1), np.arange(n), concept)
    gold = clustering.gold_pairs(terms)
    pairs = pairs_of_neighbours(similarity, near)
    swept = clustering.sweep(pairs.similarity, clustering.are_gold(pairs, gold, n), len(gold), pairs.floor)
    predicted, right = swept.at(THRESHOLDS)
    return [(int(a), int(b), len(gold)) for a, b in zip(predicted, right, strict=True)]


def measure(terms: int, dim: int, repeats: int, seed: int) -> dict[str, Any]:
    """Return the report: seconds of each, ratio of the medians, F1 at each threshold."""
    vectors, concept = made_up(terms, dim, seed)
    similarity, near = nearest(exact.attach(vectors), vectors.shape, vectors, NEIGHBOURS)
    # Products of one pair may differ in the last bit by direction; thresholds must see one value.
    similarity = np.round(similarity, 5)
    seconds: dict[str, list[float]] = {"published": [], "ours": []}
    counts: dict[str, Counts] = {}
    for number in range(repeats):
        for label, count in (("published", published), ("ours", ours)):
            start = time.perf_counter()
            counts[label] = count(similarity, near, concept)
            seconds[label].append(time.perf_counter() - start)
        print(f"round {number + 1} of {repeats}: " + ", ".join(f"{k} {s[-1]:.2f} s" for k, s in seconds.items()))
        if counts["published"] != counts["ours"]:
            raise SystemExit("the counts differ")
    median = {label: statistics.median(values) for label, values in seconds.items()}
    return {
        "terms": terms, "dim": dim, "neighbours": NEIGHBOURS, "thresholds": len(THRESHOLDS),
        "seconds": {label: [round(value, 4) for value in values] for label, values in seconds.items()},
        "times": round(median["published"] / median["ours"], 1),
        "f1": {
            f"{theta:.2f}": round(2 * right / max(1, predicted + positives), 4)
            for theta, (predicted, right, positives) in zip(THRESHOLDS, counts["ours"], strict=True)
        },
    }  # fmt: skip


def main() -> None:
    """Measure, print and write the report."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--terms", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=machine.cores())
    parser.add_argument("--out", type=Path, help="write the report here as JSON")
    options = parser.parse_args()
    machine.set_threads(options.threads)
    report = measure(options.terms, options.dim, options.repeats, options.seed) | {
        "machine": machine.describe(),
        "threads": options.threads,
        "load_average": os.getloadavg()[:2],  # well above `threads`: others were using the cores, measure again
    }
    print(json.dumps(report, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
