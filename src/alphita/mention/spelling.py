"""Other readings of a mention: misspellings corrected, note words left out, and the terminology's way of writing names.

Encoders read "siezures" badly and "hx of" as part of the meaning.
"""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections import ChainMap
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from alphita import drafts
from alphita.index import ngrams
from alphita.mention import axes
from alphita.mention.axes import Habits
from alphita.mention.words import NOTHING
from alphita.terminology.rules import lexicon

# The sources of readings.
SPELLING, SHORTENED, UNSPECIFIED, ABBREVIATION = "spelling", "shortened", "unspecified", "abbreviation"
# Origins of readings: what agrees with all of an order, what is broader than it, and the ingredients of a brand.
ORDERED, BROADER, OF_BRAND = "order", "broader than the order", "ingredient of the brand"
# Why an order is not accepted.
NOT_ALONE = "order: nothing alone says the same"
UNILATERAL = "unilateral "
_ROMAN = [
    "i",
    "ii",
    "iii",
    "iv",
    "v",
    "vi",
    "vii",
    "viii",
    "ix",
    "x",
    "xi",
    "xii",
    "xiii",
    "xiv",
    "xv",
    "xvi",
    "xvii",
    "xviii",
    "xix",
    "xx",
]
NUMERALS = {
    one: other for number, roman in enumerate(_ROMAN, 1) for one, other in ((str(number), roman), (roman, str(number)))
}
_NUMERAL = re.compile(r"(?<![^\W_])(\d{1,2}|[ivx]{1,5})(?=[a-e]?(?![^\W_]))")


class Reading(NamedTuple):
    """Another reading of a mention.

    Attributes:
        source: SPELLING, SHORTENED or UNSPECIFIED; ABBREVIATION for an expansion.
        share: how often an expansion is the meaning, 0 to 1.
    """

    string: str
    source: str
    decided: bool = False
    share: float = 1.0
    origin: str = ""


def written_otherwise(string: str, habits: Habits) -> list[tuple[str, str]]:
    """Return possible spellings of a cleaned string in terms, each with the source of the reading."""
    found = [
        (string[: one.start()] + NUMERALS[one[0]] + string[one.end() :], SPELLING)
        for one in _NUMERAL.finditer(string)
        if one[0] in NUMERALS
    ]
    if habits.residual:
        name = axes.without_unspecified(string)
        found += [(other, UNSPECIFIED) for other in (*habits.plain.get(name, ()), name) if other not in (string, "")]
    if not habits.products:
        products = {axes.without_product(string), axes.without_dose(string)} - {string, ""}
        names = dict.fromkeys(name for product in sorted(products) for name in (product, axes.without_salt(product)))
        found += [(name, SHORTENED) for name in names]
    if (whole := habits.without_side(string)) is not None:
        found.append((UNILATERAL + whole, SHORTENED))
    if (bare := _BRACKETED.sub("", string)) != string:
        found.append((bare, SHORTENED))
    return found


# What a name has behind it: "heart attack (MI)".
_BRACKETED = re.compile(r"(?<=\w) ?[(\[][^()\[\]]*[)\]]$")
_WORD = re.compile(r"[^\W_]+")
# Shorter words are not corrected: too many others are equally similar.
SHORTEST = 4
# Prefixes that differ by one or two letters and mean the opposite.
OPPOSITES = (("hypo", "hyper"), ("micro", "macro"), ("ante", "anti"), ("inter", "intra"), ("endo", "exo"))
# In running text, where every name and every foreign word is unknown, these are longer.
SHORTEST_IN_TEXT = 5
# One letter can be wrong, and two in words of this length.
TWO_SLIPS_FROM = 6
NEAREST = 48
MAX_CORRECTED = 500_000
# Of two similar words, prefer the one in more terms: each factor of e counts as this share of an error.
BY_COUNT = 0.05
# Note words that do not belong to the meaning; left out at both ends only. A particle after a verb changes it.
TIMES, PARTICLES = lexicon.word_set("time"), lexicon.word_set("particle")
IDLE = TIMES | lexicon.word_set("idle")
# A code before or after the name, as in many lists: "r06.02", "786.05", "267036007"; B12 is a vitamin.
CODE = re.compile(r"(?!b12)[a-z]\d{2}(\.[0-9a-z]{1,4})?|\d{3}\.\d{1,2}|\d{5,}|[a-z]{1,5}:?\d{4,}")
# Left out at the beginning; each word alone can belong to a name ("status epilepticus", "post traumatic").
STATUS_POST = "status post "


