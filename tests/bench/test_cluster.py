"""What `bench/cluster.py` says of outputs, logs and processes; with a job that only sleeps, and once a real one."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
cluster = importlib.import_module("cluster")
cluster_job = importlib.import_module("cluster_job")

# A driver whose workers sleep for their task, the slow one for long; who dies is replaced.
SLEEPER = """
import os, sys, time
import cluster_job
log, tasks, slow = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for task in range(tasks):
    while True:
        child = os.fork()
        if not child:
            cluster_job.note(log, "begin", "Normalising", task)
            time.sleep(60 if task == slow else 0.4)
            cluster_job.note(log, "end", "Normalising", task, seconds=0.4, cpu=0.3)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            break
"""


def sleeper(folder: Path, tasks: int, slow: int = -1) -> Any:
    log = folder / "log"
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(log), str(tasks), str(slow)], env={**os.environ, "PYTHONPATH": str(BENCH)}
    )
    return cluster.Run(process, folder / "out", log, folder / "figures.json")


def write(folder: Path, cuts: Sequence[Sequence[dict[str, Any]]]) -> list[Path]:
    schema = pa.schema([("row", pa.int64()), ("mention", pa.string()), ("similarity", pa.float64())])
    folder.mkdir()
    for number, rows in enumerate(cuts):
        pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / f"part-{number:05}.parquet")
    return cluster.parts(folder)


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"row": number, "mention": f'a,\n"{number}', "similarity": number / 3} for number in numbers]


def test_a_hash_is_of_the_rows_and_not_of_how_they_are_cut(tmp_path: Path) -> None:
    whole = cluster.hash_rows(write(tmp_path / "a", [rows(1, 2, 3, 4)]))
    assert cluster.hash_rows(write(tmp_path / "b", [rows(1), [], rows(2, 3, 4)])) == whole
    assert cluster.hash_rows(write(tmp_path / "c", [rows(1, 2, 4, 3)])) != whole
    other = rows(1, 2, 3, 4)
    other[2]["similarity"] = 1.0000000000000002  # one bit
    assert cluster.hash_rows(write(tmp_path / "d", [other])) != whole
    none, empty = rows(1), rows(1)
    none[0]["mention"], empty[0]["mention"] = None, ""
    hashes = [cluster.hash_rows(write(tmp_path / name, [one])) for name, one in (("e", none), ("f", empty))]
    assert hashes[0] != hashes[1]


def test_lost_and_doubled_rows_are_counted(tmp_path: Path) -> None:
    # Several candidates of a row follow one another.
    assert cluster.numbers(write(tmp_path / "a", [rows(1, 1, 2), rows(3, 4)]), 4, 0) == {"lost": 0, "doubled": 0}
    assert cluster.numbers(write(tmp_path / "b", [rows(1, 2), rows(2, 4)]), 5, 1) == {"lost": 1, "doubled": 1}
    assert cluster.numbers(write(tmp_path / "c", [rows(1, 2, 1)]), 2, 0) == {"lost": 0, "doubled": 1}


def line(event: str, task: int, pid: int = 7, what: str = "Normalising", **more: Any) -> dict[str, Any]:
    return {"event": event, "what": what, "task": task, "pid": pid, **more}


def test_a_log_tells_phases_and_what_is_at_work() -> None:
    lines = [
        line("begin", 0, what="Reading"), line("end", 0, what="Reading", seconds=2.0, cpu=1.5), line("begin", 0, 8),
        line("begin", 1, 9), line("end", 1, 9, seconds=0.5, cpu=0.25), line("begin", 0, 10), line("begin", 2, 9),
        line("end", 2, 9, seconds=1.0, cpu=0.5), line("end", 2, 9, seconds=1.0, cpu=0.5),
    ]  # fmt: skip
    assert cluster.phases(lines) == {
        "Reading": {"tasks": 1, "begun": 1, "busy": 2.0, "cpu": 1.5},
        "Normalising": {"tasks": 3, "begun": 4, "busy": 2.5, "cpu": 1.25},
    }  # fmt: skip
    assert cluster.at_work(lines) == {("Normalising", 0): 10}
    assert cluster.ended_again(lines) == 1


def test_a_line_that_is_not_whole_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert cluster_job.notes(log) == []
    cluster_job.note(log, "begin", "Reading", 3)
    with log.open("a") as file:
        file.write('{"event": "en')
    assert [(one["event"], one["task"], one["pid"]) for one in cluster_job.notes(log)] == [("begin", 3, os.getpid())]


def test_what_the_machine_works_is_at_least_what_this_process_does() -> None:
    before, own = cluster_job.machine_cpu(), time.process_time()
    while time.process_time() - own < 0.5:
        pass
    worked = cluster_job.machine_cpu() - before
    # The system counts in ticks of a hundredth of a second.
    assert worked > 0.4


def test_scaling_is_the_part_of_what_is_linear() -> None:
    speeds = [("ray", 1, 90.0), ("ray", 1, 100.0), ("ray", 2, 190.0), ("spark", 2, 1.0)]
    runs = [dict(zip(("engine", "workers", "rows_per_second"), speed, strict=True)) for speed in speeds]
    assert cluster.scaling(runs) == {"ray": pytest.approx(0.95)}


def test_workers_are_killed_in_the_midst_of_a_task_and_no_task_twice(tmp_path: Path) -> None:
    run = sleeper(tmp_path, 6)
    killed = cluster.kill_workers(run, 3, random.Random(0), 0.1)
    assert run.process.wait(60) == 0
    assert len({one["task"] for one in killed}) == 3
    assert all(one["again"] for one in killed[:2])
    lines = cluster_job.notes(run.log)
    assert cluster.phases(lines)["Normalising"]["tasks"] == 6
    assert cluster.phases(lines)["Normalising"]["begun"] == 9
    assert cluster.ended_again(lines) == 0


def test_a_killed_drivers_processes_are_found_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TO_END", 0.3)
    run = sleeper(tmp_path, 2, slow=1)
    while len(cluster_job.notes(run.log)) < 3:
        time.sleep(0.02)
    assert cluster.kill_driver(run, 1) == 1
    orphan = cluster_job.notes(run.log)[-1]["pid"]
    state = cluster._stat(orphan)
    assert not state or state[0] == "Z"
    assert cluster.alive({os.getpid(): cluster._stat(os.getpid())[19]}) == [os.getpid()]
    assert cluster.alive({os.getpid(): "1"}) == []
    ended = sleeper(tmp_path, 0)
    ended.process.wait()
    ended.log.unlink()
    with pytest.raises(cluster.AlphitaError, match="give more rows"):
        cluster.kill_driver(ended, 1)


def test_a_run_that_fails_names_its_words(tmp_path: Path) -> None:
    run = sleeper(tmp_path, 1, slow=0)
    run.process.kill()
    with pytest.raises(cluster.AlphitaError, match=r"log\.txt"):
        run.end()
    for one in cluster_job.notes(run.log):
        os.kill(one["pid"], 9)


@pytest.mark.slow
def test_a_real_job_is_measured_and_disturbed(tmp_path: Path) -> None:
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import build
    from tests.tiny import tiny_model, tiny_terminology

    build(
        tiny_terminology(tmp_path / "t.terminology"), TermEncoder.load(tiny_model(tmp_path / "m")), tmp_path / "x.index"
    )
    kinds = [f"{site} {what}" for site in ("heart", "skin") for what in ("pain", "ache")]
    mentions = [f"{kind} {number}" for number in range(1500) for kind in kinds]
    pq.write_table(pa.table({"mention": mentions}), tmp_path / "in.parquet")
    cluster.main([
        str(tmp_path / "in.parquet"), "--index", str(tmp_path / "x.index"), "-o", str(tmp_path / "out"), "--workers",
        "1,2", "--kills", "1", "--driver-kills", "1",
    ])  # fmt: skip
    found = json.loads((tmp_path / "out" / "cluster.json").read_text())
    assert found["same_rows"]
    assert [(run["workers"], run["rows"], run["distinct"]) for run in found["runs"]] == [
        (n, 6000, 6000) for n in (1, 2)
    ]
    assert set(found["runs"][0]["phases"]) == {"Reading", "Normalising", "Writing"}
    for one in found["kills"]:
        assert (one["lost"], one["doubled"], one["same_rows"], one["ended_again"]) == (0, 0, True, 0)
    assert found["kills"][0]["begun_again"] <= 1
