"""Where the time of `alphita normalize` goes: processor seconds of each stage, of a file and of single mentions.

    python bench/stages.py --index X.index [--mentions FILE.txt] [--rows 100000] [-o stages.json]

Everything runs on one thread, so that a thread's own clock counts all that a stage costs, and nothing that other
programs take. A stage's time is that of its functions without the stages that they call; `rest` belongs to none.
Without `--mentions` (distinct mentions, a line each) they are noisy terms of the index.
The mentions are answered once to warm up, 300 of them, then as a file (`jobs.run`), then one by one.

An instruction set is switched off from outside: ONEDNN_MAX_CPU_ISA=AVX2 (torch), FAISS_OPT_LEVEL=avx2,
OPENBLAS_CORETYPE=Haswell (NumPy); ONNX Runtime has no such switch.

Below the table are the constants of the model of docs/capacity.md, for an index of this size.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness
from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index

REST = "rest"
# Stage -> its functions, "module:name" or "module:Class.name" of alphita; what is imported, where it is called.
STAGES: dict[str, tuple[str, ...]] = {
    "reading": ("jobs.reading:MentionFile.rows", "jobs.run:question"),
    "cleaning": ("mention.reader:clean_many", "mention.reader:MentionReader._untagged"),
    "short forms": ("mention.abbreviations:Abbreviations.expand_many", "answer.normalizer:Normalizer.prepare"),
    "spelling": (
        "mention.spelling:Speller.readings",
        "mention.reader:MentionReader._readings",
        "mention.reader:MentionReader._read_laboratory",
    ),
    "encoding": ("encoder.encoder:TermEncoder.encode",),
    "vectors": ("index.store:Index.search", "index.lookup:products"),
    "letters": ("index.ngrams:Ngrams.vectorize", "index.ngrams:Ngrams.search", "index.ngrams:Ngrams.pairwise"),
    "equal strings": ("index.store:Index.rows", "index.ngrams:SortedStrings.rows"),
    "candidates": ("index.lookup:lookup", "answer.pipeline:collect"),
    "words": (
        "mention.words:Vocabulary.compare",
        "answer.features:ratios",
        "index.out_of_scope_names:hits",
        "index.out_of_scope_names:shares",
    ),
    "middles and graph": ("answer.features:Meaning.features",),
    "rules": ("terminology.rules:IndexedProfiles.compare", "answer.features:vetoes_of"),
    "features": ("answer.features:Featurizer.__call__",),
    "ranking": ("answer.calibration_store:Calibration.__call__",),
    "results": (
        "answer.results:ResultBuilder.results",
        "answer.results:ResultBuilder.apply_vetoes",
        "jobs.answers:answer",
    ),
    "writing": ("jobs.run:_Output.write", "jobs.answers:AnswerStore.add"),
}


def place_of(place: str) -> tuple[Any, str]:
    """Return what holds a function of `STAGES`, and its name there."""
    module, _, path = place.partition(":")
    *outer, last = path.split(".")
    owner: Any = functools.reduce(getattr, outer, importlib.import_module(f"alphita.{module}"))
    return owner, last


class Clock:
    """Seconds of each stage, by the thread that ran it."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.seconds: Counter[str] = Counter()
        self._of_thread = threading.local()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count what is within for `name`, but for the stages within it."""
        around = getattr(self._of_thread, "name", None)
        self._turn(name)
        try:
            yield
        finally:
            self._turn(around)

    def _turn(self, name: str | None) -> None:
        now = time.thread_time()
        if (running := getattr(self._of_thread, "name", None)) is not None:
            self.seconds[running] += now - self._of_thread.since
        self._of_thread.name, self._of_thread.since = name, now


def watch(clock: Clock, stages: dict[str, tuple[str, ...]]) -> None:
    """Have the functions of all stages counted from now on."""
    for name, functions in stages.items():
        for place in functions:
            owner, last = place_of(place)
            setattr(owner, last, _counted(getattr(owner, last), clock, name))


def _counted(function: Callable[..., Any], clock: Clock, name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
        with clock.stage(name):
            made = function(*given, **named)
        return _each(made) if isinstance(made, Iterator) else made

    def _each(made: Iterator[Any]) -> Iterator[Any]:
        while True:
            with clock.stage(name):
                item = next(made, made)
            if item is made:
                return
            yield item

    return call


def of_file(normalizer: Normalizer, mentions: list[str], rows: int, clock: Clock) -> Counter[str]:
    """Return the processor seconds of each stage for a file of so many rows, which repeat the mentions."""
    from alphita.jobs.job import Job
    from alphita.jobs.reading import MentionFile
    from alphita.jobs.run import run

    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "mentions.txt", Path(folder) / "out.csv"
        given.write_text("".join(f"{mentions[row % len(mentions)]}\n" for row in range(rows)), encoding="utf-8")
        clock.seconds.clear()
        with clock.stage(REST):
            run(normalizer, Job(MentionFile(given), str(out)))
    return clock.seconds.copy()


def of_single(normalizer: Normalizer, mentions: list[str], clock: Clock) -> Counter[str]:
    """Return the processor seconds of each stage for mentions asked one by one."""
    clock.seconds.clear()
    with clock.stage(REST):
        for mention in mentions:
            normalizer.normalize([mention])
    return clock.seconds.copy()


def constants(of_file: dict[str, float], per_row: dict[str, float]) -> dict[str, float]:
    """Return the constants of the model of docs/capacity.md, in core's microseconds: of a row, and of a question."""
    told = {f"{name}, of a row": 1e6 * seconds for name, seconds in per_row.items()}
    steps = {"encoding": "encoding", "nearest": "vectors", "letters": "letters"}
    told |= {f"{step}, of a question": 1e3 * of_file[stage] for step, stage in steps.items()}
    rest = of_file["all"] - sum(of_file[name] for name in (*steps.values(), *per_row))
    return told | {"rest, of a question": 1e3 * rest}


