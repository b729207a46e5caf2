"""Nearest vectors, independent of the backend: checks, limits, a fixed order; half precision; the k greatest values.

A number stored in half precision keeps 11 significant bits. In a vector of length 1 that moves an inner product by at
most 1 / 2048, typically by 0.00001. All arithmetic is float32: stored vectors are converted block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import UsageError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Vectors in the form in which an index stores them.
Vectors = NDArray[np.float32] | NDArray[np.float16]
ROWS_AT_ONCE = 16_384
# Moving the bits of a half to their float32 positions gives 2^-112 times its value; the sign is one bit too low, and
# the sign extension of a negative integer sets the correct bit.
MOVED, TIMES = 13, np.float32(2.0**112)
KEPT = np.uint32(0x8FFFE000).astype(np.int32)
NUMBERS_AT_ONCE = 2**19
LIMITS = np.iinfo(np.int32).min, np.iinfo(np.int32).max
# In groups of this many values, only the greatest is examined first, and all only if it is large enough.
GROUP = 32
# For `powers`: raises any value above 1.
EVERY_VALUE = np.float32(2.0**-40)
# Two blocks of this many vectors fit into the processor's cache.
PAIRS_AT_ONCE = 1_024


class Backend(Protocol):
    """Finds the vectors with the greatest inner product."""

    def search(self, queries: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest rows of each query, in any order.

        Args:
            queries: (q, d) float32, C-contiguous, q >= 1.
            k: 1 <= k <= n.

        Returns:
            Inner products (q, k) float32 and rows (q, k) int64.
        """
        ...


