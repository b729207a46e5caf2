"""Every speed that users feel, of this checkout beside another and beside other programs, in turn, in one run.

    git worktree add ../base RELEASE
    bench/peers/setup.sh VENVS
    python bench/release_speed.py --beside ../base --source hpo --source icd10cm --venvs VENVS -o OUT

A source is what `alphita index` takes. Each checkout makes an index of each source in OUT, unless it is there: its
processor seconds are compared with those of encoding the index's strings. Then, round by round, `speed_probe.py` asks
each index three kinds of distinct strings: equal to a name, with one slip, with another name's word in place of one;
in blocks and singly, each beside the encoder alone. Of the first source there is a file in which a tenth of the rows
are distinct, too, requests to the service (`service_load.py`), and the other programs, which search the same strings.
One thread but for the service; processor seconds, which other programs touch less than the clock. The figures are
written to OUT/release_speed.json after every measurement, the tables to OUT/release_speed.md: medians, and the least
and the most ratio of the rounds.
"""

from __future__ import annotations

import asyncio
import csv
import functools
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import harness
import service_load
from alphita import machine
from alphita.calibrate.noise import slip
from alphita.errors import AlphitaError
from alphita.index.store import Index

HERE = Path(__file__).parents[1]
PROBE = Path(__file__).with_name("speed_probe.py")
OURS, OTHER = "ours", "beside"
KINDS = ("equal", "slip", "word")
# Prints the processor seconds that encoding an index's strings takes, and their number, through what is public.
ENCODING = """
import json, sys, time, alphita
from alphita import machine
machine.set_threads(1)
normalizer = alphita.Normalizer.load(sys.argv[1])
encoder, strings = normalizer.encoder(), list(normalizer.index.strings)
encoder.encode(strings[:100])
start = time.process_time()
encoder.encode(strings)
print(json.dumps([time.process_time() - start, len(strings)]))
"""
# What was promised, with its sense: more is better, or less.
TARGETS = {
    "of the encoder's rate": ("≥", 0.8),
    "one mention, times its encoding": ("≤", 2.5),
    "one mention, p95 times the encoding": ("≤", 4.0),
    "indexing, times the encoding": ("≤", 1.3),
}
# Of each kind, for the other programs: rapidfuzz compares a mention with every name.
PEER_STRINGS = 200


class Checkout(NamedTuple):
    """A checkout: its name here, its folder, and where its indexes are."""

    name: str
    folder: Path
    indexes: Path

    def index_of(self, source: str) -> Path:
        """Return the index of a source."""
        return self.indexes / f"{Path(source).stem}.index"


class Report:
    """Measurements of each figure by checkout or program, in the order of the rounds, written as they come."""

    def __init__(self, given: Namespace, out: Path) -> None:
        """Start with none, of a run with these options."""
        self.given, self.out, self.notes = given, out, list[str]()
        self.figures = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))

    def add(self, figure: str, of: str, value: float) -> None:
        """Note one measurement."""
        self.figures[figure][of].append(value)
        print(f"{figure}: {of} {value:.4g}", flush=True)
        self.write()

    def note(self, text: str) -> None:
        """Note what is not a number."""
        self.notes.append(text)
        print(text, flush=True)
        self.write()

    def write(self) -> None:
        """Write the figures and the tables as they are."""
        harness.write(self.given, {"figures": self.figures, "notes": self.notes})
        (self.out / "release_speed.md").write_text(self.tables() + "\n", encoding="utf-8")

    def tables(self) -> str:
        """Return the tables in Markdown: of the checkouts, and of the other programs."""
        lines = ["| figure | asked | beside | ours | ours / beside [least, most] |", "|---|--:|--:|--:|--:|"]
        others = []
        for figure, by in self.figures.items():
            if OURS not in by:
                others += [f"| {figure} | {of} | {statistics.median(some):.4g} |" for of, some in by.items()]
                continue
            sense, asked = next((each for name, each in TARGETS.items() if figure.endswith(name)), ("", ""))
            medians = [f"{statistics.median(by[name]):.4g}" if by.get(name) else "–" for name in (OTHER, OURS)]
            ratios = [ours / other for ours, other in zip(by[OURS], by.get(OTHER, ()), strict=False) if other]
            ratio = f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]" if ratios else "–"
            lines.append(f"| {figure} | {sense} {asked} | {' | '.join(medians)} | {ratio} |")
        if others:
            lines += ["", "| figure | program | |", "|---|---|--:|", *others]
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