# Endings that forms of one word have, and the shortest stem before them.
_ENDINGS = tuple(
    frozenset(endings.split("|"))
    for endings in (
        *("|s|es|ed|ing|ings|y|ly|ness", "e|es|ed|ing|ings|y|ely", "y|ies|ied|iness|ily"),
        *("ia|ic|ics|iac|iacs|ial|ical|y|ies|ias|ous", "a|al|ae|as|ic|atous|atic|ata|tic|tous", "um|a|al"),
        *("osis|otic|oses", "itis|itic|ides", "us|i|al|ic", "is|es|ic", "|al|ic|ous|ity|ty|tic|ally", "e|ous|al|ic"),
        *("ence|ent|ency|ences", "ance|ant|ancy|ances", "ation|ate|ated|ating|ations|ates", "ion|ions|ed|e"),
    )
)
SHORTEST_STEM = 3
# One mention is asked for several times.
REMEMBERED = 2_048


class Speller:
    """Finds other readings of mentions, with the words of one index."""

    def __init__(
        self,
        counts: Mapping[str, int],
        habits: Habits,
        others: Container[str] = (),
        dictionary: Container[str] = (),
        elsewhere: Container[str] = (),
    ) -> None:
        """Keep the words.

        Args:
            counts: the number of the index's strings in which each word occurs.
            habits: what the index's terminology tells apart.
            others: words that are right though the index lacks them.
            dictionary: words of the language, which may stand for others.
            elsewhere: words of other vocabularies.
        """
        self._counts, self.habits = counts, habits
        self._others, self._dictionary, self._elsewhere = others, dictionary, elsewhere
        self._ngrams: ngrams.Ngrams | None = None
        # Replaced, not cleared, when it is full: another thread may be reading it.
        self._corrected: dict[str, str | None] = {}
        self._making = threading.Lock()

    @functools.cached_property
    def _words(self) -> list[str]:
        return [word for word in self._counts if len(word) >= SHORTEST - 1 and _is_spelt(word)]

    def readings(
        self,
        cleaned: Sequence[str],
        without: Sequence[Mapping[str, int]] | None = None,
        right: Sequence[Iterable[str]] | None = None,
    ) -> list[tuple[Reading, ...]]:
        """Return the other readings of each cleaned string, at most three; the words `right` are no mistakes."""
        if without is not None:
            return self._readings_without(cleaned, without)
        # A bounded cache: words repeat within a file.
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
        known: Sequence[Iterable[str]] = right or [()] * len(cleaned)
        return [
            _readings(string, ChainMap(dict.fromkeys(own), corrected) if own else corrected, self.habits, self._counts)
            for string, own in zip(cleaned, known, strict=True)
        ]

    def of_words(self, cleaned: Sequence[str]) -> list[tuple[int, str]]:
        """Return strings of several words, by their rows, in which other words stand for correct ones: "hart attack".

        They are readings only if the index has them.
        """
        odd = {
            row: [
                word
                for word in words
                if len(word) >= SHORTEST and word not in self._counts and word in self._dictionary
            ]
            for row, words in enumerate(map(_WORD.findall, cleaned))
            if len(words) > 1
        }
        words = sorted({word for some in odd.values() for word in some})
        nearest = dict(zip(words, self._nearest(words, is_misspelt=True), strict=True))
        return [
            (row, _WORD.sub(lambda word: nearest.get(word[0]) or word[0], cleaned[row]))
            for row, some in odd.items()
            if some
        ]

    def misspelt(self, words: Iterable[str]) -> dict[str, str]:
        """Return the terminology's word for each word of a text that is no word of a language but a slip from one."""
        known = (self._counts, self._others, self._dictionary, self._elsewhere)
        odd = sorted(
            {word for word in words if len(word) >= SHORTEST_IN_TEXT and not any(word in some for some in known)}
        )
        odd = [word for word in odd if _may_be_put_right(word)]
        nearest = zip(odd, self._nearest(odd), strict=True)
        return {word: other for word, other in nearest if other is not None}

    def _readings_without(
        self, cleaned: Sequence[str], without: Sequence[Mapping[str, int]]
    ) -> list[tuple[Reading, ...]]:
        # The correction depends on hidden strings, so nothing is cached.
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

    def _nearest(
        self, words: Sequence[str], without: Sequence[Mapping[str, int]] | None = None, *, is_misspelt: bool = False
    ) -> list[str | None]:
        """Return the terminology's word that each word is a misspelling of; None if no word is similar.

        Args:
            is_misspelt: even if it is a word of the dictionary.
        """
        from rapidfuzz.distance import OSA

        if not words or not self._words:
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
            # "Lantus" is no misspelling of "Lanvis", even in a list without insulins.
            is_word = not is_misspelt and (word in self._dictionary or word in self._elsewhere)
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
                if is_word and not is_form(word, other):
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
    if (own := with_own_status(right, habits)) is not None:
        return (*found, *([Reading(own, UNSPECIFIED)] if own != right else []))
    short = shortened(axes.without_status(right) if axes.status_of(right) == axes.PAST else right)
    if not habits.residual:
        short = shortened(axes.without_unspecified(short))
    if not habits.products:
        short = shortened(axes.without_product(short)) or short
    if short not in (right, string, ""):
        found.append(Reading(short, SHORTENED))
    # Only few names contain a side: "ptosis of the left eyelid", "weakness on the right".
    if (whole := habits.without_side(short, known)) is not None:
        *most, last = whole.split() or [""]
        whole = shortened(" ".join(most) if last in PARTICLES else whole)
        found += [Reading(whole, SHORTENED)] if whole else []
    return tuple(found)


