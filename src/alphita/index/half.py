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


def full(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return half-precision vectors as float32; others as they are, not copied."""
    return vectors.astype(np.float32) if vectors.dtype == np.float16 else vectors


def blocks(
    vectors: NDArray[Any], rows: int | None = None, chosen: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Return the vectors (n, d), or the `chosen` rows of them, as float32, `rows` of them together.

    Each block comes with the row it starts at, or with its place among those chosen.
    """
    rows = rows or ROWS_AT_ONCE
    for start in range(0, len(vectors) if chosen is None else len(chosen), rows):
        part = slice(start, start + rows)
        yield start, full(vectors[part if chosen is None else chosen[part]])
