"""`alphita normalize --engine`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
    told = json.loads(report.read_text())
    assert told["rows"] == 12
    assert told["engine"]["workers"] == 1
    assert set(told["steps"]) == {"Reading", "Normalising", "Writing"}
    assert alphita(*command) == 2
    assert "already exists" in capsys.readouterr().err
    assert alphita(*command, "--resume") == 0
    assert "is finished already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "10.0.0.1:6379"], "--address names a cluster"),
        (["--gpus-per-worker", "1"], "--gpus-per-worker is for clusters"),
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


def test_few_modules_are_loaded_and_no_engine_or_format_that_is_not_asked_for():
    program = """
import sys
from pathlib import Path
import alphita.cli.normalize, alphita.index.sources, alphita.jobs.run
from alphita.mappings.formats import chosen
chosen(Path("out.csv"), "", "--format")
print([name for name in ("ray", "pyspark", "fsspec", "alphita.mappings.formats.sssom") if name in sys.modules])
print(sum(name.partition(".")[0] == "alphita" for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded, count = done.stdout.splitlines()
    assert loaded == "[]"
    assert int(count) <= 106
