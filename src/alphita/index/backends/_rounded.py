"""Rounded vectors: integers from -127 to 127, bf16, or float32, of which most of the numbers are left out.

Vectors of terms lie near a space of few dimensions. A vector v is turned so that its first m numbers v1 hold most of
its length, and of the others only their length r(v) is kept:

    q v <= q1 v1 + r(q) r(v) = q' v',    q' = (q1, r(q) / f), v' = (v1, f r(v)).

With the rounded q" and v", by Cauchy and Schwarz,

    |q' v' - q" v"| <= |q' - q"| |v'| + |q"| |v' - v"|,

so a vector whose rounded product is more than this bound below the k-th nearest of some vectors cannot be among the k
nearest. The others are scored with the original vectors.
"""

from __future__ import annotations

import functools
import importlib.util
from contextlib import nullcontext
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.index import neighbours
from alphita.index.neighbours import GROUP, Groups, Vectors

GREATEST = 127
# A step for vectors that are all zero.
TINY = 1e-30
# Error of float32 sums, relative to the product of the lengths.
SUMS = 1e-5
# Maximum error of a bf16 product, relative to the product of the lengths: half of the last digit, and its sum.
HALVED = 2.0**-9 + 2.0**-13
# Bytes of products per block.
PRODUCTS_BYTES = 32 * 2**20
# Maximum groups and candidates of one query; with more, it is compared with all vectors.
MAX_GROUPS, MOST = 1_024, 4_096
# Without fast products: extra rows that FAISS finds, and those where these are too few, which is one query in twenty.
SPARE, MANY_SPARE = 192, 2_048
# Batch sizes below which FAISS is faster with integers than NumPy, and torch with integers than with bf16.
FEW = 20
# The share of the squared lengths that the first numbers hold, of so many vectors; their number, with the length of the
# others, is a multiple of this.
HELD, SAMPLE, MULTIPLE = 0.95, 8_192, 32
# Added to the squared length of what is left out: its own rounding.
LEFT_OUT = 1e-6
# With more than this share of the numbers, nothing is left out.
WORTH_IT = 0.75
# The library and type for products: FAISS with integers, NumPy with float32, or torch with integers or bf16.
Way = Literal["faiss", "numpy", "int8", "bf16"]
Float32 = NDArray[np.float32]
# Queries, ascending, and rows.
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


class Candidates(NamedTuple):
    """Queries (c,), in order, with rows (c,) that can be among their nearest, and their inner products (c,).

    An `unsure` query (q,) has none: it must be compared with all vectors.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    product: Float32
    unsure: NDArray[np.bool_]


class Asked(NamedTuple):
    """Rounded queries q" (q, m), the scale of their products, (q,), and the maximum error, (q,)."""

    rounded: Float32
    unit: NDArray[np.float64]
    off: NDArray[np.float64]


