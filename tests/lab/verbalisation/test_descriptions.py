from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita_lab.verbalisation import descriptions as module
from alphita_lab.verbalisation.definitions import Withheld
from alphita_lab.verbalisation.descriptions import descriptions, readable, shape, tell, templates
from tests.lab.verbalisation.conftest import HERE
from tests.terminology.conftest import cases

NOTHING = Withheld((), None, 100)


def told(terminology, most=3, seed=0, withheld=NOTHING, counts=None):
    rows, texts = descriptions(terminology, most, seed, withheld, Counter() if counts is None else counts)
    assert rows.dtype == np.int32
    assert rows.tolist() == sorted(rows.tolist())
    found: dict[str, list[str]] = {}
    for row, text in zip(rows.tolist(), texts, strict=True):
        found.setdefault(terminology.concept_id(row), []).append(text)
    return found


@pytest.mark.parametrize(("label", "words", "kind"), cases("labels.tsv", HERE))
def test_any_label_is_made_readable(label, words, kind):
    assert readable(label) == words
    assert shape(words) == kind


def test_every_template_has_its_place():
    found = templates()
    lists = [found.parents, found.types, found.type_clauses, *found.relations.values(), *found.general.values()]
    assert all("{names}" in phrase for phrases in lists for phrase in phrases)
    assert all(len(phrases) > 1 for phrases in (found.parents, found.types, found.nothing, found.joiners))
    assert set(found.general) == {"verb", "preposition", "noun", "code"}
    assert all("{label}" in phrase for kind in ("verb", "preposition", "noun") for phrase in found.general[kind])
    for label in [*found.relations, *found.untold]:
        assert ":" in label or readable(label).replace(" ", "_") == label
    assert not found.untold & set(found.relations)
    assert found.of_relation("maps_to") is None
    assert found.of_relation("supplies") == ["supplies {names}"]
    assert found.of_relation("Part of") == found.of_relation("part_of") == found.relations["part_of"]
    assert found.of_relation("IDO:0000664") == found.of_relation("has_material_basis_in")
    assert found.of_relation("X:0000001") == found.general["code"]


def test_what_is_told(small):
    found = told(small)
    assert sorted(found) == ["T:01", "T:03", "T:04", "T:05"]
    assert all(re.fullmatch(r"[A-Z].*[^.]\.", text) for texts in found.values() for text in texts)
    assert len(found["T:01"]) == 1
    assert "Disorder" in found["T:01"][0]
    openings = [phrase.replace("{names}", "heart disease") for phrase in templates().parents]
    assert all(text.startswith(tuple(openings)) for concept in ("T:04", "T:05") for text in found[concept])
    first = found["T:04"][0]
    assert all(name in first for name in ("heart disease", "heart valve", "breathlessness"))
    assert not any("mitral" in text for text in found["T:04"])
    assert not any("lone word" in text for text in found["T:05"])
    assert "mitral leak" in found["T:03"][0]


def test_the_most_of_each_concept_and_no_text_twice(small):
    for most in range(4):
        for texts in told(small, most).values():
            assert len(texts) == len(set(texts)) <= most


def test_the_seed_decides_and_nothing_else_in_the_terminology(small, make):
    from tests.lab.verbalisation.conftest import RELATIONS, ROWS

    assert told(small) == told(small)
    assert any(told(small, seed=seed) != told(small) for seed in range(1, 5))
    more = [{"id": "A:1", "term": "before", "parent": "T:01"}, *ROWS, {"id": "T:035", "term": "between"}]
    edges = [("T:035", "a_first_label", "T:02"), *RELATIONS]
    larger = told(make(more, edges, "larger"))
    assert {concept: texts for concept, texts in larger.items() if concept not in ("A:1", "T:035")} == told(small)


def test_small_parts_give_the_same(small, monkeypatch):
    whole, counts, again = told(small), Counter(), Counter()
    told(small, counts=counts)
    monkeypatch.setattr(module, "CONCEPTS", 3)
    assert told(small, counts=again) == whole
    assert again == counts


