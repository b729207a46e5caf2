"""Vectors in whole numbers from -127 to 127: a quarter of the memory to read, and products of whole numbers are fast.

What may be among the nearest is found by them, and scored on the vectors themselves. With the rounded q' and v', by
Cauchy and Schwarz,

    |q v - q' v'| <= |q - q'| |v| + |q'| |v - v'|,

so whatever lies more than twice as much behind the last that is wanted cannot be among the nearest.
"""

from __future__ import annotations

import functools
import importlib.util
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.index import half
from alphita.index.half import Vectors

GREATEST = 127
# A step for vectors that are all zero.
TINY = 1e-30
# What float32 sums differ by, of the lengths' product.
SUMS = 1e-5
# Products that are looked at together: first their greatest, and one by one only where that is great enough.
GROUP = 32
# Bytes of products at once.
PRODUCTS_BYTES = 32 * 2**20
# Groups and candidates of one query; where more are as near as that, it is compared with all.
MOST_GROUPS, MOST = 256, 512
# Without fast products: rows that FAISS finds beyond those wanted. With 64, one query in thirty is compared with all.
SPARE = 192
# Queries at once below which FAISS's own whole-number search is the faster.
FEW = 20


class Candidates(NamedTuple):
    """What may be among the nearest of q queries.

    Attributes:
        query: (c,) int64, in order.
        row: (c,) int64 of the vectors.
        unsure: (q,) bool: the query has to be compared with all vectors; it has no candidates here.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    unsure: NDArray[np.bool_]


class Rounded:
    """Vectors in whole numbers, and how far they are from what they stand for.

    Attributes:
        fast: whether torch multiplies them: then any number of queries is worth it, else only a few.
    """

    def __init__(self, vectors: Vectors, *, fast: bool) -> None:
        """Round `vectors` (n, d), all by one step; `fast` needs what `multiplies_fast` tells."""
        self.n, dim = vectors.shape
        greatest = max(float(np.abs(block).max()) for _, block in half.blocks(vectors))
        self.step = np.float32(max(greatest / GREATEST, TINY))
        self.groups = -(-self.n // GROUP)
        numbers = np.zeros((GROUP * self.groups, dim), np.int8)
        self.longest = self.error = 0.0
        for start, block in half.blocks(vectors):
            rounded = np.rint(block / self.step)
            numbers[start : start + len(block)] = rounded
            self.longest = max(self.longest, _longest(block))
            self.error = max(self.error, _longest(block - rounded * self.step))
        self.fast = fast
        self._numbers: Any = _transposed(numbers) if self.fast else _in_faiss(numbers[: self.n])

    def serves(self, queries: int, k: int) -> bool:
        """Tell whether so many queries are answered faster so than by comparing them with all vectors."""
        return 2 * k <= self.groups if self.fast else queries < FEW and k + SPARE <= self.n // 8

    def at_once(self) -> int:
        """Return how many queries are best asked together, a power of two."""
        return 1 << max(0, min(256, PRODUCTS_BYTES // (4 * GROUP * self.groups)).bit_length() - 1)

    def candidates(self, queries: NDArray[np.float32], k: int) -> Candidates:
        """Return what may be among the k nearest of each query (q, d), where that `serves`."""
        rounded, unit, off = self.rounded(queries)
        with machine.one_thread() if len(queries) == 1 else nullcontext():
            found = self._multiplied if self.fast else self._searched
            return found(rounded, 2 * off / unit, k)

    def rounded(
        self, queries: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return queries (q, d) in whole numbers, what 1 in their products stands for, and how far those may be off."""
        greatest = np.abs(queries).max(axis=1, keepdims=True)
        step = np.maximum(greatest / np.float32(GREATEST), np.float32(TINY))
        rounded = np.rint(queries / step)
        lengths, errors = (
            np.linalg.norm(some.astype(np.float64), axis=1) for some in (rounded * step, queries - rounded * step)
        )
        off = errors * self.longest + lengths * self.error + SUMS * (lengths + errors) * self.longest
        return rounded, step[:, 0].astype(np.float64) * float(self.step), off

    def _multiplied(self, rounded: NDArray[np.float32], margin: NDArray[np.float64], k: int) -> Candidates:
        """Multiply everything; `margin` (q,) is how far behind the k-th a product must be to be left out."""
        import torch

        q, finite = len(rounded), np.isfinite(margin)
        # Filled up to a power of two: oneDNN compiles a product for each size, and keeps it.
        whole = np.zeros((1 << (q - 1).bit_length(), rounded.shape[1]), np.int8)
        whole[:q][finite] = rounded[finite]
        products = torch._int_mm(torch.from_numpy(whole), self._numbers)[:q]
        products[:, self.n :] = torch.iinfo(torch.int32).min
        grouped = products.view(q, GROUP, self.groups)
        greatest = grouped.amax(1).numpy()
        # Of k groups the greatest are at least this, so the k-th of all is.
        least = np.partition(greatest, self.groups - k, axis=1)[:, self.groups - k]
        least = least - np.ceil(np.where(finite, margin, 0))
        near = greatest >= least[:, None]
        unsure = ~finite | (near.sum(axis=1) > MOST_GROUPS)
        near[unsure] = False
        query, group = np.nonzero(near)
        place, member = np.nonzero(grouped.numpy()[query, :, group] >= least[query, None])
        query, row = query[place], member * self.groups + group[place]
        many = np.bincount(query, minlength=q) > MOST
        kept = ~many[query]
        return Candidates(query[kept], row[kept], unsure | many)

    def _searched(self, rounded: NDArray[np.float32], margin: NDArray[np.float64], k: int) -> Candidates:
        """Let FAISS find some more than are wanted."""
        products, rows = self._numbers.search(rounded, k + SPARE)
        least = (products[:, k - 1] - margin)[:, None]
        # "Not below": what is not finite is unsure.
        unsure = ~(products[:, -1] < least[:, 0])
        query, place = np.nonzero((products >= least) & ~unsure[:, None])
        return Candidates(query, rows[query, place], unsure)


