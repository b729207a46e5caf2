"""Words and phrases that name values, and values as sets of bits.

A value is the set of what a word leaves open, one bit each: "unilateral" = {left, right}. Two values exclude each
other if they have no bit in common.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from alphita.terminology.rules import Codes, Flags, Found, Text, read

# Values that are no value: the phrase is passed over ("men 1" is no word of sex).
SILENT = 0
_CHINESE = re.compile("[\u3400-\u9fff]")
_PREFIX = 4


class Lexicon:
    """Finds phrases in a list of words, the longest at each place, each word used once.

    Phrases are written as people write them: cleaning and removing accents is done here. "links*" finds every word
    that begins so; Chinese phrases are found inside a word, because Chinese writes no spaces.
    """

    def __init__(self, table: Mapping[int, Mapping[str, str]]) -> None:
        self.languages = tuple(sorted({language for phrases in table.values() for language in phrases}))
        self._phrases: dict[tuple[str, ...], int] = {}
        self._longest: dict[str, int] = {}
        self._beginnings: dict[str, list[tuple[str, int]]] = {}
        # The first words of phrases, with accents and without, and what stands behind each.
        self._written: set[tuple[str, str]] = set()
        chinese: dict[str, int] = {}
        for value, by_language in table.items():
            for phrase in "|".join(by_language.values()).split("|"):
                _, shown, words = read(phrase)
                if not _CHINESE.search(phrase):
                    end = "" if phrase.endswith("*") else r"\b"
                    self._written.update({(words[0], end), (shown[0], end)})
                if phrase.endswith("*"):
                    (word,) = words
                    if len(word) < _PREFIX:
                        raise ValueError(f"the beginning {phrase!r} is too short")
                    self._beginnings.setdefault(word[:_PREFIX], []).append((word, value))
                elif _CHINESE.search(phrase):
                    chinese[phrase] = value
                elif self._phrases.setdefault(words, value) != value:
                    raise ValueError(f"{phrase!r} has two values")
                else:
                    self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))
        self._chinese_values = chinese
        longest_first = sorted(chinese, key=lambda phrase: (-len(phrase), phrase))
        self._chinese = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    def concerns(self, word: str) -> bool:
        """Tell whether a phrase may begin with this word, or lie in it."""
        if word in self._longest or (word[:_PREFIX] in self._beginnings and self._by_beginning(word) is not None):
            return True
        return not word.isascii() and self._chinese.search(word) is not None

    def first_words(self) -> frozenset[str]:
        """Return the words that phrases begin with, where they are given whole."""
        return frozenset(self._longest)

    def pattern(self) -> str:
        """Return a regular expression, RE2's too, of which each cleaned string with a phrase has a match."""
        written = [rf"\b{re.escape(word)}{end}" for word, end in sorted(self._written)]
        return "|".join([*written, *map(re.escape, self._chinese_values)])

    def _by_beginning(self, word: str) -> int | None:
        for beginning, value in self._beginnings.get(word[:_PREFIX], ()):
            if word.startswith(beginning):
                return value
        return None

    def find(self, text: Text) -> list[Found]:
        """Return the values named, each with its words."""
        return [found for _, found in self.find_at(text)]

    def find_at(self, text: Text) -> list[tuple[int, Found]]:
        """Return the values named, each with the place of its first word."""
        words, shown = text.words, text.shown
        found: list[tuple[int, Found]] = []
        place = 0
        while place < len(words):
            word = words[place]
            longest = self._longest.get(word, 0)
            if not longest and word[:_PREFIX] not in self._beginnings and word.isascii():
                place += 1
                continue
            used, value = 1, None
            for length in range(longest, 0, -1):
                value = self._phrases.get(words[place : place + length])
                if value is not None:
                    used = length
                    break
            if value is None:
                value = self._by_beginning(word)
            if value is None and not word.isascii():
                inside = (Found(self._chinese_values[part[0]], part[0]) for part in self._chinese.finditer(word))
                found += [(place, one) for one in inside if one.value != SILENT]
            elif value:
                found.append((place, Found(value, " ".join(shown[place : place + used]))))
            place += used
        return found


def word_set(*lines: str) -> frozenset[str]:
    """Return the words of some lines."""
    return frozenset(word for line in lines for word in line.split())


def narrowest(values: Sequence[int]) -> int:
    """Join the values, leaving out those that contain another one: "unilateral, left" is left."""
    if len(values) == 1:
        return values[0]
    joined = 0
    for value in values:
        if not any(other != value and other & value == other for other in values):
            joined |= value
    return joined


def nonzero(codes: Codes) -> Flags:
    """Tell which codes say anything."""
    return codes != 0


def shared(left: Codes, right: Codes) -> Flags:
    """Tell which pairs leave something open in common."""
    return np.asarray(left & right != 0)


def disjoint(left: Codes, right: Codes) -> Flags:
    """Tell which pairs both say something and leave nothing open in common."""
    return np.asarray((left != 0) & (right != 0) & (left & right == 0))
