"""BioLORD-2023's self-distillation targets (Remy et al. 2024), vector by vector; eigenvectors by power iteration."""

from __future__ import annotations

import math

import numpy as np


def mixed(a, b, has) -> list[list[float]]:
    """z_i: the mean of name and text at length 1, or the name alone."""
    z = []
    for i in range(len(a)):
        length = math.sqrt(sum(float(x) ** 2 for x in a[i]))
        row = [float(x) / length for x in a[i]]
        if has[i]:
            length = math.sqrt(sum(float(x) ** 2 for x in b[i]))
            row = [(x + float(y) / length) / 2 for x, y in zip(row, b[i], strict=True)]
        z.append(row)
    return z


def covariance(z) -> tuple[np.ndarray, np.ndarray]:
    """mu and C of the rows z_i."""
    n, d = len(z), len(z[0])
    mu = np.array([sum(z[i][k] for i in range(n)) / n for k in range(d)])
    C = np.zeros((d, d))
    for i in range(n):
        for p in range(d):
            for q in range(d):
                C[p, q] += (z[i][p] - mu[p]) * (z[i][q] - mu[q]) / (n - 1)
    return mu, C


def leading(C: np.ndarray, k: int, rounds: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """The k greatest eigenvalues of C and their vectors, each taken off before the next."""
    C = C.copy()
    values, vectors = [], []
    for place in range(k):
        v = np.random.default_rng(place).normal(size=len(C))
        for _ in range(rounds):
            v = C @ v
            v /= math.sqrt(float(v @ v))
        value = float(v @ C @ v)
        values.append(value)
        vectors.append(v)
        C -= value * np.outer(v, v)
    return np.array(values), np.array(vectors)
