"""Which words a terminology says for each other: "renal" and "kidney", of two names of one concept."""

from __future__ import annotations

import itertools
import threading

import numpy as np

from alphita.index.segment import Segment
from alphita.normalizer.answering import lexicon
from alphita.normalizer.answering.morphemes import levelled
from alphita.normalizer.answering.word_pairs import WORD, key

# Names of a concept that are laid beside each other at most.
MOST_NAMES = 40


class WordSynonyms:
    """The pairs of words by which alone two names of one concept differ; made when they are first asked for."""

    def __init__(self, segment: Segment) -> None:
        """Take the terms of an index."""
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
    words = [
        frozenset(key(levelled(word)) for word in WORD.findall(string)) - filler
        for string in segment.strings.array.to_pylist()
    ]
    named_by = np.repeat(np.arange(len(words)), np.diff(segment.offsets))
    order = np.argsort(segment.term_concept, kind="stable")
    ends = np.flatnonzero(np.diff(segment.term_concept[order])) + 1
    found = set()
    for rows in np.split(named_by[order], ends):
        names = list(dict.fromkeys(words[row] for row in rows.tolist()))[:MOST_NAMES]
        for one, other in itertools.combinations(names, 2):
            mine, theirs = one - other, other - one
            if len(mine) == 1 and len(theirs) == 1 and one & other:
                first, second = sorted((*mine, *theirs))
                found.add((first, second))
    return frozenset(found)
