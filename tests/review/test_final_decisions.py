"""What is settled, by code and by concept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alphita.review.memory import FinalMapping, FinalMappings
from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore
from tests.mappings.sample import mapping

# project, code, mention, the answer's concept
ROWS = [
    ("a", "1", "toe", "HP:1"),
    ("a", "", "heel", "HP:2|MP:2"),
    ("a", "heel", "sole", "HP:3"),
    ("b", "1", "arm", "HP:1"),
]


def row(code, mention, concept):
    answer = mapping(mention, concept, concept_name=f"name of {concept}")
    return ReviewRow(0, "", 1, code, mention, 1, {}, (answer,))


@pytest.fixture
def store(tmp_path):
    with ReviewStore.open(tmp_path / "r.sqlite", create=True) as opened:
        for name in ("a", "b"):
            opened.add_project(Project(name, name.upper(), "", "", "", "", ""))
            opened.add_rows(name, [row(*line[1:]) for line in ROWS if line[0] == name])
        yield opened


@pytest.fixture
def settled(store):
    found = FinalMappings(store.path)
    yield found
    found.close()


def decide(store, project, place, uid, kind="accept", concept=None, reviewer="ann", **fields):
    row = store.queue(project, order="row", state="all")[1][place].row
    if kind == "accept":
        concept = row.candidates[0].concept_id
    return store.decide(Decision(uid, project, row.id, reviewer, kind, concept, **fields))


def test_by_code(store, settled):
    assert settled.by_code("1") == []
    decide(store, "a", 0, "1", relation="broad")
    one = FinalMapping("a", "A", "1", "toe", "HP:1", "name of HP:1", "broad")
    assert settled.by_code("1") == [one]
    decide(store, "b", 0, "2", "choose", "HP:9", concept_name="nine")
    assert settled.by_code("1") == [one, FinalMapping("b", "B", "1", "arm", "HP:9", "nine", "exact")]
    assert settled.by_code("toe") == settled.by_code("") == []


def test_what_the_normaliser_said_of_its_own_answer(store, settled):
    answer = replace(row("2", "knee", "HP:4").candidates[0], confidence=0.75, decision="review")
    store.add_rows("a", [replace(row("2", "knee", "HP:4"), candidates=(answer,))])
    decide(store, "a", 3, "1")
    assert [one[-2:] for one in settled.by_code("2")] == [(0.75, "review")]
    assert [one[-2:] for one in settled.by_concept("HP:4".__eq__)] == [(0.75, "review")]
    decide(store, "a", 3, "2", "choose", "HP:5")
    assert [one[-2:] for one in settled.by_code("2")] == [(None, None)]
    decide(store, "a", 3, "3", "nil")
    assert [one[-2:] for one in settled.by_code("2")] == [(None, None)]


def test_a_string_is_a_code_where_there_is_none(store, settled):
    decide(store, "a", 1, "1")
    decide(store, "a", 2, "2", "nil")
    assert [(one.code, one.mention, one.concept_id) for one in settled.by_code("heel")] == [
        ("heel", "sole", None),
        ("heel", "heel", "HP:2|MP:2"),
    ]


def test_by_concept(store, settled):
    decide(store, "a", 0, "1")
    decide(store, "a", 1, "2")
    decide(store, "a", 2, "3", "nil")
    assert [one.mention for one in settled.by_concept("MP:2".__eq__)] == ["heel"]
    assert [one.mention for one in settled.by_concept("HP:1".__eq__)] == ["toe"]
    assert settled.by_concept("HP:3".__eq__) == []


def test_only_what_stands(store, settled):
    decide(store, "a", 0, "1", "reject")
    assert settled.by_code("1") == []
    decide(store, "a", 0, "2", "flag")
    assert settled.by_code("1") == []
    decide(store, "a", 0, "3")
    assert len(settled.by_code("1")) == 1
    decide(store, "a", 0, "4", "nil", reviewer="bob")
    assert settled.by_code("1") == []
    decide(store, "a", 0, "5", "adjudicate", "HP:7", concept_name="seven")
    assert [one.concept_id for one in settled.by_code("1")] == ["HP:7"]
    store.undo("a", "ann", "6")
    assert settled.by_code("1") == []
    store.forget(reviewer="bob", by="ann")
    assert [one.concept_id for one in settled.by_code("1")] == ["HP:1"]