def indexing(report: Report, checkout: Checkout, source: str) -> None:
    """Make the index of a source if it is not there yet, and encode its strings again."""
    index, name = checkout.index_of(source), Path(source).stem
    if index.exists():
        return
    index.parent.mkdir(parents=True, exist_ok=True)
    used, _, _ = run(checkout, "-m", "alphita", "index", source, "-o", index, "--threads", "1")
    seconds = used.ru_utime + used.ru_stime
    encoding, strings = json.loads(run(checkout, "-c", ENCODING, index)[2])
    report.add(f"{name}: strings", checkout.name, strings)
    report.add(f"{name}: indexing, processor s", checkout.name, seconds)
    report.add(f"{name}: indexing, GB", checkout.name, used.ru_maxrss * 1024 / 1e9)
    report.add(f"{name}: indexing, times the encoding", checkout.name, seconds / encoding)


def drawn(index: Index, count: int, seed: int) -> dict[str, list[str]]:
    """Return distinct strings of each kind: names, names with a slip, names with another's word in place of one."""
    chance = random.Random(seed)
    names = dict.fromkeys(index.strings[row] for row in range(len(index)))
    words = sorted({word for name in names for word in re.findall(r"[^\W\d_]{4,}", name)})

    def another(name: str) -> str:
        own = name.split()
        own[chance.randrange(len(own))] = chance.choice(words)
        return " ".join(own)

    made: dict[str, Callable[[str], str]] = {"equal": str, "slip": lambda name: slip(name, chance), "word": another}
    kinds: dict[str, list[str]] = {}
    for kind in KINDS:
        found: dict[str, None] = {}
        for name in chance.sample(sorted(names), len(names)):
            string = made[kind](name)
            if len(found) < count and (string in names) == (kind == "equal"):
                found[string] = None
        kinds[kind] = list(found)
    return kinds


def asking(report: Report, checkouts: list[Checkout], source: str, out: Path, seed: int) -> None:
    """Ask each checkout's index the same strings, and compare the answers."""
    kinds, name = drawn(Index.open(checkouts[0].index_of(source)), report.given.strings, seed), Path(source).stem
    mentions = out / "mentions.json"
    mentions.write_text(json.dumps(kinds), encoding="utf-8")
    told: dict[str, dict[str, list[list[str]]]] = {}
    for checkout in checkouts[:: -1 if seed % 2 else 1]:
        answers = out / f"{checkout.name}.json"
        _, _, printed = run(checkout, PROBE, checkout.index_of(source), mentions, answers)
        for kind, figures in json.loads(printed.splitlines()[-1]).items():
            for figure, value in figures.items():
                report.add(f"{name}, {kind}: {figure}", checkout.name, value)
        told[checkout.name] = json.loads(answers.read_text(encoding="utf-8"))
    for kind in KINDS:
        pairs = [told[checkout.name][kind] for checkout in checkouts]
        other = sum(a != b for each in pairs[1:] for a, b in zip(pairs[0], each, strict=True))
        report.note(f"{name}, {kind}, seed {seed}: {other} of {len(pairs[0]):,} have another concept or decision")


def file_of(report: Report, checkouts: list[Checkout], source: str, out: Path, seed: int) -> None:
    """Normalise a file in which a tenth of the rows are distinct noisy terms."""
    rows, path = report.given.rows, out / "rows.csv"
    distinct = harness.noisy_terms(Index.open(checkouts[0].index_of(source)), rows // 10, seed)
    generator = np.random.default_rng(seed)
    more = generator.choice(len(distinct), rows - len(distinct))
    order = generator.permutation(np.concatenate([np.arange(len(distinct)), more]))
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["mention"], *([distinct[row]] for row in order.tolist())])
    for checkout in checkouts:
        asked = ("normalize", path, "--index", checkout.index_of(source), "-o", out / "answers.csv", "--force")
        used, seconds, _ = run(checkout, "-m", "alphita", *asked)
        report.add(f"a file of {rows:,} rows: rows/s", checkout.name, rows / seconds)
        report.add(f"a file of {rows:,} rows: processor s", checkout.name, used.ru_utime + used.ru_stime)
        report.add(f"a file of {rows:,} rows: GB", checkout.name, used.ru_maxrss * 1024 / 1e9)


