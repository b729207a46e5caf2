"""The promised speeds, of this checkout beside another, in turn, in one run of a quarter of an hour.

    git worktree add ../base RELEASE
    python bench/release_speed.py --beside ../base -o OUT [--minutes 15] [--large X.index]

Each checkout makes and calibrates an index of HPO of its own, for an index holds its encoder. Then, round by round: a
file of 100,000 rows and single mentions (`normalize_speed.py`), batches asked of the service (`service_load.py`), and
MCSM beside a loop over concepts as CODER's published scorer has it. `--large` adds an index of many names, which both
search; peers have a command of their own (`peers/compare.py`). What no time is left for is left out, and said.
OUT/release_speed.json is written after every measurement; the table at the end has medians, and of the ratios the least
and the most of all rounds. `processor s` counts user and system time, which other programs touch less than the clock.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parents[1]
BENCH = HERE / "bench"
OURS, OTHER = "ours", "beside"
ROUNDS = 3
CONCEPTS, TYPES, DIM, LOOPED = 20_000, 20, 384, 400
# What was promised, with its sense: more is better, or less.
TARGETS = {
    "one mention, ms": ("≤", 5.0),
    "a file, rows/s": ("≥", 5000.0),
    "a large index, distinct/s": ("≥", 1000.0),
    "service, batches, mentions/s": ("≥", 1000.0),
    "calibrate HPO, processor s": ("≤", 60.0),
    "MCSM, times the loop": ("≥", 20.0),
}


class Checkout(NamedTuple):
    """A checkout: its name here, its folder, and its index of HPO."""

    name: str
    folder: Path
    hpo: Path


class Report:
    """Measurements of each figure by checkout, in the order of the rounds, written as they come."""

    def __init__(self, file: Path) -> None:
        """Write into `file`."""
        self.file, self.figures = file, defaultdict[str, dict[str, list[float]]](lambda: {OURS: [], OTHER: []})
        self.notes: list[str] = []

    def add(self, figure: str, checkout: str, value: float) -> None:
        """Note one measurement."""
        self.figures[figure][checkout].append(value)
        print(f"{figure}: {checkout} {value:.4g}", flush=True)
        self.write()

    def note(self, text: str) -> None:
        """Note what is not a number."""
        self.notes.append(text)
        print(text, flush=True)
        self.write()

    def write(self) -> None:
        """Write the report as it is."""
        told = {"figures": self.figures, "notes": self.notes, "command": sys.argv}
        self.file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")

    def table(self) -> str:
        """Return a table in Markdown."""
        lines = ["| figure | asked | beside | ours | ours / beside [least, most] |", "|---|--:|--:|--:|--:|"]
        for figure, by in self.figures.items():
            sense, asked = TARGETS.get(figure, ("", None))
            medians = [f"{statistics.median(by[name]):.4g}" if by[name] else "–" for name in (OTHER, OURS)]
            ratios = [ours / other for ours, other in zip(by[OURS], by[OTHER], strict=False) if other]
            ratio = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]" if ratios else "–"
            lines.append(f"| {figure} | {sense} {asked or ''} | {' | '.join(medians)} | {ratio} |")
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)])


def run(checkout: Checkout, *command: str | Path) -> tuple[float, str]:
    """Run Python on a checkout's package; return processor seconds and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(checkout.folder / "src")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def prepare(report: Report, checkouts: list[Checkout]) -> None:
    """Make and calibrate the indexes that are not there yet."""
    for checkout in checkouts:
        if not checkout.hpo.exists():
            seconds, _ = run(checkout, "-m", "alphita", "index", "hpo", "-o", checkout.hpo)
            report.add("index HPO, processor s", checkout.name, seconds)
        if not (checkout.hpo / "calibration").exists():
            seconds, _ = run(checkout, "-m", "alphita", "calibrate", "--index", checkout.hpo)
            report.add("calibrate HPO, processor s", checkout.name, seconds)


def files(report: Report, checkouts: list[Checkout], out: Path, seed: int) -> None:
    """Measure a file and single mentions; compare the answers."""
    asked = ("--terms-of", checkouts[0].hpo)  # one file for both
    for checkout in checkouts[:: -1 if seed % 2 else 1]:
        folder = out / f"file-{checkout.name}"
        sizes = ("--rows", "100000", "--distinct", "15000", "--seed", str(seed))
        run(checkout, BENCH / "normalize_speed.py", "--index", checkout.hpo, "-o", folder, *sizes, *asked)
        figures = json.loads((folder / "speed.json").read_text(encoding="utf-8"))
        report.add("one mention, ms", checkout.name, figures["single p50 ms"])
        report.add("a file, rows/s", checkout.name, figures["rows/s"])
        report.add("a file, processor s", checkout.name, figures["processor s"])
        report.add("a file, GB", checkout.name, figures["peak GB"])
    told = []
    for checkout in checkouts:
        with open(out / f"file-{checkout.name}" / "answers.csv", encoding="utf-8", newline="") as file:
            told.append([(row["mention"], row["concept_id"], row["decision"]) for row in csv.DictReader(file)])
    other = {a[0] for a, b in zip(*told, strict=True) if a != b}
    report.note(f"file, seed {seed}: {len(other)} of 15,000 distinct mentions have another concept or decision")


