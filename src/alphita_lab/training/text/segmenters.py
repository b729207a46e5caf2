"""Segmenters: what counts as a word of a text, for masks that do not tear words apart.

    words   runs of letters, digits and their marks; in scripts written without spaces (Chinese, Japanese, Thai and the
            like) every letter by itself. Of all languages, without a dictionary.
    jieba   Chinese words as jieba finds them, `words` elsewhere (the Chinese product system segments its corpora).
    none    no words: each token by itself, where no entity is.

A segmenter takes texts and gives the places of the words of each. `load("words")(texts)` finds them.
"""

from __future__ import annotations

import functools
import sys
import unicodedata
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError, require
from alphita.registry import unknown
from alphita_lab.training.text.folding import ALNUM, WORD, character_flags

Int64 = NDArray[np.int64]
# What a character is to a word: nothing; a letter or digit that joins those beside it; one by itself; what follows it.
NOTHING, JOINED, ALONE, FOLLOWS = 0, 1, 2, 3
_JOINT = "\x00"
_ZERO_WIDTH_SPACE = "\u200b"


class Segmenter(Protocol):
    """Finds words."""

    facts: dict[str, str]

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        """Return of each text, (m, 2), first characters of words and those behind their last, apart and in order."""
        ...


class Words:
    """Words by the letters and digits of Unicode."""

    def __init__(self) -> None:
        self.facts = {"segmenter": "words"}

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        """See `Segmenter`; millions of characters at once cost least."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        begins = np.cumsum(lengths + 1) - lengths - 1
        kinds, follows = _kinds_of(_JOINT.join(texts))
        if not len(kinds):
            return [np.empty((0, 2), np.int64) for _ in texts]
        before, behind = np.append(NOTHING, kinds[:-1]), np.append(kinds[1:], NOTHING)
        begin = (kinds != NOTHING) & ~follows & ((kinds == ALONE) | (before != JOINED))
        end = (kinds != NOTHING) & (np.append(begin[1:], True) | (behind == NOTHING))
        spans = np.stack([np.flatnonzero(begin), np.flatnonzero(end) + 1], 1)
        cuts = np.append(np.searchsorted(spans[:, 0], begins), len(spans)).tolist()
        rows = zip(begins.tolist(), cuts, cuts[1:], strict=False)
        return [spans[low:high] - start for start, low, high in rows]


class Jieba:
    """Chinese words by jieba's dictionary and its model of unknown words; other words as `Words` has them."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # It is of 2020, and imports what setuptools no longer likes.
            warnings.simplefilter("ignore")
            engine = require("jieba", "chinese")
        self.facts = {"segmenter": "jieba", "version": str(engine.__version__)}
        self._words = Words()
        self._cutter: Any = engine.Tokenizer()
        # By itself it would read the dictionary from the folder for temporary files, where anyone may have put another.
        self._cutter.FREQ, self._cutter.total = self._cutter.gen_pfdict(self._cutter.get_dict_file())
        self._cutter.initialized = True

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        """See `Segmenter`."""
        return [self._joined(text, spans) for text, spans in zip(texts, self._words(texts), strict=True)]

    def _joined(self, text: str, words: Int64) -> Int64:
        """Return the words of one text, in which jieba's Chinese words replace what they lie over."""
        alone = _kinds_of(text)[0] == ALONE
        if not alone.any():
            return words
        numbers = np.full(len(text), -1, np.int64)
        for number, (start, end) in enumerate(words.tolist()):
            numbers[start:end] = number
        for number, (word, start, end) in enumerate(self._cutter.tokenize(text), len(words)):
            if len(word) > 1 and alone[start:end].any():
                numbers[start:end] = number
        return runs(numbers)


class NoWords:
    """No words."""

    def __init__(self) -> None:
        self.facts = {"segmenter": "none"}

    def __call__(self, texts: Sequence[str]) -> list[Int64]:
        """See `Segmenter`."""
        return [np.empty((0, 2), np.int64) for _ in texts]


SEGMENTERS: dict[str, Callable[[], Segmenter]] = {"words": Words, "jieba": Jieba, "none": NoWords}


def load(name: str) -> Segmenter:
    """Return a segmenter by its name."""
    if name not in SEGMENTERS:
        raise UsageError(unknown("segmenter", name, SEGMENTERS))
    return SEGMENTERS[name]()


def runs(numbers: Int64) -> Int64:
    """Return where equal numbers stand side by side in (n,), negative ones aside: (m, 2) first places, those behind."""
    if not len(numbers):
        return np.empty((0, 2), np.int64)
    edges = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    starts, ends = np.append(0, edges), np.append(edges, len(numbers))
    kept = numbers[starts] >= 0
    return np.stack([starts[kept], ends[kept]], 1)


def _kinds_of(text: str) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return of each character its kind, that of a mark being its letter's, and which are marks."""
    kinds = _kinds()[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)]
    follows = kinds == FOLLOWS
    if follows.any():
        bases = np.maximum.accumulate(np.where(follows, 0, np.arange(len(kinds))))
        kinds = kinds[bases]
        # A mark at the very beginning has no letter.
        kinds[kinds == FOLLOWS] = NOTHING
    return kinds, follows


@functools.cache
def _kinds() -> NDArray[np.uint8]:
    """Return the kind of every code point."""
    flags = character_flags()
    kinds = np.where(flags & ALNUM, np.where(flags & WORD, JOINED, ALONE), NOTHING).astype(np.uint8)
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        # Joiners and soft hyphens too; but a space of no width stands between words.
        if unicodedata.category(sign) in ("Mn", "Mc", "Me", "Cf") and sign != _ZERO_WIDTH_SPACE:
            kinds[code] = FOLLOWS
    return kinds
