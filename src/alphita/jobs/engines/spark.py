"""Tasks on Spark: one job a stage, one partition a task, in the Python workers of a session of its own.

Spark keeps a Python process for the next task, so what a task needs is opened once in each and kept in this module.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import alphita
from alphita import errors, machine
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines import spark_session
from alphita.jobs.engines.engine import Opening, Receipt, Worker, gave_up, sealed, unsealed
from alphita.jobs.engines.spark_session import EXTRA, first_line, words_of

# Seconds between looks for receipts.
LOOK = 0.05
CHECKING = "Checking the workers"

# What one try at a task ended with: its receipt; or the exit code, the words and the traceback of its error.
Outcome = tuple[Receipt | None, int, str, str]
_numbers = itertools.count(1)


def open_engine(workers: int | None, address: str | None, gpus: float = 0) -> SparkEngine:
    """Start a Spark session."""
    with warnings.catch_warnings():
        # Of versions of pandas, which is not used here.
        warnings.simplefilter("ignore", FutureWarning)
        pyspark: Any = errors.require("pyspark", EXTRA)
    return SparkEngine(*spark_session.start(pyspark, workers, address, gpus))


class SparkEngine:
    """An `Engine` over a Spark session of its own."""

    def __init__(self, context: Any, master: str, slots: int) -> None:  # noqa: ANN401 - a SparkContext
        self._context, self._workers = context, slots
        self._facts: dict[str, str | int] = {
            "engine": "spark",
            "version": str(context.version),
            "workers": slots,
            "where": master,
        }

    def facts(self) -> dict[str, str | int]:
        """Return its name, version, number of workers and master."""
        return dict(self._facts)

    def check(self, opening: Opening) -> None:
        """Open a worker in every process at once: a barrier stage, so that none is left out."""
        doing = _Doing(sealed(opening), None, open_only=True)
        places = self._context.parallelize(range(self._workers), self._workers)
        try:
            outcomes = places.barrier().mapPartitions(doing).collect()
        except Exception as error:
            raise _failed(error, CHECKING, None) from error
        for _, outcome in outcomes:
            _receipt(outcome)

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """Do tasks as one Spark job, and yield each with what it gave back, as they end."""
        if not tasks:
            return
        job = _Job(self._context, sealed(opening), list(tasks), what)
        given = set()
        try:
            for task, outcome in job.outcomes():
                if task not in given:
                    given.add(task)
                    yield task, _receipt(outcome)
        finally:
            job.stop()

    def release(self) -> None:
        """Do nothing: the session keeps its executors until it ends."""

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the session, and with it the workers."""
        with contextlib.suppress(*_lost()):
            self._context.cancelAllJobs()
        with contextlib.suppress(*_lost()):
            self._context.stop()


class _Job:
    """A Spark job at work in a thread of its own."""

    def __init__(self, context: Any, opening: bytes, tasks: list[int], what: str) -> None:  # noqa: ANN401
        pyspark: Any = errors.require("pyspark", EXTRA)
        self._context, self._tasks, self._what = context, tasks, what
        self._group = f"alphita-{os.getpid()}-{next(_numbers)}"
        self._received = context.accumulator([], _Appending())
        self._doing = _Doing(opening, self._received)
        self._all: list[tuple[int, Outcome]] = []
        self._error: Exception | None = None
        self._thread = pyspark.InheritableThread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self) -> None:
        try:
            # Interrupted, Java's side of a task ends and leaves the Python worker at it; not interrupted, it kills it.
            self._context.setJobGroup(self._group, self._what, interruptOnCancel=False)
            tasks = self._context.parallelize(self._tasks, len(self._tasks))
            self._all = tasks.mapPartitions(self._doing).collect()
        except Exception as error:
            self._error = error

    def outcomes(self) -> Iterator[tuple[int, Outcome]]:
        """Yield tasks as they end, and at the end all of them once more."""
        seen = 0
        while True:
            ended = not self._thread.is_alive()
            received = self._received.value
            while seen < len(received):
                yield received[seen]
                seen += 1
            if ended:
                break
            self._thread.join(LOOK)
        if self._error is not None:
            raise _failed(self._error, self._what, self._tasks) from self._error
        yield from self._all

    def stop(self) -> None:
        """Stop what is at work, and forget what came."""
        while self._thread.is_alive():
            # More than once: a job that is only about to start cannot be cancelled yet.
            with contextlib.suppress(*_lost()):
                self._context.cancelJobGroup(self._group)
            self._thread.join(1)
        self._received.value = []


