"""Calibration, risk and coverage, written from the definitions: float64 loops and exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction


def outcome_loss_gradient(x, y, sample, weight, bias, l2) -> tuple[list[list[float]], list[float]]:
    """The gradient of sum over rows of -s log p(y) + l2 / 2 |w|^2 + l2 / 2000 |b|^2; weights [d][k], biases [k]."""
    d, k = len(weight), len(bias)
    of_weight = [[l2 * weight[i][j] for j in range(k)] for i in range(d)]
    of_bias = [l2 / 1000 * bias[j] for j in range(k)]
    for row, right, share in zip(x, y, sample, strict=True):
        z = [bias[j] + sum(weight[i][j] * row[i] for i in range(d)) for j in range(k)]
        total = sum(math.exp(one) for one in z)
        for j in range(k):
            gap = share * (math.exp(z[j]) / total - (j == right))
            of_bias[j] += gap
            for i in range(d):
                of_weight[i][j] += gap * row[i]
    return of_weight, of_bias


def bins(confidence, number, equal) -> list[list[int]]:
    """Rows of each bin. Equal mass: by the middle rank among equal confidences; equal width: by the confidence."""
    n = len(confidence)
    found: list[list[int]] = [[] for _ in range(number)]
    for row, c in enumerate(confidence):
        if equal == "width":
            place = min(int(c * number), number - 1)
        else:
            below = sum(other < c for other in confidence)
            same = sum(other == c for other in confidence)
            place = math.floor(Fraction(2 * below + same, 2 * n) * number)
        found[place].append(row)
    return [rows for rows in found if rows]


def gaps(confidence, right, number, equal) -> list[tuple[int, float]]:
    """Count and |mean confidence - share right| of each bin."""
    found = []
    for rows in bins(confidence, number, equal):
        mean = sum(confidence[row] for row in rows) / len(rows)
        share = sum(right[row] for row in rows) / len(rows)
        found.append((len(rows), abs(mean - share)))
    return found


def expected_calibration_error(confidence, right, number, equal) -> float:
    return sum(count * gap for count, gap in gaps(confidence, right, number, equal)) / len(confidence)


def maximum_calibration_error(confidence, right, number, equal) -> float:
    return max(gap for _, gap in gaps(confidence, right, number, equal))


def auroc(score, right) -> float:
    """Share of the pairs of a right and a wrong answer in which the right one scores higher; ties count half."""
    won = pairs = 0.0
    for s, r in zip(score, right, strict=True):
        for t, q in zip(score, right, strict=True):
            if r and not q:
                pairs += 1
                won += 1.0 if s > t else 0.5 if s == t else 0.0
    return won / pairs if pairs else math.nan


def binomial_tail(k: int, n: int, p: Fraction) -> Fraction:
    """P(Bin(n, p) <= k)."""
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1)), Fraction(0))


def hypergeometric_tail(k: int, n: int, wrong: int, population: int) -> Fraction:
    """P(X <= k), X the wrong ones among n of the population."""
    ways = sum(math.comb(wrong, i) * math.comb(population - wrong, n - i) for i in range(min(k, n) + 1))
    return Fraction(ways, math.comb(population, n))


def finite_upper_limit(k: int, n: int, population: int, delta: float) -> int:
    """Greatest number of wrong ones that is possible at all and has a tail above delta."""
    possible = range(k, population - (n - k) + 1)
    return max(wrong for wrong in possible if hypergeometric_tail(k, n, wrong, population) > delta)


def risk_coverage(score, right) -> list[tuple[float, float, float]]:
    """(threshold, coverage, risk) for each distinct score, falling."""
    found = []
    for threshold in sorted(set(score), reverse=True):
        accepted = [r for s, r in zip(score, right, strict=True) if s >= threshold]
        found.append((threshold, len(accepted) / len(score), sum(not r for r in accepted) / len(accepted)))
    return found


def certified(confidence, right, error: Fraction, delta: Fraction, order):
    """The last threshold of the order before the first that fails, with accepted and wrong; None if the first fails."""
    best = None
    for threshold in order:
        accepted = [r for c, r in zip(confidence, right, strict=True) if c >= threshold]
        wrong = sum(not r for r in accepted)
        if binomial_tail(wrong, len(accepted), error) > delta:
            break
        best = threshold, len(accepted), wrong
    return best
