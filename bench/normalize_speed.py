"""How fast `alphita normalize` is: a file of a million rows, and one mention at a time.

    python bench/normalize_speed.py --index X.index -o OUT [--rows 1000000] [--distinct 200000] [--precision int8]

The distinct strings are terms of the index, or of another (`--terms-of`), with noise (slips, words lost, swapped and
put before), drawn with the seed; rows repeat them with a long tail, as hospital data do. Reported: rows/s end to end,
peak memory of the process, and the median and 95th percentile of the time for a single new mention.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.noise import noisy
from alphita.index.store import Index

SINGLE = 300


def strings_of(index: Index, count: int, seed: int) -> list[str]:
    """Return `count` distinct noisy terms of the index."""
    chance = random.Random(seed)
    rows = chance.choices(range(len(index)), k=2 * count)
    made: dict[str, None] = {}
    while len(made) < count:
        for row in rows:
            made[noisy(index.strings[row], chance)] = None
            if len(made) == count:
                break
    return list(made)


def write_file(path: Path, distinct: list[str], rows: int, seed: int) -> None:
    """Write rows that repeat the distinct strings, each at least once, the more often the earlier (weight 1/rank)."""
    generator = np.random.default_rng(seed)
    weight = 1 / np.arange(1, len(distinct) + 1)
    more = generator.choice(len(distinct), rows - len(distinct), p=weight / weight.sum())
    order = generator.permutation(np.concatenate([np.arange(len(distinct)), more]))
    with open(path, "w", encoding="utf-8") as file:
        file.write("mention\n")
        file.writelines('"' + distinct[row].replace('"', '""') + '"\n' for row in order.tolist())


def main() -> None:
    """Make the file, time the command in a process of its own, then single mentions here."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--terms-of", type=Path, help="the index whose terms are asked")
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--distinct", type=int, default=200_000)
    parser.add_argument("--ranking", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    index = Index.open(arguments.index)
    asked = index if arguments.terms_of is None else Index.open(arguments.terms_of)
    distinct = strings_of(asked, arguments.distinct + SINGLE, arguments.seed)
    source, out = arguments.output / "rows.csv", arguments.output / "answers.csv"
    write_file(source, distinct[: arguments.distinct], arguments.rows, arguments.seed)
    start = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "alphita",
            "normalize",
            str(source),
            "--index",
            str(arguments.index),
            "--ranking",
            arguments.ranking,
            "--precision",
            arguments.precision,
            "-o",
            str(out),
            "--force",
            "--report",
            str(arguments.output / "job.json"),
        ],
        check=True,
    )
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    normalizer = Normalizer(index, ranking=arguments.ranking, precision=arguments.precision)
    normalizer.normalize(distinct[:50])
    times = []
    for mention in distinct[arguments.distinct :]:
        begin = time.perf_counter()
        normalizer.normalize([mention])
        times.append(time.perf_counter() - begin)
    figures = {
        "rows": arguments.rows,
        "distinct": arguments.distinct,
        "ranking": normalizer.ranking,
        "precision": arguments.precision,
        "strings in the index": len(index),
        "seconds": round(seconds, 1),
        "rows/s": round(arguments.rows / seconds),
        "distinct/s": round(arguments.distinct / seconds),
        "processor s": round(used.ru_utime + used.ru_stime, 1),
        "peak GB": round(used.ru_maxrss * 1024 / 1e9, 2),
        "single p50 ms": round(1e3 * float(np.median(times)), 2),
        "single p95 ms": round(1e3 * float(np.quantile(times, 0.95)), 2),
        "machine": machine.describe(),
        "index": index.content_hash,
    }
    (arguments.output / "speed.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