def large(report: Report, checkouts: list[Checkout], out: Path, index: Path, seed: int) -> None:
    """Measure a file on an index of many names, which all share."""
    for checkout in checkouts:
        folder = out / f"large-{checkout.name}"
        sizes = ("--rows", "5000", "--distinct", "5000", "--seed", str(seed))
        run(checkout, BENCH / "normalize_speed.py", "--index", index, "-o", folder, *sizes)
        figures = json.loads((folder / "speed.json").read_text(encoding="utf-8"))
        report.add("a large index, distinct/s", checkout.name, figures["distinct/s"])
        report.add("a large index, processor s", checkout.name, figures["processor s"])


def service(report: Report, checkouts: list[Checkout], out: Path) -> None:
    """Measure the service, both servers running."""
    ours, other = checkouts
    file = out / "service.json"
    beside = ("--beside", other.folder, "--beside-index", other.hpo)
    run(ours, BENCH / "service_load.py", "--index", ours.hpo, *beside, "-o", file, "--rounds", str(ROUNDS))
    told = json.loads(file.read_text(encoding="utf-8"))
    for turn in told["rounds"]:
        for checkout, figures in zip(checkouts, turn, strict=True):
            for kind in ("batches", "crowd"):
                report.add(f"service, {kind}, mentions/s", checkout.name, figures[kind]["mentions/s"])
            rate = figures["batches"]["mentions/s of the busiest thread"]
            report.add("service, batches, mentions/s of the busiest thread", checkout.name, rate)
    report.note("service, answers: " + ", ".join(f"{count} {what}" for what, count in told["answers"].items()))


def mcsm(report: Report, checkouts: list[Checkout]) -> None:
    """Measure MCSM beside the loop, each checkout in a process of its own."""
    for checkout in checkouts:
        _, printed = run(checkout, __file__, "--mcsm")
        report.add("MCSM, times the loop", checkout.name, float(printed))


def _mcsm_times() -> float:
    """Return how many times as fast as a loop over concepts this process's MCSM is; the loop takes some of them."""
    import numpy as np
    import torch

    from alphita_lab.evaluation.scoring.mcsm import mcsm as score

    rng = np.random.default_rng(0)
    kinds = rng.integers(0, TYPES, CONCEPTS)
    vectors = rng.standard_normal((CONCEPTS, DIM), np.float32)
    vectors += 0.25 * rng.standard_normal((TYPES, DIM), np.float32)[kinds]
    unit = torch.nn.functional.normalize(torch.from_numpy(vectors), dim=1)
    weights = (1 / np.log2(np.arange(2, 42))).tolist()
    start = time.perf_counter()
    for concept in range(LOOPED):
        order = torch.topk(torch.matmul(unit, unit[concept]), len(weights) + 1).indices
        sum(weight for weight, other in zip(weights, order[1:], strict=True) if kinds[other] == kinds[concept])
    loop = (time.perf_counter() - start) / LOOPED
    start = time.perf_counter()
    score(vectors, np.eye(TYPES, dtype=bool)[kinds], len(weights))
    return loop / ((time.perf_counter() - start) / CONCEPTS)


def main() -> None:
    """Measure all in turn and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="the other checkout")
    parser.add_argument("--output", "-o", type=Path)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--large", type=Path, help="an index of many names")
    parser.add_argument("--mcsm", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.mcsm:
        print(_mcsm_times())
        return
    if given.beside is None or given.output is None:
        parser.error("--beside and -o are needed")
    given.output.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * given.minutes
    checkouts = [
        Checkout(OURS, HERE, given.output / "ours.index"),
        Checkout(OTHER, given.beside.resolve(), given.output / "beside.index"),
    ]
    report = Report(given.output / "release_speed.json")
    prepare(report, checkouts)
    a_round: list[tuple[str, Any]] = [
        ("files", lambda seed: files(report, checkouts, given.output, seed)),
        ("MCSM", lambda _: mcsm(report, checkouts)),
    ]
    if given.large is not None:
        a_round.append(("large", lambda seed: large(report, checkouts, given.output, given.large, seed)))
    parts = [*a_round, ("service", lambda _: service(report, checkouts, given.output)), *a_round * (ROUNDS - 1)]
    for number, (name, part) in enumerate(parts):
        if time.monotonic() > until:
            report.note(f"no time was left for: {name}")
            continue
        part(number)
    print(report.table())


if __name__ == "__main__":
    main()
