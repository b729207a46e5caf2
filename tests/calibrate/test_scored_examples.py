"""Examples with their candidates: what is hidden stays hidden, and all else is as it would be asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphita.answer.features import MENTION_NAMES, NAMES
from alphita.answer.pipeline import Pipeline
from alphita.calibrate import examples
from alphita.calibrate import scored_examples as seen_module
from alphita.calibrate.scored_examples import see
from alphita.index.lookup import DEPTH, LETTERS, VECTORS
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.terminology.text import clean
from tests.answer.synthetic import VocabularyEncoder, synthetic_terminology

ENCODER = VocabularyEncoder()


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    return build(synthetic_terminology(), ENCODER, tmp_path_factory.mktemp("seen") / "x.index")


@pytest.fixture(scope="module")
def pipeline(index) -> Pipeline:
    return Pipeline(index, lambda: ENCODER, Abbreviations.of_index(index), respell=True)


def lists(index: Index, query: str, hidden: set[int], route: int) -> set[int]:
    """Return the strings that a route gives for a query if `hidden` were not there, from the definitions."""
    strings = list(index.strings)
    if route == VECTORS:
        row = index.rows([query])[0]
        vector = index.vectors[row] if row >= 0 else ENCODER.encode([query])[0]
        score = np.asarray(index.vectors, np.float64) @ vector
    else:
        grams = index.ngrams.vectorize([query])
        score = index.ngrams.pairwise(grams, np.zeros(len(strings), np.int64), np.arange(len(strings)))
    order = [row for row in np.argsort(-score, kind="stable").tolist() if row not in hidden]
    if route == LETTERS:
        order = [row for row in order if score[row] > 0]
    # Where strings are as near as the last one any of them may stand there.
    last = score[order[DEPTH - 1]] if len(order) >= DEPTH else -1.0
    return {row for row in order if score[row] >= last - 1e-6}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nothing_hidden_stands_among_the_candidates(pipeline, index, data):
    strings, concepts = examples.own_synonyms(index, seed=0)
    rows = data.draw(st.lists(st.integers(0, len(strings) - 1), min_size=1, max_size=6))
    some, own = [strings[row] for row in rows], concepts[rows]
    parts = [
        examples.synonyms(index, some, own),
        examples.removed(some, own),
        examples.with_noise(index, some, own, hide=True, seed=1),
    ]
    asked = examples.join([part for part in parts if part.mentions])
    order = data.draw(st.permutations(range(len(asked.mentions))))
    seen = see(pipeline, asked.take(order))
    table, found = seen.table, seen.examples
    for number in range(len(found.mentions)):
        own_rows = np.flatnonzero(table.request == number)
        assert found.hidden_strings[number] not in table.string[own_rows].tolist()
        assert found.hidden_concepts[number] not in table.concept[own_rows].tolist()
        if found.kinds[number] == examples.SYNONYM:
            assert found.hidden_strings[number] == index.rows([found.mentions[number]])[0] >= 0
        hidden = {int(found.hidden_strings[number])}
        concept = int(found.hidden_concepts[number])
        hidden |= {
            row
            for row in range(len(index))
            if concept
            in index.segment.term_concept[index.segment.offsets[row] : index.segment.offsets[row + 1]].tolist()
        }
        # As many candidates as there would be if it were not there: no more, for none was to spare.
        asked_itself = own_rows[table.expansion[own_rows] == 0]
        for route in (VECTORS, LETTERS):
            of_route = {int(table.string[row]) for row in asked_itself if table.routes[row] & route}
            assert of_route <= lists(index, clean(found.mentions[number], index.rules), hidden, route)
    right = table.concept == found.concepts[table.request]
    np.testing.assert_array_equal(seen.training.right, right)
    np.testing.assert_array_equal(seen.training.nil, found.concepts < 0)


def test_an_example_is_seen_as_it_would_be_asked(pipeline, index):
    """What hides nothing has the candidates and features of a plain question."""
    mentions = ["drall swelling", "nebbin acke", "hx of sorvet bleeding", "table garden"]
    nothing = np.full(len(mentions), -1)
    hides = examples.removed(["left drall ache"], np.array([7]))
    plain = examples.Examples(mentions, nothing, nothing, nothing, [examples.FOREIGN] * len(mentions))
    seen = see(pipeline, examples.join([plain, hides]))
    asked, places = pipeline.ask(mentions)
    assert places == [0, 1, 2, 3]
    scored = pipeline.candidates(asked)
    end = int(seen.table.offsets[len(mentions)])
    np.testing.assert_array_equal(seen.table.concept[:end], scored.table.concept)
    np.testing.assert_allclose(seen.training.candidates[:end], scored.features.candidates, atol=1e-6)
    np.testing.assert_allclose(seen.training.mentions[: len(mentions)], scored.features.mentions, atol=1e-6)


def test_many_examples_are_seen_in_parts(pipeline, index, monkeypatch):
    strings, concepts = examples.own_synonyms(index, seed=0, most=40)
    asked = examples.join([examples.synonyms(index, strings, concepts), examples.removed(strings[:9], concepts[:9])])
    whole = see(pipeline, asked)
    monkeypatch.setattr(seen_module, "EXAMPLES_AT_ONCE", 7)
    parts = see(pipeline, asked)
    for one, other in zip(whole.table, parts.table, strict=True):
        # Queries are counted anew in each part.
        if one is not whole.table.query:
            np.testing.assert_allclose(one, other, atol=1e-6)
    for one, other in zip(whole.training, parts.training, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_examples_with_nothing_in_them_are_left_out(pipeline, index):
    nothing = np.full(3, -1)
    some = examples.Examples(["", "drall ache", " \u200b "], nothing, nothing, nothing, [examples.LABELLED] * 3)
    seen = see(pipeline, some)
    assert seen.examples.mentions == ["drall ache"]
    assert seen.training.candidates.shape[1] == len(NAMES)
    assert seen.training.mentions.shape == (1, len(MENTION_NAMES))
