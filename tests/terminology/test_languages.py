"""The table of languages, and tags brought to one spelling."""

from __future__ import annotations

import pytest

from alphita import config
from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology import languages
from alphita.terminology.languages import Language
from tests.terminology.conftest import cases


def test_the_table_is_sound() -> None:
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
def test_tags_have_one_spelling(written: str, tag: str) -> None:
    assert languages.normalize(written) == tag
    assert languages.normalize(tag) == tag


@pytest.mark.parametrize(
    "written", ["", "xx", "e", "english", "kli", "qua", "en-", "en--US", "-en", "é", "en-toolongtag", "12"]
)
def test_unknown_ones(written: str) -> None:
    assert languages.normalize(written) is None


def test_names_and_codes() -> None:
    assert languages.by_name()["polish"] == "pl"
    assert languages.by_code()["cze"] == languages.by_code()["ces"] == "cs"


def test_as_an_option() -> None:
    class Options(Config):
        language: Language = "en"

    assert config.resolve(Options, sets=["language=GER"]).language == "de"
    with pytest.raises(UsageError, match=r"option 'language': unknown language.*'xx'"):
        config.resolve(Options, sets=["language=xx"])