class Rounded:
    """Rounded vectors, and their distance from the originals."""

    def __init__(self, vectors: Vectors, way: Way) -> None:
        self.vectors, self.way = vectors, way
        self.n, dim = vectors.shape
        self.turn = _turn(vectors)
        first, rest = np.max([_greatest(*self._parted(block)) for _, block in neighbours.blocks(vectors)], axis=0)
        # No part of a vector needs a greater step than the others.
        self.ratio = np.float32(min(1.0, max(first, TINY) / max(rest, TINY)))
        self.step = np.float32(max(first / GREATEST, TINY)) if self._is_whole else np.float32(1)
        self.groups = -(-self.n // GROUP)
        numbers = _zeros(GROUP * self.groups, dim if self.turn is None else self.turn.shape[1] + 1, way)
        self.longest = self.error = 0.0
        for start, block in neighbours.blocks(vectors):
            turned = self.turned(block, self.ratio)
            rounded = self._round(turned / self.step)
            numbers[start : start + len(block)] = _in_torch(rounded) if way in ("int8", "bf16") else rounded
            self.longest = max(self.longest, _longest(turned))
            self.error = max(self.error, _longest(turned - rounded * self.step))
        self._numbers: Any = _in_faiss(numbers[: self.n]) if way == "faiss" else numbers.T

    @property
    def _is_whole(self) -> bool:
        return self.way in ("faiss", "int8")

    def _parted(self, vectors: Float32) -> tuple[Float32, Float32]:
        """Return the first numbers of vectors (n, d), turned, and the length of the others, (n, 1) or (n, 0)."""
        if self.turn is None:
            return vectors, vectors[:, :0]
        first = vectors @ self.turn
        squares, held = (np.einsum("nd,nd->n", some, some) for some in (vectors, first))
        return first, np.sqrt(np.maximum(squares - held, 0) + LEFT_OUT * squares)[:, None]

    def turned(self, vectors: Float32, ratio: np.float32) -> Float32:
        """Return v', or with the inverse ratio q', of vectors (n, d)."""
        first, rest = self._parted(vectors)
        return np.concatenate([first, rest * ratio], axis=1)

    def _round(self, values: Float32) -> Float32:
        if self.way == "bf16":
            halved: Float32 = _in_torch(values).bfloat16().float().numpy()
            return halved
        return np.rint(values) if self._is_whole else values

    def serves(self, queries: int, k: int) -> bool:
        """Tell whether this is faster for a number of queries than comparing them with all vectors."""
        if self.way == "faiss":
            return queries < FEW and k + SPARE <= self.n // 8
        return 2 * k <= self.groups and (self.way != "numpy" or self.turn is not None)

    def at_once(self) -> int:
        """Return the best number of queries per batch, a power of two."""
        size = 2 if self.way == "bf16" else 4
        return 1 << max(0, min(256, PRODUCTS_BYTES // (size * GROUP * self.groups)).bit_length() - 1)

    def candidates(self, queries: Float32, k: int) -> Candidates:
        """Return candidates for the k nearest of each query (q, d), with their products, if `serves` is true."""
        asked = self.rounded(queries)
        with machine.one_thread() if len(queries) == 1 else nullcontext():
            search = self._searched if self.way == "faiss" else self._multiplied
            return search(queries, asked, k)

    def rounded(self, queries: Float32) -> Asked:
        """Return queries (q, d) rounded."""
        queries = self.turned(queries, 1 / self.ratio)
        greatest = np.abs(queries).max(axis=1, keepdims=True)
        step = np.maximum(greatest / np.float32(GREATEST), np.float32(TINY))
        if not self._is_whole:
            step = np.ones_like(step)
        rounded = self._round(queries / step)
        lengths, errors = (
            np.linalg.norm(some.astype(np.float64), axis=1) for some in (rounded * step, queries - rounded * step)
        )
        sums = HALVED if self.way == "bf16" else SUMS
        off = errors * self.longest + lengths * self.error + sums * (lengths + errors) * (self.longest + self.error)
        return Asked(rounded, step[:, 0].astype(np.float64) * float(self.step), off)

    def _multiplied(self, queries: Float32, asked: Asked, k: int) -> Candidates:
        """Multiply everything; what cannot be nearer than the k-th of those with the greatest products is left out."""
        q, finite = len(queries), np.isfinite(asked.off)
        rounded = np.where(finite[:, None], asked.rounded, np.float32(0))
        if self.way == "numpy":
            multiplied = rounded @ self._numbers
            multiplied[:, self.n :] = -np.inf
        else:
            import torch

            # Filled up to a power of two: oneDNN compiles a product for each size, and keeps it.
            whole = _zeros(1 << (q - 1).bit_length(), rounded.shape[1], self.way)
            whole[:q] = torch.from_numpy(rounded)
            multiplied = (whole @ self._numbers if self.way == "bf16" else torch._int_mm(whole, self._numbers))[:q]
            multiplied[:, self.n :] = -torch.inf if self.way == "bf16" else torch.iinfo(torch.int32).min
        groups = Groups(multiplied, k, group=GROUP // 2)
        first = groups.reaching(groups.bound, MAX_GROUPS)
        least = self._kth(queries, _table(first.line, first.column, q), k)
        # A line of which nothing was found has no candidates.
        limit = np.where(finite & (least > -np.inf), (least - asked.off) / asked.unit, np.inf)
        query, row, _, _ = groups.reaching(limit, MAX_GROUPS)
        return self._scored(queries, (query, row), least, k)

    def _searched(self, queries: Float32, asked: Asked, k: int) -> Candidates:
        """Let FAISS find some more rows than requested."""
        products, rows = self._numbers.search(asked.rounded, k + SPARE)
        least = self._kth(queries, np.ascontiguousarray(rows[:, :k]), k)
        limit = ((least - asked.off) / asked.unit)[:, None]
        # "Not below", so that values that are not finite are unsure.
        again = np.flatnonzero(~(products[:, -1] < limit[:, 0]) & np.isfinite(asked.off))
        if len(again) and k + MANY_SPARE <= self.n:
            wider = (0, 0), (0, MANY_SPARE - SPARE)
            products, rows = np.pad(products, wider, constant_values=-np.inf), np.pad(rows, wider, constant_values=-1)
            products[again], rows[again] = self._numbers.search(asked.rounded[again], k + MANY_SPARE)
        query, place = np.nonzero((products >= limit) & (products[:, -1:] < limit))
        return self._scored(queries, (query, rows[query, place]), least, k)

    def _kth(self, queries: Float32, rows: NDArray[np.int64], k: int) -> Float32:
        """Return what the k-th nearest of each query's rows (q, k or more) reaches, (q,); -inf if these are fewer."""
        if rows.shape[1] < k:
            return np.full(len(queries), -np.inf, np.float32)
        products = neighbours.products_of_rows(queries, self.vectors, rows)
        products[rows < 0] = -np.inf
        # The order of a sum changes its last digits.
        lengths = np.sqrt(np.einsum("qd,qd->q", queries, queries))
        return np.partition(products, rows.shape[1] - k, axis=1)[:, rows.shape[1] - k] - SUMS * lengths * self.longest

    def _scored(self, queries: Float32, found: Pairs, least: Float32, k: int) -> Candidates:
        """Return those of the rows found whose products are not below `least` (q,)."""
        query, row = found
        few = np.bincount(query, minlength=len(queries)) <= MOST
        rows = _table(query[few[query]], row[few[query]], len(queries))
        products = neighbours.products_of_rows(queries, self.vectors, rows)
        kept = (products >= least[:, None]) & (rows >= 0)
        unsure = kept.sum(axis=1) < k
        query, place = np.nonzero(kept & ~unsure[:, None])
        row = rows[query, place]
        return Candidates(query, row, neighbours.products(queries, query, self.vectors, row), unsure)


def _table(query: NDArray[np.int64], row: NDArray[np.int64], queries: int) -> NDArray[np.int64]:
    """Return the rows found for each query (ascending) in a line of its own, filled up with -1."""
    counts = np.bincount(query, minlength=queries)
    table = np.full((queries, counts.max(initial=0)), -1, np.int64)
    table[query, np.arange(len(query)) - (np.cumsum(counts) - counts)[query]] = row
    return table


def _turn(vectors: Vectors) -> Float32 | None:
    """Return orthogonal directions (d, m) that hold most of the vectors (n, d); None if too many would be needed."""
    n, dim = vectors.shape
    some = neighbours.full(vectors[np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)])
    squares = (some.T @ some).astype(np.float64)
    if not np.isfinite(squares).all() or not squares.any():
        return None
    lengths, directions = np.linalg.eigh(squares)
    needed = 1 + int(np.searchsorted(np.cumsum(lengths[::-1]), HELD * lengths.sum()))
    m = MULTIPLE * -(-(needed + 1) // MULTIPLE) - 1
    if m + 1 > WORTH_IT * dim:
        return None
    # Mixed, so that no number is much greater than the others.
    mixed = np.linalg.qr(np.random.default_rng(0).standard_normal((m, m)))[0]
    return np.ascontiguousarray((directions[:, ::-1][:, :m] @ mixed).astype(np.float32))


def by_torch(queries: int) -> Way:
    """Return the type for which loaded torch uses special instructions of the processor; "faiss" if there is none."""
    if not multiplies_rightly():
        return "faiss"
    if machine.has_amx() and queries >= FEW:
        return "bf16"
    return "int8" if {"avx512_vnni", "avx_vnni"} & machine.flags() else "faiss"


@functools.cache
def multiplies_rightly() -> bool:
    """Return whether torch is available and multiplies the largest numbers correctly."""
    if importlib.util.find_spec("torch") is None:
        return False
    try:
        import torch

        extremes = torch.tensor([[GREATEST] * 64, [-GREATEST] * 64], dtype=torch.int8)
        product = torch._int_mm(extremes, extremes.t())
    except (AttributeError, RuntimeError, ImportError, OSError, MemoryError):
        # Too little memory to load it raises one of the last three exceptions.
        return False
    most = 64 * GREATEST**2
    return bool((product == torch.tensor([[most, -most], [-most, most]])).all())


def _zeros(rows: int, dim: int, way: Way) -> Any:  # noqa: ANN401 - a torch tensor, or for FAISS an array
    if way in ("faiss", "numpy"):
        return np.zeros((rows, dim), np.int8 if way == "faiss" else np.float32)
    import torch

    return torch.zeros((rows, dim), dtype=torch.int8 if way == "int8" else torch.bfloat16)


def _in_torch(numbers: Float32) -> Any:  # noqa: ANN401 - a torch tensor
    import torch

    return torch.from_numpy(numbers)


def _in_faiss(numbers: NDArray[np.int8]) -> Any:  # noqa: ANN401 - a FAISS index
    import faiss

    # For this type, FAISS compares integers with integers.
    index = faiss.IndexScalarQuantizer(
        numbers.shape[1], faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
    )
    for start in range(0, len(numbers), neighbours.ROWS_AT_ONCE):
        index.add(numbers[start : start + neighbours.ROWS_AT_ONCE].astype(np.float32))
    return index


def _greatest(first: Float32, rest: Float32) -> tuple[float, float]:
    return float(np.abs(first).max(initial=0)), float(rest.max(initial=0))


def _longest(vectors: Float32) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max()))
