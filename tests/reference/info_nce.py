"""InfoNCE of names against texts (van den Oord et al. 2018, eq. 4), pair by pair."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.multi_similarity import cos


def one_way(a, b, c, tau, extra=(), takes=None) -> float:
    """L of anchors a_i against candidates b_j of the concepts c; takes[i][h]: a_i has extra_h as a negative."""
    n, total = len(a), 0.0
    for i in range(n):
        own = math.exp(cos(a[i], b[i]) / tau)
        denominator = own
        for j in range(n):
            if c[j] != c[i]:
                denominator += math.exp(cos(a[i], b[j]) / tau)
        for h in range(len(extra)):
            if takes is None or takes[i][h]:
                denominator += math.exp(cos(a[i], extra[h]) / tau)
        total -= math.log(own / denominator)
    return total / n


def info_nce(names, texts, c, tau, symmetric=False, extra=(), takes=None) -> float:
    forth = one_way(names, texts, c, tau, extra, takes)
    return (forth + one_way(texts, names, c, tau)) / 2 if symmetric else forth


def cosine(left: np.ndarray, right: np.ndarray, y: np.ndarray) -> float:
    """Cosine regression: 1/n sum_i (s_i - y_i)^2."""
    return sum((cos(left[i], right[i]) - y[i]) ** 2 for i in range(len(y))) / len(y)


def cosent(left: np.ndarray, right: np.ndarray, y: np.ndarray, tau: float = 0.05) -> float:
    """CoSENT: log(1 + sum over y_i > y_j of exp((s_j - s_i) / tau))."""
    s = [cos(left[i], right[i]) for i in range(len(y))]
    inside = 1.0
    for i in range(len(y)):
        for j in range(len(y)):
            if y[i] > y[j]:
                inside += math.exp((s[j] - s[i]) / tau)
    return math.log(inside)


def triples(premises, entailed, contradicted, premise, tau) -> float:
    """A premise against what follows from any other one, and against all contradictions, its own too."""
    n, total = len(premises), 0.0
    for i in range(n):
        own = math.exp(cos(premises[i], entailed[i]) / tau)
        others = sum(math.exp(cos(premises[i], entailed[j]) / tau) for j in range(n) if premise[j] != premise[i])
        against = sum(math.exp(cos(premises[i], contradicted[j]) / tau) for j in range(n))
        total -= math.log(own / (own + others + against))
    return total / n
