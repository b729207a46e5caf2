"""The head of an index: y = unit(x + W2 gelu(W1 x + b1) + b2), number by number."""

from __future__ import annotations

import math

import numpy as np


def gelu(u: float) -> float:
    return u * (1 + math.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3))) / 2


def y(x, W1, b1, W2, b2) -> np.ndarray:
    """One vector x (d,) through W1 (h, d), b1 (h,), W2 (d, h), b2 (d,)."""
    h, d = len(W1), len(x)
    g = [gelu(sum(float(W1[k][i]) * float(x[i]) for i in range(d)) + float(b1[k])) for k in range(h)]
    v = [float(x[i]) + sum(float(W2[i][k]) * g[k] for k in range(h)) + float(b2[i]) for i in range(d)]
    length = math.sqrt(sum(part * part for part in v))
    return np.array([part / length for part in v])


def rows(X, W1, b1, W2, b2) -> np.ndarray:
    return np.array([y(x, W1, b1, W2, b2) for x in X])
