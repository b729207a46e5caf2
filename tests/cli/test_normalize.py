"""`alphita normalize`, with a stand-in for the encoder."""

from __future__ import annotations

import csv
import errno
import os
from pathlib import Path

import pytest

from alphita import drafts, registry
from alphita.answer import RANKING_NAMES
from alphita.review.store import ReviewStore
from tests.books import book
from tests.cli.command import alphita
from tests.doubles import HashEncoder


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.csv"
    path.write_bytes(b"id,text\n1,Headache\n2,headace\n3,qqqq\n4,caf\xe9\n")
    return path


def test_a_report_that_fails_at_the_end_does_not_deny_the_output(index_path, source, tmp_path, capsys, monkeypatch):
    out, report = tmp_path / "out.csv", tmp_path / "report.json"
    sync, synced = drafts.sync_folder, []

    def failing(folder):
        synced.append(folder)
        if report.exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(folder)

    monkeypatch.setattr(drafts, "sync_folder", failing)
    words = ["normalize", source, "--index", index_path, "--column", "text", "-o", out, "--report", report]
    assert alphita(*words) == 1
    assert capsys.readouterr().err.endswith(
        f"error: could not write {report}: No space left on device; the output itself is written\n"
    )
    assert out.exists()


def test_a_damaged_index_and_a_model_of_another_dimension(index_path, source, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("alphita.encoder.encoder.TermEncoder.load", lambda path, **_: HashEncoder(dim=32))
    command = ["normalize", source, "--column", "text", "--index", index_path, "-o", tmp_path / "out.csv"]
    assert alphita(*command) == 1
    assert "its dimension is 32, the index was built with 64; build it again: alphita index" in capsys.readouterr().err
    (index_path / "model/config.json").write_text('{"dim": 32, "seed": 0}')
    assert alphita(*command) == 1
    assert "the hash of model/config.json is not the manifest's" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


def test_a_sheet_of_a_workbook(index_path, tmp_path, capsys):
    path = book(tmp_path / "codes.xlsx", Codes=[["id", "text"], [250, "Headache"], [7, None]], Notes=[["text"], ["x"]])
    out = tmp_path / "out.csv"
    words = ["normalize", path, "--index", index_path, "--column", "text", "--code-column", "id", "-o", out]
    assert alphita(*words) == 2
    assert "name one with --sheet: ['Codes', 'Notes']" in capsys.readouterr().err
    assert alphita(*words, "--sheet", "Codes") == 0
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["mention_code"], row["concept_id"]) for row in rows] == [("250", "T:2"), ("7", "")]


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
        (["--nil-error", "0.05"], "an allowed error of 0.05 needs a calibration, and there is none here; fit one"),
        (["--ranking", "fuzion"], "unknown ranking 'fuzion'; did you mean 'fusion'"),
        (["--ranking", "learned"], "the ranking 'learned' needs a calibration"),
        (["--audit", "5"], "--audit draws from the accepted rows, and without a calibration none is accepted"),
        (["--format", "omop"], "SOURCE_TO_CONCEPT_MAP needs a source_vocabulary_id"),
    ],
)
def test_wrong_options_are_one_line(index_path, source, tmp_path, capsys, options, message):
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
