"""CODER's first version (Yuan, Zhao and Yu 2020): L_TransE and L_sty; Yuan et al. 2022, A.5: the TransE-like
similarity; SapBERT (Liu et al. 2021): mined triplets. Loop by loop."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.multi_similarity import cos, ms_loss


def norm(x: np.ndarray) -> float:
    return math.sqrt(float(x @ x))


def transe_margin(h, r, t, t_corrupted, R, m) -> float:
    total = 0.0
    for i in range(len(h)):
        total += max(0.0, m + norm(h[i] + R[r[i]] - t[i]) - norm(h[i] + R[r[i]] - t_corrupted[i]))
    return total / len(h)


def transe_similarity(h, r, t, concepts, R, **settings) -> float:
    k = len(h)
    S = [[-norm(h[i] + R[r[i]] - t[j]) for j in range(k)] for i in range(k)]
    tau = [[int(concepts[i] == concepts[j]) for j in range(k)] for i in range(k)]
    return ms_loss(S, tau, **settings)


def semantic_type(e, y, W, b) -> float:
    total, counted = 0.0, 0
    for i in range(len(e)):
        types = [k for k in range(len(b)) if y[i][k]]
        if not types:
            continue
        counted += 1
        logits = [float(W[k] @ e[i] + b[k]) for k in range(len(b))]
        normalizer = math.log(sum(math.exp(value) for value in logits))
        total -= sum((logits[k] - normalizer) / len(types) for k in types)
    return total / counted if counted else 0.0


def mined_term_term(e, c, alpha, beta, lam, margin) -> float:
    n = len(e)
    unit = [row / norm(row) for row in e]
    triplets = [
        (a, p, q)
        for a in range(n)
        for p in range(n)
        for q in range(n)
        if p != a and c[a] == c[p] and c[a] != c[q] and norm(unit[a] - unit[q]) - norm(unit[a] - unit[p]) <= margin
    ]
    total = 0.0
    for a in range(n):
        P = {p for b, p, _ in triplets if b == a}
        N = {q for b, _, q in triplets if b == a}
        total += math.log(1 + sum(math.exp(-alpha * (cos(e[a], e[p]) - lam)) for p in P)) / alpha
        total += math.log(1 + sum(math.exp(beta * (cos(e[a], e[q]) - lam)) for q in N)) / beta
    return total / n
