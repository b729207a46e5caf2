"""Why a mention's answer is not accepted unseen, however near it is.

It denies ("no fever"), says that all is well ("heart sounds normal"), names several concepts, or is a short form that
stands for several things ("PND"), or for a denial ("NKDA", no known drug allergies).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita.normalizer.answering import lexicon
from alphita.normalizer.answering.said import (
    AMBIGUOUS,
    DENIED,
    IN_RANGE,
    NO_NAME,
    NO_UNIT,
    OTHER_UNIT,
    SEVERAL,
    USUAL_RANGE,
    WELL,
)
from alphita.normalizer.answering.several import name_several
from alphita.normalizer.answering.spelling import ABBREVIATION, Reading
from alphita.normalizer.rules import negation, read
from alphita.terminology.text import clean, plain_words

# A short form without context is accepted where it is meant so at least this often.
SURE_SHARE = 0.95
# One that is a name itself is accepted unless it is meant otherwise at least this often. Letters of such a form.
OTHERWISE_SHARE = 0.25
SHORT_LETTERS = 4
ROOT_LETTERS = 4
# The origin of readings whose share is counted.
CLINIC = "clinic"
OF_VALUES = (NO_UNIT, IN_RANGE, NO_NAME, USUAL_RANGE, OTHER_UNIT)
KINDS = ("", DENIED, WELL, SEVERAL, AMBIGUOUS, *OF_VALUES)
_WELL = re.compile(rf"(?<![^\W_])(?:{lexicon.pattern('well')})(?![^\W_])")


class Doubts(NamedTuple):
    """The doubts of n mentions about c candidates.

    Attributes:
        reason: for each mention a text with a label, "" for none.
        vetoed: (c,) bool: the reason holds for the candidate.
    """

    reason: list[str]
    vetoed: NDArray[np.bool_]


class Names(Protocol):
    """What the doubts ask about the names of an index."""

    def rows(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """See `name_several`."""

    def concepts(self, string: str) -> NDArray[np.integer]:
        """Return the concepts that a cleaned string names."""

    def is_short_form(self, term: int) -> bool:
        """Tell whether a term is written as a short form."""

    def first_name(self, concept: int) -> str:
        """Return the preferred name of a concept."""


class Candidates(NamedTuple):
    """What the doubts look at, of c candidates.

    Attributes:
        request: (c,) their mentions.
        own: (c,) bool: found by the mention's own string, not by another reading.
        equal: (c,) bool: equal to what found them.
        same_words: (c,) bool: of the same words.
        text: (c,) row in `texts`.
        texts: the cleaned strings of terms.
        term: (c,) their terms.
        concept: (c,) their concepts.
    """

    request: NDArray[np.int64]
    own: NDArray[np.bool_]
    equal: NDArray[np.bool_]
    same_words: NDArray[np.bool_]
    text: NDArray[np.int64]
    texts: Sequence[str]
    term: NDArray[np.int64]
    concept: NDArray[np.int64]


def doubts_of(
    mentions: Sequence[str],
    readings: Mapping[tuple[int, int], Reading],
    values: Sequence[str],
    denies: NDArray[np.bool_],
    candidates: Candidates,
    names: Names,
) -> Doubts:
    """Return the doubts of some mentions; a candidate that has the mention's very name is spared.

    Args:
        mentions: n cleaned strings.
        readings: the other readings, by mention and number of the reading.
        values: (n,) what is doubtful about a value (`OF_VALUES`), "" for nothing; empty: there are none.
        denies: (n,) bool: there is a word of denial in it, wherever.
        candidates: see above.
        names: of the index.
    """
    several = name_several(mentions, names.rows)
    short: dict[int, list[Reading]] = {}
    for (request, _), reading in readings.items():
        if reading.source == ABBREVIATION:
            short.setdefault(request, []).append(reading)
    reason = [""] * len(mentions)
    for request, mention in enumerate(mentions):
        if values and values[request]:
            reason[request] = values[request]
        elif denies[request] and negation.begins_with_denial(read(mention)):
            reason[request] = DENIED
        elif _WELL.search(mention):
            reason[request] = WELL
        elif several[request]:
            reason[request] = SEVERAL
        elif " " not in mention and (known := short.get(request)):
            reason[request] = _of_short_form(known)
    kind = np.array([KINDS.index(each) for each in reason], np.int8)[candidates.request]
    denied, well, several_named, ambiguous = (kind == number for number in range(1, 5))
    vetoed = kind > KINDS.index(AMBIGUOUS)
    vetoed |= denied & ~candidates.equal
    vetoed |= several_named & ~candidates.equal & ~candidates.same_words
    for row in np.flatnonzero(well & ~candidates.equal).tolist():
        vetoed[row] = not _WELL.search(candidates.texts[int(candidates.text[row])])
    by_reading = np.isin(candidates.request, list(short)) & ~(candidates.equal & candidates.own)
    single = np.array([" " not in mention for mention in mentions], bool)[candidates.request]
    vetoed |= (ambiguous | (denied & single)) & by_reading
    for row in np.flatnonzero(candidates.equal & candidates.own & np.isin(candidates.request, list(short))).tolist():
        request = int(candidates.request[row])
        is_open = reason[request] in ("", AMBIGUOUS) and len(mentions[request]) <= SHORT_LETTERS
        if is_open and _means_another(short[request], candidates, row, names):
            reason[request], vetoed[row] = AMBIGUOUS, True
    return Doubts(reason, vetoed)


def _means_another(known: Sequence[Reading], candidates: Candidates, row: int, names: Names) -> bool:
    """Tell whether the short form that a candidate has as a name is often meant otherwise."""
    if any(reading.decided for reading in known) or not names.is_short_form(int(candidates.term[row])):
        return False
    concept = int(candidates.concept[row])
    own = _roots(names.first_name(concept))
    others = (
        reading for reading in known if concept not in names.concepts(reading.string) and _roots(reading.string) != own
    )
    return sum(reading.share for reading in others if reading.origin == CLINIC) >= OTHERWISE_SHARE


def _roots(name: str) -> set[str]:
    """Return how the words of a name begin: alike for "chronic lymphatic leukemia" and "lymphocytic", in any order."""
    return {word[:ROOT_LETTERS] for word in plain_words(clean(name))}


def _of_short_form(known: Sequence[Reading]) -> str:
    """Return what is doubtful about a short form alone, of these readings; "" for nothing."""
    if any(reading.decided for reading in known):
        return ""
    if any(negation.begins_with_denial(read(reading.string)) for reading in known):
        return DENIED
    return AMBIGUOUS if max(reading.share for reading in known) < SURE_SHARE else ""
