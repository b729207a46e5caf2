"""The front door: one call from strings to concepts, for lists, series and frames."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import alphita
from alphita import front
from alphita.errors import AlphitaError, UsageError
from tests.tiny import tiny_model

TABLE = "id,term\nX:1,Headache\nX:1,Cephalgia\nX:2,Fever\nX:3,Cough\n"
MENTIONS = ["headache", "fevver", "broken tv remote"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    (folder / "findings.csv").write_text(TABLE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALPHITA_CACHE", str(folder / "cache"))
        yield folder / "findings.csv"


def test_a_list_gives_results_with_confidence(source):
    first, second, third = alphita.normalize(MENTIONS, to=source)
    assert (first.concept_id, first.decision) == ("X:1", "accept")
    assert second.concept_id == "X:2"
    assert (third.concept_id, third.decision) == (None, "nil")
    assert all(0 <= one.confidence <= 1 for one in (first, second, third))


def test_iterators_and_arrays_give_what_a_list_gives(source):
    results = alphita.normalize(MENTIONS, to=source)
    others = (one for one in MENTIONS), pa.array(MENTIONS), pa.chunked_array([MENTIONS]), np.array(MENTIONS, object)
    for given in (*others, dict(enumerate(MENTIONS)).values()):
        assert alphita.normalize(given, to=source) == results
    languages = pa.array([None, "en", None])
    assert [one.concept_id for one in alphita.normalize(iter(MENTIONS), to=source, languages=languages)] == [
        one.concept_id for one in results
    ]


def test_frames_and_series_give_frames(source):
    ids = [one.concept_id for one in alphita.normalize(MENTIONS, to=source)]
    for library in (pl, pd):
        frame = library.DataFrame({"complaint": MENTIONS, "n": [1, 2, 3]})
        by_column = alphita.normalize(frame, to=source, column="complaint")
        by_series = alphita.normalize(library.Series(MENTIONS), to=source)
        for found in (by_column, by_series):
            assert isinstance(found, library.DataFrame)
            assert [one if isinstance(one, str) else None for one in found["concept_id"]] == ids
        assert list(by_column["n"]) == [1, 2, 3]
        named = alphita.normalize(frame, to=source, column="complaint", context="complaint", prefix="found_")
        assert [one if isinstance(one, str) else None for one in named["found_concept_id"]] == ids
    assert alphita.normalize(frame.iloc[:1], to=source, column="complaint", top_k=2)["rank"].tolist() == [1, 2]


def test_options_of_a_call_and_of_the_normaliser(source):
    (found,) = alphita.normalize(["headache"], to=source, top_k=2, explain=True, error=0.1, ranking="learned")
    assert (len(found.candidates), bool(found.explanation)) == (2, True)
    assert alphita.normalize([], to=source) == []


def test_it_is_opened_once_and_anew_when_the_file_changes(source, tmp_path, monkeypatch):
    front._opened.cache_clear()
    alphita.normalize(["headache"], to=source)
    alphita.normalize(["cough"], to=str(source))
    assert front._opened.cache_info().misses == 1
    copy = tmp_path / "findings.csv"
    copy.write_text(TABLE)
    assert alphita.normalize(["rash"], to=copy)[0].concept_id is None
    copy.write_text(TABLE + "X:4,Rash\n")
    assert alphita.normalize(["rash"], to=copy)[0].concept_id == "X:4"


@pytest.mark.parametrize(
    ("mentions", "options", "problem"),
    [
        ("headache", {}, "list of strings"),
        (["a"], {"column": "x"}, "goes with a data frame"),
        (pl.DataFrame({"a": ["b"]}), {}, "which column"),
        (pl.DataFrame({"a": ["b"]}), {"column": "x"}, "unknown column"),
        (["a"], {"top_k": 0}, "top_k"),
        (["a"], {"error": 0.3}, "choose from"),
    ],
)
def test_wrong_use_is_told(source, mentions, options, problem):
    with pytest.raises(UsageError, match=problem):
        alphita.normalize(mentions, to=source, **options)


def test_an_unknown_terminology_or_recipe_is_told(source, tmp_path):
    with pytest.raises(AlphitaError, match="did you mean 'hpo'"):
        alphita.load("hpoo")
    with pytest.raises(AlphitaError, match="did you mean 'coder'"):
        alphita.train("codr", source, tmp_path / "m")


def test_training_gives_a_model_that_opens(source, tmp_path):
    out = alphita.train("sapbert", source, tmp_path / "model", encoder=tiny_model(tmp_path / "tiny"), steps=2)
    assert alphita.TermEncoder.load(out).encode(["headache"]).shape == (1, 32)


def test_help_shows_every_public_name():
    said = subprocess.run(
        [sys.executable, "-c", "import alphita; help(alphita)"], capture_output=True, text=True, check=True
    ).stdout
    assert all(name in said for name in alphita.__all__)
    assert len(alphita.__all__) == 11


def test_annotate_finds_mentions_in_one_text_or_several(source):
    found = alphita.annotate("No fever, but a headache.", to=source)
    assert [(one.mention, one.concept_id, one.said) for one in found] == [
        ("fever", "X:2", ("negated",)),
        ("headache", "X:1", ("affirmed",)),
    ]
    assert [len(one) for one in alphita.annotate(["Headache", ""], to=source, exact=True)] == [1, 0]
    with pytest.raises(UsageError, match="give a string"):
        alphita.annotate(3, to=source)
