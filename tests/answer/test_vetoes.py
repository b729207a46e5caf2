"""What makes a near answer one for review: denials, "normal", several names, short forms of several things."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alphita.answer.vetoes import vetoes_of
from alphita.mention.assertion import AMBIGUOUS, DENIED, NO_UNIT, SEVERAL, USUAL_RANGE, WELL
from alphita.mention.reader import Mention, MentionReader
from alphita.mention.spelling import ABBREVIATION, SPELLING, Reading

NAMES = ["fever", "cough", "abnormal heart sound", "normal pressure hydrocephalus", "paroxysmal dyspnea", "pnd"]
NAMES += ["cough and fever"]


class Named:
    """An index whose names are `NAMES`, each of one concept; terms below 1 are written in capitals."""

    def rows(self, strings):
        return np.array([NAMES.index(name) if name in NAMES else -1 for name in strings], np.int64)

    def concepts(self, string):
        return self.rows([string])

    def is_short_form(self, term):
        return term < 1

    def first_name(self, concept):
        return NAMES[concept]


INDEX = SimpleNamespace(segment=SimpleNamespace(strings=Named()))
PAROXYSMAL = NAMES.index("paroxysmal dyspnea")


def vetoed(mention, candidate, *, own=True, equal=False, readings=(), value="", term=0, concept=0):
    """Return the reason, and whether it holds for a candidate of this name."""
    (doubt,) = MentionReader(INDEX)._doubts([mention], [readings])
    read = Mention(mention, mention, None, False, tuple(readings), value or doubt, 0, None)
    table = SimpleNamespace(request=np.array([0]), term=np.array([term]), concept=np.array([concept]))
    found, (reason,) = vetoes_of(
        [read],
        table,
        np.array([candidate], object),
        is_own=np.array([own]),
        is_equal=np.array([equal]),
        has_same_words=np.zeros(1, bool),
        names=Named(),
    )
    return reason, bool(found[0])


def short(long, share, *, decided=False):
    return Reading(long, ABBREVIATION, decided, share, "clinic")


def known(long):
    return Reading(long, ABBREVIATION)


DYSPNEA = "paroxysmal dyspnea"
READ = {"own": False, "equal": True}
NAMED = {"equal": True, "concept": PAROXYSMAL}


@pytest.mark.parametrize(
    ("mention", "candidate", "how", "readings", "reason", "holds"),
    [
        ("fever", "fever", {}, [], "", False),
        ("no fever", "inappropriate absence of fever", {}, [], DENIED, True),
        ("heart sounds normal", "abnormal heart sound", {}, [], WELL, True),
        ("unremarkable heart sounds", "abnormal heart sound", {}, [], WELL, True),
        ("normal-pressure hydrocephalus", "normal pressure hydrocephalus", {}, [], WELL, False),
        ("abnormal heart sounds", "abnormal heart sound", {}, [], "", False),
        ("fever with cough", "fever", {}, [], SEVERAL, True),
        ("fever absent", "absence of fever", {}, [], DENIED, True),
        ("thumbs absent", "absent thumb", {}, [], "", False),
        # The very name is spared; a name of as many is one answer.
        ("no periods", "no periods", {"equal": True}, [], DENIED, False),
        ("fever and cough", "fever and cough", {"equal": True}, [], SEVERAL, False),
        ("fever, cough", "cough, fever", {"concept": 6}, [], SEVERAL, False),
        ("fever, cough, pnd", "cough, fever", {"concept": 6}, [], SEVERAL, True),
        # What is doubtful about a value holds for every answer.
        ("potassium 2", "fever", {"equal": True, "value": NO_UNIT}, [], NO_UNIT, True),
        ("potassium 2", "fever", {"equal": True, "value": USUAL_RANGE}, [], USUAL_RANGE, True),
        # The candidate is equal to a reading, not to the mention itself.
        ("pnd", DYSPNEA, READ, [short(DYSPNEA, 0.65), short("postnasal drip", 0.25)], AMBIGUOUS, True),
        ("pnd", DYSPNEA, READ, [short(DYSPNEA, 1.0)], "", False),
        ("pnd", DYSPNEA, READ, [short(DYSPNEA, 0.9)], AMBIGUOUS, True),
        ("pnd", DYSPNEA, READ, [short(DYSPNEA, 0.65, decided=True)], "", False),
        ("pnd", DYSPNEA, READ, [short("no known drug allergies", 1.0)], DENIED, True),
        ("pnd", DYSPNEA, READ, [Reading(DYSPNEA, SPELLING)], "", False),
        # A short form is a name itself, of the concept, or seldom of another: accepted.
        ("pnd", "pnd", NAMED, [short(DYSPNEA, 0.65)], "", False),
        ("pnd", "pnd", NAMED, [short(DYSPNEA, 0.85), short("postnasal drip", 0.1)], "", False),
        # The concept's own name in another order, or with another ending.
        ("pnd", "pnd", NAMED, [short("dyspnoea, paroxysmal", 0.65)], "", False),
        ("pnd", "pnd", NAMED, [short("dyspneas paroxysmally", 0.65)], "", False),
        # Often, or always, another: not, but where the text around decides, or a word is spelt so.
        ("pnd", "pnd", NAMED, [short(DYSPNEA, 0.65), short("postnasal drip", 0.25)], AMBIGUOUS, True),
        ("pnd", "pnd", NAMED, [short("liver function tests", 1.0)], AMBIGUOUS, True),
        ("pnd", "pnd", NAMED, [short("postnasal drip", 1.0, decided=True)], "", False),
        ("pnd", "pnd", NAMED | {"term": 1}, [short("postnasal drip", 1.0)], "", False),
        # Meant so by the terminology alone, and always otherwise in notes: in the plural and among words too.
        ("pnds", DYSPNEA, READ | NAMED, [known(DYSPNEA), short("liver function tests", 1.0)], AMBIGUOUS, True),
        ("bad pnds", DYSPNEA, READ | NAMED, [known(f"bad {DYSPNEA}"), short("bad tests", 1.0)], AMBIGUOUS, True),
        ("bad pnds", DYSPNEA, READ | NAMED, [short(f"bad {DYSPNEA}", 0.5), short("bad tests", 0.5)], "", False),
        # The reading that gives it is seldom meant, whatever another one is; nor what is near to it.
        ("pnd", DYSPNEA, READ | NAMED, [known("genitourinary"), short(DYSPNEA, 0.2)], AMBIGUOUS, True),
        ("pnd", "pnds", {"term": 1}, [short("other thing", 0.2)], AMBIGUOUS, True),
        ("pnd", "some thing", {"term": 1, "own": False}, [short("other thing", 0.2)], AMBIGUOUS, True),
        # A longer one is meant so; a short form among words is no case of this.
        ("pndxy", "pndxy", {"equal": True}, [short("other", 1.0)], "", False),
        ("pnd at night", DYSPNEA, {}, [short(DYSPNEA, 0.65)], "", False),
    ],
)
def test_vetoes(mention, candidate, how, readings, reason, holds):
    assert vetoed(mention, candidate, readings=readings, **how) == (reason, holds)
