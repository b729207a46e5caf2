"""CODER (Yuan et al. 2022, §3.3): L_MS and L_MS_rel, pair by pair."""

from __future__ import annotations

import math

import numpy as np


def cos(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))))


def ms_loss(S, tau, alpha=2.0, beta=50.0, lam=0.5, eps=0.1, mining=True) -> float:
    """L_MS of a similarity matrix.

    tau[i][j] is 1 (positive), 0 (negative) or None (no pair, as an anchor with itself). The minimum over no positive is
    +inf and the maximum over no negative -inf, so that nothing is mined for an anchor that lacks one of the two.
    """
    total = 0.0
    for i in range(len(S)):
        positives = [j for j in range(len(S[i])) if tau[i][j] == 1]
        negatives = [j for j in range(len(S[i])) if tau[i][j] == 0]
        P_i, N_i = positives, negatives
        if mining:
            lowest = min((S[i][k] for k in positives), default=math.inf)
            highest = max((S[i][k] for k in negatives), default=-math.inf)
            N_i = [j for j in negatives if S[i][j] > lowest - eps]
            P_i = [j for j in positives if S[i][j] < highest + eps]
        total += math.log(1 + sum(math.exp(-alpha * (S[i][j] - lam)) for j in P_i)) / alpha
        total += math.log(1 + sum(math.exp(beta * (S[i][j] - lam)) for j in N_i)) / beta
    return total / len(S)


def term_term(e, n, **settings) -> float:
    """L_MS of the terms with vectors e_i and concepts n_i."""
    size = len(e)
    S = [[cos(e[i], e[j]) for j in range(size)] for i in range(size)]
    tau = [[None if i == j else int(n[i] == n[j]) for j in range(size)] for i in range(size)]
    return ms_loss(S, tau, **settings)


def term_relation_term(e_h, r, e_t, t, M, **settings) -> float:
    """L_MS_rel of k triples: heads e_h, relations r, tails e_t of the concepts t, matrices M[r]."""
    k = len(e_h)
    S = [[cos(M[r[i]].T @ e_h[i], e_t[j]) for j in range(k)] for i in range(k)]
    tau = [[int(t[i] == t[j]) for j in range(k)] for i in range(k)]
    return ms_loss(S, tau, **settings)


def slopes(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Return the gradient of function() at x by central differences; x is changed in place and put back."""
    gradient = np.empty_like(x)
    for place in np.ndindex(x.shape):
        kept = x[place]
        x[place] = kept + step
        above = function()
        x[place] = kept - step
        below = function()
        x[place] = kept
        gradient[place] = (above - below) / (2 * step)
    return gradient
