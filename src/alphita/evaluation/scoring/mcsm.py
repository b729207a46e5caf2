"""MCSM, the medical concept similarity measure: do the neighbours of a concept have its semantic type?

    MCSM(V, T, k) = 1/|V(T)| sum over v in V(T) of sum over i = 1..k of [v(i) is of type T] / log2(i + 1)

V are the concepts, V(T) those of type T, v(i) the i-th nearest other concept of v by cosine (Choi et al. 2016, as
Yuan et al. 2020 and 2022 print it, section MCSM). At k = 40 it ranges from 0 to 11.09.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from alphita.index.neighbours import unit

# Concepts whose cosines to all others are worked out at once; with 157,726 others they take 160 MB.
CONCEPTS_AT_ONCE = 256
# Cosines of which only the greatest is looked at in the search for a bound, see `_bound`.
GROUP = 16
# Cosines sorted at once; more are halved by concepts first, so that equal vectors by the thousand fit the memory.
SORTED_AT_ONCE = 4_000_000


def discounts(k: int) -> NDArray[np.float64]:
    """Return the weight of each place, (k,): 1 / log2(i + 1) for i = 1..k. Their sum is the greatest MCSM."""
    weights: NDArray[np.float64] = 1 / np.log2(np.arange(2, k + 2))
    return weights


def scores(near: NDArray[np.int64], own: NDArray[np.bool_], of_type: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the sum over the neighbours of each concept, for one type.

    Args:
        near: (q, k) rows of the nearest other concepts, nearest first; -1 where there are fewer, which counts 0.
        own: (q,) whether the concept itself is of the type.
        of_type: (n,) whether each concept is.

    Returns:
        (q,) 0 to `discounts(k).sum()`; NaN for concepts that are not of the type.
    """
    means = np.full(len(near), np.nan)
    rows = near[own]
    means[own] = (of_type[rows] & (rows >= 0)) @ discounts(near.shape[1])
    return means


def mcsm(
    vectors: NDArray[np.float32], types: NDArray[np.bool_], k: int = 40, *, advance: Callable[[int], None] | None = None
) -> NDArray[np.float64]:
    """Return the score of every concept for every type that it has.

    Exact: every cosine is worked out, block by block; of concepts that are equally near the one with the lower row
    comes first. Memory: two copies of the vectors, the result, and the cosines of a block.

    Args:
        vectors: (n, d) float32, one a concept, finite, of any length but 0.
        types: (n, t) whether each concept has each type. Concepts of none are neighbours only.
        k: neighbours that count; fewer where there are fewer other concepts.
        advance: called with the number of concepts done since the last call.

    Returns:
        (n, t) float64; NaN where a concept does not have the type. The mean of a column, without the NaN, is
        MCSM(V, T, k).
    """
    vectors = unit(vectors)
    means = np.full(types.shape, np.nan)
    typed = np.flatnonzero(types.any(axis=1))
    cosines = np.empty((min(CONCEPTS_AT_ONCE, len(typed)), len(vectors)), np.float32)
    for start in range(0, len(typed), CONCEPTS_AT_ONCE):
        rows = typed[start : start + CONCEPTS_AT_ONCE]
        block = cosines[: len(rows)]
        np.matmul(vectors[rows], vectors.T, out=block)
        block[np.arange(len(rows)), rows] = -np.inf
        near = greatest(block, min(k, len(vectors) - 1))
        for column in np.flatnonzero(types[rows].any(axis=0)):
            means[rows, column] = scores(near, types[rows, column], types[:, column])
        if advance is not None:
            advance(len(rows))
    return means


def greatest(values: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the columns of the k greatest values of each row, greatest first; of equal ones the lower column.

    Args:
        values: (q, n) float32, C-contiguous, without NaN.
        k: 0 to n.

    Returns:
        (q, k) int64.
    """
    n = values.shape[1]
    if k == 0 or not len(values):
        return np.empty((len(values), k), np.int64)
    places = np.flatnonzero(values >= _bound(values, k)[:, None])
    if len(places) > SORTED_AT_ONCE and len(values) > 1:
        half = len(values) // 2
        return np.concatenate([greatest(values[:half], k), greatest(values[half:], k)])
    line, column = np.divmod(places, n)
    order = np.lexsort((column, -values.ravel()[places], line))
    place = np.arange(len(places)) - np.searchsorted(line, line)
    return column[order][place < k].reshape(len(values), k)


def _bound(values: NDArray[np.float32], k: int) -> NDArray[np.float32]:
    """Return for each row a number that k of its values reach, and few more.

    That is the k-th greatest of the greatest values of groups. It would be the k-th greatest of all if these lay in k
    groups, and they nearly do: to find it, a sixteenth of the values is sorted through.
    """
    q, n = values.shape
    width = n // GROUP
    if width >= k:
        whole = values[:, : width * GROUP].reshape(q, GROUP, width).max(axis=1)
        values = np.concatenate([whole, values[:, width * GROUP :]], axis=1)
    last = values.shape[1] - k
    bound: NDArray[np.float32] = np.partition(values, last, axis=1)[:, last]
    return bound