def table(report: dict[str, Any]) -> str:
    """Return the report as a table in Markdown."""
    lines = ["| stage | of a file, s per 1,000 distinct | one mention, ms |", "|---|--:|--:|"]
    for name in (*STAGES, REST, "all"):
        lines.append(f"| {name} | {report['file'][name]:.3f} | {report['single'][name]:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Profile and print the table."""
    parser = harness.parser(__doc__)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--mentions", type=Path, help="a distinct mention a line; noisy terms by default")
    parser.add_argument("--distinct", type=int, default=20_000, help="of these mentions, at most")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the file")
    parser.add_argument("--single", type=int, default=300, help="mentions asked one by one")
    options = parser.parse_args()
    machine.set_threads(1)
    index = Index.open(options.index)
    if options.mentions is None:
        mentions = harness.noisy_terms(index, options.distinct + 2 * options.single, options.seed)
    else:
        mentions = list(dict.fromkeys(options.mentions.read_text(encoding="utf-8").splitlines()))
    warming, singles = mentions[-options.single :], mentions[-2 * options.single : -options.single]
    mentions = mentions[: -2 * options.single][: options.distinct]
    clock = Clock()
    watch(clock, STAGES)
    normalizer = Normalizer(index, threads=1)
    normalizer.normalize(warming)
    counted = {
        "file": (of_file(normalizer, mentions, options.rows, clock), 1000 / len(mentions)),
        "single": (of_single(normalizer, singles, clock), 1000 / len(singles)),
    }
    report: dict[str, Any] = {
        kind: {name: scale * seconds[name] for name in (*STAGES, REST)} | {"all": scale * seconds.total()}
        for kind, (seconds, scale) in counted.items()
    }
    print(table(report))
    per_row = {name: report["file"][name] * len(mentions) / 1000 / options.rows for name in ("reading", "writing")}
    report["model"] = constants(report["file"], per_row)
    print(json.dumps(report["model"], indent=1))
    switches = ("ONEDNN_MAX_CPU_ISA", "FAISS_OPT_LEVEL", "OPENBLAS_CORETYPE")
    report |= {"distinct": len(mentions), "ranking": normalizer.ranking}
    report["switches"] = {name: os.environ[name] for name in switches if name in os.environ}
    harness.write(options, report, index=index.content_hash)


if __name__ == "__main__":
    main()
