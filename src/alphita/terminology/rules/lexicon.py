"""The words, in eight languages, by which mentions and names say something: `lexicon.tsv`.

A row has an axis, a value (of some axes), a language (empty: any) and words or phrases with | between. The axes of the
rules are named there; a value of theirs that is `silent` makes its phrases pass unread ("men 1" is no word of sex).
The others:

    well            what says that all is as it should be
    idle, time, particle   words of notes, left out at both ends of a mention
    frequency, release, salt   what a prescription adds to the name of a drug
    nothing         what a list has where it has no finding: "n/a"
    unit            spellings of a unit of measurement; the value is the spelling of laboratory.tsv
    begins, ends    where a mention has it: "begins possible", "ends denied"
    common word     words that a short form is only if it is written in capitals
    values          the values of an axis in the order of their bits; those between two | are compared together
    part            what a value of an axis holds: values, or parts before
    sided           what may stand behind a side: "left sided"
    tag, joins      semantic tags behind a name; words between two names, except ambiguous ones
    laboratory words, noise   directions and flags of values; what training adds to names, and misspells in them
"""

from __future__ import annotations

import functools
import operator
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita import textio
from alphita.errors import InputError
from alphita.terminology.text import clean, strip_accents

Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]
SILENT = 0
WORD = re.compile(r"[^\W_]+")
_CHINESE = re.compile("[\u3400-\u9fff]")
_PREFIX = 4
FILE = "lexicon.tsv"
# Axes whose values are lists for different ends: a word may be in several. On the others it has one value.
LISTS = ("negation words", "noise", "part", "values")
# Words and strings that come again, and strings that several rules read one after the other. A server holds as many
# of each, whatever it is asked.
REMEMBERED, READ_AGAIN = 16_384, 2_048


class Row(NamedTuple):
    """A row of the table."""

    value: str
    language: str
    words: tuple[str, ...]


@functools.cache
def _table() -> Mapping[str, Sequence[Row]]:
    table: dict[str, list[Row]] = {}
    value_of: dict[tuple[str, str], str] = {}
    for line, row in enumerate(textio.packaged(__package__, FILE), 2):
        axis, value, words = row["axis"], row["value"], tuple(row["words"].split("|"))
        table.setdefault(axis, []).append(Row(value, row["language"], words))
        for word in words if axis not in LISTS else ():
            if (other := value_of.setdefault((axis, clean(word)), value)) != value:
                problem = f"{word!r} has two values of the axis {axis!r}, {other!r} before"
                raise InputError(problem, file=FILE, line=line, field="value", value=value, remedy="name it once")
    return table


def rows(axis: str) -> Sequence[Row]:
    """Return the rows of an axis, in the order of the table."""
    return _table()[axis]


@functools.cache
def words(axis: str, value: str = "") -> tuple[str, ...]:
    """Return the words and phrases of an axis and a value, in the order of the table."""
    return tuple(word for row in rows(axis) if row.value == value for word in row.words)


@functools.cache
def word_set(axis: str, value: str = "") -> frozenset[str]:
    """Return the same as a set."""
    return frozenset(words(axis, value))


@functools.cache
def meanings(axis: str) -> dict[str, str]:
    """Return the value of each word or phrase of an axis."""
    return {word: row.value for row in rows(axis) for word in row.words}


def joined(values: Iterable[int]) -> int:
    """Return the bits of all values together."""
    return functools.reduce(operator.or_, values, SILENT)


def pattern(axis: str, value: str = "") -> str:
    """Return a regular expression of the words of an axis, the longest first."""
    return "|".join(map(re.escape, sorted(words(axis, value), key=len, reverse=True)))


@functools.lru_cache(maxsize=REMEMBERED)
def bare(word: str) -> str:
    """Return a cleaned word without accents, with ss for ß."""
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign)).replace("ß", "ss")


class Text(NamedTuple):
    """A string as rules read it: cleaned, its words, and its words without accents."""

    string: str
    shown: tuple[str, ...]
    words: tuple[str, ...]


class Found(NamedTuple):
    """What a rule read in one place: its value, in the rule's own code, and the words that say it."""

    value: int
    words: str


@functools.lru_cache(maxsize=READ_AGAIN)
def read(string: str) -> Text:
    """Clean a string and split it into words; a clean string stays as it is."""
    string = clean(string)
    shown = tuple(WORD.findall(string))
    return Text(string, shown, shown if string.isascii() else tuple(map(strip_accents, shown)))


class Lexicon:
    """Finds phrases in a list of words, the longest at each place, each word used once.

    Phrases are written as people write them: cleaning and removing accents is done here. "links*" finds every word
    that begins so; Chinese phrases are found inside a word, because Chinese writes no spaces.
    """

    def __init__(self, phrases: Iterable[tuple[int, Iterable[str]]]) -> None:
        self._phrases: dict[tuple[str, ...], int] = {}
        self._longest: dict[str, int] = {}
        self._beginnings: dict[str, list[tuple[str, int]]] = {}
        # The first words of phrases, with accents and without, and what stands behind each.
        self._written: set[tuple[str, str]] = set()
        self._chinese_values: dict[str, int] = {}
        for value, some in phrases:
            for phrase in some:
                self._add(phrase, value)
        longest_first = sorted(self._chinese_values, key=lambda phrase: (-len(phrase), phrase))
        self._chinese = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")

    @classmethod
    def of(cls, axis: str, values: dict[str, int]) -> Lexicon:
        """Return the lexicon of an axis of the table; a row's value names one or more of `values`, or is silent."""
        of = values | {"silent": SILENT}
        return cls((joined(of[name] for name in row.value.split()), row.words) for row in rows(axis))

    def _add(self, phrase: str, value: int) -> None:
        if _CHINESE.search(phrase):
            self._chinese_values[phrase] = value
            return
        _, shown, words = read(phrase)
        end = "" if phrase.endswith("*") else r"\b"
        self._written.update({(words[0], end), (shown[0], end)})
        if phrase.endswith("*"):
            (word,) = words
            if len(word) < _PREFIX:
                raise ValueError(f"the beginning {phrase!r} is too short")
            self._beginnings.setdefault(word[:_PREFIX], []).append((word, value))
        elif self._phrases.setdefault(words, value) != value:
            raise ValueError(f"{phrase!r} has two values")
        else:
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

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
                found += [(place, part) for part in inside if part.value != SILENT]
            elif value:
                found.append((place, Found(value, " ".join(shown[place : place + used]))))
            place += used
        return found
