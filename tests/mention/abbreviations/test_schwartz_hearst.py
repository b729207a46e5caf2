"""Definitions of abbreviations in text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita import textio
from alphita.mention.schwartz_hearst import find_pairs, is_short_form, singular, stands_for


def pairs(text):
    return [(pair.short, pair.long) for pair in find_pairs(text)]


def table(check):
    """Return the texts of abbreviations.tsv that are checked so, each with what is expected."""
    rows = textio.packaged(__package__, "abbreviations.tsv")
    return [(row["text"], row["expected"]) for row in rows if row["check"] == check]


@pytest.mark.parametrize(("text", "expected"), table("definition"))
def test_a_definition_is_found(text, expected):
    assert pairs(text) == ([tuple(expected.split("|"))] if expected else [])
    for pair in find_pairs(text):
        assert text[pair.start : pair.end].strip(" .(").startswith((pair.short, pair.long))
        assert text[pair.end - 1] in ")]）"


def test_several_in_one_sentence():
    text = "Wilson disease (WD), heart failure [HF] and T2DM (type 2 diabetes mellitus) in man (see above)."
    assert pairs(text) == [("WD", "Wilson disease"), ("HF", "heart failure"), ("T2DM", "type 2 diabetes mellitus")]
    replaced = text
    for pair in reversed(find_pairs(text)):
        replaced = replaced[: pair.start] + pair.long + replaced[pair.end :]
    assert replaced == "Wilson disease, heart failure and type 2 diabetes mellitus in man (see above)."


def test_the_number_of_words_is_limited_as_in_the_paper():
    # |A| = 2: four words; |A| = 6: eleven words.
    assert pairs("heart one two failure (HF)") == [("HF", "heart one two failure")]
    words = "alpha b beta c gamma d delta e epsilon f zeta"
    assert pairs(f"{words} (ABCDEZ)") == [("ABCDEZ", words)]
    assert pairs(f"alpha x {words.removeprefix('alpha ')} (ABGDEZ)") == []


@pytest.mark.parametrize(("short", "expected"), table("short form"))
def test_short_forms(short, expected):
    assert is_short_form(short) is (expected == "yes")


def test_plurals():
    assert singular("CHFs") == "CHF"
    assert singular("T2s") == "T2"
    assert [singular(word) for word in ("CHF", "his", "As", "s", "")] == [None] * 5


def naive_start(letters, text):
    """Fig. 1 of the paper: both strings from the right; the first letter must begin a word."""
    place = len(text) - 1
    for number in range(len(letters) - 1, -1, -1):
        while place >= 0 and (
            text[place] != letters[number] or (number == 0 and place > 0 and text[place - 1].isalnum())
        ):
            place -= 1
        if place < 0:
            return None
        place -= 1
    return place + 1


@given(short=st.text("ab", min_size=1, max_size=4), long=st.text("ab -", max_size=12))
def test_matching_is_that_of_the_paper(short, long):
    assert stands_for(short, long) is (naive_start(short, long) == 0)


@given(words=st.lists(st.text("abcde", min_size=2, max_size=6), min_size=2, max_size=5))
def test_initials_define(words):
    short = "".join(word[0] for word in words).upper()
    expected = [(short, " ".join(words))]
    if short.lower() not in words:
        assert pairs(f"Then, {' '.join(words)} ({short})") == expected
        assert pairs(f"{short} ({' '.join(words)})") == expected


@given(st.text("ab AB.;()[]s", max_size=60))
def test_any_text_is_read_and_the_places_are_right(text):
    for pair in find_pairs(text):
        definition = text[pair.start : pair.end]
        assert pair.short in definition
        assert pair.long in definition
        assert is_short_form(pair.short)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["(", ")", "()", "[(", "(a b ", "ab(ab)", "a ", "a" * 9 + "(", "heart failure (HF) "])
def test_time_grows_with_the_length_only(piece):
    def seconds(size):
        text = piece * (size // len(piece))
        best = []
        for _ in range(2):
            start = time.process_time()
            find_pairs(text)
            best.append(time.process_time() - start)
        return min(best)

    # Quadratic, the eightfold text would take 64 times as long.
    assert seconds(160_000) < 24 * seconds(20_000) + 0.05


def test_a_cell_of_a_megabyte():
    text = "(" * 400_000 + "heart failure (HF)" + " a" * 150_000 + ")" * 300_000
    assert pairs(text) == [("HF", "heart failure")]
