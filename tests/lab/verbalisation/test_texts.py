from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import InputError, UsageError
from alphita.terminology.text import clean
from alphita_lab.verbalisation.texts import KINDS, Texts, _owners, verbalise


def by_concept(texts: Texts, terminology, kind: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row, place, text in zip(texts.concepts.tolist(), texts.kinds.tolist(), texts.strings, strict=True):
        if KINDS[place] == kind:
            found.setdefault(terminology.concept_id(row), []).append(text)
    return found


def test_all_kinds(small):
    texts = verbalise(
        small,
        generated={"T:04": ["Mitral leak: blood that goes back to where it came from."], "T:06": ["An old thing."]},
    )
    assert by_concept(texts, small, "definition") == {
        "T:01": ["A disorder of the pump that moves blood."],
        "T:03": ["Too little air."],
        "T:04": ["A backward flow of blood through a gate that does not close."],
    }
    assert by_concept(texts, small, "generated") == {"T:04": ["Blood that goes back to where it came from."]}
    assert set(by_concept(texts, small, "description")) == {"T:01", "T:03", "T:04", "T:05"}
    assert texts.concepts.dtype == np.int32
    assert texts.kinds.dtype == np.uint8
    assert len(texts.concepts) == len(texts.strings) == len(texts.kinds) == len(texts)
    keys = [*zip(texts.concepts.tolist(), texts.kinds.tolist(), strict=True)]
    assert keys == sorted(keys)
    assert texts.counts == {
        "definition: began with the concept's name, which was taken off": 1,
        "definition: concepts without one": 4,
        "definition: of a retired concept": 1,
        "definition: of another language": 1,
        "generated: began with the concept's name, which was taken off": 1,
        "generated: of a retired concept": 1,
        "description: concepts of which nothing can be told": 3,
    }


def test_kinds_languages_and_number(small):
    french = verbalise(small, languages=["fr"])
    assert by_concept(french, small, "definition") == {"T:08": ["Un flux de retour par la valve."]}
    assert by_concept(french, small, "description") == {}
    only = verbalise(small, kinds=["description"], descriptions=1)
    assert set(only.kinds.tolist()) == {KINDS.index("description")}
    assert len(set(only.concepts.tolist())) == len(only)
    assert "definition: concepts without one" not in only.counts


def test_a_language_takes_its_variants(make):
    rows = [
        {"id": "T:1", "term": "one", "language": "en-GB", "definition": "The first of all numbers."},
        {"id": "T:2", "term": "two", "language": "es", "definition": "El segundo de ellos."},
    ]
    texts = verbalise(make(rows, []), kinds=["definition"])
    assert texts.strings == ["The first of all numbers."]


def test_held_out_strings_and_triples_do_not_show(small):
    pairs = np.array([[small.resolve("T:04"), small.resolve("T:02")]])
    texts = verbalise(small, exclude={"too little", "dyspnea"}, held_out=pairs)
    assert texts.counts["definition: holds a held-out string"] == 1
    assert not any("too little" in text.lower() for text in texts.strings)
    assert not any("heart valve" in text for text in by_concept(texts, small, "description")["T:04"])
    assert any("heart valve" in text for text in by_concept(texts, small, "description")["T:05"])


def test_texts_of_several_concepts(make):
    rows = [
        {"id": "T:1", "term": "one", "definition": "A number like another."},
        {"id": "T:2", "term": "two", "definition": "A NUMBER like another"},
        {"id": "T:3", "term": "three", "definition": "A number that is greater."},
        {"id": "T:3", "term": "trio", "definition": "A number that is greater."},
        {"id": "T:4", "term": "four", "definition": "The square of something else.", "parent": "T:1"},
        {"id": "T:5", "term": "five", "parent": "T:1"},
    ]
    terminology = make(rows, [])
    texts = verbalise(
        terminology,
        descriptions=1,
        generated={"T:3": ["A number that is greater"], "T:5": ["The square of something else."]},
    )
    assert by_concept(texts, terminology, "definition") == {"T:3": ["A number that is greater."]}
    assert by_concept(texts, terminology, "generated") == {}
    assert texts.counts["definition: several concepts have the same"] == 3
    assert texts.counts["generated: several concepts have the same"] == 1
    assert texts.counts["generated: the concept has it already"] == 1
    assert texts.counts["definition: concepts without one"] == 4
    assert set(by_concept(texts, terminology, "description")) == {"T:4", "T:5"}


def test_shared_descriptions_stay_and_are_counted(make):
    rows = [{"id": "T:0", "term": "above"}, *({"id": f"T:{n}", "term": f"t{n}", "parent": "T:0"} for n in range(1, 9))]
    texts = verbalise(make(rows, []))
    assert len(texts) == 8
    times = [texts.strings.count(text) for text in texts.strings]
    assert texts.counts["description: kept though another concept has the same"] == sum(n > 1 for n in times) > 0


def test_unknown_ids_of_generated_texts_are_counted(small):
    texts = verbalise(
        small, kinds=["generated"], generated={"X:1": ["A thing of beauty."], "T:07": ["A thing of beauty."]}
    )
    assert texts.strings == ["A thing of beauty."]
    assert texts.counts == {"generated: no concept has this id": 1}


def test_a_terminology_without_definitions(make):
    rows = [{"id": "T:1", "term": "one"}, {"id": "T:2", "term": "two", "parent": "T:1"}]
    terminology = make(rows, [])
    texts = verbalise(terminology)
    assert set(texts.kinds.tolist()) == {KINDS.index("description")}
    assert texts.counts["definition: concepts without one"] == 2
    with pytest.raises(InputError, match="take descriptions too"):
        verbalise(terminology, kinds=["definition"])
    with pytest.raises(InputError, match=r"no concept has a text .*generated"):
        verbalise(terminology, kinds=["generated"])
    with pytest.raises(InputError):
        verbalise(terminology, descriptions=0)


def test_wrong_use(small):
    with pytest.raises(UsageError, match="did you mean 'definition'"):
        verbalise(small, kinds=["definitoin"])
    for wrong in ({"kinds": []}, {"descriptions": -1}):
        with pytest.raises(UsageError):
            verbalise(small, **wrong)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "A.", "b", "c c", "C-C"])), max_size=10))
def test_owners_against_loops(rows):
    concepts = np.array([concept for concept, _ in rows], np.int32)
    strings = [string for _, string in rows]
    owners, again = _owners(concepts, strings)
    keys = [clean(string) for string in strings]
    for place, (concept, key) in enumerate(zip(concepts.tolist(), keys, strict=True)):
        assert owners[place] == len({other for (other, _), found in zip(rows, keys, strict=True) if found == key})
        earlier = [(rows[number][0], keys[number]) for number in range(place)]
        assert again[place] == ((concept, key) in earlier)