def peers(report: Report, checkout: Checkout, source: str, out: Path, seed: int) -> None:
    """Have the other programs search the same names, as many of each kind."""
    sys.path.insert(0, str(HERE / "bench/peers"))
    import compare
    import protocol
    import usagi

    index = Index.open(checkout.index_of(source))
    strings = [one for some in drawn(index, PEER_STRINGS, seed).values() for one in some]
    segment, ids = index.segment, index.segment.concepts.column("id").to_pylist()
    string_of = np.repeat(np.arange(len(index)), np.diff(segment.offsets)).tolist()
    rows = [
        (ids[concept], re.sub(r"\s+", " ", index.strings[row]))
        for row, concept in zip(string_of, segment.term_concept.tolist(), strict=True)
    ]
    protocol.write(out / "dictionary.tsv", ("id", "name"), rows)
    protocol.write(out / "mentions.tsv", ("mention",), [(re.sub(r"\s+", " ", one),) for one in strings])
    for name, peer in compare.PEERS.items():
        if peer.environment is None:
            continue
        try:
            python = compare.python_of(peer, report.given.venvs)
            measures, _ = compare.run_once(peer, python, [], out / "mentions.tsv", out / "peers" / name, 1)
        except (RuntimeError, OSError, ValueError, AlphitaError) as error:
            report.note(f"{name}: failed: {error}")
            continue
        report.add("strings/s", name, len(strings) / measures["query_processor_seconds"])
    number = {one: place for place, one in enumerate(ids)}
    machine.set_threads(1)
    searched = usagi.Usagi([usagi.Term(name, number[one], False, "", True) for one, name in rows], ())
    start = time.process_time()
    for one in strings:
        searched.search(one)
    report.add("strings/s", "usagi", len(strings) / (time.process_time() - start))


def service(report: Report, checkouts: list[Checkout], source: str) -> None:
    """Measure the service, both servers running."""
    served = [(checkout.folder, checkout.index_of(source)) for checkout in checkouts]
    told = asyncio.run(service_load.compare(served, rounds=report.given.rounds))
    for turn in told["rounds"]:
        for checkout, figures in zip(checkouts, turn, strict=True):
            for kind in ("batches", "crowd"):
                report.add(f"service, {kind}, mentions/s", checkout.name, figures[kind]["mentions/s"])
            rate = figures["batches"]["mentions/s of the busiest thread"]
            report.add("service, batches, mentions/s of the busiest thread", checkout.name, rate)
    report.note("service, answers: " + ", ".join(f"{count} {what}" for what, count in told["answers"].items()))


def parts(report: Report, checkouts: list[Checkout], out: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield what is measured, in turn."""
    given = report.given
    for source in given.source:
        for checkout in checkouts:
            yield f"index of {source}", functools.partial(indexing, report, checkout, source)
    for number in range(given.rounds):
        for source in given.source:
            yield (
                f"strings of {source}",
                functools.partial(asking, report, checkouts, source, out, given.seed + number),
            )
    first = given.source[0]
    if given.rows:
        yield "file", lambda: file_of(report, checkouts, first, out, given.seed)
        yield "service", lambda: service(report, checkouts, first)
    if given.venvs:
        yield "peers", lambda: peers(report, checkouts[0], first, out, given.seed)


def main() -> None:
    """Measure all in turn and print the tables."""
    parser = harness.parser(__doc__, rounds=3, output=True)
    parser.add_argument("--beside", type=Path, required=True, help="the other checkout")
    parser.add_argument("--source", action="append", help="of an index; hpo by default; several times for several")
    parser.add_argument("--strings", type=int, default=2_700, help="of each kind: 500 to warm up, 200 singly")
    parser.add_argument("--rows", type=int, default=100_000, help="of the file; 0: neither file nor service")
    parser.add_argument("--venvs", type=Path, help="the environments of the other programs")
    given = parser.parse_args()
    given.source = given.source or ["hpo"]
    out = given.output
    out.mkdir(parents=True, exist_ok=True)
    given.output = out / "release_speed.json"
    checkouts = [Checkout(OURS, HERE, out / OURS), Checkout(OTHER, given.beside.resolve(), out / OTHER)]
    report = Report(given, out)
    for name, part in parts(report, checkouts, out):
        try:
            part()
        except (subprocess.CalledProcessError, SystemExit) as error:
            report.note(f"{name}: failed: {error}")
    print(report.tables())


if __name__ == "__main__":
    main()
