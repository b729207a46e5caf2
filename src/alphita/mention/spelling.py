"""Other readings of a mention: misspelt words put right, idle words left out.

Encoders read "siezures" badly and "hx of" as part of the meaning.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Container, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from alphita import drafts
from alphita.index import ngrams
from alphita.mention.name_style import SHORTENED, SPELLING, Habits, Reading, habits_of, without_unspecified
from alphita.mention.word_pairs import is_form
from alphita.mention.words import NOTHING, count_words

_WORD = re.compile(r"[^\W_]+")
# Shorter words are not put right: too many others are as near.
SHORTEST = 4
# Beginnings that differ by a slip or two and mean the contrary.
OPPOSITES = (("hypo", "hyper"), ("micro", "macro"), ("ante", "anti"), ("inter", "intra"), ("endo", "exo"))
# Letters that may be wrong: one, and two in a word of this length.
TWO_SLIPS_FROM = 6
NEAREST = 48
MAX_CORRECTED = 500_000
# Two words as near: the one in more terms, and by this much of a slip for each power of e.
BY_COUNT = 0.05
TIMES = frozenset(["day", "days", "week", "weeks", "wks", "month", "months", "year", "years", "yr", "yrs"])
# Words of notes, in no term's meaning; left out at both ends only.
IDLE = TIMES.union(
    [
        "a",
        "an",
        "the",
        "of",
        "w/",
        "with",
        "and",
        "or",
        "in",
        "on",
        "to",
        "at",
        "for",
        "by",
        "x",
        "is",
        "was",
        "has",
        "had",
        "have",
        "hx",
        "h/o",
        "history",
        "s/p",
        "c/o",
        "dx",
        "pt",
        "pts",
        "patient",
        "patients",
        "complains",
        "complaining",
        "complaint",
        "presents",
        "presenting",
        "presented",
        "presentation",
        "known",
        "suspected",
        "probable",
        "possible",
        "likely",
        "susp",
        "query",
        "r/o",
        "rule",
        "out",
        "noted",
        "seen",
        "found",
        "new",
        "ongoing",
        "some",
        "since",
        "today",
        "yesterday",
        "exam",
        "examination",
        "confirmed",
        "unconfirmed",
        "diagnosis",
        "diagnosed",
        "icd",
        "icd9",
        "icd10",
        "snomed",
        "code",
        "reports",
        "reported",
        "reporting",
        "under",
        "due",
        "now",
        "still",
        "per",
        "report",
        "also",
    ]
)
# Behind a verb, at the end of what is said, these make it another.
PARTICLES = frozenset(["for", "in", "off", "on", "out", "to", "under"])
# A code at an end, as lists have it before or after the name: "r06.02", "786.05", "267036007"; B12 is a vitamin.
CODE = re.compile(r"(?!b12)[a-z]\d{2}(\.[0-9a-z]{1,4})?|\d{3}\.\d{1,2}|\d{5,}|[a-z]{1,5}:?\d{4,}")
# Left out at the beginning; either word alone may belong to a name ("status epilepticus", "post traumatic").
STATUS_POST = "status post "


class Speller:
    """Finds other readings of mentions, by the words of one index."""

    def __init__(
        self, strings: pa.LargeStringArray, others: Iterable[str] = (), dictionary: Container[str] = ()
    ) -> None:
        self._counts = count_words(strings)
        self.habits = habits_of(strings)
        self._others = frozenset(others)
        self._dictionary = dictionary
        self._words = [word for word in self._counts if _is_spelt(word) and len(word) >= SHORTEST - 1]
        self._ngrams: ngrams.Ngrams | None = None
        # Replaced, not emptied, when it is full: another thread may be reading it.
        self._corrected: dict[str, str | None] = {}
        self._making = threading.Lock()

    def readings(
        self, cleaned: Sequence[str], without: Sequence[Mapping[str, int]] | None = None
    ) -> list[tuple[Reading, ...]]:
        """Return the other readings of each cleaned string, at most three."""
        if without is not None:
            return self._readings_without(cleaned, without)
        # A bounded memory: words come again within a file, but not for ever.
        if len(self._corrected) > MAX_CORRECTED:
            self._corrected = {}
        corrected = self._corrected
        unknown = {
            word
            for string in cleaned
            for word in _WORD.findall(string)
            if word not in self._counts
            and word not in self._others
            and word not in corrected
            and _may_be_put_right(word)
        }
        if unknown:
            words = sorted(unknown)
            corrected.update(zip(words, self._nearest(words), strict=True))
        return [_readings(string, corrected, self.habits, self._counts) for string in cleaned]

    def _readings_without(
        self, cleaned: Sequence[str], without: Sequence[Mapping[str, int]]
    ) -> list[tuple[Reading, ...]]:
        # What is put right depends on what is not there, so nothing is remembered.
        unknown = [
            (place, word)
            for place, string in enumerate(cleaned)
            for word in dict.fromkeys(_WORD.findall(string))
            if word not in self._others
            and self._counts.get(word, 0) <= without[place].get(word, 0)
            and _may_be_put_right(word)
        ]
        nearest = self._nearest([word for _, word in unknown], [without[place] for place, _ in unknown])
        corrected: list[dict[str, str | None]] = [{} for _ in cleaned]
        for (place, word), right in zip(unknown, nearest, strict=True):
            corrected[place][word] = right
        return [
            _readings(string, some, self.habits, self._counts) for string, some in zip(cleaned, corrected, strict=True)
        ]

    def _nearest(self, words: Sequence[str], without: Sequence[Mapping[str, int]] | None = None) -> list[str | None]:
        """Return the word of the terminology that each was meant to be; None where none is near."""
        from rapidfuzz.distance import OSA

        if not self._words or not words:
            return [None] * len(words)
        with self._making:
            if self._ngrams is None:
                with drafts.scratch() as folder:
                    ngrams.build(self._words, folder / "words")
                    self._ngrams = ngrams.Ngrams.open(folder / "words")
        _, rows = self._ngrams.search(self._ngrams.vectorize(words), min(NEAREST, len(self._words)))
        found: list[str | None] = []
        for place, (word, some) in enumerate(zip(words, rows.tolist(), strict=True)):
            allowed = 2 if len(word) >= TWO_SLIPS_FROM else 1
            away = without[place] if without is not None else NOTHING
            best: tuple[float, str] | None = None
            for row in some:
                if row < 0:
                    break
                other = self._words[row]
                count = self._counts[other] - away.get(other, 0)
                if count <= 0:
                    continue
                slips = OSA.distance(word, other, score_cutoff=allowed)
                if slips > allowed or opposite(word, other):
                    continue
                if word in self._dictionary and not is_form(word, other):
                    continue
                # A wrong first letter is rare.
                cost = slips + 0.5 * (word[0] != other[0]) - BY_COUNT * float(np.log(count))
                if best is None or (cost, other) < best:
                    best = (cost, other)
            found.append(None if best is None else best[1])
        return found


def _readings(
    string: str, corrected: Mapping[str, str | None], habits: Habits, known: Container[str]
) -> tuple[Reading, ...]:
    found: list[Reading] = []
    right = _WORD.sub(lambda word: corrected.get(word[0]) or word[0], string)
    if right != string:
        found.append(Reading(right, SPELLING))
    short = shortened(right)
    if not habits.residual:
        short = shortened(without_unspecified(short))
    if short not in (right, string, ""):
        found.append(Reading(short, SHORTENED))
    # Few names have a side: "ptosis of the left eyelid", "weakness on the right".
    if (whole := habits.without_side(short, known)) is not None:
        *most, last = whole.split() or [""]
        whole = shortened(" ".join(most) if last in PARTICLES else whole)
        found += [Reading(whole, SHORTENED)] if whole else []
    return tuple(found)


def _may_be_put_right(word: str) -> bool:
    return len(word) >= SHORTEST and word not in IDLE and _is_spelt(word)


def _is_spelt(word: str) -> bool:
    """Return whether a word is all letters that have cases."""
    return all(sign.lower() != sign.upper() for sign in word)


def opposite(word: str, other: str) -> bool:
    """Return whether two words begin with what makes them each other's contrary, as hypo- and hyper-."""
    return any(
        (word.startswith(one) and other.startswith(two)) or (word.startswith(two) and other.startswith(one))
        for one, two in OPPOSITES
    )


def shortened(string: str) -> str:
    """Return a cleaned string without idle words and codes at its ends; "" if nothing else is left."""
    words = string.removeprefix(STATUS_POST).split()
    start, end = 0, len(words)
    while start < end and _is_idle(words, start, first=True):
        start += 1
    # "Falling out" is no fall.
    while end > start and not (end == len(words) and words[-1] in PARTICLES) and _is_idle(words, end - 1, first=False):
        end -= 1
    return " ".join(words[start:end]).strip("|")


def _is_idle(words: Sequence[str], place: int, *, first: bool) -> bool:
    word = words[place].strip("().,;:?!")
    following = words[place + 1] if place + 1 < len(words) else ""
    if not any(sign.isalnum() for sign in word):
        return first or not set(word) & set("+-")
    if CODE.fullmatch(word):
        return True
    if not any(sign.isalpha() for sign in word):
        return following in TIMES
    if word == "x":
        return following[:1].isdigit()
    if word == "a":
        return first or following in TIMES
    return word in IDLE
