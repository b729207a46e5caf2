"""A mistyped word is answered with the one that was meant, whatever kind of word it is."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.cli.command import alphita

FIXTURES = Path(__file__).parents[1] / "fixtures"
SMALL = FIXTURES / "terminology" / "small.obo"
SCORE = f"evaluate ncbi_disease --data {FIXTURES / 'benchmarks'}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("mistyped")
    (path / "in.csv").write_text("complaint\ntoe\n", encoding="utf-8")
    pl.DataFrame({"complaint": ["toe"]}).write_parquet(path / "in.parquet")
    (path / "serve.toml").write_text('prot = 8081\nto = "hpo"\n', encoding="utf-8")
    assert alphita("terminology", "import", "obo", SMALL, "-o", path / "t.terminology") == 0
    return path


@pytest.mark.parametrize(
    ("kind", "words", "meant"),
    [
        ("command", "normalise in.csv", "'normalize'"),
        ("command below", "terminology imprt obo x", "'import'"),
        ("option", "normalize in.csv --colum complaint --to hpo -o x.csv", "--column"),
        ("option in a file", "serve --config serve.toml", "'port'"),
        ("setting of a recipe", "train coder -t t.terminology -o m --set stepz=3", "'steps'"),
        ("setting of a loader", f"terminology import obo {SMALL} -o y.terminology --set langage=en", "'language'"),
        ("setting of a benchmark", "evaluate sts --model minilm --set sts.langages=en -o r", "'languages'"),
        ("recipe", "train codr -t t.terminology -o m", "'coder'"),
        ("benchmark", "evaluate held_out_synonym -t t.terminology --model minilm -o r", "'held_out_synonyms'"),
        ("benchmark asked about", "evaluate --about relatednes", "'relatedness'"),
        ("baseline", f"{SCORE} --baseline tfdf -o r", "'tfidf'"),
        ("loader", f"terminology import oboo {SMALL} -o y.terminology", "'obo'"),
        ("packaged terminology", "terminology import obo hpoo --packaged -o y.terminology", "'hpo'"),
        ("terminology", "normalize in.csv --to hpoo -o x.csv", "'hpo'"),
        ("encoder to train", "train coder -t t.terminology -o m --encoder minlm", "'minilm'"),
        ("encoder of an index", "index t.terminology --model alphita-eng -o t.index", "'alphita-en'"),
        ("encoder to score", f"{SCORE} --model minlm -o r", "'minilm'"),
        ("format", "normalize in.csv --to t.terminology --format cvs -o x", "'csv'"),
        ("format to convert to", "mappings convert in.csv --format omopp -o x", "'omop'"),
        ("format of input", "normalize in.csv --to t.terminology --input-format cvs -o x.csv", "'csv'"),
        ("column", "normalize in.csv --to t.terminology --column complait -o x.csv", "'complaint'"),
        ("engine", "normalize in.parquet --to t.terminology --engine sparc -o x", "'spark'"),
        ("backend", "index t.terminology --backend fais -o t.index", "'faiss'"),
        ("precision", "index t.terminology --precision fp23 -o t.index", "'fp32'"),
        ("graph model", "graph train transee -t t.terminology -o v", "'transe'"),
    ],
)
def test_the_word_that_was_meant_is_named(kind, words, meant, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert alphita(*words.split()) in {1, 2}, kind
    told = capsys.readouterr().err
    assert meant in told, f"{kind}: {told}"
    assert any(word in told.lower() for word in ("did you mean", "possible options")), f"{kind}: {told}"
