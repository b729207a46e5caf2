"""The promised speeds, of this checkout beside another, in turn, in one run of a quarter of an hour.

    git worktree add ../base RELEASE
    python bench/release_speed.py --beside ../base -o OUT [--minutes 15] [--large X.index]

Each checkout makes and calibrates an index of HPO of its own, for an index holds its encoder. Then, round by round: a
file of 100,000 rows, 15,000 of them distinct noisy terms, and single mentions; batches asked of the service
(`service_load.py`); and MCSM beside a loop over concepts as CODER's published scorer has it. `--large` adds an index of
many names, which both search; peers have a command of their own (`peers/compare.py`). The report notes what no time was
left for. OUT/release_speed.json is written after every measurement; the table at the end has medians, and of the ratios
the least and the most of all rounds. `processor s` counts user and system time, which other programs touch less than
the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

import harness
import service_load
from alphita.index.store import Index

HERE = Path(__file__).parents[1]
OURS, OTHER = "ours", "beside"
DISTINCT, ROWS, SINGLE, LARGE = 15_000, 100_000, 300, 5_000
# Milliseconds of a mention asked alone, the median; of any checkout, through what is public.
ONE_BY_ONE = """
import json, statistics, sys, time, alphita
normalizer, mentions = alphita.load(sys.argv[1]), json.load(open(sys.argv[2]))
normalizer.normalize(mentions[:50])
times = []
for mention in mentions:
    start = time.perf_counter()
    normalizer.normalize([mention])
    times.append(time.perf_counter() - start)
print(1e3 * statistics.median(times))
"""
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

    def __init__(self, given: argparse.Namespace) -> None:
        """Start with none, of a run with these options."""
        self.given, self.rounds, self.notes = given, given.rounds, list[str]()
        self.figures = defaultdict[str, dict[str, list[float]]](lambda: {OURS: [], OTHER: []})

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
        harness.write(self.given, {"figures": self.figures, "notes": self.notes})

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


def run(checkout: Checkout, *command: str | Path) -> tuple[resource.struct_rusage, float, str]:
    """Run Python on a checkout's package; return what it used, its seconds, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(checkout.folder / "src")}
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *map(str, command)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return used, time.perf_counter() - start, printed


def prepare(report: Report, checkouts: list[Checkout]) -> None:
    """Make and calibrate the indexes that are not there yet."""
    for checkout in checkouts:
        for what, there, command in (
            ("index", checkout.hpo, ("index", "hpo", "-o", checkout.hpo)),
            ("calibrate", checkout.hpo / "calibration", ("calibrate", "--index", checkout.hpo)),
        ):
            if not there.exists():
                used, _, _ = run(checkout, "-m", "alphita", *command)
                report.add(f"{what} HPO, processor s", checkout.name, used.ru_utime + used.ru_stime)


