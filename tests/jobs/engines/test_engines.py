"""The same job on every engine: the same bytes, also where workers or the driver are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from alphita.errors import UsageError
from alphita.jobs import folder as job
from alphita.jobs.engines.engine import ENGINES, open_engine
from tests.jobs.conftest import table_of
from tests.jobs.engines import run_shards
from tests.jobs.engines.serial import Serial

SECONDS = 60
ROWS = 480


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("source")
    for number in range(4):
        pq.write_table(table_of(ROWS // 4, number * ROWS), folder / f"{number}.parquet", row_group_size=20)
    return str(folder)


@pytest.fixture(scope="module")
def wanted(index_path, source, tmp_path_factory) -> dict[str, bytes]:
    """What tasks give that are done one after the other."""
    out = str(tmp_path_factory.mktemp("wanted") / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "FEW_ROWS", run_shards.FEW_ROWS)
        job.run(run_shards.shards(str(index_path), source, out), Serial())
    return content(out)


def content(out: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(out).iterdir() if path.name != "manifest.json"}


def children(pid: int) -> list[int]:
    """Return the ids of the workers of a driver; Python has a further process, which cleans up after them."""
    started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in started if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def waiting_for(folder: Path, files: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while not folder.is_dir() or len(list(folder.iterdir())) < files:
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture
def started(index_path, source, tmp_path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A job on processes, at its beginning; and its output."""
    out = tmp_path / "out"
    process = subprocess.Popen(command(index_path, source, out), env=environment(), stderr=subprocess.DEVNULL)
    yield process, out
    process.kill()
    process.wait()


def command(index: Path, source: str, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "tests.jobs.engines.run_shards", "processes", str(index), source, str(out), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}


@pytest.mark.parametrize("engine", ["processes", "ray", pytest.param("spark", marks=pytest.mark.slow)])
def test_every_engine_writes_the_same_bytes(engine, index_path, source, wanted, tmp_path, monkeypatch):
    pytest.importorskip({"processes": "multiprocessing", "spark": "pyspark"}.get(engine, engine))
    monkeypatch.setattr(job, "FEW_ROWS", run_shards.FEW_ROWS)
    with open_engine(engine, 2) as opened:
        done = job.run(run_shards.shards(str(index_path), source, str(tmp_path / "out")), opened)
    assert content(tmp_path / "out") == wanted
    assert done.engine["workers"] == 2
    assert done.summary.rows == ROWS


def test_no_row_is_lost_or_doubled_where_workers_are_killed(started, wanted):
    process, out = started
    killed = []
    # One while questions are read, one while they are answered, one while rows are written.
    for folder, files in (("questions", 3), ("answers", 1), ("written", 3)):
        waiting_for(out / "_work" / folder, files, process)
        victim = children(process.pid)[-1]
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)
    assert process.wait(SECONDS) == 0
    assert len(set(killed)) == 3
    assert content(out) == wanted
    rows = pl.read_parquet(f"{out}/part-*.parquet").filter(pl.col("rank") == 1)["row"]
    rejects = pl.read_csv(out / "rejects.csv")
    assert rows.is_unique().all()
    assert len(rows) + len(rejects) == ROWS


@pytest.mark.parametrize(("folder", "files"), [("questions", 6), pytest.param("written", 9, marks=pytest.mark.slow)])
def test_a_killed_driver_goes_on(started, wanted, index_path, source, folder, files):
    process, out = started
    waiting_for(out / "_work" / folder, files, process)
    process.kill()
    process.wait()
    assert not (out / "manifest.json").exists()
    resumed = subprocess.run(
        command(index_path, source, out, "resume"), env=environment(), capture_output=True, text=True, timeout=SECONDS
    )
    assert resumed.returncode == 0, resumed.stderr
    assert content(out) == wanted
    # What was done is not done again.
    assert ("Reading" in resumed.stderr) == (folder == "questions")


def test_engines_are_named():
    with pytest.raises(UsageError, match=r"unknown engine 'rai'; did you mean 'ray'\?"):
        open_engine("rai")
    with pytest.raises(UsageError, match="workers must be 1 or more, not 0"):
        open_engine("spark", 0)
    assert ENGINES == ("processes", "ray", "spark")


def test_ctrl_c_stops_the_workers(started):
    process, out = started
    waiting_for(out / "_work" / "questions", 2, process)
    workers = children(process.pid)
    assert workers
    process.send_signal(signal.SIGINT)
    for worker in workers:
        os.kill(worker, signal.SIGINT)
    assert process.wait(SECONDS) != 0
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
