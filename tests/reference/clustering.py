"""Clustering measures in plain Python, one pair at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors; 0 where one has no length or holds NaN."""
    if any(math.isnan(number) for number in [*left, *right]):
        return 0.0
    sizes = math.sqrt(sum(x * x for x in left)) * math.sqrt(sum(x * x for x in right))
    return sum(x * y for x, y in zip(left, right, strict=True)) / sizes if sizes else 0.0


def synonyms(concepts: Sequence[set[str]]) -> set[tuple[int, int]]:
    """Return the pairs of terms that share a concept."""
    return {(i, j) for i, j in itertools.combinations(range(len(concepts)), 2) if concepts[i] & concepts[j]}


def counts(similarity: dict[tuple[int, int], float], gold: set[tuple[int, int]], n: int, theta: float) -> list[int]:
    """Return tp, fp, fn, tn over all pairs of n terms; a pair that has no similarity is not predicted."""
    totals = [0, 0, 0, 0]
    for pair in itertools.combinations(range(n), 2):
        predicted = pair in similarity and similarity[pair] > theta
        totals[(0 if pair in gold else 1) if predicted else (2 if pair in gold else 3)] += 1
    return totals


def f1(tp: int, fp: int, fn: int) -> float:
    """Return F1; 0 where nothing is right."""
    return 2 * tp / (2 * tp + fp + fn) if tp else 0.0


def best_f1(similarity: dict[tuple[int, int], float], gold: set[tuple[int, int]], n: int) -> float:
    """Return the best F1 of any theta that predicts something."""
    below = [math.nextafter(value, -math.inf) for value in similarity.values()]
    return max((f1(*counts(similarity, gold, n, theta)[:3]) for theta in below), default=0.0)


def components(pairs: Sequence[tuple[int, int]], n: int) -> list[int]:
    """Return a label for each of n terms by letting labels spread along the pairs until nothing changes."""
    labels = list(range(n))
    changed = True
    while changed:
        changed = False
        for i, j in pairs:
            if labels[i] != labels[j]:
                labels[i] = labels[j] = min(labels[i], labels[j])
                changed = True
    return labels


def b_cubed(clusters: Sequence[int], gold: set[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """Return B-cubed precision and recall of each term; a term is its own synonym."""
    precision, recall = [], []
    for i in range(len(clusters)):
        cluster = {j for j in range(len(clusters)) if clusters[j] == clusters[i]}
        same = {i} | {j for j in range(len(clusters)) if (min(i, j), max(i, j)) in gold}
        precision.append(len(cluster & same) / len(cluster))
        recall.append(len(cluster & same) / len(same))
    return precision, recall
