"""How long a job takes, how much memory and what money: predicted from measured rates, and checked on measured runs.

    python bench/capacity.py --measure X.index [--device cuda] -o steps.json       one file for each index and device
    python bench/capacity.py --runs cluster.json --steps steps.json… [--large large_index.json…] -o FOLDER
                             [--rows 1e6,1e7,1e8,1e9] [--terms 1e5,1e6,1.5e7] [--machines 1,10] [--heaps E] [--check]
                             [--half] [--no-letters]
                             [--cores 8 --memory 32 --price 0.40] [--gpu-cores 16 --gpu-memory 128 --gpu-price 4.00]

`cluster.json` is `cluster`'s: rates are taken from the run of the smallest input with the fewest workers, and `--check`
says how far the times of other runs are from what they predict; of each engine, the first such run gives what it takes
to start. `large_index.json` is `large_index`'s. The
arithmetic is `capacity_model`'s. Prices are of one hour of one machine: the defaults are assumptions of the order of
public price lists, no one's offer; give your own. FOLDER gets capacity.json, capacity.md and capacity.png.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

import pictures
from alphita import machine as this
from alphita.artefact import atomic_file
from alphita.errors import UsageError
from arguments import listed
from capacity_model import Machine, Prediction, Rates, build_seconds, index_bytes, of_runs, predict, start_of

QUESTIONS, DEPTH = 2048, 16
ROWS, TERMS, MACHINES = "1e6,1e7,1e8,1e9", "1e5,1e6,4e6,1.5e7", "1,10"
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#7d5ba6", "#8d6a1f")


def measure(index_path: Path, device: str, questions: int, seed: int) -> dict[str, Any]:
    """Return seconds a question of each step on one core, and the bytes of an index's files.

    Args:
        index_path: the index.
        device: where the encoder runs; "cpu" is one core.
        questions: noisy terms of the index to ask for.
        seed: draws them.
    """
    this.set_threads(1)
    from alphita.encoder.encoder import TermEncoder
    from alphita.index.store import Index
    from alphita.normalizer.noise import noisy

    index = Index.open(index_path)
    encoder = TermEncoder.load(index.model_path, device=device, threads=1)
    chance = random.Random(seed)
    asked = [noisy(index.strings[row], chance) for row in chance.choices(range(len(index)), k=questions)]
    asked = sorted(set(asked))
    encoder.encode(asked[:64])
    found: dict[str, Any] = {
        "terms": len(index), "backend": index.manifest["backend"], "device": device, "precision": encoder.precision,
        "questions": len(asked), "bytes": bytes_of(index.manifest["files"]),
        "encoding": _seconds(lambda: encoder.encode(asked)) / len(asked),
    }  # fmt: skip
    vectors = encoder.encode(asked)
    found["nearest"] = _seconds(lambda: index.search(vectors, DEPTH)) / len(asked)
    grams = index.ngrams
    found["letters"] = (
        None if grams is None else _seconds(lambda: grams.search(grams.vectorize(asked), DEPTH)) / len(asked)
    )
    return {**found, "index": index.content_hash, "machine": this.describe()}


def bytes_of(files: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the bytes of an index's files by kind; neither the model nor what an approximate search added."""
    found = {"vectors": 0, "grams": 0, "texts": 0}
    for name, facts in files.items():
        if name.startswith("segments/") and not name.endswith(".faiss"):
            kind = "vectors" if name.endswith("/vectors.npy") else "grams" if "/ngrams/" in name else "texts"
            found[kind] += facts["size"]
    return found