def write_rows(path: Path, distinct: list[str], rows: int, seed: int) -> None:
    """Write rows that repeat the distinct strings, each at least once, the more often the earlier (weight 1/rank)."""
    generator = np.random.default_rng(seed)
    weight = 1 / np.arange(1, len(distinct) + 1)
    more = generator.choice(len(distinct), rows - len(distinct), p=weight / weight.sum())
    order = generator.permutation(np.concatenate([np.arange(len(distinct)), more]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("mention\n")
        file.writelines('"' + distinct[row].replace('"', '""') + '"\n' for row in order.tolist())


def files(report: Report, checkouts: list[Checkout], out: Path, seed: int) -> None:
    """Measure a file and single mentions, the same for both; compare the answers."""
    drawn = harness.noisy_terms(Index.open(checkouts[0].hpo), DISTINCT + SINGLE, seed)
    rows, singles = out / "rows.csv", out / "singles.json"
    write_rows(rows, drawn[:DISTINCT], ROWS, seed)
    singles.write_text(json.dumps(drawn[DISTINCT:]), encoding="utf-8")
    for checkout in checkouts[:: -1 if seed % 2 else 1]:
        answers = out / f"{checkout.name}.csv"
        asked = ("normalize", rows, "--index", checkout.hpo, "-o", answers, "--force")
        used, seconds, _ = run(checkout, "-m", "alphita", *asked)
        report.add("a file, rows/s", checkout.name, ROWS / seconds)
        report.add("a file, processor s", checkout.name, used.ru_utime + used.ru_stime)
        report.add("a file, GB", checkout.name, used.ru_maxrss * 1024 / 1e9)
        _, _, printed = run(checkout, "-c", ONE_BY_ONE, checkout.hpo, singles)
        report.add("one mention, ms", checkout.name, float(printed.splitlines()[-1]))
    told = []
    for checkout in checkouts:
        with open(out / f"{checkout.name}.csv", encoding="utf-8", newline="") as file:
            told.append([(row["mention"], row["concept_id"], row["decision"]) for row in csv.DictReader(file)])
    other = {a[0] for a, b in zip(*told, strict=True) if a != b}
    report.note(f"file, seed {seed}: {len(other)} of {DISTINCT:,} distinct mentions have another concept or decision")


def large(report: Report, checkouts: list[Checkout], out: Path, index: Path, seed: int) -> None:
    """Measure a file on an index of many names, which all share."""
    rows = out / "large.csv"
    write_rows(rows, harness.noisy_terms(Index.open(index), LARGE, seed), LARGE, seed)
    for checkout in checkouts:
        asked = ("normalize", rows, "--index", index, "-o", out / "large-answers.csv", "--force")
        used, seconds, _ = run(checkout, "-m", "alphita", *asked)
        report.add("a large index, distinct/s", checkout.name, LARGE / seconds)
        report.add("a large index, processor s", checkout.name, used.ru_utime + used.ru_stime)


def service(report: Report, checkouts: list[Checkout]) -> None:
    """Measure the service, both servers running."""
    served = [(checkout.folder, checkout.hpo) for checkout in checkouts]
    told = asyncio.run(service_load.compare(served, rounds=report.rounds))
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
        _, _, printed = run(checkout, __file__, "--mcsm")
        report.add("MCSM, times the loop", checkout.name, float(printed))


def _mcsm_times() -> float:
    """Return how many times as fast as a loop over concepts this process's MCSM is; the loop takes some of them."""
    import torch

    from alphita_lab.evaluation.benchmarks.mcsm import mcsm as score

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
    if sys.argv[1:] == ["--mcsm"]:
        print(_mcsm_times())
        return
    parser = harness.parser(__doc__, rounds=3)
    parser.add_argument("--beside", type=Path, required=True, help="the other checkout")
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--large", type=Path, help="an index of many names")
    given = parser.parse_args()
    if given.output is None:
        parser.error("-o FOLDER is needed")
    out = given.output
    out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * given.minutes
    beside = Checkout(OTHER, given.beside.resolve(), out / "beside.index")
    checkouts = [Checkout(OURS, HERE, out / "ours.index"), beside]
    given.output = out / "release_speed.json"
    report = Report(given)
    prepare(report, checkouts)
    a_round: list[tuple[str, Callable[[int], None]]] = [
        ("files", lambda seed: files(report, checkouts, out, seed)),
        ("MCSM", lambda _: mcsm(report, checkouts)),
    ]
    if given.large is not None:
        a_round.append(("large", lambda seed: large(report, checkouts, out, given.large, seed)))
    parts = [*a_round, ("service", lambda _: service(report, checkouts)), *a_round * (given.rounds - 1)]
    for number, (name, part) in enumerate(parts):
        if time.monotonic() > until:
            report.note(f"no time was left for: {name}")
            continue
        try:
            part(given.seed + number)
        except subprocess.CalledProcessError as error:
            report.note(f"{name}: failed: {error}")
    print(report.table())


if __name__ == "__main__":
    main()
