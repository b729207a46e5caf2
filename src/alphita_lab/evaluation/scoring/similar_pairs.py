"""Pairs of terms whose similarity is above a floor: by exact range search over vectors, or by lists of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alphita.index.neighbours import unit
from alphita_lab.evaluation.systems import System, VectorSystem

# Rows and columns of one block of similarities: 16 MiB of float32.
BLOCK = 2048
# Neighbours asked for at once, of all queries together.
NEIGHBOURS = 20_000_000

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of terms, each once (left < right), whose similarity is above `floor`.

    Attributes:
        left: (p,) int64 rows of terms.
        right: (p,) int64.
        similarity: (p,) float32.
        floor: every pair above it is here, unless only some neighbours were looked at.
        raised: whether the floor was raised to keep the pairs few enough.
    """

    left: Int
    right: Int
    similarity: NDArray[np.float32]
    floor: float
    raised: bool = False


def pairs_above(vectors: NDArray[np.float32], floor: float, *, max_pairs: int) -> Pairs:
    """Return all pairs of rows whose cosine is above `floor`: exact range search in blocks of the upper triangle.

    Args:
        vectors: (n, d) float32.
    """
    vectors = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0).astype(np.float32)
    known = np.flatnonzero(vectors.any(axis=1))
    vectors = unit(vectors[known])
    kept = _Kept(floor, max_pairs)
    for start in range(0, len(vectors), BLOCK):
        for other in range(start, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK] @ vectors[other : other + BLOCK].T
            if other == start:
                block[np.tril_indices(len(block))] = -np.inf
            places = np.flatnonzero(block.ravel() > kept.floor)
            rows, columns = np.divmod(places, block.shape[1])
            kept.add(known[start + rows], known[other + columns], block.ravel()[places])
    return kept.pairs()


def pairs_by_neighbours(
    system: System, strings: Sequence[str], floor: float, *, max_pairs: int, first: int = 32
) -> Pairs:
    """Return all pairs above `floor` for a system that has no vectors: neighbours, more of them until one is below."""
    n, kept = len(strings), _Kept(floor, max_pairs, twice=True)
    rows, wanted = np.arange(n), min(first, n)
    while len(rows):
        further = []
        for start in range(0, len(rows), max(1, NEIGHBOURS // wanted)):
            block = rows[start : start + max(1, NEIGHBOURS // wanted)]
            similarity, near = system.neighbours([strings[row] for row in block], strings, wanted)
            done = (near[:, -1] < 0) | (similarity[:, -1] <= kept.floor) | (wanted == n)
            line, place = np.nonzero((near >= 0) & (similarity > kept.floor) & done[:, None])
            kept.add(block[line], near[line, place], similarity[line, place])
            further.append(block[~done])
        rows, wanted = np.concatenate(further), min(4 * wanted, n)
    return kept.pairs()


def pairs_of_neighbours(similarity: NDArray[np.float32], near: Int) -> Pairs:
    """Return the pairs in lists of neighbours, each once, without those of a term and itself.

    Args:
        similarity: (n, k) of each term and its neighbours; where it differs by direction the greater counts.
        near: (n, k) rows of the neighbours; -1 for none.
    """
    line, place = np.nonzero(near >= 0)
    low = float(similarity[line, place].min()) - 1e-6 if len(line) else 0.0
    kept = _Kept(low, near.size + 1, twice=True)
    kept.add(line, near[line, place], similarity[line, place])
    return kept.pairs()


def find_pairs(system: System, strings: Sequence[str], floor: float, *, max_pairs: int) -> tuple[Pairs, int]:
    """Return all pairs above `floor`, by vectors where the system has them, and how many strings it cannot
    represent."""
    if isinstance(system, VectorSystem):
        vectors = system.encode(strings)
        return pairs_above(vectors, floor, max_pairs=max_pairs), int((~np.isfinite(vectors).all(axis=1)).sum())
    return pairs_by_neighbours(system, strings, floor, max_pairs=max_pairs), 0


class _Kept:
    """Collects pairs and raises the floor when they grow too many.

    With `twice` a pair may come from both its ends, with different similarities: the greater counts.
    """

    def __init__(self, floor: float, most: int, *, twice: bool = False) -> None:
        self.floor, self._most, self._twice, self._raised = floor, most, twice, False
        self._parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        self._count = 0

    def add(self, one: Int, other: Int, similarity: NDArray[np.float32]) -> None:
        """Take pairs above the floor; a term and itself are none."""
        apart = one != other
        self._parts.append((np.minimum(one, other)[apart], np.maximum(one, other)[apart], similarity[apart]))
        self._count += int(apart.sum())
        # Twice as many may wait, so that not every block is sorted.
        if self._count > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        left, right, similarity = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        if self._twice and len(left):
            width = int(right.max()) + 1
            keys = left * width + right
            order = np.argsort(keys)
            keys = keys[order]
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            left, right = np.divmod(keys[starts], width)
            similarity = np.maximum.reduceat(similarity[order], starts)
        if len(left) > self._most:
            # The greatest value that does not fit is the new floor: those equal to it go together.
            place = len(similarity) - self._most - 1
            self.floor, self._raised = float(np.partition(similarity, place)[place]), True
            above = similarity > np.float32(self.floor)
            left, right, similarity = left[above], right[above], similarity[above]
        self._parts, self._count = [(left, right, similarity)], len(left)

    def pairs(self) -> Pairs:
        """Return what is kept."""
        self._cut()
        left, right, similarity = self._parts[0]
        return Pairs(left, right, similarity, float(self.floor), self._raised)
