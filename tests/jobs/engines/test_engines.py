"""The same job on every engine: the same bytes, also where workers or the driver are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from alphita.errors import UsageError
from alphita.jobs import folder as job
from alphita.jobs.engines import ENGINES, open_engine
from tests.jobs.conftest import table_of
from tests.jobs.engines import run_shards
from tests.jobs.engines.serial import Serial
from tests.waiting import PYTHONPATH, has_ended, wait_until

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


def command(index: Path, source: str, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "tests.jobs.engines.run_shards", "processes", str(index), source, str(out), *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PYTHONPATH}


# That processes do is shown where some of them are killed.
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray", "spark"])
def test_every_engine_writes_the_same_bytes(engine, index_path, source, wanted, tmp_path, monkeypatch):
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine))
    monkeypatch.setattr(job, "FEW_ROWS", run_shards.FEW_ROWS)
    with open_engine(engine, 2) as opened:
        done = job.run(run_shards.shards(str(index_path), source, str(tmp_path / "out")), opened)
    assert content(tmp_path / "out") == wanted
    assert done.engine["workers"] == 2
    assert done.summary.rows == ROWS


@pytest.mark.parametrize(
    ("step", "tasks", "fault"), [("Reading", 6, "workers"), pytest.param("Writing", 9, "", marks=pytest.mark.slow)]
)
def test_a_killed_driver_goes_on(wanted, index_path, source, tmp_path, step, tasks, fault):
    """Also where a worker is killed at each step, when it goes on: no row is lost or doubled."""
    out = tmp_path / "out"
    killed = subprocess.run(command(index_path, source, out, f"{step}={tasks}"), env=environment())
    assert killed.returncode == -signal.SIGKILL
    with pytest.raises(UsageError, match="--resume"), open_engine("processes", 2) as opened:
        job.run(run_shards.shards(str(index_path), source, str(out)), opened)
    resumed = subprocess.run(
        command(index_path, source, out, f"resume {fault}".strip()), env=environment(), capture_output=True, text=True
    )
    assert resumed.returncode == 0, resumed.stderr
    assert content(out) == wanted
    # What was done is not done again.
    assert ("Reading" in resumed.stderr) == (step == "Reading")
    died = {path.suffix: int(path.read_text()) for path in tmp_path.glob("out.*")}
    assert died.keys() == ({".Reading", ".Normalising", ".Writing"} if fault else set())


def test_engines_are_named():
    with pytest.raises(UsageError, match=r"unknown engine 'rai'; did you mean 'ray'\?"):
        open_engine("rai")
    with pytest.raises(UsageError, match="workers must be 1 or more, not 0"):
        open_engine("spark", 0)
    assert ENGINES == ("processes", "ray", "spark")


def test_ctrl_c_stops_the_workers(index_path, source, tmp_path):
    process = subprocess.Popen(
        command(index_path, source, tmp_path / "out", "hold"), env=environment(), stderr=subprocess.DEVNULL
    )
    wait_until((tmp_path / "out.Reading").exists, process)
    workers = children(process.pid)
    assert workers
    process.send_signal(signal.SIGINT)
    for worker in workers:
        os.kill(worker, signal.SIGINT)
    assert process.wait() != 0
    wait_until(lambda: all(has_ended(worker) for worker in workers))
