"""The counts of mentions made to be answered wrongly."""

from __future__ import annotations

import pytest

import adversarial


@pytest.mark.parametrize(
    ("right", "concept", "decision", "expected"),
    [
        ("HP:1|HP:2", "HP:2", "accept", (True, False)),
        ("HP:1", "HP:2", "accept", (False, True)),
        ("HP:1", "HP:2", "review", (False, False)),
        ("NIL", None, "nil", (True, False)),
        ("HP:1", None, "nil", (False, False)),
        ("?", "HP:2", "accept", (False, True)),
        ("HP:1+HP:2", "HP:1", "accept", (False, True)),
    ],
)
def test_judging(right, concept, decision, expected):
    assert adversarial.judge(right, concept, decision) == expected


@pytest.mark.parametrize(
    ("right", "candidates", "answer", "expected"),
    [
        ("HP:1", ["HP:1", "HP:2"], "HP:1", (True, True, True, False, False)),
        ("HP:1", ["HP:1", "HP:2"], None, (True, True, True, True, True)),
        ("HP:2", ["HP:1", "HP:2"], None, (True, False, True, False, True)),
        ("HP:3", ["HP:1", "HP:2"], None, (True, False, False, False, False)),
        ("HP:1", [], None, (True, False, False, False, False)),
        ("NIL", ["HP:1"], None, (False, False, False, False, False)),
        ("HP:1+HP:2", ["HP:1"], None, (False, False, False, False, False)),
    ],
)
def test_what_nil_costs(right, candidates, answer, expected):
    assert tuple(adversarial._of_candidates(right, candidates, answer).values()) == expected


def test_a_former_report_stands_beside():
    names = dict.fromkeys(adversarial.COLUMNS, 0)
    now = {"counts": {"lab": {**names, "accepted": 3}}, "accepted_wrong": []}
    before = {"counts": {"lab": {"accepted": 5, "accepted_wrong": 2}}}
    assert "| lab | 5 → 3 | 2 → 0 |" in adversarial.table(now, "", before)
    assert "→" not in adversarial.table(now, "")
