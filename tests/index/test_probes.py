"""Strings that an approximate search is measured with."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from alphita.index import backends


@given(st.lists(st.text(max_size=20), max_size=10))
def test_a_string_is_changed_by_a_word_or_two_letters_and_always_the_same_way(strings):
    varied = backends.vary(strings)
    assert varied == backends.vary(strings)
    assert backends.vary(strings[::-1]) == varied[::-1]
    for before, after in zip(strings, varied, strict=True):
        words = sorted(before.split())
        by_words = len(words) > 2 and not set(after.split()) - set(words) and len(after.split()) >= len(words) - 1
        # Two exchanges of letters that overlap count as more than one step each.
        assert by_words or OSA.distance(before, after) <= 4


def test_most_strings_become_others():
    strings = [
        f"disorder of the {organ} of type {number}" for organ in ("kidney", "eye", "heart") for number in range(30)
    ]
    changed = [before != after for before, after in zip(strings, backends.vary(strings), strict=True)]
    assert sum(changed) > 80


def test_rows_are_drawn_by_the_seed():
    assert backends.rows(5, "a") == [0, 1, 2, 3, 4]
    drawn = backends.rows(100_000, "a")
    assert len(drawn) == len(set(drawn)) == backends.PROBES
    assert drawn == backends.rows(100_000, "a")
    assert drawn != backends.rows(100_000, "b")
    assert max(drawn) > 90_000
