from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.terminology.text import clean
from alphita_lab.verbalisation.definitions import Withheld, words


@pytest.mark.parametrize(
    ("held_out", "text", "found"),
    [
        ("head cold", "A Head-cold, or worse.", True),
        ("head cold", "A headcold.", False),
        ("cold", "It is colder.", False),
        ("cold", "Of cold.", True),
        ("factor v", "Lack of factor Va.", False),
        ("mal di schiena", "Il mal  di\nschiena cronico", True),
        ("頭痛", "激しい頭痛がある", True),
        ("...", "A text ... with stops.", False),
    ],
)
def test_whole_words(held_out, text, found):
    assert Withheld({clean(held_out)}, None, 1).is_in(text) is found


def test_words_are_cleaned():
    assert words("Type-2 (ADULT), 10⁹") == ["type", "2", "adult", "10", "9"]


LETTERS = st.lists(st.sampled_from(["a", "b", "ab", "c"]), max_size=7).map(" ".join)


@given(st.sets(LETTERS, max_size=4), LETTERS)
def test_against_a_search_of_each_string(held_out, text):
    expected = any(f" {string} " in f" {text} " for string in held_out if string)
    assert Withheld(held_out, None, 1).is_in(text) is expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_pairs_in_either_order(pairs, head, tail):
    withheld = Withheld((), np.array(pairs, np.int32).reshape(-1, 2), 6)
    found = withheld.joins(np.array([head], np.int32), np.array([tail], np.int32))
    assert found.tolist() == [(head, tail) in pairs or (tail, head) in pairs]
