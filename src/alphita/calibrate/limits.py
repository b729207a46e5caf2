"""Exact limits of a share of errors: n drawn, so many of them wrong, from an endless population or a finite one."""

from __future__ import annotations

import math

import numpy as np

ERROR = 0.01
DELTA = 0.05


def tail(wrong: int, n: int, error: float) -> float:
    """Return P(Bin(n, error) <= wrong)."""
    from scipy.special import bdtr

    return float(bdtr(wrong, n, error)) if n else 1.0


def upper_limit(wrong: int, n: int, delta: float = DELTA) -> float:
    """Return the upper Clopper-Pearson limit: the error at which P(Bin(n, error) <= wrong) is `delta`; 1 if n = 0."""
    from scipy.special import betaincinv

    return 1.0 if wrong >= n else float(betaincinv(wrong + 1, n - wrong, 1 - delta))


def clopper_pearson(count: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the two-sided exact interval of a share (Clopper & Pearson 1934)."""
    delta = (1 - level) / 2
    return 1 - upper_limit(n - count, n, delta), upper_limit(count, n, delta)


def least_without_error(error: float = ERROR, delta: float = DELTA) -> int:
    """Return how many accepted, none of them wrong, certify an error: the least m with (1 - error)^m <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-error) - 1e-12)


def most_wrong(n: int, error: float, delta: float) -> int:
    """Return the greatest k with P(Bin(n, error) <= k) <= delta, delta below 0.5; -1 if there is none."""
    from scipy.special import bdtr

    # The median is at most n * error rounded up, so from there on the tail is a half and more.
    tails = bdtr(np.arange(int(n * error) + 2), n, error) if n else np.ones(1)
    return int((tails <= delta).sum()) - 1


def finite_tail(wrong: int, n: int, all_wrong: int, population: int) -> float:
    """Return P(X <= wrong), X the wrong ones among n drawn without replacement where `all_wrong` are wrong."""
    from scipy.stats import hypergeom

    return float(hypergeom.cdf(wrong, population, all_wrong, n))


def finite_upper_limit(wrong: int, n: int, population: int, delta: float = DELTA) -> int:
    """Return the greatest number of wrong ones in a finite population that n drawn, `wrong` of them wrong, allow."""
    low, high = wrong, population - (n - wrong)
    # The tail falls as K grows; at `low` it is 1.
    while low < high:
        middle = (low + high + 1) // 2
        if finite_tail(wrong, n, middle, population) > delta:
            low = middle
        else:
            high = middle - 1
    return low