def multiplies_fast() -> bool:
    """Return whether torch, which is loaded, multiplies whole numbers by the processor's instructions for it."""
    return bool({"avx512_vnni", "avx_vnni"} & machine.flags()) and multiplies_rightly()


@functools.cache
def multiplies_rightly() -> bool:
    """Return whether torch is there and its products of the greatest numbers are right.

    Older processors add pairs of products in 16 bits, which may overflow; and the operator is private, so that another
    torch may lack it.
    """
    if importlib.util.find_spec("torch") is None:
        return False
    try:
        import torch

        extremes = torch.tensor([[GREATEST] * 64, [-GREATEST] * 64], dtype=torch.int8)
        product = torch._int_mm(extremes, extremes.t())
    except (AttributeError, RuntimeError, ImportError, OSError, MemoryError):
        # Too little memory to load it is told in one of the last three ways.
        return False
    most = 64 * GREATEST**2
    return bool((product == torch.tensor([[most, -most], [-most, most]])).all())


def _transposed(numbers: NDArray[np.int8]) -> Any:  # noqa: ANN401 - a torch tensor
    import torch

    return torch.from_numpy(numbers).t()


def _in_faiss(numbers: NDArray[np.int8]) -> Any:  # noqa: ANN401 - a FAISS index
    import faiss

    # Of this kind FAISS compares whole numbers with whole numbers.
    made = faiss.IndexScalarQuantizer(
        numbers.shape[1], faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT
    )
    for start in range(0, len(numbers), half.ROWS_AT_ONCE):
        made.add(numbers[start : start + half.ROWS_AT_ONCE].astype(np.float32))
    return made


def _longest(vectors: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max()))
