"""Possible hard negatives: the mentions nearest to each prototype that are of other concepts, found anew each epoch.

All rows are encoded with the weights as they are, and searched for the prototypes that are drawn until the next search:
all where that is an epoch away, fewer in a shorter training. What was found is kept in the run's folder, so that a
resumed run reads what the unbroken one found with weights that are gone by then. The paper takes the m most similar
mentions of all; those of the prototype's own concept are passed over here, for the batch has its positives already.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index.backends import Backend
from alphita.index.backends import faiss as exact
from alphita.index.neighbours import nearest, unit
from alphita.training.terms.mining import InvertedFile, kept

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
ROWS_AT_ONCE = 65_536
# Similarities that a search may return at once.
FOUND_AT_ONCE = 2_000_000
NONE = -1

Encode = Callable[[Int64], NDArray[np.float32]]
"""(m,) rows -> (m, d) vectors, of any length but 0."""


class HardNegatives:
    """The nearest rows of other concepts, of some prototypes.

    Attributes:
        step: the optimiser step of the weights they were found with; -1 before the first search.
    """

    def __init__(self, concepts: Int64, wanted: int, folder: Path, *, exact_up_to: int) -> None:
        """Prepare to search.

        Args:
            concepts: (n,) the concept of each row.
            wanted: m, negatives a prototype.
            folder: where findings are kept, one file a search.
            exact_up_to: search so many rows exactly, more of them approximately.
        """
        self._concepts, self._wanted = concepts, wanted
        self._folder, self._exact = folder, len(concepts) <= exact_up_to
        self._prototypes: Int64 = np.empty(0, np.int64)
        self._found: Int32 = np.empty((0, wanted), np.int32)
        self.step = -1

    def refresh(self, step: int, prototypes: Int64, encode: Encode | None, *, needed_from: int = 0) -> None:
        """Read what was found at `step`, or search.

        Args:
            step: the optimiser step.
            prototypes: rows that negatives are wanted of until the next search, in any order; they follow from `step`.
            encode: gives the vectors as of `step`; None if the weights have moved on.
            needed_from: drop the findings of earlier steps than this.

        Raises:
            InputError: nothing was found at that step, and its weights are gone.
        """
        path, prototypes = self._folder / f"negatives-{step:08d}.npy", np.unique(prototypes)
        search = None if encode is None else partial(self._search, prototypes, encode)
        found = kept(path, search, f"the hard negatives found at step {step} are gone", needed_from=needed_from)
        if found.shape != (len(prototypes), self._wanted):
            raise InputError(
                f"there are negatives of {len(found):,} prototypes, and not of the {len(prototypes):,} that are drawn",
                file=path,
                remedy="it is of another version of alphita: start again with --force",
            )
        self.step, self._prototypes, self._found = step, prototypes, found

    def guess(self, prototypes: Int64) -> None:
        """Give the prototypes any rows: for a trial of the batches' size."""
        self._prototypes = np.unique(prototypes)
        shape = (len(self._prototypes), self._wanted)
        self._found = np.random.default_rng(0).integers(0, len(self._concepts), shape).astype(np.int32)

    def of(self, prototypes: Int64) -> Int32:
        """Return the negatives of each prototype, nearest first, (p, m); NONE where there are no more.

        They must be among those that the last search was for.
        """
        return self._found[np.searchsorted(self._prototypes, prototypes)]

    def _search(self, prototypes: Int64, encode: Encode) -> Int32:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "vectors.draft"
        n = len(self._concepts)
        try:
            vectors: NDArray[np.float32] | None = None
            for start in range(0, n, ROWS_AT_ONCE):
                block = unit(encode(np.arange(start, min(start + ROWS_AT_ONCE, n))))
                if vectors is None:
                    vectors = np.memmap(path, np.float32, "w+", shape=(n, block.shape[1]))
                vectors[start : start + len(block)] = block
            assert vectors is not None, "there are rows"
            backend: Backend = exact.attach(vectors) if self._exact else InvertedFile(vectors)
            return self._others(prototypes, backend, vectors)
        finally:
            path.unlink(missing_ok=True)

    def _others(self, prototypes: Int64, backend: Backend, vectors: NDArray[np.float32]) -> Int32:
        """Return the nearest rows of other concepts: so many more are asked for as the concept has rows itself."""
        own = np.bincount(self._concepts)[self._concepts[prototypes]]
        found = np.full((len(prototypes), self._wanted), NONE, np.int32)
        order = np.argsort(own, kind="stable")
        start = 0
        while start < len(order):
            # Those that ask for few come first, so that a block asks for about as many.
            size = max(1, FOUND_AT_ONCE // (self._wanted + int(own[order[start]])))
            block = order[start : start + size]
            start += size
            rows = prototypes[block]
            asked = self._wanted + int(own[block[-1]])
            _, near = nearest(backend, (len(vectors), vectors.shape[1]), vectors[rows], asked)
            other = self._concepts[near] != self._concepts[rows][:, None]
            place = np.cumsum(other, axis=1) - 1
            kept = other & (place < self._wanted)
            which, where = np.nonzero(kept)
            found[block[which], place[which, where]] = near[which, where]
        return found
