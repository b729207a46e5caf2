"""Why a mention's answer is not accepted unseen, however near it is.

It denies ("no fever"), says that all is well ("heart sounds normal"), names several concepts, or is a short form that
stands for several things ("PND"), or for a denial ("NKDA", no known drug allergies).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from alphita.mention import cues, lexicon
from alphita.mention.assertion import (
    AMBIGUOUS,
    DENIED,
    IN_RANGE,
    NO_NAME,
    NO_UNIT,
    NOTHING,
    OTHER_UNIT,
    SEVERAL,
    USUAL_RANGE,
    WELL,
    name_several,
    parts_of,
)
from alphita.mention.name_style import ABBREVIATION, NUMERALS, Reading
from alphita.terminology.rules import negation, read
from alphita.terminology.text import clean, plain_words

# A short form is nearly always meant so where it is at least this often.
SURE_SHARE = 0.95
# Often: at least this. Letters of a short form that is a name itself and may be meant otherwise.
OTHERWISE_SHARE = 0.25
SHORT_LETTERS = 4
ROOT_LETTERS = 4
REMEMBERED = 4_096
# The origin of readings whose share is counted.
CLINIC = "clinic"
OF_VALUES = (NO_UNIT, IN_RANGE, NO_NAME, NOTHING, USUAL_RANGE, OTHER_UNIT)
KINDS = ("", DENIED, WELL, SEVERAL, AMBIGUOUS, *OF_VALUES)
_WELL = re.compile(rf"(?<![^\W_])(?:{lexicon.pattern('well')})(?![^\W_])")


class Vetoes(NamedTuple):
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


def vetoes_of(
    mentions: Sequence[str],
    readings: Mapping[tuple[int, int], Reading],
    values: Sequence[str],
    denies: NDArray[np.bool_],
    candidates: Candidates,
    names: Names,
) -> Vetoes:
    """Return the doubts of some mentions; a candidate that has the mention's very name is spared.

    Args:
        values: (n,) what is doubtful about a value (`OF_VALUES`), "" for nothing.
        denies: (n,) bool: there is a word of denial in it, wherever.
    """
    several = name_several(mentions, names.rows)
    short: dict[int, list[Reading]] = {}
    for (request, _), reading in readings.items():
        if reading.source == ABBREVIATION:
            short.setdefault(request, []).append(reading)
    reason = [""] * len(mentions)
    absent = _absent(mentions, names)
    for request, mention in enumerate(mentions):
        if values and values[request]:
            reason[request] = values[request]
        elif (denies[request] and negation.begins_with_denial(read(mention))) or request in absent:
            reason[request] = DENIED
        elif _WELL.search(mention):
            reason[request] = WELL
        elif several[request]:
            reason[request] = SEVERAL
        elif " " not in mention and any(
            negation.begins_with_denial(read(reading.string)) for reading in short.get(request, ())
        ):
            reason[request] = DENIED
    kind = np.array([KINDS.index(each) for each in reason], np.int8)[candidates.request]
    denied, well, several_named = (kind == KINDS.index(each) for each in (DENIED, WELL, SEVERAL))
    vetoed = kind >= KINDS.index(OF_VALUES[0])
    vetoed |= denied & ~candidates.equal
    for row in np.flatnonzero(several_named & ~candidates.equal & ~candidates.same_words).tolist():
        name = clean(names.first_name(int(candidates.concept[row])))
        vetoed[row] = len(parts_of(name)) < len(parts_of(mentions[int(candidates.request[row])]))
    for row in np.flatnonzero(well & ~candidates.equal).tolist():
        vetoed[row] = not _WELL.search(candidates.texts[int(candidates.text[row])])
    is_short = np.isin(candidates.request, list(short))
    single = np.array([" " not in mention for mention in mentions], bool)[candidates.request]
    vetoed |= denied & single & is_short & ~(candidates.equal & candidates.own)
    for row in np.flatnonzero(is_short & (single | candidates.equal | ~candidates.own)).tolist():
        request = int(candidates.request[row])
        if reason[request] in ("", AMBIGUOUS) and _means_another(
            mentions[request], short[request], candidates, row, names
        ):
            reason[request], vetoed[row] = AMBIGUOUS, True
    return Vetoes(reason, vetoed)


def _absent(mentions: Sequence[str], names: Names) -> set[int]:
    """Return which mentions are a name and say behind it that it is absent; "thumbs absent" is a finding itself."""
    said = {place: mention.rpartition(" ") for place, mention in enumerate(mentions) if mention.endswith(cues.ABSENCE)}
    parts = {place: part for place, (part, _, last) in said.items() if part and last in cues.ABSENCE}
    rows = names.rows(list(parts.values())) if parts else ()
    return {place for place, row in zip(parts, rows, strict=True) if row >= 0}


def _means_another(mention: str, known: Sequence[Reading], candidates: Candidates, row: int, names: Names) -> bool:
    """Tell whether a mention's short form is often meant otherwise than as a candidate, by its readings."""
    if any(reading.decided for reading in known):
        return False
    is_name = bool(candidates.equal[row] and candidates.own[row])
    if is_name and (len(mention) > SHORT_LETTERS or not names.is_short_form(int(candidates.term[row]))):
        return False
    concept = int(candidates.concept[row])
    own = {_roots(names.first_name(concept)), _roots(candidates.texts[int(candidates.text[row])])}
    mine: list[Reading] = []
    others: list[Reading] = []
    for reading in known:
        said = _roots(reading.string)
        is_like = any(some and (some <= said or said <= some) for some in own)
        is_mine = is_like or concept in names.concepts(reading.string)
        (mine if is_mine else others).append(reading)
    share = sum(reading.share for reading in others if reading.origin == CLINIC)
    if " " in mention:
        return bool(mine) and share >= SURE_SHARE and all(reading.origin != CLINIC for reading in mine)
    if share >= OTHERWISE_SHARE:
        return True
    return not is_name and max(reading.share for reading in mine or known) < SURE_SHARE


@functools.lru_cache(maxsize=REMEMBERED)
def _roots(name: str) -> frozenset[str]:
    """Return how the words of a name begin: alike for "chronic lymphatic leukemia" and "lymphocytic", in any order."""
    words = (word if word.isdigit() else NUMERALS.get(word, word) for word in plain_words(clean(name)))
    return frozenset(word[:ROOT_LETTERS] for word in words)
