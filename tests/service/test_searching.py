from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.index.store import Index, build
from alphita.service.concepts import STRINGS_A_CONCEPT, Finder
from tests.answer.synthetic import synthetic_terminology
from tests.doubles import HashEncoder, SmallTerminology


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


def test_what_is_equal_has_similarity_one(finder):
    assert finder.find("Lower  DRALL swelling", 1)[0].similarity == 1.0


@pytest.mark.parametrize("typed", ["", "   ", "...", "\x00", "\ud800"])
def test_nothing_typed_finds_nothing(finder, typed):
    assert finder.find(typed, 5) == []


@given(st.text(max_size=30), st.integers(1, 30))
def test_any_text_may_be_typed(finder, typed, top):
    assert len(finder.find(typed, top)) <= top


def test_an_id_finds_its_concept(finder):
    assert finder.find("T:0003", 3)[0].id == "T:0003"
    assert finder.find("T:9999", 3) == finder.find("T:9999", 3)


def test_letters_beyond_ascii(tmp_path):
    rows = [
        ("T:1", "Fièvre", "exact"),
        ("T:2", "Fièvre jaune", "exact"),
        ("T:3", "癫痫发作", "exact"),
        ("T:4", "癫痫", "exact"),
        ("T:5", "Fieber", "exact"),
    ]
    finder = Finder(build(SmallTerminology(rows), HashEncoder(), tmp_path / "x.index"))
    assert [one.id for one in finder.find("fiè", 2)] == ["T:1", "T:2"]
    assert [one.id for one in finder.find("癫", 2)] == ["T:4", "T:3"]
    assert finder.find("fi", 5)[0].id in ("T:5", "T:1")


def test_homonyms_are_all_shown(index_path):
    found = Finder(Index.open(index_path)).find("cold", 3)
    assert [(one.id, one.matched_term) for one in found] == [("T:3", "Cold"), ("T:5", "COLD"), ("T:4", "Cold")]