def test_held_out_triples_are_not_told_in_either_direction(small):
    pair = np.array([[small.resolve("T:03"), small.resolve("T:04")]], np.int32)
    counts: Counter[str] = Counter()
    for pairs in (pair, pair[:, ::-1]):
        found = told(small, withheld=Withheld((), pairs, small.n_concepts), counts=counts)
        assert "T:03" not in found
        assert not any("breathlessness" in text for text in found["T:04"])
    assert counts["description: facts not told: held out"] == 4


def test_held_out_strings_are_not_told(small):
    counts: Counter[str] = Counter()
    found = told(small, withheld=Withheld({"valve"}, None, small.n_concepts), counts=counts)
    assert not any("valve" in text for texts in found.values() for text in texts)
    assert counts["description: facts not told: the name holds a held-out string"] == 2
    # Together only the sentence makes it up.
    counts.clear()
    found = told(small, withheld=Withheld({"heart disease that", "heart disease which"}, None, 100), counts=counts)
    assert not any("disease that" in text or "disease which" in text for texts in found.values() for text in texts)


def test_a_concept_is_never_told_by_its_own_name(make):
    rows = [
        {"id": "T:1", "term": "cold"},
        {"id": "T:2", "term": "Cold", "parent": "T:1"},
        {"id": "T:2", "term": "chill"},
        {"id": "T:3", "term": "fever", "parent": "T:2"},
    ]
    counts: Counter[str] = Counter()
    found = told(make(rows, [("T:2", "part_of", "T:2")]), counts=counts)
    assert list(found) == ["T:3"]
    assert counts["description: facts not told: the concept's own name"] == 1


def test_a_type_called_as_the_concept_is_not_told(make):
    rows = [
        {"id": "T:1", "term": "root", "semantic_type": "The Roots"},
        {"id": "T:1", "term": "the roots"},
        {"id": "T:2", "term": "leaf", "semantic_type": "The Roots"},
    ]
    found = told(make(rows, []))
    assert list(found) == ["T:2"]
    assert "The Roots" in found["T:2"][0]


def test_only_english_names_of_live_concepts_are_told(make):
    rows = [
        {"id": "T:1", "term": "freddo", "language": "it"},
        {"id": "T:2", "term": "chill", "parent": "T:1"},
        {"id": "T:3", "term": "brivido", "language": "it"},
        {"id": "T:3", "term": "shiver", "language": "en-GB"},
        {"id": "T:4", "term": "gone", "retired": "1"},
        {"id": "T:5", "term": "trembling", "parent": "T:3|T:4"},
    ]
    counts: Counter[str] = Counter()
    found = told(make(rows, []), counts=counts)
    assert list(found) == ["T:5"]
    assert "shiver" in found["T:5"][0]
    assert counts["description: facts not told: their other concept has no English name"] == 2
    assert counts["description: concepts of which nothing can be told"] == 3


NAMES = st.lists(st.sampled_from([f"n{number}" for number in range(12)]), unique=True, max_size=6)
PAIRS = st.lists(
    st.tuples(st.sampled_from(["part_of", "supplies", "site", "near_to"]), st.sampled_from(["x1", "x2", "x3"])),
    unique=True,
    max_size=12,
)


@given(NAMES, st.lists(st.sampled_from(["k1", "k2"]), unique=True), PAIRS, st.integers(1, 5), st.integers(0, 3))
def test_sentences_tell_at_most_four_facts_and_only_true_ones(parents, types, attributes, most, seed):
    if not (parents or types or attributes):
        return
    sentences = list(tell(module._Draws(seed, "T:1"), parents, types, attributes, most))
    assert 1 <= len(sentences) <= most
    for sentence in sentences:
        names = re.findall(r"\b[nkx]\d+\b", sentence)
        assert 1 <= len(names) <= 4
        assert set(names) <= {*parents, *types, *(name for _, name in attributes)}
        # Every concept that has parents is told by at least one.
        assert bool(parents) == any(name in parents for name in names)
        for label, phrase in (("part_of", "part of"), ("supplies", "supplies"), ("near_to", "near to")):
            after = re.findall(rf"{phrase} ((?:[x]\d(?:, | and )?)+)", sentence)
            assert {(label, name) for part in after for name in re.findall(r"x\d", part)} <= set(attributes)
