"""The Italian system's equations 1 to 6, pair by pair and entity by entity."""

from __future__ import annotations

import math

import numpy as np

from tests.reference.multi_similarity import cos


def ms(S, tau, lambda_p, lambda_n, alpha=2.0, beta=50.0, eps=0.1, mining=True) -> float:
    """Equation (2), with the margins lambda_p[i][k] and lambda_n[i][k]; tau as in multi_similarity.ms_loss."""
    m, total = len(S), 0.0
    for i in range(m):
        positives = [k for k in range(m) if tau[i][k] == 1]
        negatives = [k for k in range(m) if tau[i][k] == 0]
        P_i, N_i = positives, negatives
        if mining:
            lowest = min((S[i][k] for k in positives), default=math.inf)
            highest = max((S[i][k] for k in negatives), default=-math.inf)
            N_i = [k for k in negatives if S[i][k] > lowest - eps]
            P_i = [k for k in positives if S[i][k] < highest + eps]
        total += math.log(1 + sum(math.exp(-alpha * (S[i][k] - lambda_p[i][k])) for k in P_i)) / alpha
        total += math.log(1 + sum(math.exp(beta * (S[i][k] - lambda_n[i][k])) for k in N_i)) / beta
    return total / m


def pairs(e, concept) -> tuple[list[list[float]], list[list[int | None]]]:
    n = len(e)
    S = [[cos(e[i], e[k]) for k in range(n)] for i in range(n)]
    return S, [[None if i == k else int(concept[i] == concept[k]) for k in range(n)] for i in range(n)]


def v1(e, concept, lam=0.5, **settings) -> float:
    S, tau = pairs(e, concept)
    margin = [[lam] * len(S)] * len(S)
    return ms(S, tau, margin, margin, **settings)


def v2(e, concept, lambda_p=1.0, lambda_n=0.5, **settings) -> float:
    S, tau = pairs(e, concept)
    return ms(S, tau, [[lambda_p] * len(S)] * len(S), [[lambda_n] * len(S)] * len(S), **settings)


def graph_cos(a, b) -> float:
    """Cosine in the graph's space: of real and imaginary parts end to end, where the vectors are complex."""
    return cos(*(np.array([*x.real, *x.imag]) if np.iscomplexobj(x) else x for x in (a, b)))


def v3(e, concept, graph, known=None, margins_of=None, **settings) -> float:
    """Equation (3) as printed. The margins are those of the vectors `margins_of`, where given, instead of e's own:
    holding these still is what detaching the margin means."""
    S, tau = pairs(e, concept)
    held, _ = pairs(e if margins_of is None else margins_of, concept)
    n = len(S)
    lambda_p, lambda_n = [[0.0] * n for _ in range(n)], [[0.0] * n for _ in range(n)]
    for i in range(n):
        for k in range(n):
            if known is not None and not (known[i] and known[k]):
                lambda_p[i][k], lambda_n[i][k] = abs(held[i][k] - 1), 0.5
                continue
            S_kge = graph_cos(graph[i], graph[k])
            lambda_p[i][k] = abs(held[i][k] - S_kge)
            lambda_n[i][k] = 1 - abs(held[i][k] - S_kge)
    return ms(S, tau, lambda_p, lambda_n, **settings)


def linking(h, gold, E) -> float:
    """Equation (5), the sum over the mentions that have a gold entity."""
    total = 0.0
    for m in range(len(h)):
        if gold[m] < 0:
            continue
        denominator = sum(math.exp(float(h[m] @ E[j])) for j in range(len(E)))
        total -= math.log(math.exp(float(h[m] @ E[gold[m]])) / denominator)
    return total


def language(scores, labels) -> float:
    """Mean cross-entropy over the positions whose label is not -100."""
    losses = [
        -math.log(math.exp(row[label]) / sum(math.exp(score) for score in row))
        for row, label in zip(scores, labels, strict=True)
        if label != -100
    ]
    return sum(losses) / len(losses) if losses else 0.0


def inject(hidden, mentions, entities, nearest, down, up, gain, shift, eps) -> np.ndarray:
    """States (rows, length, d) after the injection: mean, projection, nearest entities, softmax (4), back, norm."""
    (W, b), (V, c) = down, up
    added = np.array(hidden, dtype=np.float64)
    for row, start, end in mentions:
        h_m = sum(hidden[row][place] for place in range(start, end)) / (end - start)
        h_proj = W @ h_m + b
        logits = [float(h_proj @ entity) for entity in entities]
        chosen = sorted(range(len(entities)), key=lambda j: -logits[j])[:nearest]
        weights = [math.exp(logits[j]) for j in chosen]
        e_m = sum(weight / sum(weights) * entities[j] for weight, j in zip(weights, chosen, strict=True))
        for place in range(start, end):
            added[row][place] = added[row][place] + V @ e_m + c
    result = np.empty_like(added)
    for place in np.ndindex(added.shape[:2]):
        x = added[place]
        result[place] = (x - x.mean()) / math.sqrt(((x - x.mean()) ** 2).mean() + eps) * gain + shift
    return result
