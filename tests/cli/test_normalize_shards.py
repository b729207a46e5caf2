"""`alphita normalize --engine`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphita.review.records import Decision, Project, ReviewRow
from alphita.review.store import ReviewStore
from tests.cli.command import alphita

MENTIONS = ["Headache", "seizures", "qqqq", "Headache", None, "a\0b"]


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(2):
        pq.write_table(pa.table({"text": MENTIONS, "id": range(6)}), folder / f"{number}.parquet")
    return folder


def test_a_folder_of_parquet_is_made(index_path, source, tmp_path, capsys):
    out, report = tmp_path / "out", tmp_path / "report.json"
    command = ["normalize", source, "--index", index_path, "-o", out, "--engine", "processes", "--workers", 1]
    command += ["--column", "text", "--code-column", "id", "--ranking", "letters", "--report", report]
    assert alphita(*command) == 0
    said = capsys.readouterr().out
    assert "12 rows: 4 exact" in said
    assert "2 rejected" in said
    assert "4 distinct strings answered; 2 parts; engine processes" in said
    rows = pa.concat_tables(pq.read_table(path) for path in sorted(out.glob("part-*.parquet"))).to_pylist()
    assert [(row["row"], row["mention_code"], row["mention"]) for row in rows] == [
        (6 * number + place + 1, str(place), MENTIONS[place] or "") for number in range(2) for place in range(5)
    ]
    assert rows[0]["concept_id"] == rows[3]["concept_id"] == "T:2"
    told = json.loads(report.read_text())
    assert told["rows"] == 12
    assert told["engine"]["workers"] == 1
    assert set(told["steps"]) == {"Reading", "Normalising", "Writing"}
    assert alphita(*command) == 2
    assert "already exists" in capsys.readouterr().err
    assert alphita(*command, "--resume") == 0
    assert "is finished already" in capsys.readouterr().err


def test_what_was_settled_answers_first(index_path, source, tmp_path, capsys):
    with ReviewStore.open(tmp_path / "r.sqlite", create=True) as store:
        store.add_project(Project("lab", "LAB", "", "", "", "", ""))
        store.add_rows("lab", [ReviewRow(0, "lab", 1, "", "QQQQ", 1)])
        store.decide(Decision("1", "lab", 1, "ann", "choose", "T:3", "exact"))
    out = tmp_path / "out"
    command = ["normalize", source, "--index", index_path, "-o", out, "--column", "text", "--ranking", "letters"]
    command += ["--engine", "processes", "--workers", 1]
    assert alphita(*command, "--mappings", tmp_path / "r.sqlite", "--mappings-source", "LAB") == 0
    assert "12 rows: 2 reviewed before, 4 exact" in capsys.readouterr().out
    rows = pq.read_table(out / "part-00000.parquet").to_pylist()
    told = [(row["concept_id"], row["method"], row["status"], row["reviewer"]) for row in rows]
    assert told[2] == ("T:3", "reviewed", "approved", "ann")
    assert told[0] == ("T:2", "exact", "unreviewed", None)
    assert alphita(*command, "--force", "--project", "lab") == 2
    assert "go with --mappings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--format", "sssom"], "--format sssom does not go with --engine"),
        (["--input-format", "csv"], "--input-format csv"),
        (["--sheet", "Codes"], "--sheet Codes does not go with --engine"),
        (["--encoding", "cp1252"], "--encoding cp1252"),
        (["--delimiter", ";"], "--delimiter ;"),
        (["--audit", "5"], "--audit 5"),
        (["--audit-out", "x.csv"], "--audit-out x.csv"),
        (["--set-id", "https://example.org"], "--set-id"),
        (["--licence", "x"], "--licence"),
        (["--prefix", "T=https://example.org/"], "--prefix"),
        (["--source-vocabulary", "LOCAL"], "--source-vocabulary"),
        (["--source-system", "x"], "--source-system"),
        (["--source-version", "1"], "--source-version"),
        (["--address", "10.0.0.1:6379"], "--address names a cluster"),
        (["--gpus-per-worker", "1"], "--gpus-per-worker is for clusters"),
        (["--context-column", "id"], "'id' has no strings but int64"),
        (["--resume", "--force"], "one of them"),
    ],
)
def test_options_that_do_not_go_with_it_are_refused_by_name(index_path, source, tmp_path, capsys, options, words):
    out = tmp_path / "out"
    command = ["normalize", source, "--index", index_path, "-o", out, "--column", "text", "--engine", "processes"]
    assert alphita(*command, *options) == 2
    assert words in capsys.readouterr().err
    assert not out.exists()


def test_a_report_that_cannot_be_written_is_told_before_the_work(index_path, source, tmp_path, capsys):
    out, report = tmp_path / "out", tmp_path / "0.json" / "r.json"
    report.parent.write_text("")
    words = ["normalize", source, "--index", index_path, "-o", out, "--column", "text", "--engine", "processes"]
    assert alphita(*words, "--report", report) == 1
    assert f"cannot write {report}: {report.parent} is no folder" in capsys.readouterr().err
    assert not out.exists()


def test_options_of_an_engine_need_one(index_path, source, tmp_path, capsys):
    one = source / "0.parquet"
    for option in (["--workers", 2], ["--address", "x"], ["--gpus-per-worker", 0.5]):
        assert alphita("normalize", one, "--index", index_path, "-o", tmp_path / "o.csv", *option) == 2
        assert f"{option[0]} goes with --engine" in capsys.readouterr().err


def test_wrong_places_are_told(index_path, source, tmp_path, capsys):
    start = ["normalize", "--index", index_path, "--column", "text", "--engine"]
    assert alphita(*start, "processes", "-", "-o", tmp_path / "out") == 2
    assert "not stdin" in capsys.readouterr().err
    assert alphita(*start, "processes", source, "-o", "-") == 2
    assert "not stdout" in capsys.readouterr().err
    assert alphita(*start, "prozesses", source, "-o", tmp_path / "out") == 2
    assert "did you mean 'processes'" in capsys.readouterr().err
    assert alphita(*start, "processes", tmp_path / "none.csv", "-o", tmp_path / "out") == 1
    assert "no Parquet file is there" in capsys.readouterr().err


def test_engines_that_are_not_asked_for_are_not_loaded():
    program = "import alphita.cli.normalize, sys; print([m for m in ('ray', 'pyspark', 'fsspec') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"