class _Appending:
    """What Spark calls an accumulator's parameter: lists, one after another."""

    def zero(self, _value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value: list[Any], more: list[Any]) -> list[Any]:
        value.extend(more)
        return value


class _Doing:
    """Does the tasks of a partition; goes to the Python workers."""

    def __init__(self, opening: bytes, received: Any, *, open_only: bool = False) -> None:  # noqa: ANN401
        self._opening, self._received, self._open_only = opening, received, open_only

    def __call__(self, tasks: Iterator[int]) -> Iterator[tuple[int, Outcome]]:
        for task in tasks:
            outcome = self._outcome(task)
            if self._received is not None:
                self._received.add([(task, outcome)])
            yield task, outcome

    def _outcome(self, task: int) -> Outcome:
        # An error is an answer, too: raised, Spark would only try again.
        place = f"on {socket.gethostname()}: " if self._open_only else ""
        try:
            worker = _opened(self._opening)
            return ({} if self._open_only else worker(task)), 0, "", ""
        except AlphitaError as error:
            return None, error.exit_code, place + str(error), traceback.format_exc()
        except Exception as error:
            words = f"{place}{type(error).__name__}: {error}"
            return None, AlphitaError.exit_code, words, traceback.format_exc()


# The worker that this process has, and the opening that made it.
_kept: tuple[bytes, Worker] | None = None


def _opened(opening: bytes) -> Worker:
    global _kept
    if _kept is None or _kept[0] != opening:
        _kept = None  # two at one time would take twice the memory
        _take_gpus()
        machine.set_threads(machine.threads())
        _kept = opening, unsealed(opening)()
    return _kept[1]


def _take_gpus() -> None:
    """Show this process the GPUs alone that Spark gave its task, before anything looks for them."""
    pyspark: Any = errors.require("pyspark", EXTRA)
    context = pyspark.TaskContext.get()
    given = context.resources().get("gpu") if context is not None else None
    if given is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(given.addresses)


def _lost() -> tuple[type[Exception], ...]:
    """Return what is raised where Java is gone: that was said already, and there is nothing left to stop."""
    protocol: Any = errors.require("py4j.protocol", EXTRA)
    return OSError, protocol.Py4JError


def _receipt(outcome: Outcome) -> Receipt:
    receipt, code, words, trace = outcome
    if receipt is None:
        raise (UsageError if code == UsageError.exit_code else AlphitaError)(words) from RuntimeError(trace)
    return receipt


def _failed(error: Exception, what: str, tasks: list[int] | None) -> AlphitaError:
    """Return what a job's end by Spark means; the errors of tasks do not come this way."""
    if isinstance(error, OSError) or type(error).__name__ == "Py4JNetworkError":
        return AlphitaError(
            f"{what}: Spark's Java process on this machine is gone; was its memory enough? (spark.driver.memory) "
            "What is finished is kept, and the job goes on with --resume"
        )
    words = words_of(error)
    same = f"install the same alphita ({alphita.__version__}) in the same Python on every machine"
    if missing := re.search(r"No module named '([\w.]+)'", words):
        return AlphitaError(f"{what}: the Python of a Spark worker has no module {missing[1]!r}; {same}")
    if "PYTHON_VERSION_MISMATCH" in words:
        versions = "{}.{}".format(*sys.version_info)
        return AlphitaError(
            f"{what}: the Python of the Spark workers is not {versions}, as here; set PYSPARK_PYTHON to one that is"
        )
    if program := re.search(r'Cannot run program "([^"]*)"', words):
        return AlphitaError(
            f"{what}: a Spark worker has no {program[1]!r}; set PYSPARK_PYTHON to a Python that all have, and {same}"
        )
    if tasks is not None and (given_up := re.search(r"Task (\d+) in stage [\d.]+ failed \d+ times", words)):
        return gave_up(what, tasks[int(given_up[1])])
    return AlphitaError(f"{what}: Spark ended the job: {first_line(error)}")
