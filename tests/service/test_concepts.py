from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.errors import Rejects
from alphita.index.store import Index, build
from alphita.service.concepts import STRINGS_A_CONCEPT, Concept, Finder, Named, Synonym, find_concept
from alphita.terminology import store
from alphita.terminology.loaders import obo
from tests.answer.synthetic import synthetic_terminology
from tests.doubles import HashEncoder

ONTOLOGY = """format-version: 1.2
ontology: toy

[Term]
id: TOY:0000001
name: Ailment

[Term]
id: TOY:0000002
name: Wobbling gait
def: "A gait that <b>wobbles</b>." [me:1]
synonym: "Wobbly walk" EXACT layperson []
synonym: "Unsteadiness" BROAD []
alt_id: TOY:0000020
is_a: TOY:0000001 ! Ailment

[Term]
id: TOY:0000003
name: Staggering walk
synonym: "Staggers" EXACT []
is_obsolete: true
replaced_by: TOY:0000002

[Term]
id: TOY:0000004
name: Forgotten ailment
is_obsolete: true
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("concepts")
    path = folder / "toy.obo"
    path.write_text(ONTOLOGY)
    with Rejects() as rejects:
        store.save(obo.load([path], obo.Options(), rejects), folder / "toy.terminology", rejects=rejects)
    terminology = store.load_terminology(folder / "toy.terminology")
    return build(terminology, HashEncoder(), folder / "toy.index"), terminology


@pytest.fixture(params=["index", "terminology"])
def look(request, parts):
    index, terminology = parts
    return lambda one: find_concept(one, index, terminology if request.param == "terminology" else None)


def test_a_concept_is_the_same_from_index_and_terminology(look):
    found = look("TOY:0000002")
    assert found == Concept(
        id="TOY:0000002",
        name="Wobbling gait",
        definition="A gait that <b>wobbles</b>.",
        synonyms=found.synonyms,
        parents=[Named(id="TOY:0000001", name="Ailment")],
        types=[],
        retired=False,
        replaced_by=[],
    )
    assert found.synonyms[0] == Synonym(string="Wobbling gait", language="en", scope="exact")
    assert {(synonym.string, synonym.scope) for synonym in found.synonyms} == {
        ("Wobbling gait", "exact"),
        ("Wobbly walk", "exact"),
        ("Unsteadiness", "broad"),
    }


def test_a_retired_concept_says_what_replaces_it(look):
    found = look("TOY:0000003")
    assert (found.id, found.name, found.retired) == ("TOY:0000003", "Staggering walk", True)
    assert found.replaced_by == ["TOY:0000002"]
    assert {synonym.string for synonym in found.synonyms} == {"Staggering walk", "Staggers"}


def test_an_alias_names_its_concept(look):
    assert look("TOY:0000020").id == "TOY:0000002"


@pytest.mark.parametrize("identifier", ["TOY:9", "", " ", "../../etc/passwd", "TOY:0000002/..", "\x00", "x" * 5_000])
def test_what_is_no_id_is_not_found(look, identifier):
    assert look(identifier) is None


def test_a_retired_concept_without_replacement_is_known_to_the_terminology(parts):
    index, terminology = parts
    found = find_concept("TOY:0000004", index, terminology)
    assert (found.name, found.retired, found.replaced_by) == ("Forgotten ailment", True, [])
    assert find_concept("TOY:0000004", index, None) is None


@pytest.fixture(scope="module")
def finder(tmp_path_factory) -> Finder:
    folder = tmp_path_factory.mktemp("searching")
    return Finder(build(synthetic_terminology(150), HashEncoder(), folder / "x.index"))


@pytest.fixture(scope="module")
def strings(finder) -> list[str]:
    return list(finder.index.strings)


@given(st.data())
def test_what_is_equal_comes_first_then_the_shortest_that_begin_so(finder, strings, data):
    string = data.draw(st.sampled_from(strings))
    typed = string[: data.draw(st.integers(1, len(string)))].rstrip()
    found = finder.find(typed, 5)
    matched = [finder.clean(one.matched_term) for one in found]
    beginning = sorted((one for one in strings if one.startswith(typed) and one != typed), key=lambda s: (len(s), s))
    expected = ([typed] if typed in strings else []) + beginning[: STRINGS_A_CONCEPT * 5]
    concepts: dict[str, str] = {}
    segment = finder.index.segment
    for one in expected:
        row = strings.index(one)
        for term in range(segment.offsets[row], segment.offsets[row + 1]):
            concepts.setdefault(segment.concepts.column("id")[int(segment.term_concept[term])].as_py(), one)
    wanted = list(concepts.items())[:5]
    assert [(one.id, name) for one, name in zip(found, matched, strict=True)][: len(wanted)] == wanted
    assert len({one.id for one in found}) == len(found) <= 5


def test_misspelt_words_are_found_by_letters(finder):
    found = finder.find("lowr dral sweling", 5)
    assert found[0].matched_term == "lower drall swelling"
    assert 0 < found[0].similarity < 1


@given(st.text(max_size=30), st.integers(1, 30))
def test_any_text_may_be_typed_and_nothing_finds_nothing(finder, typed, top):
    assert len(finder.find(typed, top)) <= top
    for nothing in ("", "   ", "...", "\x00", "\ud800"):
        assert finder.find(nothing, 5) == []


def test_homonyms_are_all_shown(index_path):
    found = Finder(Index.open(index_path)).find("cold", 3)
    assert [(one.id, one.matched_term) for one in found] == [("T:3", "Cold"), ("T:5", "COLD"), ("T:4", "Cold")]
