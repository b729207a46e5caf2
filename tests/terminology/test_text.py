from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alphita.terminology.text import DEFAULT_RULES, RULES, clean, clean_many


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("  Type-2 \u201cDiabetes\u201d, NOS. ", 'type 2 "diabetes", nos'),
        ("M\u00e9ni\u00e8re\u2019s\tdisease\u00a0(left)", "ménière's disease (left)"),
        ("Sjögren´s", "sjögren's"),
        ("X-linked", "x linked"),
        ("IL-2_receptor", "il 2 receptor"),
        ("10-20 mg", "10-20 mg"),
        ("STRAßE", "straße"),
        ("10\u2079/L", "10^9/l"),
        ("1½", "1 1/2"),
        ("\uff21\uff22\uff23", "abc"),
        ("\ufb01brosis \u2013 late", "fibrosis - late"),
        ("Ca\u0301ncer\u200b", "cáncer"),
        ("a\0b\nc", "a b c"),
        (".5 mg", ".5 mg"),
        ("5'", "5'"),
        ('"quoted"', "quoted"),
        ("...", ""),
        ("", ""),
    ],
)
def test_clean(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("type 1 diabetes", "type 2 diabetes"),
        ("factor V", "factor X"),
        ("Rh+", "Rh-"),
        ("+/-", "+"),
        ("10⁹", "109"),
        ("año", "ano"),
        ("a/b", "ab"),
        ("5 mg", ".5 mg"),
        ("(left)", "left"),
    ],
)
def test_clean_keeps_meaning_apart(one: str, other: str) -> None:
    assert clean(one) != clean(other)


@given(st.text())
@example("J\u030c")
@example("'\"a\"'.")
@example("a\u200b\u0301")
def test_clean_is_idempotent(string: str) -> None:
    once = clean(string)
    assert clean(once) == once
    assert once == once.strip()
    assert unicodedata.normalize("NFC", once) == once


@given(st.text(st.characters(max_codepoint=127)))
def test_the_fast_way_for_ascii_gives_what_the_rules_give(string: str) -> None:
    slow = string
    for rule in DEFAULT_RULES:
        slow = RULES[rule](slow)
    assert clean(string) == slow


@given(st.lists(st.text(max_size=20), max_size=20))
def test_clean_many_is_clean_of_each(strings: list[str]) -> None:
    assert clean_many(strings) == [clean(string) for string in strings]
    assert clean_many(strings, list(DEFAULT_RULES)) == clean_many(strings)


def test_other_rules() -> None:
    assert clean("Ménière  X", ["strip_accents"]) == "Meniere  X"
    with pytest.raises(KeyError):
        clean("a", ["no such rule"])
