"""A view of an index without some of its strings, their words and their abbreviations.

Held-out examples are hidden (see `examples`). This affects more than the search: a word that occurs only in the
held-out string must be unknown, and so must "MI" if only that string defines it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from alphita.index.encoding import Encoder
from alphita.index.lookup import LETTERS, VECTORS, How, Lookup, View, lookup
from alphita.index.segment import count_words
from alphita.index.store import Index
from alphita.mention.abbreviations import Abbreviations, AbbreviationTerms
from alphita.mention.short_forms import Meaning

# Number of hidden strings and concepts whose related data are cached.
REMEMBERED = 20_000
# Maximum extra strings that are looked up to replace those of a hidden concept.
MAX_SPARE = 64


class Hidden(View):
    """A view of an index that hides a string and a concept from each of n questions.

    Attributes:
        strings: (n,) int64 a string of the index; -1 for none.
        concepts: (n,) int64 a concept, hidden with all strings that name no other concept; -1 for none.
    """

    strings: NDArray[np.int64]
    concepts: NDArray[np.int64]

    def __init__(self, index: Index, strings: NDArray[np.int64], concepts: NDArray[np.int64]) -> None:
        self.index, self.strings, self.concepts = index, strings, concepts
        self._contents = _contents(index)

    def take(self, rows: Sequence[int]) -> Hidden:
        """Return the view of some of the questions."""
        return Hidden(self.index, self.strings[rows], self.concepts[rows])

    @functools.cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.strings.tolist(), self.concepts.tolist(), strict=True))

    @functools.cached_property
    def _words(self) -> list[Mapping[str, int]]:
        return [count_words(self._contents.strings_of(*pair)) for pair in self._pairs]

    def words(self, questions: Sequence[int]) -> list[Mapping[str, int]]:
        """Return, for each question, the words of its hidden strings and how many contain each."""
        return [self._words[question] for question in questions]

    def is_there(self, index: Index, rows: NDArray[np.int64], questions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which strings are visible; a string of several concepts is visible if its first concept is."""
        segment = index.segment
        concept = segment.term_concept[segment.offsets[np.maximum(rows, 0)]]
        return np.asarray((rows != self.strings[questions]) & (concept != self.concepts[questions]))

    def variants(self, known: Abbreviations) -> list[Abbreviations]:
        """Return, for each question, the abbreviations that are known without its hidden strings."""
        without: dict[tuple[int, int], Abbreviations] = {}
        for pair in self._pairs:
            if pair not in without:
                lost: list[Meaning] = []
                gained: list[Meaning] = []
                for concept, terms in self._contents.terms_of(*pair).items():
                    less, more = self._contents.abbreviations.without(concept, terms)
                    lost, gained = lost + less, gained + more
                without[pair] = known.without(lost, gained) if lost or gained else known
        return [without[pair] for pair in self._pairs]

    def lookup(
        self, index: Index, encoder: Callable[[], Encoder], queries: Sequence[str], questions: Sequence[int], how: How
    ) -> Lookup:
        """Look up queries, each without the strings hidden from its question."""
        without = [self._contents.strings_of(*self._pairs[question]) for question in questions]
        found = lookup(index, encoder, queries, how._replace(depth=how.depth + self._spare()), without)
        return self._without_hidden(found, np.asarray(questions, np.int64), how.depth)

    def _spare(self) -> int:
        """Return how many strings to look up beyond the depth: one for a hidden string, a hidden concept's terms."""
        hidden = self.concepts[self.concepts >= 0]
        if not len(hidden):
            return 1
        terms = np.bincount(self.index.segment.term_concept, minlength=len(self.index.segment.concepts))
        return int(min(MAX_SPARE, 1 + terms[hidden].max()))

    def _without_hidden(self, found: Lookup, questions: NDArray[np.int64], depth: int) -> Lookup:
        """Return the matches without the hidden strings, at most `depth` per query and route."""
        question = questions[found.query]
        kept = found.string != self.strings[question]
        if (self.concepts >= 0).any():
            segment = self.index.segment
            starts = np.asarray(segment.offsets[:-1])
            least, most = (bound.reduceat(segment.term_concept, starts) for bound in (np.minimum, np.maximum))
            concept = self.concepts[question]
            kept &= (least[found.string] != concept) | (most[found.string] != concept)
        query, string = found.query[kept], found.string[kept]
        cosine, letters = found.cosine[kept], found.letters[kept]
        routes = found.found_by[kept]
        for route, similarity in ((LETTERS, letters), (VECTORS, cosine)):
            rows = np.flatnonzero(routes & route)
            rows = rows[np.lexsort((string[rows], -similarity[rows], query[rows]))]
            place = np.arange(len(rows)) - np.searchsorted(query[rows], query[rows])
            routes[rows[place >= depth]] &= ~np.uint8(route)
        columns = {"query": query, "string": string, "found_by": routes, "cosine": cosine, "letters": letters}
        return replace(found, **{name: column[routes > 0] for name, column in columns.items()})


@functools.lru_cache(maxsize=1)
def _contents(index: Index) -> _Contents:
    return _Contents(index)


class _Contents:
    """The strings and terms of an index that are hidden with a string or a concept."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.strings_of = functools.lru_cache(REMEMBERED)(self._strings_of)
        self.terms_of = functools.lru_cache(REMEMBERED)(self._terms_of)

    @functools.cached_property
    def abbreviations(self) -> AbbreviationTerms:
        return AbbreviationTerms(self.index)

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
