"""The table of languages, and tags brought to one spelling."""

from __future__ import annotations

import polars as pl
import pytest

from alphita.terminology import languages, store
from alphita.terminology.languages import among, by_tag, primary, speaks
from alphita.terminology.model import Tables
from alphita.terminology.store import load_terminology
from tests.terminology.conftest import cases


def test_the_table_is_sound():
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


def test_names_codes_and_the_language_itself():
    assert languages.by_name()["polish"] == "pl"
    assert languages.by_code()["cze"] == languages.by_code()["ces"] == "cs"
    assert [primary(tag) for tag in ("en", "en-GB", "EN_gb", "zh-Hant-TW", "")] == ["en", "en", "en", "zh", ""]


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


def test_the_terms_that_train_are_chosen_so(tmp_path):
    rows = [("T:1", "lift", "en-GB"), ("T:1", "elevator", "en"), ("T:1", "Aufzug", "de"), ("T:1", "Lift", "de-CH")]
    terms = pl.DataFrame(rows, schema=["concept", "string", "language"], orient="row").with_columns(source=pl.lit("T"))
    store.save(Tables(pl.DataFrame({"id": ["T:1"], "source": ["T"]}), terms), tmp_path / "t.terminology")
    terminology = load_terminology(tmp_path / "t.terminology")

    def chosen(*languages: str) -> list[str]:
        taken, _ = terminology.training_terms(languages=languages)
        return sorted(terminology.terms["string"].take(taken).to_pylist())

    assert chosen("en") == ["elevator", "lift"]
    assert chosen("en-gb") == ["lift"]
    assert chosen("de-CH", "fr", "en-GB") == ["lift"]  # "Lift" of de-CH cleans to the same, and comes later
    assert chosen("fr") == []
