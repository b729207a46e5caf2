"""Which words a terminology says for each other: "renal" and "kidney", of two names of one concept."""

from __future__ import annotations

import itertools
import threading

import numpy as np

from alphita.index.segment import Segment
from alphita.mention import lexicon
from alphita.mention.morphemes import levelled
from alphita.mention.word_pairs import WORD, key

# Names of a concept that are laid beside each other at most.
MOST_NAMES = 40
# Of more terms, concepts are passed over: what is often said for each other is found among these.
MOST_TERMS = 500_000


class WordSynonyms:
    """The pairs of words by which alone two names of one concept differ; made when they are first asked for."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._pairs: frozenset[tuple[str, str]] | None = None
        self._making = threading.Lock()

    def __contains__(self, words: object) -> bool:
        """Tell whether two words, in lower case, are said for each other."""
        if not isinstance(words, tuple):
            return False
        with self._making:
            if self._pairs is None:
                self._pairs = _pairs(self._segment)
        one, other = (key(levelled(word)) for word in words)
        return (min(one, other), max(one, other)) in self._pairs


def _pairs(segment: Segment) -> frozenset[tuple[str, str]]:
    filler = {key(levelled(word)) for word in lexicon.bare_words("filler")}

    def words(row: int) -> frozenset[str]:
        return frozenset(key(levelled(word)) for word in WORD.findall(segment.strings.array[row].as_py())) - filler

    string = np.repeat(np.arange(len(segment.offsets) - 1), np.diff(segment.offsets))
    order = np.argsort(segment.term_concept, kind="stable")
    starts = np.flatnonzero(np.diff(segment.term_concept[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    several = np.flatnonzero(sizes > 1)[:: 1 + len(order) // MOST_TERMS]
    found = set()
    for start, size in zip(starts[several].tolist(), np.minimum(sizes[several], MOST_NAMES).tolist(), strict=True):
        names = {words(row) for row in string[order[start : start + size]].tolist()}
        for one, other in itertools.combinations(names, 2):
            mine, theirs = one - other, other - one
            if len(mine) == 1 and len(theirs) == 1 and one & other:
                first, second = sorted((*mine, *theirs))
                found.add((first, second))
    return frozenset(found)
