"""Strings and codes: cleaning, CURIEs, language tags."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alphita.terminology import languages, prefixes
from alphita.terminology.languages import among, by_tag, speaks
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


# --- CURIEs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "curie"), cases("prefixes.tsv"))
def test_ids_have_one_spelling(written, curie):
    assert prefixes.normalize(written) == curie
    assert prefixes.normalize(curie) == curie


def test_expand_and_contract_are_inverse():
    for prefix, row in prefixes.table().items():
        if row.uri:
            uri = prefixes.expand(f"{prefix}:007")
            assert uri == row.uri + "007"
            assert prefixes.contract(uri) == f"{prefix}:007"
    assert prefixes.expand("NDC:1") is None
    assert prefixes.contract("HP:1") is None


def test_the_table_of_prefixes_is_sound():
    table = prefixes.table()
    spellings = [name.lower() for row in table.values() for name in (row.prefix, *row.aliases)]
    assert len(spellings) == len(set(spellings))
    uris = [row.uri for row in table.values() if row.uri]
    assert len(uris) == len(set(uris))
    assert all(value == value.strip() for row in table.values() for value in (row.uri, row.fhir_system, row.name))
    assert table["SNOMEDCT"].fhir_system == "http://snomed.info/sct"
    assert table["MESH"].fhir_system == "https://www.nlm.nih.gov/mesh"
    assert table["MEDDRA"].fhir_system == "https://www.meddra.org"
    assert table["RXNORM"].omop_vocabulary_id == "RxNorm"


@pytest.mark.parametrize("text", ["", ":", "a:", ":b", "http://x", "plain"])
def test_what_is_no_curie(text):
    assert prefixes.parse_curie(text) is None


# --- languages -------------------------------------------------------------------------------------------------------


def test_the_table_of_languages_is_sound():
    rows = languages.table()
    assert list(rows) == sorted(rows)
    assert sum(len(tag) == 2 for tag in rows) == 185  # ISO 639-1, with sh and bh, which are withdrawn
    codes = [code for row in rows.values() for code in (row.tag, *row.iso639_2)]
    assert len(set(codes)) == len(codes)
    assert all(code.isascii() and code.islower() and len(code) in (2, 3) for code in codes)
    names = [row.name for row in rows.values()]
    assert all(names)
    assert len({name.lower() for name in names}) == len(names)


@pytest.mark.parametrize(("written", "tag"), cases("language_tags.tsv"))
def test_tags_have_one_spelling(written, tag):
    assert languages.normalize(written) == tag
    assert languages.normalize(tag) == tag


@pytest.mark.parametrize(
    "written", ["", "xx", "e", "english", "kli", "qua", "en-", "en--US", "-en", "é", "en-toolongtag", "12"]
)
def test_unknown_ones(written):
    assert languages.normalize(written) is None


@pytest.mark.parametrize(("tag", "language", "is_so"), cases("languages_spoken.tsv"))
def test_a_language_stands_for_itself_and_what_is_narrower(tag, language, is_so):
    assert speaks(tag, language) is bool(is_so)
    assert not speaks(None, language)


def test_among():
    assert among(["en-GB", None, "pt", "en", "en-GB", ""], ["en", "pt-BR"]) == ["en", "en-GB"]
    assert among(["en"], []) == []


def test_the_narrowest_language_that_a_tag_is_of_gives_it_its_weight():
    tags = ["zh", "zh-Hant", "zh-Hant-TW", "zh-Hans", "en", "pt-BR"]
    assert by_tag(tags, {"zh": 2.0, "zh-Hant": 3.0, "pt-br": 0.5}) == {
        "zh": 2.0,
        "zh-Hant": 3.0,
        "zh-Hant-TW": 3.0,
        "zh-Hans": 2.0,
        "pt-BR": 0.5,
    }
    assert by_tag(tags, {}) == {}
