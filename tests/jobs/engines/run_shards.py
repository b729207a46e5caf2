"""Runs one job in a process of its own, to be killed: ENGINE INDEX INPUT OUT "[resume] [workers | hold | STEP=TASKS]".

In each step `workers` kills the worker at one task, in the midst of writing what it gives; `hold` has one task wait
for ever; Reading=6 kills the driver when six tasks of that step are done.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from alphita.jobs import folder as job
from alphita.jobs.batches import NormalizerSettings
from alphita.jobs.engines import Engine, Opening, Receipt, open_engine
from alphita.jobs.folder import Shards, run
from alphita.options import Restart
from tests.killing import kill_before
from tests.waiting import SECONDS

FEW_ROWS = 80


def shards(index: str, source: str, out: str) -> Shards:
    """Return a job of many small parts, that needs no encoder."""
    return Shards(source, out, NormalizerSettings(index, ranking="letters", top_k=2, floor=0.3), "code", part_rows=20)


@dataclass(frozen=True)
class Faulty:
    """Opens workers of which one is killed, or never ends, at a task; the first time."""

    opening: Opening
    task: int
    out: str
    note: str
    hold: bool

    def __call__(self):
        work = self.opening()

        def faulty(task: int) -> Receipt:
            if task != self.task or Path(self.note).exists():
                return work(task)
            Path(self.note).write_text(str(os.getpid()))
            if self.hold:
                time.sleep(SECONDS)
            kill_before(2, Path(self.out))
            work(task)
            raise AssertionError("it wrote nothing")

        return faulty


def break_at(engine: Engine, out: str, fault: str) -> None:
    """Let an engine's steps go wrong."""
    going = engine.run
    step, _, last = fault.partition("=")

    def run(opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        if fault in ("workers", "hold"):
            opening = Faulty(opening, tasks[len(tasks) // 2], out, f"{out}.{what}", fault == "hold")
        for number, done in enumerate(going(opening, tasks, what=what), 1):
            yield done
            if (what, str(number)) == (step, last):
                os.kill(os.getpid(), signal.SIGKILL)

    engine.run = run  # type: ignore[method-assign]


def main(engine: str, index: str, source: str, out: str, how: str = "") -> None:
    """Run it with two workers."""
    job.FEW_ROWS = FEW_ROWS
    with open_engine(engine, 2) as opened:
        if fault := how.removeprefix("resume").strip():
            break_at(opened, out, fault)
        run(shards(index, source, out), opened, Restart(resume=how.startswith("resume")))


if __name__ == "__main__":
    main(*sys.argv[1:])
