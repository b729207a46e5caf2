"""What every runner does: read the dictionary and the queries, build, answer, and write answers and measures.

    python run_X.py DICTIONARY QUERIES ANSWERS MEASURES [the runner's own arguments]

Standard library only, for this runs in each peer's own environment. The tables are plain TSV in UTF-8 with a head line
and without quotes: the dictionary has the columns id and name, the first name of an id being its preferred one; the
queries have the column mention; the answers have query (number of the mention, from 0), rank (from 1), id and score.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# Names (not concepts) asked for of each mention, where a peer ranks names: enough for five concepts.
NAMES_WANTED = 50
# Concepts wanted of each mention.
CONCEPTS_WANTED = 5


class Answer(NamedTuple):
    """One answer to a mention: a concept and the peer's own score, greater is better."""

    concept_id: str
    score: float


class Dictionary(NamedTuple):
    """The n names, as written, and the concept of each."""

    ids: list[str]
    names: list[str]

    def concepts_of(self) -> dict[str, list[str]]:
        """Return the distinct names, each with the concepts that have it, in the order of the file."""
        found: dict[str, dict[str, None]] = {}
        for one, name in zip(self.ids, self.names, strict=True):
            found.setdefault(name, {})[one] = None
        return {name: list(ids) for name, ids in found.items()}

    def names_of(self) -> dict[str, list[str]]:
        """Return the concepts, each with its distinct names, the preferred one first."""
        found: dict[str, dict[str, None]] = {}
        for one, name in zip(self.ids, self.names, strict=True):
            found.setdefault(one, {})[name] = None
        return {one: list(names) for one, names in found.items()}


# Answers, best first, to each of the mentions.
Search = Callable[[list[str]], Sequence[Sequence[Answer]]]
# Makes the peer's index. Seconds are taken around it, and around the search.
Build = Callable[[Dictionary, argparse.Namespace], Search]


def rows(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the cells of a table's lines."""
    head, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    if head.split("\t") != list(columns):
        raise ValueError(f"{path}: the head line is {head!r}, not {' '.join(columns)!r}")
    cells = [line.split("\t") for line in lines]
    for number, line in enumerate(cells, 2):
        if len(line) != len(columns):
            raise ValueError(f"{path}, line {number}: {len(line)} cells, not {len(columns)}")
    return cells


def write(path: Path, columns: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    """Write a table; no cell may hold a tab or a line break."""
    text = "".join("\t".join(map(str, line)) + "\n" for line in [columns, *lines])
    path.write_text(text, encoding="utf-8", newline="\n")


def peak_bytes() -> int:
    """Return the most memory this process has held, in bytes.

    On Linux VmHWM is read: getrusage there counts what the parent held when it started this process, too.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def run(build: Build, packages: Sequence[str], parser: argparse.ArgumentParser | None = None) -> None:
    """Run a peer: `build` over the dictionary, then one search of all mentions."""
    parser = parser or argparse.ArgumentParser()
    for name in ("dictionary", "queries", "answers", "measures"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    cells = rows(options.dictionary, ("id", "name"))
    dictionary = Dictionary([one for one, _ in cells], [name for _, name in cells])
    mentions = [mention for (mention,) in rows(options.queries, ("mention",))]
    start = time.perf_counter()
    search = build(dictionary, options)
    built, used = time.perf_counter(), time.process_time()
    found = search(mentions)
    done, used = time.perf_counter(), time.process_time() - used
    if len(found) != len(mentions):
        raise SystemExit(f"{len(found)} lists of answers to {len(mentions)} mentions")
    lines = [
        (query, rank, answer.concept_id, f"{answer.score:.6g}")
        for query, answers in enumerate(found)
        for rank, answer in enumerate(answers, 1)
    ]
    write(options.answers, ("query", "rank", "id", "score"), lines)
    measures = {
        "build_seconds": built - start,
        "query_seconds": done - built,
        "query_processor_seconds": used,
        "peak_bytes": peak_bytes(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in packages},
    }
    options.measures.write_text(json.dumps(measures) + "\n", encoding="utf-8")
