"""`alphita normalize --engine …` on all engines: speed, sameness of the answers, and what is left when it is killed.

    python bench/cluster.py INPUT --index X.index -o FOLDER [--engines processes,ray,spark] [--workers 1,2]
                            [--repeats 1] [--kills 10] [--driver-kills 1] [--kill-engines processes] [-- OPTION …]

INPUT is a Parquet file, a folder of them or a pattern (`cluster_data` makes such files); what follows `--` goes to
`alphita normalize`. Each run is a process of its own (`cluster_job`). A kill is SIGKILL to the process of a worker in
the midst of a task, by its id; a run is disturbed so `--kills` times, no task more than once. Then the driver is
killed, and the job goes on with --resume. FOLDER/cluster.json holds

    runs     seconds, rows/s, seconds of the workers in tasks by phase, memory of the largest worker, the hash of all
             rows of the output, in order; `overhead`: the part of workers' time that no task had; `cpu_seconds`:
             what the whole machine worked meanwhile, of it `task_cpu_seconds` in tasks; the rest is what the
             engine and its start cost, where nothing else is at work
    kills    rows lost and doubled, tasks begun again, and whether the rows are those of the undisturbed runs
    scaling  rows/s from the fewest workers to the most, as part of what is linear
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import cluster_job
from alphita import machine
from alphita.artefact import atomic_file
from alphita.errors import AlphitaError
from alphita.index.store import Index
from arguments import chosen, listed

ENGINES = ("processes", "ray", "spark")
READING, ANSWERING = "Reading", "Normalising"
LOOK = 0.02
# Seconds in which a killed worker's task must be begun again, and those in which orphans must have gone.
PATIENCE, TO_END = 300.0, 20.0


@dataclass
class Run:
    """A job that is running, or has run."""

    process: subprocess.Popen[bytes]
    out: Path
    log: Path
    figures: Path

    def end(self) -> dict[str, Any]:
        """Wait for the end and return its figures.

        Raises:
            AlphitaError: it failed.
        """
        if self.process.wait():
            raise AlphitaError(f"the run failed; its words are in {self.log.with_suffix('.txt')}")
        found: dict[str, Any] = json.loads(self.figures.read_text(encoding="utf-8"))
        return found


def start(given: argparse.Namespace, folder: Path, engine: str, workers: int, *more: str) -> Run:
    """Start a job; it is given an empty folder unless `--resume` is among its options."""
    if "--resume" not in more:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    run = Run(None, folder / "out", folder / "log", folder / "figures.json")  # type: ignore[arg-type]
    script = Path(cluster_job.__file__)
    words = open(run.log.with_suffix(".txt"), "ab")  # noqa: SIM115 - the process's own
    # Workers that are not children of the driver find the script too.
    path = os.pathsep.join(filter(None, [str(script.parent), os.environ.get("PYTHONPATH", "")]))
    with words:
        run.process = subprocess.Popen(
            [sys.executable, script, engine, run.figures, run.log, given.input, "--index", given.index, "--output",
             run.out, "--workers", str(workers), *given.options, *more],
            stdout=words, stderr=words, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip
    return run


# --- what a run left -------------------------------------------------------------------------------------------------


class _Digest(io.RawIOBase):
    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - a buffer
        self.sha256.update(data)
        return len(data)


def parts(out: Path) -> list[Path]:
    """Return the files of a job's output, in order."""
    return sorted(out.glob("part-*.parquet"))


def hash_rows(files: Sequence[Path]) -> str:
    """Return the sha256 of all rows, in order, to the last bit of every number; however they are cut into files."""
    digest = _Digest()
    for file in files:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches():
                # Of no rows, the writer would write one line all the same.
                if len(batch):
                    options = pa.csv.WriteOptions(include_header=False)
                    pa.csv.write_csv(batch, pa.PythonFile(digest, "w"), options)
    return digest.sha256.hexdigest()


def numbers(files: Sequence[Path], rows: int, rejected: int) -> dict[str, int]:
    """Return how many input rows are lost in an output, and how many are in more than one file or place.

    Args:
        files: of the output, with the column `row`; the candidates of one row follow one another.
        rows: of the input.
        rejected: of these, those set aside.
    """
    seen: Counter[int] = Counter()
    last = 0
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(columns=["row"]):
            for row in batch.column(0).to_pylist():
                if row != last:
                    seen[row] += 1
                    last = row
        # A row ends with its file.
        last = 0
    return {"lost": rows - rejected - len(seen), "doubled": sum(times - 1 for times in seen.values())}


