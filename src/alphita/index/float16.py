"""Vectors stored in half precision: half the disk, the same arithmetic.

A stored number keeps 11 significant bits. Of a vector of length 1 that moves an inner product by at most 1 / 2048, and
by some 0.00001 as a rule, for the errors of its numbers go both ways. All arithmetic is done in float32: a block of
stored vectors is widened when it is needed, and never the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Vectors as an index stores them.
Vectors = NDArray[np.float32] | NDArray[np.float16]
ROWS_AT_ONCE = 16_384
# A half's bits moved to where float32 has them make a number of 2^-112 times its size; and its sign is one bit too low,
# where the bits that fill up a negative whole number set the right one.
MOVED, TIMES = 13, np.float32(2.0**112)
KEPT = np.uint32(0x8FFFE000).astype(np.int32)
NUMBERS_AT_ONCE = 2**19


def full(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return half-precision vectors, all finite, as float32; others as they are, not copied."""
    if vectors.dtype != np.float16:
        return vectors
    made = np.empty(vectors.shape, np.float32)
    bits, numbers = np.ascontiguousarray(vectors).reshape(-1).view(np.int16), made.reshape(-1)
    for start in range(0, len(bits), NUMBERS_AT_ONCE):
        part = slice(start, start + NUMBERS_AT_ONCE)
        moved = numbers[part].view(np.int32)
        np.left_shift(bits[part], MOVED, out=moved, dtype=np.int32)
        np.bitwise_and(moved, KEPT, out=moved)
        np.multiply(numbers[part], TIMES, out=numbers[part])
    return made


def blocks(
    vectors: NDArray[Any], rows: int | None = None, chosen: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Return the vectors (n, d), or the `chosen` rows of them, as float32, `rows` of them together."""
    rows = rows or ROWS_AT_ONCE
    for start in range(0, len(vectors) if chosen is None else len(chosen), rows):
        part = slice(start, start + rows)
        yield start, full(vectors[part if chosen is None else chosen[part]])
