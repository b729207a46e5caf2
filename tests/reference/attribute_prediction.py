"""Product attribute prediction (Liu et al., equations 2 and 3), loop by loop."""

from __future__ import annotations

import math

import numpy as np


def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def f(x: np.ndarray, W: np.ndarray, b: np.ndarray) -> list[float]:
    return [gelu(float(W[i] @ x) + float(b[i])) for i in range(len(b))]


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def d(tn: np.ndarray, v: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(sum((left - right) ** 2 for left, right in zip(f(tn, W, b), f(v, W, b), strict=True)))


def l_pap(tn, v, pair, positive, W, b, gamma) -> float:
    """Equation 3 of every positive value, averaged over those of a pair, then over the pairs.

    tn[i] is E(t + n) of pair i; v[j] is E of value j, which was drawn for pair[j].
    """
    total = 0.0
    for i in range(len(tn)):
        values = [j for j in range(len(v)) if pair[j] == i and positive[j]]
        negatives = [j for j in range(len(v)) if pair[j] == i and not positive[j]]
        k = len(negatives)
        of_pair = 0.0
        for j in values:
            loss = -math.log(sigma(gamma - d(tn[i], v[j], W, b)))
            for other in negatives:
                loss -= 1 / k * math.log(sigma(d(tn[i], v[other], W, b) - gamma))
            of_pair += loss
        total += of_pair / len(values)
    return total / len(tn)


def realistic_rank(distances: list[float]) -> float:
    """The rank of the first among all; of equal ones the mean of the best and the worst place."""
    nearer = sum(other < distances[0] for other in distances[1:])
    equal = sum(other == distances[0] for other in distances[1:])
    return (1 + nearer + 1 + nearer + equal) / 2
