"""One run of `alphita normalize --engine …`, watched: what `cluster` starts in a process of its own.

    python bench/cluster_job.py ENGINE FIGURES.json LOG INPUT … (as `alphita normalize` takes them)

Workers write a line into LOG as they begin and end a task. What they do is the command's own.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from alphita.distributed.engine import Engine, Opening, Receipt, Worker


@dataclass(frozen=True)
class Watched:
    """Opens a worker that writes down what it does.

    Attributes:
        opening: the worker's.
        log: the file.
        what: the tasks are.
    """

    opening: Opening
    log: str
    what: str

    def __call__(self) -> Worker:
        """Open it."""
        worker = self.opening()

        def watched(task: int) -> Receipt:
            note(self.log, "begin", self.what, task)
            start, cpu = time.perf_counter(), time.process_time()
            receipt = worker(task)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            note(self.log, "end", self.what, task, seconds=seconds, cpu=cpu, own_bytes=own_bytes())
            return receipt

        return watched


def note(log: str | Path, event: str, what: str, task: int, **figures: float) -> None:
    """Append a line, whole: so short a one is written at once, whoever else writes."""
    line = {"event": event, "what": what, "task": task, "pid": os.getpid(), "time": time.time(), **figures}
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
    finally:
        os.close(descriptor)


def notes(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log that are whole."""
    text = log.read_text(encoding="utf-8") if log.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def own_bytes() -> int:
    """Return the memory that this process holds for itself, mapped files not counted."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    return 0


def machine_cpu() -> float:
    """Return the seconds that this machine's cores have worked since it started, for whatever program (Linux)."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


class Watching:
    """An engine whose workers write down what they do."""

    def __init__(self, engine: Engine, log: str, out: Path) -> None:
        self.engine, self.log, self.out = engine, log, out
        self.walls: dict[str, float] = {}
        self.shuffle = 0

    def facts(self) -> dict[str, str | int]:
        """Return the engine's facts."""
        return self.engine.facts()

    def check(self, opening: Opening) -> None:
        """Let the engine check."""
        self.engine.check(opening)

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """Let the engine do the tasks."""
        start = time.perf_counter()
        yield from self.engine.run(Watched(opening, self.log, what), tasks, what=what)
        self.walls[what] = self.walls.get(what, 0.0) + time.perf_counter() - start
        work = self.out / "_work"
        size = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
        self.shuffle = max(self.shuffle, size)

    def release(self) -> None:
        """Let the engine free what it keeps."""
        self.engine.release()

    def __enter__(self) -> Watching:
        """Open the engine."""
        self.engine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the engine."""
        self.engine.__exit__(kind, error, trace)


def main() -> None:
    """Run the command."""
    engine, figures, log, *arguments = sys.argv[1:]
    out = Path(arguments[arguments.index("--output") + 1])
    module = importlib.import_module(f"alphita.distributed.{engine}")
    opened: list[Watching] = []
    original = module.open_engine

    def open_engine(*given: Any, **named: Any) -> Watching:  # noqa: ANN401
        opened.append(Watching(original(*given, **named), log, out))
        return opened[-1]

    module.open_engine = open_engine  # type: ignore[attr-defined]
    from alphita.cli import main as alphita

    sys.argv = ["alphita", "normalize", *arguments, "--engine", engine]
    start, cpu = time.perf_counter(), machine_cpu()
    code = 0
    try:
        alphita()
    except SystemExit as end:
        code = int(end.code or 0)
    found: dict[str, Any] = {
        "seconds": time.perf_counter() - start, "cpu_seconds": machine_cpu() - cpu, "code": code,
    }  # fmt: skip
    if opened:
        found |= {"walls": opened[-1].walls, "shuffle_bytes": opened[-1].shuffle, "facts": opened[-1].facts()}
    Path(figures).write_text(json.dumps(found), encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    # Under its own name, so that workers find what is pickled.
    importlib.import_module("cluster_job").main()
