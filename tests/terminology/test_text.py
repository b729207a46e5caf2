from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alphita.terminology.text import DEFAULT_RULES, RULES, clean, clean_many
from tests.terminology.conftest import cases


@pytest.mark.parametrize(("raw", "cleaned"), cases("cleaned.tsv"))
def test_clean(raw, cleaned):
    assert clean(raw) == cleaned


@pytest.mark.parametrize(("one", "other"), cases("kept_apart.tsv"))
def test_clean_keeps_meaning_apart(one, other):
    assert clean(one) != clean(other)


@given(st.text())
@example("J\u030c")
@example("'\"a\"'.")
@example("a\u200b\u0301")
def test_clean_is_idempotent(string):
    once = clean(string)
    assert clean(once) == once
    assert once == once.strip()
    assert unicodedata.normalize("NFC", once) == once


@given(st.text(st.characters(max_codepoint=127)))
def test_the_fast_way_for_ascii_gives_what_the_rules_give(string):
    slow = string
    for rule in DEFAULT_RULES:
        slow = RULES[rule](slow)
    assert clean(string) == slow


@given(st.lists(st.text(max_size=20), max_size=20))
def test_clean_many_is_clean_of_each(strings):
    assert clean_many(strings) == [clean(string) for string in strings]
    assert clean_many(strings, list(DEFAULT_RULES)) == clean_many(strings)


def test_other_rules():
    assert clean("Ménière  X", ["strip_accents"]) == "Meniere  X"
    with pytest.raises(KeyError):
        clean("a", ["no such rule"])
