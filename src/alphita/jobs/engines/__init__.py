"""What runs a job's tasks: processes of this machine, Ray or Spark. A module here that has an `open_engine` is one.

A task reads files and writes one whole, so doing it twice does no harm. A worker opens what it needs once.
"""

from __future__ import annotations

import gc
import importlib
import pickle
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, cast

from alphita import artefact
from alphita.errors import AlphitaError, UsageError
from alphita.options import ENGINES
from alphita.registry import unknown

# Deaths of workers at one task after which the job is given up: it is the task that kills them.
MAX_DEATHS = 3
# Seconds for a cluster to take a connection.
TO_CONNECT = 5.0
# What a task gives back: small, of JSON values.
Receipt = dict[str, Any]


class Worker(Protocol):
    """Does tasks, one after another, in one process."""

    def __call__(self, task: int) -> Receipt:
        """Do one task whole; doing it again does no harm."""
        ...


class Opening(Protocol):
    """Makes a worker; called once in each process. It is pickled on its way there."""

    def __call__(self) -> Worker:
        """Open what the tasks need."""
        ...


def sealed(opening: Opening) -> bytes:
    """Return an opening as the bytes that a job gives its own workers."""
    return pickle.dumps(opening)


class Engine(Protocol):
    """Runs tasks; use as a context manager."""

    def facts(self) -> dict[str, str | int]:
        """Return its name, version, number of workers and where it runs, for the report."""
        ...

    def check(self, opening: Opening) -> None:
        """Open a worker on every machine, to learn at the start what is missing there.

        Raises:
            AlphitaError: what `opening` raised on one of them, with the machine's name.
        """
        ...

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """Do tasks, and yield each with what it gave back, as they end.

        A task whose worker died is done again by another. When the iterator is closed, what is at work is stopped.

        Args:
            opening: makes each worker.
            tasks: their numbers, each once.
            what: what they do, for messages and the engine's own pages: "Normalising".

        Raises:
            AlphitaError: what a task raised; or a task's workers died `MAX_DEATHS` times.
        """
        ...

    def release(self) -> None:
        """Let go of workers that are kept for another `run`: there is none for the time being."""
        return

    def close(self) -> None:
        """Stop the workers."""
        return

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers."""
        self.close()


def open_engine(name: str, workers: int | None = None, address: str | None = None, gpus: float = 0) -> Engine:
    """Open an engine; it is loaded when it is asked for, for each needs packages of its own."""
    if name not in ENGINES:
        raise UsageError(unknown("engine", name, ENGINES))
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")
    return cast(Engine, importlib.import_module(f"alphita.jobs.engines.{name}").open_engine(workers, address, gpus))


@dataclass(frozen=True)
class SameVersion:
    """An opening that refuses a machine with another build of this package than the one the job began on."""

    opening: Opening
    version: str = field(default_factory=artefact.build)

    def __call__(self) -> Worker:
        if (here := artefact.build()) != self.version:
            raise UsageError(
                f"the job began with alphita {self.version}, and this worker has {here}; "
                "install the same on every machine"
            )
        return self.opening()


class Outcome(NamedTuple):
    """What a try at a task ended with: its receipt, or the words and the exit code of an error, and its traceback."""

    receipt: Receipt
    words: str | None = None
    code: int = 0
    trace: str = ""

    def received(self, before: str = "") -> Receipt:
        if self.words is None:
            return self.receipt
        # Others are built of parts; of these only the words and the exit code are needed.
        kind = UsageError if self.code == UsageError.exit_code else AlphitaError
        raise kind(before + self.words) from RuntimeError(self.trace)


class Bench:
    """Where a process works: the worker that it opened last is kept for further tasks of the same opening."""

    def __init__(self, prepare: Callable[[], object]) -> None:
        self.prepare = prepare
        self._opening: bytes | None = None
        self._worker: Worker | None = None

    def do(self, opening: bytes, task: int | None, what: str = "") -> Outcome:
        """Do a task, or, for None, only open the worker. An error is an outcome too."""
        try:
            if self._worker is None or self._opening != opening:
                # Two at one time would take twice the memory.
                self._worker = None
                gc.collect()
                self.prepare()
                # The job itself sealed it: never for what comes from a file or from anybody else.
                self._worker, self._opening = pickle.loads(opening)(), opening
            return Outcome({} if task is None else self._worker(task))
        except AlphitaError as error:
            return Outcome({}, str(error), error.exit_code, traceback.format_exc())
        except Exception as error:
            *_, last = traceback.extract_tb(error.__traceback__)
            words = f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"
            before = "" if task is None else f"{what}: task {task} failed: "
            return Outcome({}, before + words, AlphitaError.exit_code, traceback.format_exc())


def gave_up(what: str, task: int) -> AlphitaError:
    """Return the error for a task that killed its workers."""
    return AlphitaError(
        f"{what}: task {task} ended {MAX_DEATHS} workers that did it, so it is given up; is their memory enough? "
        "What is finished is kept, and the job goes on with --resume"
    )


def unreachable(place: str) -> str | None:
    """Return why nothing answers at HOST:PORT, if so."""
    host, _, port = place.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(place)
    try:
        socket.create_connection((host.strip("[]"), int(port)), TO_CONNECT).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