def phases(lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return tasks ended, seconds of workers in them, those of the processor, and tasks begun, by phase."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"tasks": 0, "begun": 0, "busy": 0.0, "cpu": 0.0})
    for line in lines:
        phase = found[line["what"]]
        phase["begun"] += line["event"] == "begin"
        if line["event"] == "end":
            phase["tasks"] += 1
            phase["busy"] += line["seconds"]
            phase["cpu"] += line["cpu"]
    return dict(found)


def report(run: Run, given: argparse.Namespace, engine: str, workers: int) -> dict[str, Any]:
    """Return what is told of an ended run."""
    found = run.end()
    lines = cluster_job.notes(run.log)
    files = parts(run.out)
    manifest = json.loads((run.out / "manifest.json").read_text(encoding="utf-8"))
    by_phase = phases(lines)
    for name, seconds in found["walls"].items():
        by_phase.setdefault(name, {"tasks": 0, "begun": 0, "busy": 0.0, "cpu": 0.0})["wall"] = seconds
    busy = sum(phase["busy"] for phase in by_phase.values())
    return {
        "engine": engine, "workers": workers, "facts": found["facts"], "rows": given.rows, "terms": given.terms,
        "distinct": manifest["distinct"], "seconds": found["seconds"],
        "rows_per_second": given.rows / found["seconds"], "phases": by_phase,
        "overhead": 1 - busy / (workers * found["seconds"]), "cpu_seconds": found["cpu_seconds"],
        "task_cpu_seconds": sum(phase["cpu"] for phase in by_phase.values()), "shuffle_bytes": found["shuffle_bytes"],
        "output_bytes": sum(file.stat().st_size for file in files),
        "worker_bytes": max((line.get("own_bytes", 0) for line in lines), default=0), "rows_hash": hash_rows(files),
    }  # fmt: skip


# --- killing ---------------------------------------------------------------------------------------------------------


def at_work(lines: Sequence[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Return the tasks that were begun and did not end, with the process that began each last."""
    found: dict[tuple[str, int], int] = {}
    for line in lines:
        task = (line["what"], line["task"])
        if line["event"] == "begin":
            found[task] = line["pid"]
        else:
            found.pop(task, None)
    return found


def kill_workers(run: Run, times: int, chance: random.Random, most_wait: float) -> list[dict[str, Any]]:
    """Kill workers in the midst of a task, so many times or until the job ends; no task twice.

    Args:
        run: the job.
        times: how often.
        chance: draws the task, and the moment.
        most_wait: seconds that a task may go on before it is hit.
    """
    killed: dict[tuple[str, int], dict[str, Any]] = {}
    while len(killed) < times and run.process.poll() is None:
        time.sleep(LOOK)
        lines = cluster_job.notes(run.log)
        begun = Counter((line["what"], line["task"]) for line in lines if line["event"] == "begin")
        for task, one in killed.items():
            one["again"] = begun[task] > 1
        open_ = {task: pid for task, pid in at_work(lines).items() if task not in killed}
        # One blow at a time: its task must have been taken up again.
        if not open_ or any(not one["again"] and time.time() - one["time"] < PATIENCE for one in killed.values()):
            continue
        task = chance.choice(sorted(open_))
        time.sleep(chance.random() * most_wait)
        pid = at_work(cluster_job.notes(run.log)).get(task)
        if pid is None:
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed[task] = {"what": task[0], "task": task[1], "pid": pid, "time": time.time(), "again": False}
    return list(killed.values())


def kill_driver(run: Run, after: int) -> int:
    """Kill the driver when so many tasks of `ANSWERING` have ended; return how many of its processes stayed.

    Those that stay for `TO_END` seconds are killed, by their ids.

    Raises:
        AlphitaError: the job ended before.
    """
    while sum(line["event"] == "end" and line["what"] == ANSWERING for line in cluster_job.notes(run.log)) < after:
        if run.process.poll() is not None:
            raise AlphitaError("the job ended before its driver was killed; give more rows")
        time.sleep(LOOK)
    family = descendants(run.process.pid)
    run.process.kill()
    run.process.wait()
    end = time.time() + TO_END
    while (left := alive(family)) and time.time() < end:
        time.sleep(0.2)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # They may hold what the next driver needs.
    while alive(family):
        time.sleep(LOOK)
    return len(left)


def descendants(pid: int) -> dict[int, str]:
    """Return the ids of the processes that a process started, and theirs, each with the moment of its start."""
    children: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _stat(int(folder.name))):
            children[int(stat[1])].append((int(folder.name), stat[19]))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child, moment in children[waiting.pop()]:
            found[child] = moment
            waiting.append(child)
    return found


def alive(family: dict[int, str]) -> list[int]:
    """Return which of these processes still run; another one that has got the id does not count."""
    stats = {pid: _stat(pid) for pid in family}
    return [pid for pid, stat in stats.items() if stat and stat[19] == family[pid] and stat[0] != "Z"]


def _stat(pid: int) -> list[str]:
    """Return what the system says of a process, from its state on; nothing of one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


# --- all of it -------------------------------------------------------------------------------------------------------


def disturbed(given: argparse.Namespace, engine: str, expected: str, longest: float) -> Iterator[dict[str, Any]]:
    """Kill workers of one run, and the driver of others; yield what came of each."""
    folder, workers = given.output / "disturbed", max(given.workers)
    if given.kills:
        run = start(given, folder, engine, workers)
        killed = kill_workers(run, given.kills, random.Random(given.seed), longest / 2)
        told = {"killed": "workers", "engine": engine, "times": len(killed), "kills": killed}
        yield told | _outcome(run, given, expected)
    for _ in range(given.driver_kills):
        run = start(given, folder, engine, workers)
        stayed = kill_driver(run, 1)
        before = sum(line["event"] == "end" for line in cluster_job.notes(run.log))
        told = {"killed": "driver", "engine": engine, "processes_stayed": stayed, "ended_before": before}
        yield told | _outcome(start(given, folder, engine, workers, "--resume"), given, expected)


def _outcome(run: Run, given: argparse.Namespace, expected: str) -> dict[str, Any]:
    run.end()
    files = parts(run.out)
    manifest = json.loads((run.out / "manifest.json").read_text(encoding="utf-8"))
    by_phase = phases(cluster_job.notes(run.log))
    return {
        **numbers(files, given.rows, int(manifest["counts"].get("rejected", 0))),
        "begun_again": sum(int(phase["begun"] - phase["tasks"]) for phase in by_phase.values()),
        "ended_again": ended_again(cluster_job.notes(run.log)), "tasks": {n: p["tasks"] for n, p in by_phase.items()},
        "same_rows": hash_rows(files) == expected,
    }  # fmt: skip


def ended_again(lines: Sequence[dict[str, Any]]) -> int:
    """Return how many tasks were done to the end more than once."""
    done = Counter((line["what"], line["task"]) for line in lines if line["event"] == "end")
    return sum(times - 1 for times in done.values())


def scaling(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return, by engine, the best rows/s with the most workers as part of those with the fewest, times their ratio."""
    best: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs:
        speeds = best[run["engine"]]
        speeds[run["workers"]] = max(speeds.get(run["workers"], 0.0), run["rows_per_second"])
    return {
        engine: speeds[max(speeds)] / speeds[min(speeds)] / (max(speeds) / min(speeds))
        for engine, speeds in best.items() if len(speeds) > 1
    }  # fmt: skip


def count_rows(given: str) -> int:
    """Return the rows of the input."""
    from alphita.distributed.files import Place

    return sum(pq.ParquetFile(place.url).metadata.num_rows for place in Place(given).parquet_files())


def main(arguments: list[str] | None = None) -> None:
    """Run it all."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    place = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--index", required=True)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--engines", default="processes", help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--driver-kills", type=int, default=0)
    parser.add_argument("--kill-engines", default="", help="by default the first engine")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words[:place])
    given.options = words[place + 1 :]
    engines = chosen("engine", given.engines, ENGINES)
    given.workers = [int(number) for number in listed(given.workers)]
    given.output.mkdir(parents=True, exist_ok=True)
    given.rows, given.terms = count_rows(given.input), len(Index.open(given.index))
    found: dict[str, Any] = {
        "command": ["bench/cluster.py", *words], "machine": machine.describe(), "runs": [], "kills": [],
    }  # fmt: skip

    def keep() -> None:
        hashes = {run["rows_hash"] for run in found["runs"]}
        found["same_rows"] = len(hashes) == 1
        found["scaling"] = scaling(found["runs"])
        with atomic_file(given.output / "cluster.json", "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")

    longest = 0.0
    for number in range(given.repeats):
        for engine in engines:
            for workers in given.workers:
                folder = given.output / f"{engine}-{workers}"
                run = start(given, folder, engine, workers)
                found["runs"].append({**report(run, given, engine, workers), "repeat": number})
                ended = [line["seconds"] for line in cluster_job.notes(run.log) if line["event"] == "end"]
                longest = max([longest, *ended])
                shutil.rmtree(folder)
                keep()
                shown = {name: found["runs"][-1][name] for name in ("engine", "workers", "seconds", "rows_hash")}
                print(json.dumps(shown), flush=True)
    for engine in chosen("engine", given.kill_engines, ENGINES) or engines[:1]:
        if given.kills or given.driver_kills:
            for told in disturbed(given, engine, found["runs"][0]["rows_hash"], longest):
                found["kills"].append(told)
                keep()
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
