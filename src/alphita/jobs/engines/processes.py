"""Processes of this machine, spawned, each with its share of the cores.

Each has a pipe of its own, so that one that is killed costs its own task and nothing else: the others do not notice,
a new process takes its place, and its task is done again. (`concurrent.futures` gives up the whole pool.)
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import platform
import signal
import sys
import threading
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Self

from alphita import machine
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines.engine import MOST_DEATHS, Opening, Receipt, gave_up, sealed, unsealed

DESCRIPTION = "processes of this machine"
SECONDS_TO_STOP = 10.0


def open_engine(workers: int | None = None, address: str | None = None, gpus: float = 0) -> Processes:
    """Return an engine of processes; none is started before there is a task."""
    if address is not None:
        raise UsageError("--address names a cluster, and processes run on this machine; use --engine ray or spark")
    if gpus:
        raise UsageError("--gpus-per-worker is for clusters; processes share this machine's GPU: --device cuda")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")
    return Processes(workers or machine.cores())


class Processes:
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
        process = self._start(sealed(opening))
        try:
            process.connection.send(None)
            _received(process.connection.recv())
        except (EOFError, OSError):
            raise AlphitaError(f"{platform.node()}: the worker died while it opened; is the memory enough?") from None
        except AlphitaError as error:
            raise type(error)(f"{platform.node()}: {error}") from None
        finally:
            self._stop()

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """Do tasks; see `Engine.run`."""
        packed = sealed(opening)
        waiting = deque(tasks)
        deaths: Counter[int] = Counter()
        try:
            while waiting and len(self._running) < self.workers:
                self._start(packed).give(waiting)
            while self._running:
                ready = set(wait([one.connection for one in self._running]))
                for process in [one for one in self._running if one.connection in ready]:
                    task = process.task
                    try:
                        receipt = _received(process.connection.recv())
                    except (EOFError, OSError):
                        self._end(process)
                        deaths[task] += 1
                        if deaths[task] >= MOST_DEATHS:
                            raise gave_up(what, task) from None
                        waiting.appendleft(task)
                        self._start(packed).give(waiting)
                        continue
                    if waiting:
                        process.give(waiting)
                    else:
                        self._end(process)
                    yield task, receipt
        finally:
            self._stop()

    def release(self) -> None:
        """Do nothing: processes end with their run."""

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers."""
        self._stop()

    def _start(self, opening: bytes) -> _Process:
        process = _Process(opening, self.threads)
        self._running.append(process)
        return process

    def _end(self, process: _Process) -> None:
        self._running.remove(process)
        process.end()

    def _stop(self) -> None:
        """Kill what is at work: a task is done whole or not at all, so nothing is lost but its time."""
        while self._running:
            self._end(self._running[-1])


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

    def give(self, waiting: deque[int]) -> None:
        """Give it the next task; where it is dead already, reading tells."""
        self.task = waiting.popleft()
        with contextlib.suppress(OSError):
            self.connection.send(self.task)

    def end(self) -> None:
        """Kill it, wait for its end, and free what it held."""
        self.connection.close()
        self.process.kill()
        self.process.join(SECONDS_TO_STOP)
        self.process.close()


def _received(message: tuple[type[AlphitaError], str] | Receipt) -> Receipt:
    """Return a receipt, or raise the error that came instead."""
    if isinstance(message, tuple):
        kind, text = message
        raise kind(text)
    return message


def _serve(connection: Connection, opening: bytes, threads: int) -> None:
    """Be a worker: open, then do one task after another until the pipe is closed."""
    # Ctrl-C reaches every process of a terminal; the one that reads the results decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=die_with_parent, daemon=True).start()
    # Before a library with threads is loaded, which the opening's module may do.
    machine.set_threads(threads)
    worker = None
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            task = connection.recv()
            answer: tuple[type[AlphitaError], str] | Receipt = {}
            try:
                if worker is None:
                    worker = unsealed(opening)()
                if task is not None:
                    answer = worker(task)
            except AlphitaError as error:
                # Others are built of parts; of these only the words and the exit code are needed.
                answer = (UsageError if isinstance(error, UsageError) else AlphitaError, str(error))
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                answer = (AlphitaError, f"task {task} failed: {type(error).__name__}: {error}")
            connection.send(answer)


def die_with_parent() -> None:
    """End this process as soon as its parent is gone, in the midst of a task too."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
