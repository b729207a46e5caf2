"""Words of cleaned strings, weighted by their rarity in an index, and their overlap between pairs of strings."""

from __future__ import annotations

import functools
import gzip
import importlib.resources
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.rules.lexicon import WORD

Float32 = NDArray[np.float32]
STRINGS_AT_ONCE = 65_536
NOTHING: Mapping[str, int] = {}


class WordComparison(NamedTuple):
    """The word overlap of p pairs of strings, and figures about the m left strings.

    Attributes:
        of_left: (p,) float32, the share of the left string's weight that also occurs in the right one, 0 to 1.
        of_right: (p,) float32, likewise.
        same: (p,) bool, the same set of words.
        first: (p,) bool, the same first word.
        last: (p,) bool, the same last word.
        counts: (m,) distinct words of the left strings.
        known: (m,) float32, the share of their weight in indexed words, 0 to 1.
    """

    of_left: Float32
    of_right: Float32
    same: NDArray[np.bool_]
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]
    counts: NDArray[np.int64]
    known: Float32


class _Words(NamedTuple):
    """The distinct words of n strings as numbers, string by string, with their weights."""

    number: NDArray[np.int64]
    offsets: NDArray[np.int64]
    weight: NDArray[np.float64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    counts: NDArray[np.int64]
    total: NDArray[np.float64]


class Vocabulary:
    """The words of an index's cleaned strings and their weights; any other word has the greatest weight."""

    def __init__(self, counts: Mapping[str, int], strings: int) -> None:
        """Keep the words.

        Args:
            counts: the number of strings in which each word occurs.
            strings: the number of all strings.
        """
        self._numbers = {word: number for number, word in enumerate(counts)}
        self._held = held = np.fromiter(counts.values(), np.float64, len(counts))
        greatest = np.log(strings + 1) + 1
        self._weights = np.append(np.log((strings + 1) / (held + 1)) + 1, greatest)
        # The words of the index's strings that came up, one after the other, and where those of each begin; how many,
        # and one more; the first and the last.
        self._pool, self._end = np.zeros(4_096, np.int32), 0
        self._starts = np.zeros(strings, np.int64)
        self._counts, self._firsts, self._lasts = (np.zeros(strings, np.int32) for _ in range(3))
        self._adding = threading.Lock()

    def lacking(self, texts: Sequence[str], least: int) -> list[list[str]]:
        """Return the words, of at least so many letters, of each cleaned string that no indexed string has."""
        known = self._numbers
        return [
            [word for word in WORD.findall(text) if len(word) >= least and word not in known and word.isalpha()]
            for text in texts
        ]

    def compare(
        self,
        left: Sequence[str],
        left_rows: NDArray[np.int64],
        right: Sequence[str],
        right_rows: NDArray[np.int64],
        without: Sequence[Mapping[str, int]] | None = None,
        strings: NDArray[np.int64] | None = None,
    ) -> WordComparison:
        """Compare cleaned string left[left_rows[i]] with right[right_rows[i]], for all i.

        Args:
            without: for each left string, the number of hidden strings in which each word occurs.
            strings: the rows of the right strings in the index, if they are its own; their words are kept.
        """
        mine = self._words(left, without)
        other = self._words(right) if strings is None else self._of_index(right, strings)
        width = int(max(mine.number.max(initial=0), other.number.max(initial=0))) + 1
        # Ascending, because the words of a string are.
        held = np.repeat(np.arange(len(other.counts)), other.counts) * width + other.number
        shared = np.zeros(len(left_rows))
        for start in range(0, len(left_rows) if len(held) else 0, STRINGS_AT_ONCE):
            part = slice(start, start + STRINGS_AT_ONCE)
            counts = mine.counts[left_rows[part]]
            pair = np.repeat(np.arange(len(counts)), counts)
            word = np.arange(len(pair)) + np.repeat(
                mine.offsets[left_rows[part]] - (np.cumsum(counts) - counts), counts
            )
            wanted = right_rows[part][pair] * width + mine.number[word]
            has = held[np.searchsorted(held, wanted).clip(max=len(held) - 1)] == wanted
            shared[part] = np.bincount(pair[has], mine.weight[word[has]], minlength=len(counts))
        of_left = shared / np.maximum(mine.total[left_rows], 1e-9)
        of_right = shared / np.maximum(other.total[right_rows], 1e-9)
        known = _sums((mine.number < len(self._numbers)) * mine.weight, mine.offsets)
        return WordComparison(
            of_left.astype(np.float32),
            of_right.astype(np.float32),
            (of_left > 1 - 1e-9) & (of_right > 1 - 1e-9),
            (mine.first[left_rows] == other.first[right_rows]) & (mine.first[left_rows] >= 0),
            (mine.last[left_rows] == other.last[right_rows]) & (mine.last[left_rows] >= 0),
            mine.counts,
            (known / np.maximum(mine.total, 1e-9)).astype(np.float32),
        )

    def _of_index(self, texts: Sequence[str], strings: NDArray[np.int64]) -> _Words:
        """Return the words of strings of the index."""
        with self._adding:
            new = np.flatnonzero(self._counts[strings] == 0)
            if len(new):
                words, rows = self._words([texts[place] for place in new.tolist()]), strings[new]
                start, self._end = self._end, self._end + len(words.number)
                if self._end > len(self._pool):
                    self._pool = np.concatenate([self._pool, np.zeros(self._end, np.int32)])
                self._pool[start : self._end] = words.number
                self._starts[rows] = start + words.offsets[:-1]
                self._counts[rows], self._firsts[rows], self._lasts[rows] = words.counts + 1, words.first, words.last
            counts = self._counts[strings].astype(np.int64) - 1
            offsets = np.concatenate([[0], np.cumsum(counts)])
            places = np.arange(offsets[-1]) + np.repeat(self._starts[strings] - offsets[:-1], counts)
            number = self._pool[places].astype(np.int64)
            ends = self._firsts[strings].astype(np.int64), self._lasts[strings].astype(np.int64)
        weight = self._weights[number]
        return _Words(number, offsets, weight, *ends, counts, _sums(weight, offsets))

    def _words(self, texts: Sequence[str], without: Sequence[Mapping[str, int]] | None = None) -> _Words:
        # A word that is not indexed is in no string of the index, so its number only matters within one comparison.
        new: dict[str, int] = {}
        known = self._numbers
        numbers: list[int] = []
        offsets, first, last = [0], [], []
        for place, text in enumerate(texts):
            away = without[place] if without is not None else NOTHING
            found = [
                known[word]
                if word in known and (not away or self._held[known[word]] > away.get(word, 0))
                else new.setdefault(word, len(known) + len(new))
                for word in WORD.findall(text)
            ]
            numbers.extend(sorted(set(found)))
            offsets.append(len(numbers))
            first.append(found[0] if found else -1)
            last.append(found[-1] if found else -1)
        number, rows = np.array(numbers, np.int64), np.array(offsets, np.int64)
        weight = self._weights[np.minimum(number, len(known))]
        ends = np.array(first, np.int64), np.array(last, np.int64)
        return _Words(number, rows, weight, *ends, np.diff(rows), _sums(weight, rows))


def _sums(values: NDArray[np.float64], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    running = np.concatenate([[0.0], np.cumsum(values)])
    found: NDArray[np.float64] = running[offsets[1:]] - running[offsets[:-1]]
    return found


WORDPIECE, BYTES = "##", "Ġ"
MARKS = (WORDPIECE, "▁", BYTES)


@functools.lru_cache(maxsize=4)
def whole_words(model: Path) -> tuple[list[str], list[str]]:
    """Return the whole words (of 3 letters and more) and the pieces of words of a model folder's tokenizer."""
    try:
        entries = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
        entries = sorted(entries, key=entries.__getitem__) if isinstance(entries, dict) else entries
        tokens = [entry if isinstance(entry, str) else entry[0] for entry in entries]
    except (OSError, ValueError, KeyError, TypeError):
        return [], []
    # SentencePiece ("▁") and byte-level BPE ("Ġ") mark the beginning of a word, WordPiece ("##") a continuation.
    mark = max(MARKS, key=lambda sign: sum(token.startswith(sign) for token in tokens))
    if mark == BYTES:
        # Its other letters encode bytes.
        tokens = [token for token in tokens if token.removeprefix(mark).isascii()]
    whole: list[str] = []
    pieces: list[str] = []
    for token in tokens:
        inside = token.startswith(mark) == (mark == WORDPIECE)
        letters = token.removeprefix(mark)
        if letters.isalpha() and len(letters) >= (2 if inside else 3):
            (pieces if inside else whole).append(letters.lower())
    return list(dict.fromkeys(whole)), list(dict.fromkeys(pieces))


@functools.lru_cache(maxsize=4)
def common_words(model: Path) -> frozenset[str]:
    """Return the whole words of a model folder's tokenizer, as a set."""
    return frozenset(whole_words(model)[0])


class OnDemand:
    """A set of words that is read when a word is first looked for."""

    def __init__(self, read: Callable[[], frozenset[str]]) -> None:
        self._read = read

    def __contains__(self, word: object) -> bool:
        return word in self._read()


@functools.cache
def english_words() -> frozenset[str]:
    """Return the 160,000 English words, with their inflections, that come with pyspellchecker, in lower case."""
    words = importlib.resources.files("spellchecker").joinpath("resources", "en.json.gz").read_bytes()
    return frozenset(json.loads(gzip.decompress(words)))
