"""Time, memory and money of a job, from measured rates: the arithmetic of `capacity`.

A job of R rows with D distinct questions on an index of T strings, done by W cores:

    cores' seconds = R (reading + writing) + D answering(T)
    answering(T)   = encoding + nearest(T) + letters(T) + rest
    seconds        = start + cores' seconds / W
    D              = R0's distinct (R / R0)^heaps, at most R        (Heaps' law; the exponent is measured or assumed)

`nearest` and `letters` were measured at some sizes of index. Between two of them a power law is laid through both;
beyond the last it goes on as between the last two, and a single one grows in proportion to T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from alphita.index.backends import choose

EXACT = "faiss"
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Machine:
    """A kind of machine that is rented.

    Attributes:
        name: for the table.
        cores: processor cores that work on the job.
        memory: bytes.
        gpus: how many.
        price: of an hour.
    """

    name: str
    cores: int
    memory: float
    gpus: int
    price: float


@dataclass(frozen=True)
class Rates:
    """What was measured, of one core unless said otherwise.

    Attributes:
        start: seconds until all workers are at work, and after the last has ended.
        reading: seconds a row, to read it and hand on its question.
        writing: seconds a row, to join it with its answer and write it.
        encoding: seconds a string.
        encoding_gpu: seconds a string on one GPU; None: not measured.
        exact: (strings of the index, seconds a question) of the search that compares all.
        approximate: the same of the approximate search.
        letters: the same of the search by character n-grams.
        rest: seconds a question, of all that does not depend on the index.
        distinct: rows of a real input, and how many distinct questions they had.
        heaps: how the distinct ones grow with the rows, 0 to 1.
        shuffle: bytes of intermediate files a distinct question.
        output: bytes a row.
        worker: bytes of its own that a worker holds.
        vectors: bytes of the index's vectors a string.
        grams: bytes of its character n-grams a string.
        texts: bytes of its other files a string.
        approximate_index: bytes a string that the approximate search adds.
        quantiser: (strings, seconds) to prepare the approximate search on the machine that was measured.
    """

    start: float
    reading: float
    writing: float
    encoding: float
    encoding_gpu: float | None
    exact: Points
    approximate: Points
    letters: Points
    rest: float
    distinct: tuple[float, float]
    heaps: float
    shuffle: float
    output: float
    worker: float
    vectors: float
    grams: float
    texts: float
    approximate_index: float
    quantiser: Points


@dataclass(frozen=True)
class Prediction:
    """What a job will take; `beyond` names what lies beyond the measured sizes."""

    rows: float
    terms: float
    distinct: float
    seconds: float
    core_seconds: dict[str, float]
    memory: float
    shuffle: float
    output: float
    money: float
    beyond: tuple[str, ...]


def at(points: Points, size: float) -> float:
    """Return what points say of a size, by the power law through its neighbours among them.

    Args:
        points: (size, seconds), both above 0.
        size: above 0.
    """
    points = tuple(sorted(points))
    if len(points) == 1:
        return points[0][1] * size / points[0][0]
    place = next((place for place in range(1, len(points) - 1) if size <= points[place][0]), len(points) - 1)
    (left, low), (right, high) = points[place - 1], points[place]
    slope = math.log(high / low) / math.log(right / left)
    return low * (size / left) ** slope


def distinct(rates: Rates, rows: float) -> float:
    """Return how many distinct questions so many rows will have."""
    seen, different = rates.distinct
    return min(rows, different * (rows / seen) ** rates.heaps)


def answering(rates: Rates, terms: float, *, gpu: bool = False, letters: bool = True) -> dict[str, float]:
    """Return seconds a question by step; "encoding" of a GPU, if asked for, the others of one core.

    Raises:
        ValueError: no GPU was measured.
    """
    encoding = rates.encoding_gpu if gpu else rates.encoding
    if encoding is None:
        raise ValueError("no encoding on a GPU was measured")
    near = rates.exact if choose(round(terms)) == EXACT or not rates.approximate else rates.approximate
    return {
        "encoding": encoding, "nearest": at(near, terms),
        "letters": at(rates.letters, terms) if letters and rates.letters else 0.0, "rest": rates.rest,
    }  # fmt: skip


def predict(
    rates: Rates, rows: float, terms: float, machine: Machine, *, machines: int = 1, cores: int | None = None,
    questions: float | None = None, letters: bool = True, half: bool = False,
) -> Prediction:  # fmt: skip
    """Return what a job will take.

    Args:
        rates: the measured rates.
        rows: of the input.
        terms: strings of the index.
        machine: what it runs on; with GPUs, they encode.
        machines: how many.
        cores: how many work in all; by default all of all machines.
        questions: distinct ones, where they are known.
        letters: candidates by character n-grams too.
        half: the index was built with half-precision vectors.
    """
    asked = distinct(rates, rows) if questions is None else questions
    steps = answering(rates, terms, gpu=machine.gpus > 0, letters=letters)
    gpu = asked * steps.pop("encoding") if machine.gpus else 0.0
    work = {"reading": rows * rates.reading, "writing": rows * rates.writing}
    work |= {name: asked * seconds for name, seconds in steps.items()}
    workers = cores or machine.cores * machines
    # Encoding and searching are taken one after the other, as one worker does them.
    seconds = rates.start + sum(work.values()) / workers + (gpu / (machine.gpus * machines) if gpu else 0.0)
    memory = index_bytes(rates, terms, letters=letters, half=half) + -(-workers // machines) * rates.worker
    return Prediction(
        rows, terms, asked, seconds, work, memory, asked * rates.shuffle, rows * rates.output,
        seconds / 3600 * machines * machine.price, _beyond(rates, rows, terms, letters),
    )  # fmt: skip


def index_bytes(rates: Rates, terms: float, *, letters: bool = True, half: bool = False) -> float:
    """Return the bytes of an index: once in a machine's memory, mapped by all of its workers."""
    approximate = 0.0 if choose(round(terms)) == EXACT else rates.approximate_index
    return terms * (rates.vectors / (2 if half else 1) + (rates.grams if letters else 0.0) + rates.texts + approximate)


