"""MCSM, the medical concept similarity measure: do the neighbours of a concept have its semantic type?

    MCSM(V, T, k) = 1/|V(T)| sum over v in V(T) of sum over i = 1..k of [v(i) is of type T] / log2(i + 1)

V are the concepts, V(T) those of type T, v(i) the i-th nearest other concept of v by cosine (Choi et al. 2016, as
Yuan et al. 2020 and 2022 print it, section MCSM). At k = 40 it ranges from 0 to 11.09.

All cosines are worked out roughly first, in bf16 where the processor is quicker so. With the rounded x' and y', by
Cauchy and Schwarz, |x y - x' y'| <= |x - x'| |y| + |x'| |y - y'|: what lies more than twice as much behind the k-th is
not among the nearest. The others are worked out anew, each for itself in float32, and put in order.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.index.neighbours import reaching, unit

# Concepts whose cosines to all others a thread works out at once; with 157,726 others they take 80 MB.
CONCEPTS_AT_ONCE = 128
# Values of which only the greatest is looked at first, and all only where that is great enough.
GROUP = 16
# Cosines sorted at once; more are concept by concept, so that equal vectors by the thousand fit the memory.
SORTED_AT_ONCE = 4_000_000
# Half of the last digit: of bf16 below 1, and of float32, which sums of products lose each.
HALF_STEP, SUMS = 2.0**-9, 2.0**-24


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

    Args:
        vectors: (n, d) float32, one a concept, finite, of any length but 0.
        types: (n, t) whether each concept has each type.

    Returns:
        (n, t) float64.
    """
    vectors = unit(vectors)
    rough = _Rough(vectors)
    means = np.full(types.shape, np.nan)
    typed = np.flatnonzero(types.any(axis=1))

    def nearest(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        with machine.one_thread():
            return greatest(
                rough.cosines(rows),
                min(k, len(vectors) - 1),
                error=rough.error[rows],
                step=rough.step,
                exact=lambda line, column: _products(vectors, rows, line, column),
            )

    blocks = [typed[start : start + CONCEPTS_AT_ONCE] for start in range(0, len(typed), CONCEPTS_AT_ONCE)]
    with ThreadPoolExecutor(machine.threads()) as pool:
        for rows, near in zip(blocks, pool.map(nearest, blocks), strict=True):
            for column in np.flatnonzero(types[rows].any(axis=0)):
                means[rows, column] = scores(near, types[rows, column], types[:, column])
            if advance is not None:
                advance(len(rows))
    return means


class _Rough:
    """Vectors of which cosines are worked out quickly, and nearly.

    Attributes:
        error: (n,) float32, what a cosine of each may be off by before it is rounded.
    """

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.n, dim = vectors.shape
        # Whole groups.
        self._vectors: Any = np.zeros((-(-self.n // GROUP) * GROUP, dim), np.float32)
        self._vectors[: self.n] = vectors
        self.error, self.step = np.full(self.n, 4 * dim * SUMS, np.float32), SUMS
        if importlib.util.find_spec("torch") is None:
            return
        import torch

        self._vectors = torch.from_numpy(self._vectors)
        if machine.fast_bf16():
            self._vectors = self._vectors.bfloat16()
            rounded = self._vectors[: self.n]
            off = np.concatenate([
                np.linalg.norm(vectors[part] - rounded[part].float().numpy(), axis=1)
                for part in (slice(start, start + CONCEPTS_AT_ONCE) for start in range(0, self.n, CONCEPTS_AT_ONCE))
            ])  # fmt: skip
            self.error += off + off.max(initial=0) * (1 + off)
            self.step = HALF_STEP

    def cosines(self, rows: NDArray[np.int64]) -> Any:  # noqa: ANN401 - an array, or a torch tensor
        """Return the cosines of some vectors with all, in whole groups; with themselves and what fills up -inf."""
        values = self._vectors[rows] @ self._vectors.T
        values[:, self.n :] = -np.inf
        values[np.arange(len(rows)), rows] = -np.inf
        return values


def _products(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], line: NDArray[np.int64], column: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the inner products of rows[line] and column, (p,), each summed alike; `line` ascends."""
    made = np.empty(len(line), np.float32)
    ends = np.searchsorted(line, np.arange(len(rows) + 1)).tolist()
    for row, start, end in zip(rows.tolist(), ends, ends[1:], strict=False):
        np.einsum("ij,j->i", vectors[column[start:end]], vectors[row], out=made[start:end])
    return made


def greatest(
    values: Any,  # noqa: ANN401 - an array, or a torch tensor
    k: int,
    *,
    error: NDArray[np.float32] | None = None,
    step: float = 0.0,
    exact: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]] | None = None,
) -> NDArray[np.int64]:
    """Return the columns of the k greatest values of each row, greatest first; of equal ones the lower column.

    Args:
        values: (q, n) floating-point numbers without NaN.
        error: (q,) what the values may have been off by before they were rounded.

    Returns:
        (q, k) int64.
    """
    q = len(values)
    if k == 0 or not q:
        return np.empty((q, k), np.int64)
    off = np.zeros(q, np.float32) if error is None else error

    def lower(bound: NDArray[np.float32]) -> NDArray[np.float32]:
        lowered: NDArray[np.float32] = np.subtract(bound, np.float32(2 * step) * np.abs(bound), dtype=np.float32)
        return lowered

    most = None if q == 1 else SORTED_AT_ONCE // (GROUP * q)
    limits = lambda bound: lower(lower(bound) - 2 * off)  # noqa: E731
    line, column, value, _ = reaching(values, k, limits, group=GROUP, most=most)
    if exact is not None:
        value = exact(line, column)
    order = _sorted(line, column, value)
    place = np.arange(len(line)) - np.searchsorted(line, line)
    made = np.empty((q, k), np.int64)
    made[line[place < k], place[place < k]] = column[order][place < k]
    for row in np.flatnonzero(np.bincount(line, minlength=q) == 0).tolist() if most is not None else ():
        # Thousands are as near as the nearest.
        alone = None if exact is None else functools.partial(_of_row, exact, row)
        made[row] = greatest(values[row : row + 1], k, error=off[row : row + 1], step=step, exact=alone)[0]
    return made


def _of_row(
    exact: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]],
    row: int,
    line: NDArray[np.int64],
    column: NDArray[np.int64],
) -> NDArray[np.float32]:
    return exact(line + row, column)


def _sorted(line: NDArray[np.int64], column: NDArray[np.int64], value: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the order by line, by value, greatest first, and by column."""
    # Of floating-point numbers the bits, read as whole numbers, have the same order; of negative ones the reverse.
    bits = (value + np.float32(0)).view(np.int32)
    key = (line << 32) - (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF)))
    order = np.argsort(key)
    key = key[order]
    return order if (key[1:] != key[:-1]).all() else np.lexsort((column, -value, line))