def _seconds(work: Callable[[], object]) -> float:
    """Return the median of three times, after one that is not counted."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def check(rates: Rates, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return predicted and measured seconds of each run but the first of each engine, whose start is taken.

    Args:
        rates: of the first run of all.
        runs: sorted by rows.
    """
    starts: dict[str, float] = {}
    found = []
    for run in runs:
        if run["engine"] not in starts:
            starts[run["engine"]] = start_of(run)
            continue
        kind = Machine("measured", run["workers"], 0, 0, 0)
        own = replace(rates, start=starts[run["engine"]])
        seconds = predict(own, run["rows"], run["terms"], kind, questions=run["distinct"]).seconds
        found.append({
            "engine": run["engine"], "workers": run["workers"], "rows": run["rows"], "distinct": run["distinct"],
            "start": own.start, "measured": run["seconds"], "predicted": seconds, "ratio": seconds / run["seconds"],
        })  # fmt: skip
    return found


# --- showing ---------------------------------------------------------------------------------------------------------


def tables(
    rates: Rates, predictions: Sequence[tuple[Machine, int, Prediction]], kinds: Sequence[Machine],
    checked: Sequence[dict[str, Any]], terms: Sequence[float], index: Mapping[str, bool],
) -> str:  # fmt: skip
    """Return the tables in Markdown."""
    lines = [
        "| rows | distinct | terms | machines | time | memory of a machine | fits | files between | output | money |",
        "|--:|--:|--:|---|--:|--:|---|--:|--:|--:|",
    ]
    for kind, count, one in predictions:
        mark = "*" if one.beyond else ""
        lines.append(
            f"| {whole(one.rows)} | {whole(one.distinct)} | {whole(one.terms)} | {count} × {kind.name} "
            f"| {span(one.seconds)}{mark} | {size(one.memory)} | {'yes' if one.memory <= kind.memory else '**no**'} "
            f"| {size(one.shuffle)} | {size(one.output)} | {one.money:,.2f} |"
        )
    lines += [
        "", "\\* beyond what was measured: over ten times the rows, or over twice the terms.", "",
        "| terms | size of the index | " + " | ".join(f"built on one {kind.name}" for kind in kinds) + " |",
        "|--:|--:|" + "--:|" * len(kinds),
    ]  # fmt: skip
    for number in terms:
        times = " | ".join(span(build_seconds(rates, number, kind)) for kind in kinds)
        lines.append(f"| {whole(number)} | {size(index_bytes(rates, number, **index))} | {times} |")
    if checked:
        lines += [
            "", "| engine | workers | rows | distinct | measured | predicted | predicted / measured |",
            "|---|--:|--:|--:|--:|--:|--:|",
        ]  # fmt: skip
        lines += [
            f"| {one['engine']} | {one['workers']} | {whole(one['rows'])} | {whole(one['distinct'])} "
            f"| {span(one['measured'])} | {span(one['predicted'])} | {one['ratio']:.2f} |"
            for one in checked
        ]
    return "\n".join(lines) + "\n"


def whole(number: float) -> str:
    """Return a number of things, to three digits."""
    return f"{float(f'{number:.3g}'):,.0f}"


