from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.terminology.text import clean
from alphita_lab.verbalisation import definitions
from alphita_lab.verbalisation.definitions import Withheld, fit, repeats, shortened, tidy, without_subject, words
from tests.lab.verbalisation.conftest import HERE
from tests.terminology.conftest import cases

NOTHING = Withheld((), None, 1)


@pytest.mark.parametrize(("text", "tidied"), cases("tidied.tsv", HERE))
def test_tidy(text, tidied):
    assert tidy(text) == tidied


@given(st.text(alphabet='ab .,;:[](){}"<>_-1PMID/', max_size=40))
def test_tidying_twice_changes_nothing_more(text):
    assert tidy(tidy(text)) == tidy(text)


@pytest.mark.parametrize(("text", "names", "leaks"), cases("repeats.tsv", HERE))
def test_what_repeats_the_name(text, names, leaks):
    assert repeats(text, names.split("|")) is bool(leaks)


@pytest.mark.parametrize(("text", "rest"), cases("subjects.tsv", HERE))
def test_the_subject_is_taken_off(text, rest):
    assert without_subject(text, {"seizure", "fit (of the brain)"}) == rest


def test_shortened():
    assert shortened("One two. Three four.", 20) == "One two. Three four."
    assert shortened("One two. Three four.", 19) == "One two."
    assert shortened("One two three", 10) == "One two"


def test_fit_counts_why(monkeypatch):
    monkeypatch.setattr(definitions, "MAX_CHARACTERS", 40)
    counts: Counter[str] = Counter()
    withheld = Withheld({"secret name"}, None, 1)

    def told(text):
        return fit(text, ["Cold"], withheld, "definition", counts)

    assert told("Cold is an infection of the nose.") == "An infection of the nose."
    assert told("Cold.") is None
    assert told("Two words") is None
    assert told("[PMID:1]") is None
    assert told("An illness with a secret name.") is None
    assert told("An illness of the nose. It goes after some days and comes again.") == "An illness of the nose."
    assert counts == {
        "definition: began with the concept's name, which was taken off": 1,
        "definition: repeats the name": 1,
        "definition: fewer than 3 words": 2,
        "definition: holds a held-out string": 1,
        "definition: cut to 40 characters": 1,
    }


def test_names_of(small):
    rows = np.array([3, 1, 3])
    expected = [[term.string for term in small.concept(int(row)).terms] for row in rows]
    assert definitions.names_of(small, rows) == expected
    assert definitions.names_of(small, np.array([], np.int64)) == []


def test_small_batches_give_the_same(small, monkeypatch):
    whole = definitions.definitions(small, ["en", "fr"], NOTHING, Counter())
    monkeypatch.setattr(definitions, "ROWS", 2)
    parts = definitions.definitions(small, ["en", "fr"], NOTHING, Counter())
    assert parts[1] == whole[1]
    assert parts[0].tolist() == whole[0].tolist() == sorted(whole[0].tolist())
    assert len(whole[1]) == 4


# --- what no text may show -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("held_out", "text", "found"), cases("withheld.tsv", HERE))
def test_whole_words(held_out, text, found):
    assert Withheld({clean(held_out)}, None, 1).is_in(text) is bool(found)


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
