"""Replaced token detection (Clark et al. 2020, §2), token by token, and the slopes of its losses."""

from __future__ import annotations

import math

import numpy as np


def softmax(row) -> list[float]:
    highest = max(row)
    e = [math.exp(x - highest) for x in row]
    return [x / sum(e) for x in e]


def guessing(logits, true) -> tuple[float, np.ndarray]:
    """Return L_G over the rows with a token, and its slope by the logits; -100 is none."""
    counted = [i for i in range(len(true)) if true[i] != -100]
    total, slope = 0.0, np.zeros(np.shape(logits))
    for i in counted:
        p = softmax(logits[i])
        total -= math.log(p[true[i]])
        for token in range(len(p)):
            slope[i, token] = (p[token] - (token == true[i])) / len(counted)
    return (total / len(counted) if counted else 0.0), slope


def drawn(logits, lots) -> list[int]:
    """Return the first token of each row up to which the probabilities add up to the row's lot."""
    tokens = []
    for row, lot in zip(logits, lots, strict=True):
        p = softmax(row)
        total, token = p[0], 0
        while total < lot and token + 1 < len(p):
            token += 1
            total += p[token]
        tokens.append(token)
    return tokens


def detection(logits, replaced) -> tuple[float, np.ndarray]:
    """Return L_D and its slope by the logits."""
    n, total, slope = len(logits), 0.0, np.zeros(len(logits))
    for t in range(n):
        d = 1 / (1 + math.exp(-logits[t]))
        total -= math.log(d) if replaced[t] else math.log(1 - d)
        slope[t] = (d - (1 if replaced[t] else 0)) / n
    return (total / n if n else 0.0), slope


def area_under_curve(logits, replaced) -> float:
    """Return the share of pairs of a replaced and an original token that are in order; ties count half."""
    wins, pairs = 0.0, 0
    for s, is_replaced in zip(logits, replaced, strict=True):
        for o, other in zip(logits, replaced, strict=True):
            if is_replaced and not other:
                pairs += 1
                wins += 1.0 if s > o else 0.5 if s == o else 0.0
    return wins / pairs if pairs else 0.5
