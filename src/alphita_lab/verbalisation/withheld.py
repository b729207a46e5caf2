"""What no text may show: held-out strings, as whole words, and triples between held-out pairs of concepts."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import clean

# Scripts that write no spaces between words: each sign is a word of its own.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")


def words(string: str) -> list[str]:
    """Return the words of a string, cleaned; punctuation is none, so that "Type-2 (adult)" is type, 2, adult."""
    return split(clean(string))


def split(cleaned: str) -> list[str]:
    """Return the words of a string that is cleaned already."""
    return _WORD.findall(cleaned)


class Withheld:
    """Held-out strings and pairs of concepts, made ready for many questions."""

    def __init__(self, strings: Collection[str], pairs: NDArray[np.integer[Any]] | None, n_concepts: int) -> None:
        """Make ready.

        Args:
            pairs: (p, 2) rows of concepts whose triples must not show, in whatever direction.
        """
        self._strings: set[str] = set()
        lengths: dict[str, set[int]] = {}
        for string in strings:
            if found := words(string):
                self._strings.add(" ".join(found))
                lengths.setdefault(found[0], set()).add(len(found))
        self._lengths = {first: sorted(numbers) for first, numbers in lengths.items()}
        self._n = n_concepts
        self._pairs = np.empty(0, np.int64) if pairs is None else np.unique(self._coded(pairs[:, 0], pairs[:, 1]))

    def is_in(self, text: str) -> bool:
        """Say whether a held-out string stands in `text`, as whole words, whatever the case and punctuation."""
        if not self._strings:
            return False
        words_of_text = words(text)
        return any(
            " ".join(words_of_text[place : place + length]) in self._strings
            for place, word in enumerate(words_of_text)
            for length in self._lengths.get(word, ())
        )

    def joins(self, heads: NDArray[np.int32], tails: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say for each of (m,) heads and tails whether they are a held-out pair, in either order."""
        return np.isin(self._coded(heads, tails), self._pairs)

    def _coded(self, ones: NDArray[np.integer[Any]], others: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        return np.minimum(ones, others).astype(np.int64) * self._n + np.maximum(ones, others)