def span(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def size(number: float) -> str:
    """Return bytes in the unit that suits them."""
    for unit, length in (("TB", 1e12), ("GB", 1e9)):
        if number >= length:
            return f"{number / length:.1f} {unit}"
    return f"{number / 1e6:.0f} MB"


def draw(
    predictions: Sequence[tuple[Machine, int, Prediction]], kind: Machine, runs: Sequence[dict[str, Any]], out: Path
) -> None:
    """Draw time over rows on one machine, a line for each size of index, and the runs that were measured."""
    figure = pictures.canvas(6.4, 4.2)
    axes = figure.add_subplot()
    alone = [one for machine, count, one in predictions if machine == kind and count == 1]
    for terms, colour in zip(sorted({one.terms for one in alone}), COLOURS, strict=False):
        line = sorted((one.rows, one.seconds / 3600) for one in alone if one.terms == terms)
        axes.plot(*zip(*line, strict=True), marker=".", color=colour, label=f"{whole(terms)} terms")
    # As that machine would take, were it not for the start.
    hours = [run["seconds"] / 3600 * run["workers"] / kind.cores for run in runs]
    axes.scatter([run["rows"] for run in runs], hours, color="black", marker="x", zorder=3, label="measured, by cores")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("rows")
    axes.set_ylabel(f"hours on one {kind.name}")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.legend(fontsize=8, frameon=False)
    pictures.save(figure, out)


# --- all of it -------------------------------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> None:
    """Measure, or predict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--measure", type=Path, metavar="INDEX")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, nargs="+", default=[])
    parser.add_argument("--steps", type=Path, nargs="+", default=[])
    parser.add_argument("--large", type=Path, nargs="+", default=[])
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--terms", default=TERMS)
    parser.add_argument("--machines", default=MACHINES)
    parser.add_argument("--heaps", type=float, help="how distinct strings grow with rows, 0 to 1; else by the runs")
    parser.add_argument("--no-letters", action="store_true", help="predict without candidates by character n-grams")
    parser.add_argument("--half", action="store_true", help="predict for half-precision vectors")
    parser.add_argument("--check", action="store_true")
    for name, cores, memory, price in (("", 8, 32, 0.40), ("gpu-", 16, 128, 4.00)):
        parser.add_argument(f"--{name}cores", type=int, default=cores)
        parser.add_argument(f"--{name}memory", type=float, default=memory, help="GB")
        parser.add_argument(f"--{name}price", type=float, default=price, help="an assumption; give yours")
    given = parser.parse_args(arguments)
    if given.measure:
        found = measure(given.measure, given.device, given.questions, given.seed)
        with atomic_file(given.output, "w") as file:
            file.write(json.dumps(found, indent=1) + "\n")
        return
    runs = [run for path in given.runs for run in _read(path, "runs")]
    if not runs or not given.steps:
        raise UsageError("give --runs and --steps, or --measure")
    runs.sort(key=lambda run: (run["rows"], run["engine"], run["workers"]))
    large = [run for path in given.large for run in _read(path, "runs")]
    try:
        rates = of_runs(runs, [one for path in given.steps for one in _read(path, "steps")], large, heaps=given.heaps)
    except ValueError as error:
        raise UsageError(str(error)) from None
    name = f"machine of {given.cores} cores"
    kinds = [Machine(name, given.cores, given.memory * 1e9, 0, given.price)]
    if rates.encoding_gpu is not None:
        name = f"machine of {given.gpu_cores} cores and a GPU"
        kinds.append(Machine(name, given.gpu_cores, given.gpu_memory * 1e9, 1, given.gpu_price))
    rows, terms = ([float(part) for part in listed(text)] for text in (given.rows, given.terms))
    index = {"letters": not given.no_letters, "half": given.half}
    predictions = [
        (kind, count, predict(rates, number, strings, kind, machines=count, **index))
        for number in rows for strings in terms for kind in kinds for count in map(int, listed(given.machines))
    ]  # fmt: skip
    checked = check(rates, runs) if given.check else []
    report = {
        "command": ["bench/capacity.py", *(sys.argv[1:] if arguments is None else arguments)], "rates": asdict(rates),
        "prices": {kind.name: kind.price for kind in kinds}, "check": checked,
        "predictions": [{"machine": kind.name, "machines": count, **asdict(one)} for kind, count, one in predictions],
    }  # fmt: skip
    given.output.mkdir(parents=True, exist_ok=True)
    text = tables(rates, predictions, kinds, checked, terms, index)
    for file_name, content in (("capacity.json", json.dumps(report, indent=1) + "\n"), ("capacity.md", text)):
        with atomic_file(given.output / file_name, "w") as file:
            file.write(content)
    draw(predictions, kinds[0], runs, given.output / "capacity.png")
    print(text)


def _read(path: Path, name: str) -> list[dict[str, Any]]:
    """Return the records in a file: a list, a mapping that holds one under `name`, or one record."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(found, dict):
        found = found.get(name, [found])
    return list(found)


if __name__ == "__main__":
    main()
