"""From mentions to scored candidates: the same for each mention, whatever else is asked with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.answer.features import NAMES, encode_definitions
from alphita.answer.pipeline import Pipeline, Questions
from alphita.calibrate.hiding import Hidden
from alphita.index.lookup import EXACT, LETTERS, VECTORS, How, lookup
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.mention.spelling import ABBREVIATION, SHORTENED, SPELLING, UNSPECIFIED
from tests.answer.synthetic import VocabularyEncoder, synthetic_terminology
from tests.doubles import SmallTerminology

ENCODER = VocabularyEncoder()
ODD = ["?", "...", "-", "\u200b", "🫀", "糖尿病", "\ud800", "a", "\x00", "ß", "e\u0301", "1", "%", "ʰ", "(", "']", "İ"]
ODD += ["∞", "🫀🫀 drall", "心臓の ache", "drall \udfff ache", "10 mg/mL", "\t", "left left left", "drall\nache"]
ODD += ["ﬁstel stone", "RTL \u202e ache"]
# The table's columns that do not depend on which other questions were asked.
COLUMNS = ("concept", "term", "expansion", "string", "routes", "strings", "homonyms")
NUMBERS = ("cosine", "letters", "best_cosine", "best_letters")


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("pipeline") / "x.index")


@pytest.fixture(scope="module")
def pipeline(index) -> Pipeline:
    definitions = encode_definitions(index, lambda: ENCODER)
    return Pipeline(index, lambda: ENCODER, Abbreviations.of_index(index), respell=True, definitions=definitions)


def scored(pipeline: Pipeline, mentions: list[str], languages: list[str | None] | None = None):
    asked, places = pipeline.ask(mentions, None, languages)
    return asked, places, pipeline.candidates(asked)


def readings(questions: Questions, *, without: str = "") -> list[list[tuple[str, str]]]:
    """Return string and source of the other readings of each question."""
    return [
        [(reading.string, reading.source) for reading in mention.readings if reading.source != without]
        for mention in questions.mentions
    ]


def own(questions: Questions) -> list[str]:
    return [questions.queries[request[0]] for request in questions.requests]


def test_equal_mentions_are_one_question_but_for_language_and_short_form(pipeline):
    asked, places = pipeline.ask(["Drall Ache", "  drall   ache", "nebbin ache", "", " \u200b ", "DRALL ACHE"])
    assert places == [0, 0, 1, -1, -1, 0]
    assert own(asked) == ["drall ache", "nebbin ache"]
    asked, places = pipeline.ask(["drall", "drall", "drall", "DRALL"], None, ["en", None, "en", None])
    assert places == [0, 1, 0, 2]
    assert [(mention.language, mention.is_short) for mention in asked.mentions] == [
        ("en", False),
        (None, False),
        (None, True),
    ]
    assert asked.queries.count("drall") == 1


def test_questions_can_be_taken_apart(pipeline):
    asked, _ = pipeline.ask(["drall ache", "nebbin ache", "sorvet ache", "hx of drall ache"])
    some = asked.take([3, 0])
    assert own(some) == ["hx of drall ache", "drall ache"]
    assert some.compact(shared=True).requests == [(1, 0), (0,)]
    assert some.compact(shared=True).queries == ["drall ache", "hx of drall ache"]
    assert some.compact(shared=False).requests == [(0, 1), (2,)]
    assert some.compact(shared=False).queries == ["hx of drall ache", "drall ache", "drall ache"]


def test_letters_alone_are_not_exhausted_while_the_last_string_found_shares_some(tmp_path):
    """The first string of an index is one like any other."""
    terms = [(f"X:{number}", name, "exact") for number, name in enumerate(("drall ache", "nebbin stone"))]
    index = build(SmallTerminology(terms), ENCODER, tmp_path / "i")
    how = How(depth=1, routes=LETTERS)
    found = [lookup(index, lambda: ENCODER, [query], how) for query in ("dralls ache", "%%")]
    assert [(pairs.string.tolist(), pairs.exhausted) for pairs in found] == [([0], False), ([], True)]


def test_corrected_words_are_another_reading(pipeline):
    mentions = ["left drall swellign", "hx of left drall ache", "left drall ache"]
    asked, _ = pipeline.ask(mentions)
    assert readings(asked) == [[("left drall swelling", SPELLING)], [("left drall ache", SHORTENED)], []]
    assert own(asked) == mentions


def test_a_term_that_writes_it_another_way_is_another_reading_unless_it_is_hidden(tmp_path):
    names = ("complex i stone", "ache, unspecified", "ache", "sorvet type 2")
    index = build(
        SmallTerminology([(f"X:{n}", name, "exact") for n, name in enumerate(names)]), ENCODER, tmp_path / "i"
    )
    some = Pipeline(index, lambda: ENCODER, respell=True)
    mentions = ["complex 1 stone", "ache nos", "hx of ache nos", "sorvet type 2", "malcus 1"]
    asked, _ = some.ask(mentions)
    both = [("ache, unspecified", UNSPECIFIED), ("ache", UNSPECIFIED)]
    assert readings(asked, without=SHORTENED) == [[("complex i stone", SPELLING)], both, both, [], []]
    rows = index.rows(["complex i stone", "ache"])
    hidden = Hidden(index, np.array([*rows, -1, -1, -1]), np.array([-1, -1, 2, -1, -1]))
    asked, _ = some.ask(mentions, view=hidden)
    assert readings(asked, without=SHORTENED) == [[], both[:1], both[:1], [], []]


def test_an_abbreviation_is_another_reading_which_the_context_decides(index):
    pipeline = Pipeline(index, lambda: ENCODER, Abbreviations())
    name = next(one for one in index.strings if one.startswith("left ") and one.endswith(" ache"))
    short = "".join(word[0] for word in name.split()).upper()
    asked, _ = pipeline.ask([short, short], [f"a man with {name} ({short}), now worse", None])
    assert readings(asked) == [[(name, ABBREVIATION)], []]
    assert asked.mentions[0].readings[0].decided
    table = pipeline.candidates(asked).table
    first, second = (table.take(np.flatnonzero(table.request == request)) for request in (0, 1))
    equal = first.expansion[first.routes & EXACT > 0]
    assert equal.tolist() == [1]
    assert index.strings[int(first.string[first.routes & EXACT > 0][0])] == name
    assert not (second.expansion > 0).any()
    assert not (second.routes & EXACT).any()


def mentions(index: Index) -> st.SearchStrategy[list[str]]:
    strings = list(index.strings)[::7]
    of_index = st.sampled_from(strings)
    spoilt = st.builds(
        lambda string, place, sign: string[:place] + sign + string[place:],
        of_index,
        st.integers(0, 20),
        st.sampled_from("xqz -/1"),
    )
    return st.lists(st.one_of(of_index, spoilt, st.sampled_from(ODD), st.text(max_size=12)), min_size=1, max_size=8)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_question_is_answered_the_same_whatever_is_asked_with_it(pipeline, index, data):
    drawn = data.draw(mentions(index))
    order = data.draw(st.permutations(range(len(drawn))))
    _, places, together = scored(pipeline, [drawn[place] for place in order])
    assert np.isfinite(together.features.candidates).all()
    assert np.isfinite(together.features.mentions).all()
    for place, request in zip(order, places, strict=True):
        asked, own, alone = scored(pipeline, [drawn[place]])
        if request < 0:
            assert own == [-1]
            assert asked.requests == []
            continue
        rows = slice(int(together.table.offsets[request]), int(together.table.offsets[request + 1]))
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(together.table, name)[rows], getattr(alone.table, name), name)
        for name in NUMBERS:
            np.testing.assert_allclose(getattr(together.table, name)[rows], getattr(alone.table, name), atol=1e-5)
        np.testing.assert_allclose(together.features.candidates[rows], alone.features.candidates, atol=1e-5)
        np.testing.assert_allclose(together.features.mentions[request], alone.features.mentions[0], atol=1e-5)
        np.testing.assert_array_equal(together.features.vetoed[rows], alone.features.vetoed)


def test_a_cell_of_a_megabyte_is_looked_up(pipeline):
    cell = "left drall ache " * 65_536
    assert len(cell) == 2**20
    asked, places, found = scored(pipeline, [cell, "x" * 2**20])
    assert places == [0, 1]
    assert readings(asked) == [[], []]
    assert np.isfinite(found.features.candidates).all()
    assert (np.diff(found.table.offsets) > 0).all()


def test_features_and_routes_are_made_only_when_wanted(pipeline):
    asked, _ = pipeline.ask(["drall ache"])
    assert pipeline.candidates(asked, featured=False).features is None
    table = pipeline.candidates(asked, How(routes=VECTORS)).table
    assert set(table.routes.tolist()) == {VECTORS}
    assert not table.letters.any()


def test_no_questions_have_no_candidates(pipeline):
    asked, places = pipeline.ask(["", "?!"])
    assert places == [-1, -1]
    found = pipeline.candidates(asked)
    assert found.table.offsets.tolist() == [0]
    assert found.features.candidates.shape == (0, len(NAMES))
