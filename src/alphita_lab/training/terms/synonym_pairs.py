"""SapBERT's data (Liu et al. 2021, §3): the pairs of synonyms of each concept, at most so many a concept.

No list of pairs is kept: pairs have numbers, concept by concept, and a number is turned into its two names when it is
drawn. A terminology of 15 M names has some 10^7 to 10^8 pairs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.training.terms.triples import EpochWalk, Int64

# Concepts with many pairs come again and again: which of them are in the data is kept for so many concepts.
CHOICES_KEPT = 10_000


class PairSampler:
    """Draws batches of pairs in shuffled epochs without replacement."""

    def __init__(self, term_offsets: Int64, *, pairs: int, most: int, seed: int) -> None:
        """Prepare to sample.

        Args:
            term_offsets: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1].
        """
        counts = np.diff(term_offsets)
        self._all = counts * (counts - 1) // 2
        self._starts = np.concatenate([[0], np.cumsum(np.minimum(self._all, most))])
        self.pairs = int(self._starts[-1])
        if self.pairs == 0:
            raise InputError(
                "no concept has two names to train on, so there are no pairs of synonyms",
                remedy="import the terminology with its synonyms, or hold fewer of them out",
            )
        self._offsets, self._most, self._seed = term_offsets, most, seed
        self._choices: dict[int, Int64] = {}
        self._walk = EpochWalk(self.pairs, pairs, [seed, 4])

    def batch(self, number: int) -> tuple[Int64, Int64, Int64]:
        """Return batch `number` (from 0): concepts, first terms and second terms, (pairs,) each."""
        drawn = self._walk.places(number)
        concepts = np.searchsorted(self._starts, drawn, side="right") - 1
        place = drawn - self._starts[concepts]
        for row in np.flatnonzero(self._all[concepts] > self._most):
            place[row] = self._chosen(int(concepts[row]))[place[row]]
        first, second = _names_of_pair(place)
        start = self._offsets[concepts]
        return concepts, start + first, start + second

    def _chosen(self, concept: int) -> Int64:
        """Return which of a concept's many pairs are in the data, always the same ones."""
        if concept not in self._choices:
            if len(self._choices) == CHOICES_KEPT:
                self._choices.clear()
            rng = np.random.default_rng([self._seed, 5, concept])
            self._choices[concept] = rng.choice(int(self._all[concept]), self._most, replace=False)
        return self._choices[concept]


def _names_of_pair(place: NDArray[np.int64]) -> tuple[Int64, Int64]:
    """Return the names a < b of pair number `place`, counted (0, 1), (0, 2), (1, 2), (0, 3), ..."""
    second = ((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
    return place - second * (second - 1) // 2, second
