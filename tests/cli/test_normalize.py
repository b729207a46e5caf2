"""`alphita normalize`, with a stand-in for the encoder."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import sys
import types
from pathlib import Path

import pytest

from alphita import drafts
from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore
from tests.books import book
from tests.cli.command import alphita
from tests.doubles import HashEncoder


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.csv"
    path.write_bytes(b"id,text\n1,Headache\n2,headace\n3,qqqq\n4,caf\xe9\n")
    return path


def test_a_file(index_path, source, tmp_path, capsys):
    out, report = tmp_path / "out.csv", tmp_path / "report.json"
    options = ["--column", "text", "--code-column", "id", "--report", report]
    assert alphita("normalize", source, "--index", index_path, "-o", out, *options) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("4 rows: 1 exact, 1 nearest, 1 NIL, 1 rejected; ")
    assert printed[1:] == [f"rejects: {out}.rejects.csv", f"output: {out}"]
    with open(out, newline="") as file:
        rows = [(row["mention_code"], row["mention"], row["concept_id"]) for row in csv.DictReader(file)]
    assert rows == [("1", "Headache", "T:2"), ("2", "headace", "T:2"), ("3", "qqqq", "")]
    figures = json.loads(report.read_text())
    assert (figures["rows"], figures["exact"], figures["rejected"]) == (4, 1, 1)
    assert figures["command"][0] == "normalize"


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


def test_top_floor_and_format(index_path, source, tmp_path):
    out = tmp_path / "out"
    options = ["--column", "text", "--top", 3, "--floor", -1, "--format", "jsonl"]
    assert alphita("normalize", source, "--index", index_path, "-o", out, *options) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["row"], row["rank"]) for row in rows] == [(r, k) for r in (1, 2, 3) for k in (1, 2, 3)]
    assert rows[6]["method"] == "nearest"


def test_stdin_to_stdout(index_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"headache\n")))
    assert alphita("normalize", "-", "--index", index_path, "-o", "-") == 0
    out, said = capfdbinary.readouterr()
    assert out.decode().splitlines()[1].startswith("1,headache,1,T:2,Headache,Headache,1.0,,,exact")
    assert b"1 rows: 1 exact" in said


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--column", "txt"], 2, "unknown column 'txt'; did you mean 'text'? choose from ['id', 'text']"),
        ([], 2, "has several columns; name one with --column: ['id', 'text']"),
        (["--column", "text", "--encoding", "utf-9"], 2, "unknown encoding 'utf-9'"),
        (["--column", "text", "--format", "xml"], 2, "unknown format 'xml'"),
        (["--column", "text", "--resume", "--force"], 2, "give one of them"),
    ],
)
def test_wrong_use_is_one_line(index_path, source, tmp_path, capsys, options, code, message):
    assert alphita("normalize", source, "--index", index_path, "-o", tmp_path / "out.csv", *options) == code
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04"])
def test_bad_input_is_one_line(index_path, tmp_path, capsys, content):
    source = tmp_path / "in.csv"
    source.write_bytes(content)
    assert alphita("normalize", source, "--index", index_path, "-o", tmp_path / "out.csv") == 1
    assert capsys.readouterr().err.startswith(f"error: {source}: ")


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


def test_what_people_decided_answers_first(index_path, source, tmp_path, capsys):
    store, out = tmp_path / "r.sqlite", tmp_path / "out.csv"
    with ReviewStore.open(store, create=True) as reviews:
        reviews.add_project(Project("lab", "LAB", "", "", "", "", ""))
        reviews.add_rows("lab", [ReviewRow(0, "lab", 1, "", "HEADACE", 1)])
        reviews.decide(Decision("1", "lab", 1, "ann", "choose", "T:3"))
    words = ["normalize", source, "--index", index_path, "--column", "text", "-o", out, "--force"]
    for scope in ([], ["--mappings-source", "LAB"], ["--project", "lab"]):
        assert alphita(*words, "--mappings", store, *scope) == 0
        assert capsys.readouterr().out.startswith("4 rows: 1 reviewed before, 1 exact, 0 nearest, 1 NIL, 1 rejected; ")
    with open(out, newline="") as file:
        row = list(csv.DictReader(file))[1]
    assert (row["concept_id"], row["method"], row["reviewer"]) == ("T:3", "reviewed", "ann")
    assert alphita(*words, "--project", "lab") == 2
    assert "go with --mappings" in capsys.readouterr().err
