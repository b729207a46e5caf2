"""Processes of this machine, spawned, each with its share of the cores and a pipe of its own.

One that is killed costs its own task alone, which another does again (`concurrent.futures` gives up the pool).
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from alphita import machine
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines import MAX_DEATHS, Bench, Engine, Opening, Outcome, Receipt, gave_up, sealed

SECONDS_TO_STOP = 10.0


def open_engine(workers: int | None = None, address: str | None = None, gpus: float = 0) -> Processes:
    """Return an engine of processes; none is started before there is a task."""
    if address is not None:
        raise UsageError("--address names a cluster, and processes run on this machine; use --engine ray or spark")
    if gpus:
        raise UsageError("--gpus-per-worker is for clusters; processes share this machine's GPU: --device cuda")
    return Processes(workers or machine.cores())


class Processes(Engine):
    """The engine."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.threads = max(1, machine.cores() // workers)
        self._running: list[_Process] = []

    def facts(self) -> dict[str, str | int]:
        """Return name, version, number of workers, threads of each, and the machine's name."""
        return {
            "engine": "processes",
            "version": platform.python_version(),
            "workers": self.workers,
            "threads": self.threads,
            "where": platform.node(),
        }

    def check(self, opening: Opening) -> None:
        """Open a worker in a process of its own, as the tasks' will be."""
        process = self._start(opening)
        try:
            process.connection.send((None, ""))
            outcome: Outcome = process.connection.recv()
        except (EOFError, OSError):
            raise AlphitaError(f"{platform.node()}: the worker died while it opened; is the memory enough?") from None
        finally:
            self.close()
        outcome.received(f"{platform.node()}: ")

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """See `Engine.run`."""
        waiting = deque(tasks)
        deaths: Counter[int] = Counter()
        try:
            while waiting and len(self._running) < self.workers:
                self._start(opening).give(waiting, what)
            while self._running:
                ready = set(wait([process.connection for process in self._running]))
                for process in [process for process in self._running if process.connection in ready]:
                    task = process.task
                    try:
                        outcome: Outcome = process.connection.recv()
                    except (EOFError, OSError):
                        self._end(process)
                        deaths[task] += 1
                        if deaths[task] >= MAX_DEATHS:
                            raise gave_up(what, task) from None
                        waiting.appendleft(task)
                        self._start(opening).give(waiting, what)
                        continue
                    receipt = outcome.received()
                    if waiting:
                        process.give(waiting, what)
                    else:
                        self._end(process)
                    yield task, receipt
        finally:
            self.close()

    def close(self) -> None:
        """Kill what is at work: a task is done whole or not at all, so nothing is lost but its time."""
        while self._running:
            self._end(self._running[-1])

    def _start(self, opening: Opening) -> _Process:
        process = _Process(sealed(opening), self.threads)
        self._running.append(process)
        return process

    def _end(self, process: _Process) -> None:
        self._running.remove(process)
        process.connection.close()
        process.process.kill()
        process.process.join(SECONDS_TO_STOP)
        process.process.close()


class _Process:
    """One process, and the task that it is at."""

    def __init__(self, opening: bytes, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(theirs, opening, threads), daemon=True)
        self.process.start()
        # The end of the pipe is seen here when the process ends, and there is no other copy of its side.
        theirs.close()
        self.task = -1

    def give(self, waiting: deque[int], what: str) -> None:
        self.task = waiting.popleft()
        with contextlib.suppress(OSError):
            self.connection.send((self.task, what))


def _serve(connection: Connection, opening: bytes, threads: int) -> None:
    """Be a worker: open, then do one task after another until the pipe is closed."""
    # Ctrl-C reaches every process of a terminal; the one that reads the results decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    bench = Bench(lambda: machine.set_threads(threads))
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            connection.send(bench.do(opening, *connection.recv()))


def end_with_parent() -> None:
    """Let this process end as soon as its parent is gone, in the midst of a task too: no pipe of a pool tells it."""
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=lambda: os._exit(bool(wait([parent.sentinel]))), daemon=True).start()
