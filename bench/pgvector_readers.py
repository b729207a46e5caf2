"""Readers of an index in PostgreSQL while its release changes: errors, and answers that mix releases, are counted.

    python bench/pgvector_readers.py [N] [--readers 50] [--changes 4] [--to ADDRESS] [--seed 0] [--output report.json]

N made-up strings (20,000) are loaded. Then the release changes again and again (a tenth of the strings goes or comes, a
tenth of the concepts takes another name or its old one), and in the end all is replaced (--force), while readers, each
with a connection of its own, search and look strings up without pause. An answer is right if it carries one release,
and each string in it stands in that release with the term of that release; the exact look-ups must find all that the
release holds and nothing else. Anything else is counted: errors, answers of several releases or of none (mixed), a
release that a reader saw after a later one (backwards).
"""

from __future__ import annotations

import argparse
import collections
import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import postgres_server
from alphita import machine
from alphita.index.servers import Hit, pgvector
from large_vectors import LikeTerms

NAME = "readers"
NEIGHBOURS, LOOKED_UP, QUERIES = 5, 20, 500
# Readers have some time of their own before the first change, between them and after the last.
QUIET_SECONDS = 1.0


class Made:
    """Two contents between which the releases change."""

    def __init__(self, n: int, seed: int) -> None:
        """Make n strings and a tenth more; each content lacks a part of them."""
        random = np.random.default_rng(seed)
        every = n + n // 10
        vectors = LikeTerms(every, seed).block(0, every)
        order = random.permutation(every)
        changing, renamed = order[: n // 5], frozenset(order[n // 5 : n // 5 + n // 10].tolist())
        self.contents = []
        for place in range(2):
            kept = np.ones(every, bool)
            kept[changing[place::2]] = False
            numbers = np.flatnonzero(kept)
            named = renamed if place else frozenset[int]()
            self.contents.append(postgres_server.MadeContent(vectors[numbers], numbers, named))
        self.numbers = [frozenset(content.numbers.tolist()) for content in self.contents]
        self.queries = LikeTerms(every, seed).queries(QUERIES, 1)[1]
        self.changing = np.concatenate([changing, np.array(sorted(renamed), np.int64)])

    def right(self, hits: list[Hit], place: int) -> bool:
        """Return whether each hit stands in a content as it is there."""
        content, numbers = self.contents[place], self.numbers[place]
        for hit in hits:
            number = int(hit.string.rsplit(" ", 1)[1])
            term = content.term(number)
            if number not in numbers or (hit.concept_id, hit.concept_name, hit.term) != (
                term.concept_id, term.concept_name, term.term,
            ):  # fmt: skip
                return False
        return True


def read(made: Made, address: str, seed: int, done: threading.Event, seen: collections.Counter[str]) -> None:
    """Search and look up until `done`; count in `seen`."""
    random = np.random.default_rng(seed)
    last = 0
    with pgvector.connect(address, NAME) as server:
        while not done.is_set():
            asked = random.choice(made.changing, LOOKED_UP)
            query = made.queries[random.integers(0, len(made.queries), 1)]
            try:
                found = server.exact([postgres_server.name(number) for number in asked.tolist()])
                near = server.search(query, NEIGHBOURS)
            except Exception as error:
                seen[f"error: {type(error).__name__}: {error}"] += 1
                continue
            last = judge(made, asked, found, seen, last)
            last = judge_near(made, near[0], seen, last)


def judge(
    made: Made, asked: NDArray[np.int64], found: list[list[Hit]], seen: collections.Counter[str], last: int
) -> int:
    """Judge a look-up of some strings; return the number of its release."""
    hits = [hit for line in found for hit in line]
    number = _number(hits)
    if number is None:
        seen["mixed"] += 1
        return last
    place = number % 2
    expected = [bool(one in made.numbers[place]) for one in asked.tolist()]
    seen["answers" if made.right(hits, place) and [len(line) == 1 for line in found] == expected else "mixed"] += 1
    seen["backwards"] += number < last
    return number


def judge_near(made: Made, hits: list[Hit], seen: collections.Counter[str], last: int) -> int:
    """Judge a search; return the number of its release."""
    number = _number(hits)
    if number is None or len(hits) != NEIGHBOURS or not made.right(hits, number % 2):
        seen["mixed"] += 1
        return last
    seen["answers"] += 1
    seen[f"release {number}"] += 1
    seen["backwards"] += number < last
    return number


def _number(hits: list[Hit]) -> int | None:
    """Return the number of the one release of some hits; None where there are several, or no hits."""
    releases = {hit.release for hit in hits}
    return int(releases.pop()) if len(releases) == 1 else None


def measure(given: SimpleNamespace, address: str) -> dict[str, Any]:
    """Change the release while readers read; return what happened."""
    made = Made(given.n, given.seed)
    done, seen = threading.Event(), [collections.Counter[str]() for _ in range(given.readers)]
    with pgvector.connect(address, NAME) as writer:
        begin = time.perf_counter()
        writer.load(made.contents[0], release="0", probes=lambda: made.queries)
        found: dict[str, Any] = {**vars(given), "load_seconds": time.perf_counter() - begin, "updates": []}
        found |= postgres_server.versions(writer._database.connection)
        readers = [
            threading.Thread(target=read, args=(made, address, number, done, counter))
            for number, counter in enumerate(seen)
        ]
        for reader in readers:
            reader.start()
        try:
            for number in range(1, given.changes + 1):
                time.sleep(QUIET_SECONDS)
                begin = time.perf_counter()
                change = writer.update(made.contents[number % 2], release=str(number))
                found["updates"].append({"seconds": time.perf_counter() - begin, **change._asdict()})
            time.sleep(QUIET_SECONDS)
            begin, number = time.perf_counter(), given.changes + 1
            writer.load(made.contents[number % 2], release=str(number), probes=lambda: made.queries, force=True)
            found["replaced_seconds"] = time.perf_counter() - begin
            time.sleep(QUIET_SECONDS)
        finally:
            done.set()
            for reader in readers:
                reader.join()
        writer.drop()
    total = sum(seen, collections.Counter[str]())
    found["answers"], found["mixed"], found["backwards"] = total["answers"], total["mixed"], total["backwards"]
    found["errors"] = {text: count for text, count in total.items() if text.startswith("error: ")}
    found["searches_by_release"] = {
        str(number): total[f"release {number}"] for number in range(given.changes + 2) if total[f"release {number}"]
    }
    return {**found, "machine": machine.describe()}


def main(asked: list[str] | None = None) -> int:
    """Run the benchmark; return 1 if there was an error or a mixed answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=20_000, help="strings")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--changes", type=int, default=4)
    parser.add_argument("--to", help="address of a PostgreSQL; by default one is started")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="also write the figures here, as JSON")
    given = parser.parse_args(asked)
    if given.n < 100 or given.readers < 1 or given.changes < 0:
        parser.error("N must be 100 or more, --readers 1 or more, --changes 0 or more")
    names = ("n", "readers", "changes", "seed")
    with postgres_server.running(given.to) as address:
        found = measure(SimpleNamespace(**{name: getattr(given, name) for name in names}), address)
    print(json.dumps(found, indent=1))
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(found["errors"]) or found["mixed"] > 0 or found["backwards"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
