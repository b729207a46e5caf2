"""Correlations, one number after the other."""

from __future__ import annotations

import math


def pearson(first: list[float], second: list[float]) -> float:
    """Covariance over the product of the standard deviations; NaN for a constant."""
    if len(first) < 2 or len(set(first)) == 1 or len(set(second)) == 1:
        return math.nan
    one = [x - math.fsum(first) / len(first) for x in first]
    other = [x - math.fsum(second) / len(second) for x in second]
    squares = math.fsum(x * x for x in one) * math.fsum(x * x for x in other)
    return math.fsum(x * y for x, y in zip(one, other, strict=True)) / math.sqrt(squares)


def ranks(values: list[float]) -> list[float]:
    """How many are smaller, plus half of the others that are equal, plus 1."""
    return [sum(x < value for x in values) + (sum(x == value for x in values) - 1) / 2 + 1 for value in values]


def spearman(first: list[float], second: list[float]) -> float:
    """Pearson's correlation of the ranks."""
    return pearson(ranks(first), ranks(second))
