"""The clinic's short forms: what they stand for, in which order, and in which language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from alphita.calibrate import examples
from alphita.errors import InputError
from alphita.index import external_names
from alphita.index.enrichment import SHORT_FORM_COLUMNS, Enrichment, read_short_forms
from alphita.index.sources import terminology_of
from alphita.index.store import Index, build
from alphita.mention.abbreviations import Abbreviations
from alphita.terminology.store import load_terminology
from alphita.terminology.text import clean_many
from tests.doubles import HashEncoder

TERMS = """id,term
X:1,Shortness of breath
X:2,Multiple sclerosis
X:3,Knee pain
X:4,Chronic kidney disease
X:5,Recurrent urinary tract infection
"""
ROWS = [
    ("SOB", "shortness of breath", 0.9, "en", None),
    ("MS", "mitral stenosis", 0.5, "en", None),
    ("MS", "multiple sclerosis", 0.4, "en", None),
    ("w/", "with", 0.9, "en", None),
    ("b/l", "bilateral", 0.9, "en", None),
    ("c/o", "complains of", 0.9, "en", None),
    ("UTI", "urinary tract infection", 0.9, "en", None),
    ("dx", "diagnosis", 0.9, "en", None),
    ("IRC", "insufficienza renale cronica", 0.9, "it", "chronic kidney disease"),
    ("dx", "destra", 0.9, "it", "right"),
    ("FA", "fibrillation auriculaire", 0.9, "fr", "atrial fibrillation"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    folder = tmp_path_factory.mktemp("clinic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        (folder / "terms.csv").write_text(TERMS, encoding="utf-8")
        terms = load_terminology(terminology_of(folder / "terms.csv"))
    listed = pl.DataFrame(ROWS, dict.fromkeys(SHORT_FORM_COLUMNS), orient="row").cast({"share": pl.Float32})
    return build(terms, HashEncoder(), folder / "clinic.index", enrichment=Enrichment(None, listed, "no"))


def read(index: Index, mention: str, language: str | None = None, context: str | None = None) -> list[str]:
    found = Abbreviations.of_index(index).expand(mention, context, language)
    assert all(one.source == "clinic" for one in found)
    return [one.string for one in found]


@pytest.mark.parametrize(
    ("mention", "first"),
    [
        ("SOB", "shortness of breath"),
        ("sob", "shortness of breath"),
        ("pt w/sob", "pt with shortness of breath"),
        ("b/l knee pain", "bilateral knee pain"),
        ("c/o SOB", "complains of shortness of breath"),
        ("sob w/ ms", "shortness of breath with multiple sclerosis"),
    ],
)
def test_a_short_form_is_written_out_wherever_it_stands(index, mention, first):
    assert read(index, mention)[0] == first


def test_what_the_terminology_has_goes_before_what_is_meant_oftener_and_the_context_before_both(index):
    assert read(index, "MS") == ["multiple sclerosis", "mitral stenosis"]
    assert read(index, "MS", context="echo: severe mitral stenosis, AVA 1.0")[0] == "mitral stenosis"
    assert read(index, "MS, mitral valve area 1.0")[0].startswith("mitral stenosis")
    (one, other) = Abbreviations.of_index(index).expand("MS")
    assert (one.share, other.share) == (pytest.approx(0.4), pytest.approx(0.5))


def test_those_of_another_language_are_for_mentions_of_that_language_or_of_none(index):
    assert read(index, "IRC", "en") == read(index, "irc") == []
    assert set(read(index, "IRC")) == set(read(index, "IRC", "it"))
    # The terminology speaks English: so the English name is looked up, too.
    assert set(read(index, "IRC", "it")) == {"insufficienza renale cronica", "chronic kidney disease"}
    assert read(index, "IRC", "it-CH") != []
    assert read(index, "SOB", "it") == []


def test_the_words_of_a_mention_tell_in_which_language_its_short_forms_are(index):
    assert {*read(index, "frattura della caviglia dx")[:2]} == {
        "frattura della caviglia destra",
        "frattura della caviglia right",
    }
    assert read(index, "knee pain dx")[0] == "knee pain diagnosis"
    assert read(index, "frattura della caviglia dx", "en") == ["frattura della caviglia diagnosis"]
    assert "fibrillation auriculaire paroxystique" in read(index, "fa paroxystique")[:2]


def test_a_users_list_goes_before_the_clinics(index, tmp_path):
    (tmp_path / "mine.csv").write_text("short,long\nMS,mental status\n", encoding="utf-8")
    known = Abbreviations.of_index(index).with_list(tmp_path / "mine.csv")
    assert [one.string for one in known.expand("MS")] == ["mental status"]
    assert [one.string for one in known.expand("SOB")] == ["shortness of breath"]


def test_examples_are_made_with_short_forms_and_led_back(index):
    strings = list(index.strings)
    concepts = np.array([int(index.segment.term_concept[index.segment.offsets[row]]) for row in range(len(strings))])
    made = examples.abbreviated(index, strings, concepts, most=10, seed=1)
    assert set(made.mentions) <= {"SOB", "MS", "recurrent UTI"}
    assert "recurrent UTI" in made.mentions
    ids = index.segment.concepts.column("id").to_pylist()
    assert ids[int(made.concepts[made.mentions.index("recurrent UTI")])] == "X:5"
    assert (made.hidden_strings == -1).all()


def test_an_index_without_them_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "terms.csv").write_text(TERMS, encoding="utf-8")
    terms = load_terminology(terminology_of(tmp_path / "terms.csv"))
    plain = build(terms, HashEncoder(), tmp_path / "plain.index", enrichment=Enrichment(None, None, "no"))
    assert plain.segment.short_forms is None
    assert Abbreviations.of_index(plain).expand("SOB") == []
    none = examples.abbreviated(plain, list(plain.strings), np.zeros(len(plain), np.int64), most=10, seed=1)
    assert none.mentions == []


# The list that comes along.


@pytest.fixture(scope="module")
def listed() -> pl.DataFrame:
    return read_short_forms(external_names.shipped_folder() / external_names.SHORT_FORMS)


def test_every_row_is_whole_and_shares_are_shares(listed):
    counts = dict(listed.group_by("language").len().iter_rows())
    assert counts["en"] >= 1_500
    assert min(counts[language] for language in ("it", "de", "fr", "es")) >= 150
    assert listed.select(pl.col("short", "long", "share", "language").is_null().any()).row(0) == (False,) * 4
    assert listed.filter(pl.col("share").is_between(0, 1, closed="right").not_()).is_empty()
    assert listed.filter(pl.col("short").str.to_lowercase() == pl.col("long").str.to_lowercase()).is_empty()
    assert listed.group_by("short", "language").agg(pl.col("share").sum()).filter(pl.col("share") > 1.01).is_empty()
    assert not listed.select(pl.col("short", "long").str.to_lowercase(), "language").is_duplicated().any()
    assert listed.filter((pl.col("language") != "en") & (pl.col("english").fill_null("") == "")).is_empty()


def test_everyday_phrases_are_as_many_as_promised_and_brands_name_one_ingredient():
    folder = external_names.shipped_folder()
    lay = pl.read_csv(folder / "lay.tsv", separator="\t", quote_char=None, infer_schema=False)
    assert lay.columns == ["phrase", "name", "also", "system", "language"]
    counts = dict(lay.filter(pl.col("system") != "drug").group_by("language").len().iter_rows())
    assert counts["en"] >= 2_000
    assert min(counts[language] for language in ("it", "de", "fr", "es")) >= 200
    assert lay.filter(pl.col("phrase").str.to_lowercase() == pl.col("name").str.to_lowercase()).is_empty()
    assert lay.select(pl.struct("phrase", "language").is_duplicated().any()).item() is False
    brands = clean_many(lay.filter(pl.col("system") == "drug")["phrase"].to_list())
    assert len(brands) == len(set(brands)) >= 2_000
    # Names of ICD-10-CM's index are lent to its own codes alone.
    shared = ~pl.col("source").str.ends_with(external_names.OF_CODES)
    named = pl.read_parquet(folder / external_names.NAMES).filter(shared & pl.col("key").is_in(brands))
    assert sorted(named["key"]) == sorted(brands)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "damaged list"),
        ("short\tlong\nSOB\tshortness of breath\n", "damaged list"),
        ("short\tlong\tshare\tlanguage\tenglish\nSOB\tshortness of breath\tmany\ten\t\n", "damaged list"),
    ],
)
def test_a_damaged_list_is_told(tmp_path: Path, text, problem):
    path = tmp_path / "short_forms.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        read_short_forms(path)