def build_seconds(rates: Rates, terms: float, machine: Machine, machines: int = 1) -> float:
    """Return the seconds that building an index takes: strings encoded everywhere, the quantiser on one machine."""
    if machine.gpus:
        encoding = (rates.encoding_gpu or rates.encoding) / (machine.gpus * machines)
    else:
        encoding = rates.encoding / (machine.cores * machines)
    exact = choose(round(terms)) == EXACT or not rates.quantiser
    return rates.start + terms * encoding + (0.0 if exact else at(rates.quantiser, terms))


def of_runs(runs: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]], large: Sequence[dict[str, Any]],
            *, heaps: float | None = None) -> Rates:  # fmt: skip
    """Return the rates that measurements give.

    Args:
        runs: of `cluster`: the first is what rates are taken from.
        steps: of `capacity --measure`, one for each index and device.
        large: of `large_index`, one for each size.
        heaps: how distinct questions grow with the rows; None: by the runs, if they have two sizes that differ.

    Raises:
        ValueError: something is missing.
    """
    first = runs[0]
    on_cores = [step for step in steps if step["device"] == "cpu"]
    if not on_cores:
        raise ValueError("no steps measured on a processor; run capacity.py --measure INDEX")
    gpu = [step for step in steps if step["device"] != "cpu"]
    exact = tuple((step["terms"], step["nearest"]) for step in on_cores if step["backend"] == EXACT)
    approximate = tuple((step["terms"], step["nearest"]) for step in on_cores if step["backend"] != EXACT)
    approximate += tuple(
        (run["n"], (run["threads"] or run["machine"]["cores"]) / run["search"]["mentions_per_second"]) for run in large
    )
    if not exact:
        raise ValueError("no steps measured on an index that compares all strings")
    letters = tuple((step["terms"], step["letters"]) for step in on_cores if step["letters"])
    busy = {name: phase["busy"] for name, phase in first["phases"].items()}
    # The rest is what answering took beyond the three steps that were measured one by one.
    known = on_cores[0]["encoding"] + at(exact, first["terms"]) + (at(letters, first["terms"]) if letters else 0.0)
    last = max(on_cores, key=lambda step: float(step["terms"]))
    build = tuple((run["n"], run["build"]["seconds"]) for run in large)
    return Rates(
        start=start_of(first),
        reading=busy["Reading"] / first["rows"],
        writing=busy["Writing"] / first["rows"],
        encoding=on_cores[0]["encoding"],
        encoding_gpu=min(step["encoding"] for step in gpu) if gpu else None,
        exact=exact,
        approximate=approximate,
        letters=letters,
        rest=max(0.0, busy["Normalising"] / first["distinct"] - known),
        distinct=(first["rows"], first["distinct"]),
        heaps=_heaps(runs) if heaps is None else heaps,
        shuffle=first["shuffle_bytes"] / first["distinct"],
        output=first["output_bytes"] / first["rows"],
        worker=max(run["worker_bytes"] for run in runs),
        vectors=last["bytes"]["vectors"] / last["terms"],
        grams=last["bytes"]["grams"] / last["terms"],
        texts=last["bytes"]["texts"] / last["terms"],
        approximate_index=max((run["build"]["bytes_a_vector"] for run in large), default=0.0),
        quantiser=build,
    )


def start_of(run: dict[str, Any]) -> float:
    """Return the seconds of a run in which workers were not yet, or no longer, at a task."""
    busy = sum(phase["busy"] for phase in run["phases"].values())
    return max(0.0, run["seconds"] - busy / run["workers"])


def _heaps(runs: Sequence[dict[str, Any]]) -> float:
    sizes = sorted({(run["rows"], run["distinct"]) for run in runs})
    (few, less), (many, more) = sizes[0], sizes[-1]
    if few == many:
        raise ValueError("one size of input says nothing of how distinct strings grow; give --heaps")
    return math.log(more / less) / math.log(many / few)


def _beyond(rates: Rates, rows: float, terms: float, letters: bool) -> tuple[str, ...]:
    near = rates.exact if choose(round(terms)) == EXACT or not rates.approximate else rates.approximate
    found = []
    if rows > 10 * rates.distinct[0]:
        found.append("rows")
    if terms > 2 * max(near)[0]:
        found.append("nearest")
    if letters and rates.letters and terms > 2 * max(rates.letters)[0]:
        found.append("letters")
    return tuple(found)
