"""What makes a near answer one for review: denials, "normal", several names, short forms of several things."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.answer.vetoes import OF_VALUES, Candidates, vetoes_of
from alphita.mention.assertion import AMBIGUOUS, DENIED, SEVERAL, WELL
from alphita.mention.spelling import ABBREVIATION, SPELLING, Reading

NAMES = ["fever", "cough", "abnormal heart sound", "normal pressure hydrocephalus", "paroxysmal dyspnea", "pnd"]
NAMES += ["cough and fever"]


class Named:
    """An index whose names are `NAMES`, each of one concept; terms below 1 are written in capitals."""

    def rows(self, strings):
        return np.array([NAMES.index(one) if one in NAMES else -1 for one in strings], np.int64)

    def concepts(self, string):
        return self.rows([string])

    def is_short_form(self, term):
        return term < 1

    def first_name(self, concept):
        return NAMES[concept]


def asked(mention, candidate, *, own=True, equal=False, readings=(), values=(), term=0, concept=0):
    """Return the reason, and whether it holds for a candidate of this name."""
    zero = np.zeros(1, np.int64)
    candidates = Candidates(
        zero,
        np.array([own]),
        np.array([equal]),
        np.zeros(1, bool),
        zero,
        [candidate],
        np.array([term]),
        np.array([concept]),
    )
    known = {(0, number): reading for number, reading in enumerate(readings, 1)}
    denies = np.array([mention.startswith(("no ", "denies "))])
    doubts = vetoes_of([mention], known, values, denies, candidates, Named())
    return doubts.reason[0], bool(doubts.vetoed[0])


@pytest.mark.parametrize(
    ("mention", "candidate", "expected"),
    [
        ("fever", "fever", ("", False)),
        ("no fever", "inappropriate absence of fever", (DENIED, True)),
        ("heart sounds normal", "abnormal heart sound", (WELL, True)),
        ("unremarkable heart sounds", "abnormal heart sound", (WELL, True)),
        ("normal-pressure hydrocephalus", "normal pressure hydrocephalus", (WELL, False)),
        ("abnormal heart sounds", "abnormal heart sound", ("", False)),
        ("fever with cough", "fever", (SEVERAL, True)),
        ("fever absent", "absence of fever", (DENIED, True)),
        ("thumbs absent", "absent thumb", ("", False)),
    ],
)
def test_phrases(mention, candidate, expected):
    assert asked(mention, candidate) == expected


def test_the_very_name_is_spared():
    assert asked("no periods", "no periods", equal=True) == (DENIED, False)
    assert asked("fever and cough", "fever and cough", equal=True) == (SEVERAL, False)


def short(long, share, *, decided=False):
    return Reading(long, ABBREVIATION, decided, share, "clinic")


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([short("paroxysmal dyspnea", 0.65), short("postnasal drip", 0.25)], (AMBIGUOUS, True)),
        ([short("paroxysmal dyspnea", 1.0)], ("", False)),
        ([short("paroxysmal dyspnea", 0.65, decided=True)], ("", False)),
        ([short("no known drug allergies", 1.0)], (DENIED, True)),
        ([Reading("paroxysmal dyspnea", SPELLING)], ("", False)),
    ],
)
def test_short_forms(readings, expected):
    """The candidate is equal to a reading, not to the mention itself."""
    assert asked("pnd", "paroxysmal dyspnea", own=False, equal=True, readings=readings) == expected


PAROXYSMAL = NAMES.index("paroxysmal dyspnea")


@pytest.mark.parametrize(
    ("readings", "term", "expected"),
    [
        # Of the concept that has it as a name, or seldom another: accepted.
        ([short("paroxysmal dyspnea", 0.65)], 0, ("", False)),
        ([short("paroxysmal dyspnea", 0.85), short("postnasal drip", 0.1)], 0, ("", False)),
        # The concept's own name in another order, or with another ending.
        ([short("dyspnoea, paroxysmal", 0.65)], 0, ("", False)),
        ([short("dyspneas paroxysmally", 0.65)], 0, ("", False)),
        # Often, or always, another: not, but where the text around decides, or a word is spelt so.
        ([short("paroxysmal dyspnea", 0.65), short("postnasal drip", 0.25)], 0, (AMBIGUOUS, True)),
        ([short("liver function tests", 1.0)], 0, (AMBIGUOUS, True)),
        ([short("postnasal drip", 1.0, decided=True)], 0, ("", False)),
        ([short("postnasal drip", 1.0)], 1, ("", False)),
    ],
)
def test_a_short_form_that_is_a_name_itself(readings, term, expected):
    found = asked("pnd", "pnd", equal=True, readings=readings, term=term, concept=PAROXYSMAL)
    assert found == expected


@pytest.mark.parametrize(
    ("mention", "readings", "expected"),
    [
        # Meant so by the terminology alone, and always otherwise in notes: in the plural and among words too.
        ("pnds", [Reading("paroxysmal dyspnea", ABBREVIATION), short("liver function tests", 1.0)], (AMBIGUOUS, True)),
        ("bad pnds", [Reading("bad paroxysmal dyspnea", ABBREVIATION), short("bad tests", 1.0)], (AMBIGUOUS, True)),
        ("bad pnds", [short("bad paroxysmal dyspnea", 0.5), short("bad tests", 0.5)], ("", False)),
        # The reading that gives it is seldom meant, whatever another one is.
        ("pnd", [Reading("genitourinary", ABBREVIATION), short("paroxysmal dyspnea", 0.2)], (AMBIGUOUS, True)),
    ],
)
def test_a_short_form_whose_reading_is_seldom_meant(mention, readings, expected):
    found = asked(mention, "paroxysmal dyspnea", own=False, equal=True, readings=readings, concept=PAROXYSMAL)
    assert found == expected


def test_what_is_near_to_a_short_form_or_to_a_reading_is_doubted_too():
    """Neither candidate is what the one reading says, which is seldom meant."""
    readings = [short("other thing", 0.2)]
    assert asked("pnd", "pnds", readings=readings, term=1, concept=0) == (AMBIGUOUS, True)
    assert asked("pnd", "some thing", own=False, readings=readings, term=1, concept=0) == (AMBIGUOUS, True)


def test_a_name_of_as_many_is_one_answer():
    concept = NAMES.index("cough and fever")
    assert asked("fever, cough", "cough, fever", concept=concept) == (SEVERAL, False)
    assert asked("fever, cough, pnd", "cough, fever", concept=concept) == (SEVERAL, True)


def test_a_longer_one_is_meant_so():
    assert asked("pndxy", "pndxy", equal=True, readings=[short("other", 1.0)]) == ("", False)


def test_a_short_form_among_words_is_no_case_of_this():
    assert asked("pnd at night", "paroxysmal dyspnea", readings=[short("paroxysmal dyspnea", 0.65)]) == ("", False)


@pytest.mark.parametrize("value", OF_VALUES)
def test_what_is_doubtful_about_a_value_holds_for_every_answer(value):
    assert asked("potassium 2", "fever", equal=True, values=[value]) == (value, True)
