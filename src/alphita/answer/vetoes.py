"""Vetoes: candidates that must not be accepted without review, however similar they are.

The mention denies them ("no fever"), states a normal result ("heart sounds normal"), names several concepts, or is a
short form with several meanings ("PND"), or for a denial ("NKDA", no known drug allergies).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from alphita.answer.assigned import SIDES, sides_of
from alphita.answer.candidates import CandidateTable
from alphita.index.segment import Segment
from alphita.mention.assertion import AMBIGUOUS, DENIED, ONE_SIDE, SEVERAL, WELL, is_well, parts_of
from alphita.mention.reader import SHORT_CAPITALS, Mention
from alphita.mention.spelling import ABBREVIATION, NUMERALS, Reading
from alphita.terminology.rules import sets
from alphita.terminology.rules.lexicon import REMEMBERED
from alphita.terminology.text import clean, plain_words

# From this share on, a short form nearly always has this meaning.
SURE_SHARE = 0.95
# Share from which a meaning is frequent. Letters of a short form that is also a name, and can be ambiguous.
OTHERWISE_SHARE = 0.25
SHORT_LETTERS = 4
ROOT_LETTERS = 4
# The source of readings with a counted share.
CLINIC = "clinic"


class Names:
    """The names of an index on which vetoes depend."""

    def __init__(self, segment: Segment, assigned: NDArray[np.int64] | None = None) -> None:
        self.segment, self.assigned = segment, assigned
        self._strings, self._names = segment.terms.column("string"), segment.concepts.column("name")

    def concepts(self, string: str) -> NDArray[np.integer]:
        """Return the concepts that a cleaned string names."""
        row, segment = int(self.segment.strings.rows([string])[0]), self.segment
        none = np.zeros(0, np.int64)
        named = segment.term_concept[segment.offsets[row] : segment.offsets[row + 1]] if row >= 0 else none
        return named if self.assigned is None else self.assigned[named]

    def first_name(self, concept: int) -> str:
        """Return the preferred name of a concept."""
        return self._names[concept].as_py() or ""

    def is_short_form(self, term: int) -> bool:
        """Tell whether a term is written as a short form, in capitals."""
        written = self._strings[term].as_py()
        return len(written) <= SHORT_CAPITALS and sum(sign.isupper() for sign in written) > 1


def vetoes_of(
    mentions: Sequence[Mention],
    table: CandidateTable,
    texts: NDArray[np.object_],
    *,
    is_own: NDArray[np.bool_],
    is_equal: NDArray[np.bool_],
    has_same_words: NDArray[np.bool_],
    names: Names,
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return which candidates are vetoed, and the reason for each mention; an exact name of the mention is exempt.

    Args:
        texts: (c,) the string of each candidate.
        is_own: (c,) found by the mention's own string, not by another reading.
        is_equal: (c,) equal to the string that found them.
        has_same_words: (c,) with the same words as the string that found them.
    """
    reasons = [mention.doubt for mention in mentions]
    strings = [mention.string for mention in mentions]
    short = {
        row: [reading for reading in mention.readings if reading.source == ABBREVIATION]
        for row, mention in enumerate(mentions)
    }
    reason = np.array(reasons, object)[table.request]
    denied, well, several = (reason == kind for kind in (DENIED, WELL, SEVERAL))
    # The other reasons are about values, and about mentions without a finding.
    vetoed = (reason != "") & ~denied & ~well & ~several
    vetoed |= denied & ~is_equal
    for row in np.flatnonzero(several & ~is_equal & ~has_same_words).tolist():
        name = clean(names.first_name(int(table.concept[row])))
        vetoed[row] = len(parts_of(name)) < len(parts_of(strings[int(table.request[row])]))
    for row in np.flatnonzero(well & ~is_equal).tolist():
        vetoed[row] = not is_well(texts[row])
    is_short = np.array([bool(short[row]) for row in range(len(mentions))], bool)[table.request]
    single = np.array([" " not in string for string in strings], bool)[table.request]
    vetoed |= denied & single & is_short & ~(is_equal & is_own)
    for row in np.flatnonzero(is_short & (single | is_equal | ~is_own)).tolist():
        request = int(table.request[row])
        if reasons[request] not in ("", AMBIGUOUS):
            continue
        is_name = bool(is_equal[row] and is_own[row])
        if is_name and (len(strings[request]) > SHORT_LETTERS or not names.is_short_form(int(table.term[row]))):
            continue
        if _means_another(strings[request], short[request], texts[row], int(table.concept[row]), is_name, names):
            reasons[request], vetoed[row] = AMBIGUOUS, True
    for row in _without_said_side(mentions, table, names):
        vetoed[row] = True
        reasons[int(table.request[row])] = reasons[int(table.request[row])] or ONE_SIDE
    return vetoed, reasons


def _without_said_side(mentions: Sequence[Mention], table: CandidateTable, names: Names) -> Iterator[int]:
    """Yield the candidates that say no side, where the mention says one and a candidate of it says all that they do."""
    sides = sides_of(mentions)
    for request in np.flatnonzero(sides).tolist():
        said = SIDES[sides[request] - 1]
        rows = range(int(table.offsets[request]), int(table.offsets[request + 1]))
        called = {row: names.first_name(int(table.concept[row])) for row in rows}
        of_side = [_roots(name) for name in called.values() if _side(name) == said]
        for row, name in called.items() if of_side else ():
            roots = _roots(name)
            if roots and not _side(name) and any(roots <= other for other in of_side):
                yield row


@functools.lru_cache(maxsize=REMEMBERED)
def _side(name: str) -> int:
    """Return the sides that a name says, as bits."""
    return sets.side(clean(name))


def _means_another(
    mention: str, known: Sequence[Reading], text: str, concept: int, is_name: bool, names: Names
) -> bool:
    """Tell whether a mention's short form often has another meaning than the candidate, by its readings.

    Args:
        text: the candidate's string.
        is_name: whether it is the mention itself.
    """
    if any(reading.decided for reading in known):
        return False
    own = {_roots(names.first_name(concept)), _roots(text)}
    mine: list[Reading] = []
    others: list[Reading] = []
    for reading in known:
        roots = _roots(reading.string)
        is_like = any(some and (some <= roots or roots <= some) for some in own)
        (mine if is_like or concept in names.concepts(reading.string) else others).append(reading)
    share = sum(reading.share for reading in others if reading.origin == CLINIC)
    if " " in mention:
        return bool(mine) and share >= SURE_SHARE and all(reading.origin != CLINIC for reading in mine)
    if share >= OTHERWISE_SHARE:
        return True
    return not is_name and max(reading.share for reading in mine or known) < SURE_SHARE


@functools.lru_cache(maxsize=REMEMBERED)
def _roots(name: str) -> frozenset[str]:
    """Return the beginnings of a name's words, which "chronic lymphatic leukemia" and "lymphocytic" share."""
    words = (word if word.isdigit() else NUMERALS.get(word, word) for word in plain_words(clean(name)))
    return frozenset(word[:ROOT_LETTERS] for word in words)
