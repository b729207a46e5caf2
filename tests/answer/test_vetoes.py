"""What makes a near answer one for review: denials, "normal", several names, short forms of several things."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from alphita import textio
from alphita.answer.vetoes import CLINIC, vetoes_of
from alphita.mention import assertion
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


def reading(written: str) -> Reading:
    """Read "long=0.5!": a share of 0.5 in notes, decided by the text around; alone, an abbreviation of the index."""
    long, _, how = written.partition("=")
    if how == SPELLING:
        return Reading(long, SPELLING)
    clinic = (how.endswith("!"), float(how.strip("!")), CLINIC) if how else ()
    return Reading(long, ABBREVIATION, *clinic)


@pytest.mark.parametrize("row", textio.packaged(__package__, "vetoes.tsv"), ids=lambda row: row["mention"])
def test_vetoes(row):
    """Of the mention's own name, or of a candidate that is equal to another reading, by what its short form means."""
    how: dict[str, object] = {}
    for one in filter(None, row["how"].split("; ")):
        name, _, value = one.partition(" ")
        how |= {"equal": {"equal": True}, "other": {"own": False}}.get(name) or {
            name: getattr(assertion, value) if name == "value" else int(value)
        }
    readings = [reading(one) for one in filter(None, row["readings"].split("; "))]
    reason = getattr(assertion, row["reason"]) if row["reason"] else ""
    assert vetoed(row["mention"], row["candidate"], readings=readings, **how) == (reason, row["holds"] == "yes")
