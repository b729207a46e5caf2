"""Accuracy of ranked concepts, and how sure one can be of it.

A ranking is a list of concept ids, best first, for each query. None in it stands for NIL: no concept fits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Gold = str | Collection[str] | None
# Resamples drawn at once: 8 M numbers of 8 bytes.
NUMBERS_AT_ONCE = 8_000_000


def accuracy_at_k(rankings: Sequence[Sequence[str | None]], gold: Sequence[Gold], k: int) -> NDArray[np.bool_]:
    """Tell of each query whether it is right within `k`; the mean is accuracy@k.

    A query is right if one of its gold concepts is among the first `k` ids. One whose gold is NIL is right only if NIL
    is the answer, i.e. stands first (an empty ranking is NIL too), whatever `k`: there is no second place for "none".

    Args:
        rankings: n rankings; an id that stands twice takes two places.
        gold: n gold answers: an id, several ids of which any is right, or None for NIL.
        k: places that count, 1 or more.

    Returns:
        (n,) bool.

    Raises:
        ValueError: the lengths differ, `k` is below 1, or a gold answer has no id in it.
    """
    if len(rankings) != len(gold):
        raise ValueError(f"{len(rankings)} rankings for {len(gold)} gold answers")
    if k < 1:
        raise ValueError(f"k must be 1 or more, not {k}")
    right = np.zeros(len(gold), dtype=bool)
    for number, (ranking, answer) in enumerate(zip(rankings, gold, strict=True)):
        if answer is None:
            right[number] = not ranking or ranking[0] is None
        elif isinstance(answer, str):
            right[number] = answer in ranking[:k]
        elif not answer:
            raise ValueError(f"query {number} has no gold concept; NIL is None")
        else:
            right[number] = any(concept in answer for concept in ranking[:k] if concept is not None)
    return right


def score(
    rankings: Sequence[Sequence[str | None]], gold: Sequence[Gold], *, ks: Sequence[int] = (1, 3, 5), seed: int = 0
) -> dict[str, Any]:
    """Return n, accuracy@k and its 95% interval for each k, as fractions: `acc1`, `acc1_interval`, ...

    Args:
        rankings: see `accuracy_at_k`.
        gold: see `accuracy_at_k`.
        ks: places that count.
        seed: of the intervals.
    """
    figures: dict[str, Any] = {"n": len(gold)}
    for k in ks:
        right = accuracy_at_k(rankings, gold, k)
        figures[f"acc{k}"] = float(right.mean())
        figures[f"acc{k}_interval"] = list(bootstrap_interval(right, seed=seed))
    return figures


def bootstrap_interval(
    values: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a mean.

    Args:
        values: (n,) one figure per query, e.g. right or wrong.
        level: share of the resampled means between the two ends, 0 to 1.
        resamples: how often n queries are drawn with replacement.
        seed: of the draws.

    Returns:
        The low and the high end.

    Raises:
        ValueError: there is no value.
    """
    sample = _sample(values)
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    block = max(1, NUMBERS_AT_ONCE // len(sample))
    for start in range(0, resamples, block):
        drawn = rng.integers(0, len(sample), (min(block, resamples - start), len(sample)))
        means[start : start + len(drawn)] = sample[drawn].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


class Difference(NamedTuple):
    """How far one system is above another: a difference of means, and the ends of its interval."""

    difference: float
    low: float
    high: float


def paired_difference(
    ours: ArrayLike, theirs: ArrayLike, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Difference:
    """Return mean(ours) - mean(theirs) with its paired bootstrap interval.

    Queries are drawn with both systems' figures at once, so that what makes a query easy for both cancels out.

    Args:
        ours: (n,) one figure per query.
        theirs: (n,) the other system's figures on the same queries.
        level: see `bootstrap_interval`; so are the next two.

    Raises:
        ValueError: the lengths differ, or there is no value.
    """
    left, right = _sample(ours), _sample(theirs)
    if len(left) != len(right):
        raise ValueError(f"the systems answered different queries: {len(left)} and {len(right)}")
    low, high = bootstrap_interval(left - right, level=level, resamples=resamples, seed=seed)
    return Difference(float((left - right).mean()), low, high)


def _sample(values: ArrayLike) -> NDArray[np.float64]:
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or not len(sample):
        raise ValueError(f"needs one figure per query and at least one query, not an array of shape {sample.shape}")
    return sample
