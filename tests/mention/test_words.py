"""Words in common, against sets."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.mention.words import Words

word = st.sampled_from(["renal", "failure", "acute", "left", "of", "kidney", "x1", "癌"])
strings = st.lists(st.lists(word, max_size=4).map(" ".join), min_size=1, max_size=6)


@settings(max_examples=80, deadline=None)
@given(strings, strings, st.data())
def test_against_sets(indexed, asked, data):
    vocabulary = Words.vocabulary(pa.array(indexed, pa.large_string()))

    def weight(one: str) -> float:
        return math.log((len(indexed) + 1) / (sum(one in text.split() for text in indexed) + 1)) + 1

    left, right = vocabulary.words(asked), vocabulary.words(indexed)
    rows = data.draw(st.lists(st.integers(0, len(asked) - 1), max_size=8))
    others = data.draw(st.lists(st.integers(0, len(indexed) - 1), min_size=len(rows), max_size=len(rows)))
    found = left.overlap(np.array(rows, np.int64), right, np.array(others, np.int64))
    for place, (row, other) in enumerate(zip(rows, others, strict=True)):
        one, two = set(asked[row].split()), set(indexed[other].split())
        shared = sum(map(weight, one & two))
        assert found.of_left[place] == pytest.approx(shared / max(sum(map(weight, one)), 1e-9), abs=1e-6)
        assert found.of_right[place] == pytest.approx(shared / max(sum(map(weight, two)), 1e-9), abs=1e-6)
        assert found.same[place] == (bool(one) and one == two)
        if one and two:
            assert found.first[place] == (asked[row].split()[0] == indexed[other].split()[0])
            assert found.last[place] == (asked[row].split()[-1] == indexed[other].split()[-1])
        else:
            assert not found.first[place]
            assert not found.last[place]


def test_how_much_of_a_string_is_known():
    vocabulary = Words.vocabulary(pa.array(["renal failure", "renal agenesis"], pa.large_string()))
    known = vocabulary.words(["renal failure", "zyx", "renal zyx", ""]).known
    assert known[0] == pytest.approx(1)
    assert known[1] == known[3] == 0
    assert 0 < known[2] < 0.5


def test_what_only_strings_that_are_not_there_have_is_unknown():
    indexed = ["renal failure", "renal agenesis", "zorbal failure"]
    vocabulary = Words.vocabulary(pa.array(indexed, pa.large_string()))
    gone = [{"zorbal": 1, "failure": 1}, {}, {"renal": 2, "failure": 1, "agenesis": 1}]
    found = vocabulary.words(["zorbal failure", "zorbal failure", "renal failure"], gone)
    # "failure" stands in another string too; "renal" in none but the two.
    less = Words.vocabulary(pa.array(["renal failure", "renal agenesis"], pa.large_string()))
    assert 0 < found.known[0] < 0.5
    assert found.known[1] == pytest.approx(1)
    assert less.words(["zorbal failure"]).known[0] == pytest.approx(found.known[0], abs=0.1)
    assert 0 < found.known[2] < 0.5
    shared = found.overlap(np.arange(3), vocabulary.words(["zorbal failure"] * 3), np.arange(3))
    assert shared.of_left[0] == pytest.approx(found.known[0])  # what is unknown is shared with nothing
    assert shared.of_left[1] == pytest.approx(1)