def with_own_status(string: str, habits: Habits) -> str | None:
    """Return a cleaned string with the terminology's words for what is past or a relative's, if it tells it apart."""
    status = axes.status_of(string)
    if not habits.tells(status):
        return None
    return f"{habits.status[status & -status]} {shortened(axes.without_status(string))}"


def _may_be_put_right(word: str) -> bool:
    return len(word) >= SHORTEST and word not in IDLE and _is_spelt(word)


def _is_spelt(word: str) -> bool:
    """Return whether a word consists only of letters that have a case."""
    return all(sign.lower() != sign.upper() for sign in word)


def is_form(word: str, other: str) -> bool:
    """Tell whether two words are forms of one, by their endings: "wobble" and "wobbly", not "chore" and "chorea"."""
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    return any(
        any(word[stem:] in endings and other[stem:] in endings for endings in _ENDINGS)
        for stem in range(shared, SHORTEST_STEM - 1, -1)
    )


def opposite(word: str, other: str) -> bool:
    """Return whether two words have prefixes with opposite meanings, such as hypo- and hyper-."""
    return any(
        (word.startswith(one) and other.startswith(two)) or (word.startswith(two) and other.startswith(one))
        for one, two in OPPOSITES
    )


@functools.lru_cache(maxsize=REMEMBERED)
def shortened(string: str) -> str:
    """Return a cleaned string without note words and codes at its ends; "" if nothing is left."""
    words = string.removeprefix(STATUS_POST).split()
    start, end = 0, len(words)
    while start < end and _is_idle(words, start, first=True):
        start += 1
    # "Falling out" is not a fall.
    while end > start and not (end == len(words) and words[-1] in PARTICLES) and _is_idle(words, end - 1, first=False):
        end -= 1
    return " ".join(words[start:end]).strip("|")


def _is_idle(words: Sequence[str], place: int, *, first: bool) -> bool:
    word = words[place].strip("().,;:?!")
    if word.isalpha() and word not in ("a", "x"):
        return word in IDLE
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
