"""Pairs of a name and its translation for cross-lingual distillation (Reimers and Gurevych, EMNLP 2020), checked.

Latin and Greek letters stand in names of every language (DNA, β-blocker), so they never make a string foreign.
"""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import textio
from alphita.terminology.text import clean, nfkc

# The languages of each script, and the subtags of BCP-47 that name it, as in "sr-Latn". A language of several scripts
# stands under each; one that is nowhere here is not checked.
_SCRIPTS = textio.packaged(__package__, "scripts.tsv")
_LANGUAGES = {row["script"]: row["languages"].split() for row in _SCRIPTS}
_ANYWHERE = frozenset({"LATIN", "GREEK"})


@functools.lru_cache(maxsize=10_000)
def scripts_of_language(tag: str) -> frozenset[str]:
    """Return the scripts that a language is written in; none where that is not known."""
    language, *rest = tag.split("-")
    for subtag in rest:
        if named := frozenset(row["script"] for row in _SCRIPTS if subtag in row["subtags"].split()):
            return named
    return frozenset(script for script, tags in _LANGUAGES.items() if language in tags)


@functools.lru_cache(maxsize=100_000)
def script_of(letter: str) -> str | None:
    """Return the script of a letter; None of what is no letter, or of a script that no language here has."""
    if not letter.isalpha():
        return None
    script = unicodedata.name(letter, "").partition(" ")[0]
    return script if script in _LANGUAGES else None


def can_be(string: str, tag: str) -> bool:
    """Tell whether a string can be of a language, by its letters."""
    wanted = scripts_of_language(tag)
    string = nfkc(string)
    letters = {letter: script for letter in string if (script := script_of(letter)) is not None}
    if not wanted or not letters:
        return True
    scripts = set(letters.values())
    if scripts - wanted - _ANYWHERE:
        return False
    return bool(scripts & wanted) or all(letter.isupper() for letter in letters)


# Names are some 25 characters; what is longer than this is a sentence or a cell that ran over.
MAX_CHARACTERS = 256
# Tags of no language, of several, and of what is not language.
NO_LANGUAGE = ("und", "mul", "mis", "zxx")

EMPTY = "empty after cleaning"
TOO_LONG = f"longer than {MAX_CHARACTERS} characters"
NO_TAG = "translation of no stated language"
EQUAL = "translation equal to its source"
SOURCE_NAME = "translation equal to a source-language name of the concept"
SOURCE_SCRIPT = "source in a script that its language does not use"
SCRIPT = "translation in a script that its language does not use"
HELD_OUT = "held out"
DUPLICATE = "duplicate"

Row = tuple[str, str, str, int, str]
"""A pair: source, translation, language, concept, origin."""


@dataclass(frozen=True)
class AlignedPairs:
    """n pairs, column by column."""

    sources: list[str]  # (n,) names in the source language, cleaned
    translations: list[str]  # (n,) their translations, cleaned
    languages: list[str]  # the BCP-47 tags of the translations, sorted
    language: NDArray[np.int32]  # (n,) int32, the place of each translation's tag in `languages`
    concepts: NDArray[np.int32]  # (n,) int32, the row of the concept that both name in the terminology they come from
    origins: list[str]
    origin: NDArray[np.int32]  # (n,) int32, places in `origins`
    counts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sources)

    def by_language(self) -> dict[str, int]:
        """Return how many pairs each language has."""
        counted = np.bincount(self.language, minlength=len(self.languages)).tolist()
        return dict(zip(self.languages, counted, strict=True))

    def take(self, rows: NDArray[np.integer[Any]]) -> AlignedPairs:
        """Return some of the pairs, in the order given; languages and origins keep their places."""
        places = rows.tolist()
        return replace(
            self,
            sources=[self.sources[row] for row in places],
            translations=[self.translations[row] for row in places],
            language=self.language[rows],
            concepts=self.concepts[rows],
            origin=self.origin[rows],
        )

    def rows(self) -> Iterator[Row]:
        """Yield source, translation, language, concept and origin of each pair."""
        spoken = (self.languages[place] for place in self.language.tolist())
        origins = (self.origins[place] for place in self.origin.tolist())
        return zip(self.sources, self.translations, spoken, self.concepts.tolist(), origins, strict=True)


class Collected:
    """Takes pairs one by one, says what is wrong with each that it refuses, and counts them."""

    def __init__(self, source: str = "en", *, exclude: frozenset[str] = frozenset()) -> None:
        self.counts: Counter[str] = Counter()
        self._source, self._exclude = source, exclude
        self._rows: list[Row] = []
        self._seen: set[tuple[str, str, str]] = set()

    def add(
        self,
        source: str,
        translation: str,
        language: str,
        *,
        origin: str,
        concept: int = -1,
        others: frozenset[str] = frozenset(),
    ) -> str | None:
        """Take a pair, or return why not."""
        cleaned = clean(source), clean(translation)
        key = (*cleaned, language)
        problem = _problem(*cleaned, language)
        if problem is None and not can_be(source, self._source):
            problem = SOURCE_SCRIPT
        elif problem is None and not can_be(translation, language):
            problem = SCRIPT
        elif problem is None and not self._exclude.isdisjoint(cleaned):
            problem = HELD_OUT
        elif problem is None and cleaned[1] in others:
            problem = SOURCE_NAME
        if problem is None and not self._take((*key, concept, origin)):
            problem = DUPLICATE
        if problem is not None:
            self.counts[problem] += 1
        return problem

    def add_checked(self, pairs: AlignedPairs) -> None:
        """Take pairs that were collected before, and what was counted then; only duplicates are looked for."""
        self.counts.update(pairs.counts)
        self.counts.update(DUPLICATE for row in pairs.rows() if not self._take(row))

    def _take(self, row: Row) -> bool:
        if row[:3] in self._seen:
            return False
        self._seen.add(row[:3])
        self._rows.append(row)
        return True

    def pairs(self) -> AlignedPairs:
        """Return what was taken, in the order in which it came."""
        spoken = sorted({row[2] for row in self._rows})
        origins = list(dict.fromkeys(row[4] for row in self._rows))
        tag_place = {tag: place for place, tag in enumerate(spoken)}
        origin_place = {name: place for place, name in enumerate(origins)}
        return AlignedPairs(
            [row[0] for row in self._rows],
            [row[1] for row in self._rows],
            spoken,
            np.array([tag_place[row[2]] for row in self._rows], np.int32),
            np.array([row[3] for row in self._rows], np.int32),
            origins,
            np.array([origin_place[row[4]] for row in self._rows], np.int32),
            {problem: count for problem, count in sorted(self.counts.items()) if count},
        )


def _problem(source: str, translation: str, language: str) -> str | None:
    """Return what is wrong with a pair of cleaned strings by itself."""
    if not source or not translation:
        return EMPTY
    if max(len(source), len(translation)) > MAX_CHARACTERS:
        return TOO_LONG
    if language in NO_LANGUAGE:
        return NO_TAG
    return EQUAL if source == translation else None


def joined(parts: Iterable[AlignedPairs]) -> AlignedPairs:
    """Return the pairs of several sources together; of equal pairs the first stays, and all counts are added up."""
    collected = Collected()
    for part in parts:
        collected.add_checked(part)
    return collected.pairs()
