"""Compare Alphita with scispaCy, gilda, rapidfuzz, BM25 and sentence-transformers: the same names, queries and

    bench/peers/setup.sh VENVS
    python bench/peers/compare.py --terminology X.terminology --split S.split --venvs VENVS -o report/

Each peer runs in its own environment as a process of its own, --rounds times, in turn with the others, so that a
machine that slows down slows all. The README beside this file says what each does.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import protocol
from scipy.stats import binomtest

import tables
from alphita import machine
from alphita.errors import AlphitaError, UsageError
from alphita.registry import unknown

HERE = Path(__file__).resolve().parent
OURS = "alphita"
KS = (1, 5)
# Lines of a failed peer's messages that are shown.
LAST_LINES = 5


@dataclass(frozen=True)
class Peer:
    """A runner.

    Attributes:
        environment: folder under --venvs with its environment; None: the one that runs this.
        runner: its script.
        arguments: of the script.
    """

    environment: str | None
    runner: Path
    arguments: tuple[str, ...] = ()


PEERS = {
    OURS: Peer(None, HERE / "run_alphita.py"),
    "scispacy": Peer("scispacy", HERE / "run_scispacy.py"),
    "gilda": Peer("gilda", HERE / "run_gilda.py"),
    "rapidfuzz_wratio": Peer("rapidfuzz", HERE / "run_rapidfuzz.py"),
    "rapidfuzz_token_set_ratio": Peer("rapidfuzz", HERE / "run_rapidfuzz.py", ("--scorer", "token_set_ratio")),
    "bm25": Peer("bm25", HERE / "run_bm25.py"),
    "sentence_transformers": Peer(None, HERE / "run_sentence_transformers.py"),
}


@dataclass
class Outcome:
    """What a peer did so far: the measures of each round, the answers of the first, or why it failed."""

    numbers: list[int]
    measures: list[dict[str, Any]]
    answers: bytes = b""
    same_answers: bool = True
    failed: str | None = None


def python_of(peer: Peer, venvs: Path | None) -> Path:
    """Return the Python that runs a peer."""
    if peer.environment is None:
        return Path(sys.executable)
    if venvs is None:
        raise UsageError("the peers need their environments: --venvs FOLDER, made by setup.sh FOLDER")
    found = venvs.absolute() / peer.environment / "bin" / "python"
    if not found.exists():
        raise UsageError(f"no environment of {peer.environment}: {found} is not there; make it: setup.sh {venvs}")
    return found


def run_once(
    peer: Peer, python: Path, more: Sequence[str], queries: Path, folder: Path, threads: int
) -> tuple[dict[str, Any], bytes]:
    """Run a peer once and return its measures and its answers' file."""
    folder.mkdir(parents=True, exist_ok=True)
    answers, measures = folder / "answers.tsv", folder / "measures.json"
    # Sets of strings are gone through in the order of their hashes, in scispaCy when it indexes them.
    environment = os.environ | dict.fromkeys(machine.THREAD_VARIABLES, str(threads)) | {"PYTHONHASHSEED": "0"}
    dictionary = queries.parent / "dictionary.tsv"
    command = [python, peer.runner, *peer.arguments, *more, dictionary, queries, answers, measures]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, errors="replace")
    said = (done.stdout + done.stderr).strip()
    (folder / "said.txt").write_text(said + "\n", encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: " + "\n".join(said.split("\n")[-LAST_LINES:]))
    return json.loads(measures.read_text(encoding="utf-8")), answers.read_bytes()


def run_all(options: argparse.Namespace, data: tables.Tables, peers: Sequence[str]) -> dict[str, Outcome]:
    """Run every peer `options.rounds` times, round by round; one that fails is not run again."""
    pythons = {name: python_of(PEERS[name], options.venvs) for name in peers}
    most = queries_wanted(options.most_queries, peers)
    outcomes = {name: Outcome(data.sample(most[name]), []) for name in peers}
    for number in range(1, options.rounds + 1):
        for name, outcome in outcomes.items():
            if outcome.failed:
                continue
            folder = options.output / "work" / name
            queries = options.output / f"mentions_{len(outcome.numbers)}.tsv"
            if not queries.exists():
                protocol.write(queries, ("mention",), [(one,) for one in data.mentions(outcome.numbers)])
            more = ours_only(options) if name == OURS else []
            try:
                measures, answers = run_once(PEERS[name], pythons[name], more, queries, folder, options.threads)
            except (RuntimeError, OSError, ValueError) as error:
                outcome.failed = str(error)
                print(f"round {number}, {name}: failed: {error}", flush=True)
                continue
            outcome.same_answers &= outcome.answers in (b"", answers)
            outcome.answers = outcome.answers or answers
            outcome.measures.append(measures)
            print(
                f"round {number}, {name}: built in {measures['build_seconds']:.1f} s, asked in "
                f"{measures['query_seconds']:.2f} s, {measures['peak_bytes'] / 2**20:,.0f} MiB",
                flush=True,
            )
    return outcomes


def ours_only(options: argparse.Namespace) -> list[str]:
    """Return the arguments of Alphita's runner."""
    given = {"--model": options.model, "--index": options.index and options.index.absolute()}
    return [str(part) for name, value in given.items() if value is not None for part in (name, value)]


def queries_wanted(given: Sequence[str], peers: Sequence[str]) -> dict[str, int | None]:
    """Return how many queries each peer gets: of "500" and "NAME=500" the latter wins; None: all."""
    wanted: dict[str, int | None] = dict.fromkeys(peers)
    for item in sorted(given, key=lambda item: "=" in item):
        name, equals, number = item.rpartition("=")
        if equals and name not in PEERS:
            raise UsageError(unknown("peer", name, PEERS))
        if not number.isdecimal() or int(number) < 1:
            raise UsageError(f"--most-queries {item!r}: give a number above 0, or PEER=NUMBER")
        wanted |= {one: int(number) for one in ([name] if equals else peers) if one in wanted}
    return wanted


# Parts of a query: mentions, each with the ids any of which is right.
Query = Sequence[tuple[str, frozenset[str]]]
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Share:
    """A share of n with its Wilson interval, as fractions."""

    right: int
    n: int
    value: float
    low: float
    high: float

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def share(right: int, n: int) -> Share:
    """Return right / n with the 95% score interval of Wilson 1927."""
    interval = binomtest(right, n).proportion_ci(CONFIDENCE, method="wilson")
    return Share(right, n, right / n, float(interval.low), float(interval.high))


def ranked(lines: Iterable[Sequence[str]], mentions: Sequence[str]) -> dict[str, list[str]]:
    """Return the distinct concepts of each mention, in order of first appearance by rank."""
    answers: dict[int, list[tuple[int, str]]] = {}
    for query, rank, one, _ in lines:
        answers.setdefault(int(query), []).append((int(rank), one))
    if strange := [query for query in answers if not 0 <= query < len(mentions)]:
        raise ValueError(f"an answer to query {strange[0]}, of {len(mentions)}")
    return {
        mention: list(dict.fromkeys(one for _, one in sorted(answers.get(number, []), key=lambda answer: answer[0])))
        for number, mention in enumerate(mentions)
    }


def right_at(queries: Iterable[Query], found: Mapping[str, Sequence[str]], k: int) -> list[bool]:
    """Tell of each query whether every part has a right concept among its first k."""
    return [all(gold.intersection(found[mention][:k]) for mention, gold in parts) for parts in queries]


def answered(queries: Iterable[Query], found: Mapping[str, Sequence[str]]) -> list[bool]:
    """Tell of each query whether every part has an answer."""
    return [all(found[mention] for mention, _ in parts) for parts in queries]


def scored(data: tables.Tables, outcomes: dict[str, Outcome]) -> dict[str, dict[str, Any]]:
    """Return each peer's row of the report; beside each, ours on the same queries."""
    right: dict[str, dict[int, dict[int, bool]]] = {}
    report: dict[str, dict[str, Any]] = {}
    for name, outcome in outcomes.items():
        if not outcome.failed:
            try:
                report[name], right[name] = score(data, outcome)
            except ValueError as error:
                outcome.failed = f"its answers cannot be read: {error}"
        if outcome.failed:
            report[name] = {"failed": outcome.failed}
    for name in right:
        if name != OURS and outcomes[name].numbers and OURS in right:
            ours = right[OURS]
            if all(number in ours[1] for number in outcomes[name].numbers):
                report[name]["ours_on_the_same_queries"] = {
                    f"accuracy@{k}": sum(ours[k][number] for number in outcomes[name].numbers)
                    / len(outcomes[name].numbers)
                    for k in KS
                }
    return report


def score(data: tables.Tables, outcome: Outcome) -> tuple[dict[str, Any], dict[int, dict[int, bool]]]:
    """Return one peer's row, and for each k whether each query was right."""
    queries = [data.queries[number] for number in outcome.numbers]
    mentions = data.mentions(outcome.numbers)
    head, *lines = outcome.answers.decode("utf-8").removesuffix("\n").split("\n")
    if head != "query\trank\tid\tscore":
        raise ValueError(f"the head line is {head[:80]!r}")
    found = ranked([line.split("\t") for line in lines], mentions)
    right = {k: right_at(queries, found, k) for k in KS}
    seconds = {name: [one[f"{name}_seconds"] for one in outcome.measures] for name in ("build", "query")}
    row = {
        "queries": len(queries),
        "distinct_mentions": len(mentions),
        **{f"accuracy@{k}": share(sum(right[k]), len(queries)).as_json() for k in KS},
        "answered": share(sum(answered(queries, found)), len(queries)).as_json(),
        "build_seconds": seconds["build"],
        "query_seconds": seconds["query"],
        "median_build_seconds": statistics.median(seconds["build"]),
        "queries_per_second": len(mentions) / max(statistics.median(seconds["query"]), 1e-9),
        "peak_bytes": max(one["peak_bytes"] for one in outcome.measures),
        "same_answers_each_round": outcome.same_answers,
        "versions": outcome.measures[0]["versions"],
    }
    return row, {k: dict(zip(outcome.numbers, values, strict=True)) for k, values in right.items()}


def markdown(report: dict[str, Any]) -> str:
    """Return the table."""
    lines = [
        f"{report['input']['names']:,} names of {report['input']['concepts']:,} concepts, "
        f"{report['input']['queries']:,} queries ({report['input']['distinct_mentions']:,} distinct mentions); "
        f"{report['machine']['processor']}, {report['threads']} threads, median of {report['rounds']} rounds; "
        "95% intervals of Wilson in brackets",
        "",
        "| peer | queries | accuracy@1 | accuracy@5 | answered | ours on the same: @1 / @5 | build s | queries/s "
        "| MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, row in report["peers"].items():
        if "failed" in row:
            lines.append(f"| {name} | failed: {row['failed'].splitlines()[-1]} |" + " |" * 7)
            continue
        beside = row.get("ours_on_the_same_queries")
        ours = " / ".join(f"{beside[f'accuracy@{k}']:.1%}" for k in KS) if beside else ""
        cells = [
            name,
            f"{row['queries']:,}",
            *(_percent(row[f"accuracy@{k}"]) for k in KS),
            f"{row['answered']['value']:.1%}",
            ours,
            f"{row['median_build_seconds']:,.1f}",
            f"{row['queries_per_second']:,.0f}",
            f"{row['peak_bytes'] / 2**20:,.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _percent(one: dict[str, Any]) -> str:
    return f"{one['value']:.1%} [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def data_of(options: argparse.Namespace) -> tables.Tables:
    """Return the dictionary and the queries that the options name."""
    given = {
        "--terminology and --split": (options.terminology, options.split),
        "--benchmark and --data": (options.benchmark, options.data),
        "--dictionary and --queries": (options.dictionary, options.queries),
    }
    chosen = [values for values in given.values() if any(value is not None for value in values)]
    if len(chosen) != 1 or None in chosen[0]:
        raise UsageError(f"give one of {'; '.join(given)}")
    if options.terminology:
        return tables.from_split(options.terminology, options.split)
    if options.benchmark:
        return tables.from_benchmark(options.benchmark, options.data, options.set)
    return tables.from_files(options.dictionary, options.queries)


def compare(options: argparse.Namespace, command: Sequence[str]) -> dict[str, Any]:
    """Run and score the peers; write report.json and report.md, and return the report."""
    for name in options.only:
        if name not in PEERS:
            raise UsageError(unknown("peer", name, PEERS))
    if options.rounds < 1:
        raise UsageError(f"--rounds must be 1 or more, not {options.rounds}")
    if options.output.exists():
        raise UsageError(f"{options.output} exists; give another folder")
    peers = [name for name in PEERS if name in options.only or not options.only]
    data = data_of(options)
    options.output.mkdir(parents=True)
    written = data.write(options.output)
    outcomes = run_all(options, data, peers)
    report = {
        "command": list(command),
        "machine": machine.describe(),
        "threads": options.threads,
        "rounds": options.rounds,
        "load_average": os.getloadavg()[:2],  # well above `threads`: others were using the cores, measure again
        "versions": {"alphita": importlib.metadata.version("alphita")},
        "input": written,
        "peers": scored(data, outcomes),
    }
    (options.output / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (options.output / "report.md").write_text(markdown(report), encoding="utf-8")
    return report


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    made.add_argument("--terminology", type=Path, help="the names are those of its live concepts ...")
    made.add_argument("--split", type=Path, help="... without what this holds out; its test strings are the queries")
    made.add_argument("--benchmark", help="or the mentions and names of this benchmark (alphita evaluate) ...")
    made.add_argument("--data", type=Path, help="... read from this folder")
    made.add_argument("--set", action="append", default=[], help="an option of the benchmark: key=value")
    made.add_argument("--dictionary", type=Path, help="or a TSV with the columns id and name ...")
    made.add_argument("--queries", type=Path, help="... and one with mention and id")
    made.add_argument("--venvs", type=Path, help="folder with the peers' environments, made by setup.sh")
    made.add_argument("--only", action="append", default=[], help=f"run only this: {', '.join(PEERS)}")
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--most-queries", action="append", default=[], metavar="[PEER=]N", help="ask a sample of N only")
    made.add_argument("--threads", type=int, default=machine.cores(), help="cores that each peer may use")
    made.add_argument("--model", help="Alphita's encoder; by default minilm")
    made.add_argument("--index", type=Path, help="a ready index of Alphita, over the same names")
    made.add_argument("-o", "--output", type=Path, required=True, help="folder to create")
    return made


def main(arguments: Sequence[str]) -> int:
    """Compare and print the table; 0 done, 1 a peer or the input failed, 2 wrong use."""
    options = parser().parse_args(arguments)
    options.output = options.output.absolute()
    if hasattr(os, "sched_setaffinity"):  # what the peers inherit: nmslib counts the cores and asks no variable
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: max(1, options.threads)])
    try:
        report = compare(options, ["bench/peers/compare.py", *arguments])
    except AlphitaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    print(markdown(report), end="")
    return int(any("failed" in row for row in report["peers"].values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