def full(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return half-precision vectors, all finite, as float32; others as they are, not copied."""
    if vectors.dtype != np.float16:
        return vectors
    widened = np.empty(vectors.shape, np.float32)
    bits, numbers = np.ascontiguousarray(vectors).reshape(-1).view(np.int16), widened.reshape(-1)
    for start in range(0, len(bits), NUMBERS_AT_ONCE):
        part = slice(start, start + NUMBERS_AT_ONCE)
        moved = numbers[part].view(np.int32)
        np.left_shift(bits[part], MOVED, out=moved, dtype=np.int32)
        np.bitwise_and(moved, KEPT, out=moved)
        np.multiply(numbers[part], TIMES, out=numbers[part])
    return widened


def blocks(
    vectors: NDArray[Any], rows: int | None = None, chosen: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the vectors (n, d), or the `chosen` rows, as float32, `rows` at a time, with the first row of each."""
    rows = rows or ROWS_AT_ONCE
    for start in range(0, len(vectors) if chosen is None else len(chosen), rows):
        part = slice(start, start + rows)
        yield start, full(vectors[part if chosen is None else chosen[part]])


def unit(vectors: Vectors) -> NDArray[np.float32]:
    """Return the rows at length 1, (n, d) float32, C-contiguous; a zero row stays zero."""
    vectors = full(vectors)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.ascontiguousarray(vectors / np.maximum(length, np.float32(1e-12)), dtype=np.float32)


def nearest(
    backend: Backend, shape: tuple[int, int], queries: NDArray[np.float32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the nearest rows of each query (q, d), most similar first, ties by row; the vectors are (n, d)."""
    n, dim = shape
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise UsageError(
            f"queries of shape {queries.shape} cannot be searched: the index holds vectors of {dim} numbers"
        )
    if k < 0:
        raise UsageError(f"k must be 0 or more, not {k}")
    k = min(k, n)
    if k == 0 or len(queries) == 0:
        return np.empty((len(queries), k), dtype=np.float32), np.empty((len(queries), k), dtype=np.int64)
    similarity, rows = backend.search(np.ascontiguousarray(queries, dtype=np.float32), k)
    order = np.lexsort((rows, -similarity), axis=1)
    return np.take_along_axis(similarity, order, axis=1), np.take_along_axis(rows, order, axis=1)


class Reached(NamedTuple):
    """Values that are large enough: their lines (p,), ascending, columns (p,) and values (p,), bf16 as float32.

    `bound` (q,) is a value that at least k values of each line reach.
    """

    line: NDArray[np.int64]
    column: NDArray[np.int64]
    value: NDArray[Any]
    bound: NDArray[Any]


class Groups:
    """Lines of values (q, n), in groups of which only the greatest value is examined first.

    `bound` (q,) is a value that at least k values of each line reach.
    """

    def __init__(self, values: Any, k: int, *, group: int = GROUP) -> None:  # noqa: ANN401 - an array, or a torch tensor
        q, n = values.shape
        self._group = group if n % group == 0 and n // group >= k else 1
        self._width = n // self._group
        self._given, self._k = values, k
        if not isinstance(values, np.ndarray):
            import torch

            # NumPy lacks bf16. The bits of positive numbers, read as integers, have the same order.
            values = (values.view(torch.int16) if values.dtype == torch.bfloat16 else values).numpy()
        self._grouped = values.reshape(q, self._group, self._width)
        # The maxima of k groups are at least this, so the k-th of all values is.
        self._greatest = _numbers(self._grouped.max(axis=1))
        self.bound = np.partition(self._greatest, self._width - k, axis=1)[:, self._width - k]

    def reaching(self, least: NDArray[Any], most: int | None = None) -> Reached:
        """Return the values from `least` (q,) on; none of a line with more than `most` such groups."""
        if self._grouped.dtype == np.int16 and not least.min(initial=1) > 0:
            return Groups(self._given.float().numpy(), self._k, group=self._group).reaching(least, most)
        if self._grouped.dtype == np.int32:
            least = np.ceil(np.clip(least, *LIMITS)).astype(np.int32)
        near = self._greatest >= least[:, None]
        if most is not None:
            near[near.sum(axis=1) > most] = False
        line, place = np.divmod(np.flatnonzero(near), self._width)
        members = _numbers(self._grouped[line, :, place])
        some, member = np.divmod(np.flatnonzero(members >= least[line, None]), self._group)
        return Reached(line[some], member * self._width + place[some], members[some, member], self.bound)


def products(
    left: NDArray[np.float32], left_rows: NDArray[np.int64], right: Vectors, right_rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the inner products (p,) of pairs of rows, in blocks that fit into the cache."""
    found = np.empty(len(left_rows), np.float32)
    for start in range(0, len(found), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        np.einsum("ij,ij->i", left[left_rows[part]], full(right[right_rows[part]]), out=found[part])
    return found


def products_of_rows(queries: NDArray[np.float32], vectors: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the inner products of each query (q, d) with its rows (q, k) of the vectors; undefined for row -1."""
    import faiss

    products = np.empty(rows.shape, np.float32)
    if vectors.dtype == np.float32:
        pointers = [faiss.swig_ptr(array) for array in (products, queries, vectors, rows)]
        # NumPy would copy the vectors first.
        faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]
            *pointers, queries.shape[1], *rows.shape
        )
        return products
    at_once = max(1, PAIRS_AT_ONCE // rows.shape[1])

    def compare(start: int) -> None:
        part = slice(start, start + at_once)
        np.einsum("qd,qkd->qk", queries[part], full(vectors[rows[part]]), out=products[part])

    starts = range(0, len(rows), at_once)
    if len(starts) == 1:
        compare(0)
        return products
    with ThreadPoolExecutor(min(machine.threads(), len(starts))) as pool:
        for _ in pool.map(compare, starts):
            pass
    return products


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return values, converted from int16 if those are the bits of bf16."""
    return values if values.dtype != np.int16 else (values.astype(np.int32) << 16).view(np.float32)


def powers(products: csr_matrix, depth: int) -> NDArray[np.float32]:
    """Return for each row a power of two that brings the last of its `depth` values to between 1 and 2."""
    last = np.full(products.shape[0], EVERY_VALUE, np.float32)
    filled = np.flatnonzero(np.diff(products.indptr) == depth)
    last[filled] = products.data[products.indptr[filled][:, None] + np.arange(depth)].min(axis=1)
    powers: NDArray[np.float32] = np.ldexp(np.float32(1), 1 - np.frexp(last)[1])
    return powers


def greatest(
    query: NDArray[np.int64], string: NDArray[Any], value: NDArray[np.float32], n: int, k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the k greatest values of each of n queries, and their strings; ties by row."""
    similarity, rows = np.zeros((n, k), np.float32), np.full((n, k), -1, np.int64)
    order = np.lexsort((string, -value, query))
    query = query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    order, query, place = order[place < k], query[place < k], place[place < k]
    similarity[query, place], rows[query, place] = value[order], string[order]
    return similarity, rows
