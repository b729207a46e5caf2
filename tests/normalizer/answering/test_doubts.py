"""What makes a near answer one for review: denials, "normal", several names, short forms of several things."""

from __future__ import annotations

import numpy as np
import pytest

from alphita.normalizer.answering.doubts import OF_VALUES, Candidates, doubts_of
from alphita.normalizer.answering.said import AMBIGUOUS, DENIED, SEVERAL, WELL
from alphita.normalizer.answering.spelling import ABBREVIATION, SPELLING, Reading

NAMES = ["fever", "cough", "abnormal heart sound", "normal pressure hydrocephalus", "paroxysmal dyspnea", "pnd"]


def rows(strings):
    return np.array([NAMES.index(one) if one in NAMES else -1 for one in strings], np.int64)


def asked(mention, candidate, *, own=True, equal=False, readings=(), values=()):
    """Return the reason, and whether it holds for a candidate of this name."""
    candidates = Candidates(
        np.zeros(1, np.int64), np.array([own]), np.array([equal]), np.zeros(1, bool), np.zeros(1, np.int64), [candidate]
    )
    known = {(0, number): reading for number, reading in enumerate(readings, 1)}
    denies = np.array([mention.startswith(("no ", "denies "))])
    doubts = doubts_of([mention], known, values, denies, candidates, rows)
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


def test_a_short_form_that_is_a_name_itself_is_spared():
    readings = [short("paroxysmal dyspnea", 0.65)]
    assert asked("pnd", "pnd", own=True, equal=True, readings=readings) == (AMBIGUOUS, False)


def test_a_short_form_among_words_is_no_case_of_this():
    assert asked("pnd at night", "paroxysmal dyspnea", readings=[short("paroxysmal dyspnea", 0.65)]) == ("", False)


@pytest.mark.parametrize("value", OF_VALUES)
def test_what_is_doubtful_about_a_value_holds_for_every_answer(value):
    assert asked("potassium 2", "fever", equal=True, values=[value]) == (value, True)
