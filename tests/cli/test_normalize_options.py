"""The options of `alphita normalize` that reach the normaliser and the output."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from alphita import registry
from alphita.answer import RANKING_NAMES
from alphita.review.store import ReviewStore
from tests.cli.command import alphita


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("id,text,note,lang,n\n1,Headache,,en,3\n2,SZ,,,\n3,qqqq,,,many\n", encoding="utf-8")
    return path


def test_columns_explanation_and_abbreviations(index_path, source, tmp_path, capsys):
    own, out = tmp_path / "own.csv", tmp_path / "out.csv"
    own.write_text("short,long\nSZ,seizure\n")
    options = ["--column", "text", "--context-column", "note", "--language-column", "lang", "--frequency-column", "n"]
    options += ["--explain", "--abbreviations", own]
    assert alphita("normalize", source, "--index", index_path, "-o", out, *options) == 0
    assert "1 exact, 1 by abbreviation, 0 nearest, 0 NIL, 1 rejected" in capsys.readouterr().out
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mention"], row["concept_id"], row["frequency"], row["expansion"]) for row in rows] == [
        ("Headache", "T:2", "3", ""),
        ("SZ", "T:1", "", "seizure"),
    ]
    assert all(row["explanation"] for row in rows)


def test_a_mapping_format_takes_its_header_from_the_options(index_path, source, tmp_path, capsys):
    out = tmp_path / "out.sssom.tsv"
    options = ["--column", "text", "--code-column", "id", "--set-id", "https://example.org/set"]
    options += ["--licence", "https://example.org/licence", "--source-vocabulary", "LOCAL"]
    options += ["--prefix", "LOCAL=https://example.org/local/", "--prefix", "T=https://example.org/t/"]
    report = tmp_path / "report.json"
    command = ["normalize", source, "--index", index_path, "-o", out, *options]
    assert alphita(*command, "--report", report) == 0
    text = out.read_text()
    for part in ("mapping_set_id: https://example.org/set", "LOCAL:1", "LOCAL: https://example.org/local/"):
        assert part in text
    printed = capsys.readouterr().out
    lost = json.loads(report.read_text())["lost"]
    assert lost["scope"] > 0
    assert f"scope ({lost['scope']:,})" in next(line for line in printed.splitlines() if "not in this format" in line)


def test_what_the_normalizer_is_given(index_path, source, tmp_path, monkeypatch):
    given = {}

    def opened(index, options):
        given.update(vars(options))

    monkeypatch.setattr("alphita.answer.normalizer.Normalizer", opened)
    monkeypatch.setattr("alphita.jobs.run.run", lambda *_, **__: 1 / 0)
    options = ["--ranking", "letters", "--error", "0.05", "--target", "T", "--floor", "0.3", "--calibration", "c"]
    with pytest.raises(ZeroDivisionError):
        alphita("normalize", source, "--index", index_path, "--column", "text", "-o", tmp_path / "o.csv", *options)
    assert (given["ranking"], given["error"], given["target"], given["floor"]) == ("letters", 0.05, "T", 0.3)
    assert given["calibration"] == Path("c")
    assert given["filters"] is None


def test_nothing_overwrites_what_is_read_beside_the_input(index_path, source, tmp_path, capsys):
    store, short = tmp_path / "r.sqlite", tmp_path / "short.csv"
    ReviewStore.open(store, create=True).close()
    short.write_text("short,long\nHTN,hypertension\n")
    before = store.read_bytes(), short.read_bytes()
    words = ["normalize", source, "--index", index_path, "--column", "text", "--format", "csv", "--force"]
    words += ["--mappings", store, "--abbreviations", short]
    for options, said in (
        (["-o", store], f"{store} is the store of reviews; choose another name for the output"),
        (["-o", short], f"{short} is the file of abbreviations; choose another name for the output"),
        (
            ["-o", tmp_path / "out.csv", "--report", short],
            f"{short} is the file of abbreviations; choose another name for",
        ),
    ):
        assert alphita(*words, *options) == 2
        assert said in capsys.readouterr().err
    assert (store.read_bytes(), short.read_bytes()) == before


def test_filters(index_path, source, tmp_path):
    command = ["normalize", source, "--column", "text", "--index", index_path]
    assert alphita(*command, "-o", tmp_path / "all.csv", "--language", "en") == 0
    assert alphita(*command, "-o", tmp_path / "one.csv", "--under", "T:1", "--under", "T:3", "--floor", "-1") == 0
    found = {}
    for name in ("all", "one"):
        with open(tmp_path / f"{name}.csv", newline="") as file:
            found[name] = [row["concept_id"] for row in csv.DictReader(file)]
    assert found["all"][0] == "T:2"
    assert set(found["one"]) <= {"T:1", "T:3"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--under", "T:99"], "T:99"),
        (["--language", "xx"], "xx"),
        (["--source", "T"], "--source cannot be used with it"),
        (["--type", "Finding"], "--type cannot be used with it"),
        (["--standard-only"], "--standard-only cannot be used with it"),
        (["--prefix", "LOCAL"], "--prefix 'LOCAL' is not of the form LOCAL=https://"),
        (["--frequency-column", "m"], "unknown column 'm'"),
        (["--error", "0.05"], "an allowed error of 0.05 needs a calibration, and there is none here; fit one"),
        (["--ranking", "fuzion"], "unknown ranking 'fuzion'; did you mean 'fusion'"),
        (["--ranking", "learned"], "the ranking 'learned' needs a calibration"),
        (["--audit", "5"], "--audit draws from the accepted rows, and without a calibration none is accepted"),
        (["--format", "omop"], "SOURCE_TO_CONCEPT_MAP needs a source_vocabulary_id"),
    ],
)
def test_wrong_use_is_one_line(index_path, source, tmp_path, capsys, options, message):
    command = ["normalize", source, "--column", "text", "--index", index_path, "-o", tmp_path / "out.csv", *options]
    assert alphita(*command) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


def test_help_names_every_format_and_ranking(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    assert alphita("normalize", "--help-all") == 0
    shown = capsys.readouterr().out
    for choices in (registry.names("alphita.mappings.formats"), RANKING_NAMES):
        assert ", ".join(choices) in shown
    assert "stdin or a pipe is read once" in " ".join(shown.split())


def test_a_wrong_column_is_told_before_anything_is_indexed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ALPHITA_CACHE", str(tmp_path / "cache"))
    (tmp_path / "terms.csv").write_text("id,term\nX:1,Fever\n")
    (tmp_path / "asked.csv").write_text("a,b\nfever,1\n")
    words = ["normalize", tmp_path / "asked.csv", "--to", tmp_path / "terms.csv", "-o", tmp_path / "o.csv"]
    assert alphita(*words, "--column", "c") == 2
    assert "unknown column 'c'" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_a_line_for_each_name_that_a_string_joins(index_path, tmp_path, capsys):
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("text,n\nHeadache; seizure,2\nheadache,1\n", encoding="utf-8")
    options = ["--column", "text", "--frequency-column", "n", "--split"]
    assert alphita("normalize", source, "--index", index_path, "-o", out, *options) == 0
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["row"], row["mention"], row["concept_id"], row["frequency"]) for row in rows] == [
        ("1", "Headache", "T:2", "2"),
        ("1", "seizure", "T:1", "2"),
        ("2", "headache", "T:2", "1"),
    ]
