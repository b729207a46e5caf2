"""Rounded vectors: integers from -127 to 127, a quarter of the memory to read, or bf16, half of it.

Integer products are fast; a processor with bf16 tiles takes a third of their time, because it writes half as much.
These products find the candidates for the nearest vectors, which are then rescored with the original vectors. With the
rounded q' and v', by Cauchy and Schwarz,

    |q v - q' v'| <= |q - q'| |v| + |q'| |v - v'|,

so a vector that is more than twice this bound behind the last requested one cannot be among the nearest.
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
from alphita.index.neighbours import GROUP, Vectors, reaching

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
MAX_GROUPS, MOST = 256, 512
# Without fast products: extra rows that FAISS finds. With 64, one query in thirty is compared with all vectors.
SPARE = 192
# Batch sizes below which FAISS is faster with integers than with all vectors, and torch with integers than with bf16.
FEW = 20
# The library and type for products: FAISS with integers, or torch with integers or bf16.
Way = Literal["faiss", "int8", "bf16"]


class Candidates(NamedTuple):
    """Queries (c,), in order, with rows (c,) that can be among their nearest.

    An `unsure` query (q,) has none: it must be compared with all vectors.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    unsure: NDArray[np.bool_]


class Rounded:
    """Rounded vectors, and their distance from the originals."""

    def __init__(self, vectors: Vectors, way: Way) -> None:
        self.n, dim = vectors.shape
        self.way = way
        greatest = max(float(np.abs(block).max()) for _, block in neighbours.blocks(vectors))
        self.step = np.float32(1 if way == "bf16" else max(greatest / GREATEST, TINY))
        self.groups = -(-self.n // GROUP)
        numbers = _zeros(GROUP * self.groups, dim, way)
        self.longest = self.error = 0.0
        for start, block in neighbours.blocks(vectors):
            rounded = self._round(block / self.step)
            numbers[start : start + len(block)] = rounded if way == "faiss" else _in_torch(rounded)
            self.longest = max(self.longest, _longest(block))
            self.error = max(self.error, _longest(block - rounded * self.step))
        self._numbers: Any = _in_faiss(numbers[: self.n]) if way == "faiss" else numbers.t()

    def _round(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.way != "bf16":
            return np.rint(values)
        halved: NDArray[np.float32] = _in_torch(values).bfloat16().float().numpy()
        return halved

    def serves(self, queries: int, k: int) -> bool:
        """Tell whether this is faster for a number of queries than comparing them with all vectors."""
        return queries < FEW and k + SPARE <= self.n // 8 if self.way == "faiss" else 2 * k <= self.groups

    def at_once(self) -> int:
        """Return the best number of queries per batch, a power of two."""
        size = 2 if self.way == "bf16" else 4
        return 1 << max(0, min(256, PRODUCTS_BYTES // (size * GROUP * self.groups)).bit_length() - 1)

    def candidates(self, queries: NDArray[np.float32], k: int) -> Candidates:
        """Return candidates for the k nearest of each query (q, d), if `serves` is true."""
        rounded, unit, off = self.rounded(queries)
        with machine.one_thread() if len(queries) == 1 else nullcontext():
            search = self._searched if self.way == "faiss" else self._multiplied
            return search(rounded, 2 * off / unit, k)

    def rounded(
        self, queries: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
        """Return rounded queries (q, d), the scale of their products, and the maximum error."""
        greatest = np.abs(queries).max(axis=1, keepdims=True)
        step = np.maximum(greatest / np.float32(GREATEST), np.float32(TINY))
        if self.way == "bf16":
            step = np.ones_like(step)
        rounded = self._round(queries / step)
        lengths, errors = (
            np.linalg.norm(some.astype(np.float64), axis=1) for some in (rounded * step, queries - rounded * step)
        )
        sums = HALVED if self.way == "bf16" else SUMS
        off = errors * self.longest + lengths * self.error + sums * (lengths + errors) * (self.longest + self.error)
        return rounded, step[:, 0].astype(np.float64) * float(self.step), off

    def _multiplied(self, rounded: NDArray[np.float32], margin: NDArray[np.float64], k: int) -> Candidates:
        """Multiply everything; products more than `margin` (q,) behind the k-th are left out."""
        import torch

        q, finite = len(rounded), np.isfinite(margin)
        # Filled up to a power of two: oneDNN compiles a product for each size, and keeps it.
        whole = _zeros(1 << (q - 1).bit_length(), rounded.shape[1], self.way)
        whole[:q] = torch.from_numpy(np.where(finite[:, None], rounded, np.float32(0)))
        if self.way == "bf16":
            products = (whole @ self._numbers)[:q]
        elif q < FEW:
            # In the other order, it is limited only by reading the vectors.
            products = torch._int_mm(self._numbers.t(), whole.t()).t()[:q].contiguous()
        else:
            products = torch._int_mm(whole, self._numbers)[:q]
        products[:, self.n :] = -torch.inf if self.way == "bf16" else torch.iinfo(torch.int32).min
        behind = np.where(finite, margin, 0)
        query, row, _, _ = reaching(products, k, lambda bound: bound - behind, most=MAX_GROUPS)
        count = np.bincount(query, minlength=q)
        # With too many groups, there are no candidates.
        unsure = ~finite | (count == 0) | (count > MOST)
        kept = ~unsure[query]
        return Candidates(query[kept], row[kept], unsure)

    def _searched(self, rounded: NDArray[np.float32], margin: NDArray[np.float64], k: int) -> Candidates:
        """Let FAISS find some more rows than requested."""
        products, rows = self._numbers.search(rounded, k + SPARE)
        least = (products[:, k - 1] - margin)[:, None]
        # "Not below", so that values that are not finite are unsure.
        unsure = ~(products[:, -1] < least[:, 0])
        query, place = np.nonzero((products >= least) & ~unsure[:, None])
        return Candidates(query, rows[query, place], unsure)


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
    if way == "faiss":
        return np.zeros((rows, dim), np.int8)
    import torch

    return torch.zeros((rows, dim), dtype=torch.int8 if way == "int8" else torch.bfloat16)


def _in_torch(numbers: NDArray[np.float32]) -> Any:  # noqa: ANN401 - a torch tensor
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


def _longest(vectors: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max()))
