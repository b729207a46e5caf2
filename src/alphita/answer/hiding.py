"""What an index would not know if some of its strings were not there: their words, and what they teach to abbreviate.

Examples that are held out are taken as not there (see `examples`). Not only the search must miss them: a word that
only the held-out string has is unknown to those who ask for it, and "MI" is no abbreviation if only it says so.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.index.store import Index
from alphita.mention.abbreviations.expanding import Abbreviations
from alphita.mention.abbreviations.from_terms import TeachingTerms
from alphita.mention.abbreviations.short_forms import Meaning
from alphita.mention.words import each_once

# For so many hidden strings and concepts it is remembered what goes along with them.
REMEMBERED = 20_000


class Hidden(NamedTuple):
    """What is taken as not there, for each of n questions.

    Attributes:
        strings: (n,) int64 a string of the index; -1 for none.
        concepts: (n,) int64 a concept, with all strings that name no other one; -1 for none.
    """

    strings: NDArray[np.int64]
    concepts: NDArray[np.int64]


class Hiding:
    """Tells what goes along with what is hidden in one index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.strings_of = functools.lru_cache(REMEMBERED)(self._strings_of)
        self.terms_of = functools.lru_cache(REMEMBERED)(self._terms_of)

    def strings(self, hidden: Hidden) -> list[Sequence[str]]:
        """Return, for each question, the strings that are hidden from it."""
        return [self.strings_of(*pair) for pair in _pairs(hidden)]

    def words(self, hidden: Hidden) -> list[Mapping[str, int]]:
        """Return, for each question, in how many of the strings that are hidden from it each of their words stands."""
        return [Counter(each_once(strings)) for strings in self.strings(hidden)]

    def abbreviations(self, known: Abbreviations, hidden: Hidden) -> list[Abbreviations]:
        """Return, for each question, the abbreviations that would be known without what is hidden from it."""
        made: dict[tuple[int, int], Abbreviations] = {}
        found = []
        for pair in _pairs(hidden):
            if pair not in made:
                lost: list[Meaning] = []
                gained: list[Meaning] = []
                for concept, terms in self.terms_of(*pair).items():
                    less, more = self._teaching.without(concept, terms)
                    lost, gained = lost + less, gained + more
                made[pair] = known.without(lost, gained) if lost or gained else known
            found.append(made[pair])
        return found

    @functools.cached_property
    def _teaching(self) -> TeachingTerms:
        return TeachingTerms(self.index)

    @functools.cached_property
    def _by_concept(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The terms' rows, concept by concept, and where each concept's begin."""
        concept = self.index.segment.term_concept
        order = np.argsort(concept, kind="stable")
        return order, np.searchsorted(concept[order], np.arange(len(self.index.segment.concepts) + 1))

    def _strings_of(self, string: int, concept: int) -> list[str]:
        rows = {string} if string >= 0 else set()
        if concept >= 0:
            segment, (order, starts) = self.index.segment, self._by_concept
            terms = order[starts[concept] : starts[concept + 1]]
            for row in np.unique(np.searchsorted(segment.offsets, terms, "right") - 1).tolist():
                if (segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]] == concept).all():
                    rows.add(row)
        return [self.index.strings[row] for row in sorted(rows)]

    def _terms_of(self, string: int, concept: int) -> dict[int, set[int]]:
        """Return the rows of the terms that are hidden, by their concept."""
        found: dict[int, set[int]] = {}
        segment = self.index.segment
        if string >= 0:
            for term in range(int(segment.offsets[string]), int(segment.offsets[string + 1])):
                found.setdefault(int(segment.term_concept[term]), set()).add(term)
        if concept >= 0:
            order, starts = self._by_concept
            found.setdefault(concept, set()).update(order[starts[concept] : starts[concept + 1]].tolist())
        return found


def _pairs(hidden: Hidden) -> Sequence[tuple[int, int]]:
    return list(zip(hidden.strings.tolist(), hidden.concepts.tolist(), strict=True))
