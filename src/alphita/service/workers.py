"""Processes that answer beside the server's own over one mapped index; one that dies is replaced and asked again."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from alphita import machine, textio
from alphita.answer.calibration_store import FOLDER
from alphita.answer.normalizer import Normalizer, NormalizerOptions
from alphita.artefact import MANIFEST
from alphita.errors import AlphitaError, InputError
from alphita.index.store import Index
from alphita.jobs.engines.processes import end_with_parent
from alphita.service import logs
from alphita.service.failures import refusal_of
from alphita.service.normalizing import NormalizeKind, Question, Work
from alphita.terminology.store import Terminology, load_terminology

SECONDS_TO_STOP = 10.0
# How often a batch is given to a process that dies of it.
TRIES = 2
# A worker is started only where so many times the memory of this process's own is free.
ROOM = 1.5
NVIDIA = Path("/proc/driver/nvidia/version")


Contents = tuple[str | None, ...]


def contents(index: Path) -> Contents:
    """Return the hashes of an index and of its calibrations, as they lie there now; None for what is not there."""
    found: list[str | None] = []
    for folder in (index, index / FOLDER, index / "model" / FOLDER):
        try:
            found.append(str(textio.json_file(folder / MANIFEST)["content_hash"]))
        except (OSError, ValueError, KeyError, TypeError, InputError):
            found.append(None)
    return tuple(found)


def contents_opened(index: Index) -> Contents:
    """Return what `contents` gives while the index's folder holds what was opened of it."""
    return (index.content_hash, *contents(index.path)[1:])


@dataclass(frozen=True)
class Opening:
    """What a worker opens; `contents` is of the index that the server itself opened."""

    index: Path
    contents: Contents
    options: NormalizerOptions
    log_mentions: bool

    def __call__(self) -> Work:
        """Open it."""
        # The server verified it; only that it is still the same is asked.
        normalizer = Normalizer(Index.open(self.index, verify=False), options=self.options)
        if contents(self.index) != self.contents:
            raise InputError("the index is not the one that the server opened", file=self.index, remedy="start again")
        return Work(normalizer)


class Opened(NamedTuple):
    """What a server answers with."""

    normalizer: Normalizer
    terminology: Terminology | None
    further: Sequence[Worker]


class Worker:
    """A process that answers, as `Work` does, where it is called; it is started by its first question."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def warm_up(self) -> None:
        self(NormalizeKind(1, False), [Question("warm up")])

    def __call__(self, kind: Hashable, questions: Sequence[Question], /) -> Sequence[Any]:
        """Return the answers; see `Work`."""
        for _ in range(TRIES):
            try:
                connection = self._connected()
                connection.send((kind, list(questions)))
                answers: Sequence[Any] | str | None = connection.recv()
            except (EOFError, OSError):
                logs.warn("a worker ended while it answered; is the memory enough?", questions=len(questions))
                self.close()
                continue
            if answers is None:
                raise RuntimeError("a worker could not answer; the log says why")
            if isinstance(answers, str):
                raise AlphitaError(answers)
            return answers
        raise RuntimeError(f"{TRIES} workers ended while they answered this")

    def _connected(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(theirs, self._opening), daemon=True)
            self._process.start()
            # So the end of the pipe is seen here when the process ends.
            theirs.close()
        return self._connection

    def reopen_logs(self) -> None:
        process = self._process
        with contextlib.suppress(ValueError, OSError):  # it has ended meanwhile
            if process is not None and process.pid is not None:
                os.kill(process.pid, signal.SIGHUP)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.join(SECONDS_TO_STOP)
            self._process.close()
        self._connection = self._process = None


def pids_of(workers: Sequence[Worker]) -> dict[str, int]:
    """Return the processes that run, by their names in the metrics."""
    processes = {f"worker {number}": worker._process for number, worker in enumerate(workers, 1)}
    return {name: process.pid for name, process in processes.items() if process is not None and process.pid}


@dataclass(frozen=True)
class Reopening:
    """Opens what a server that was told to reload is to answer with.

    Attributes:
        index: opens the index; it may build it for minutes, and so is called in a process of its own.
        processes: how many are to answer.
    """

    index: Callable[[], Index]
    options: NormalizerOptions
    log_mentions: bool
    terminology: Path | None
    processes: int

    def __call__(self, known: Contents) -> Opened | None:
        """Open it; return None if it is what is `known`."""
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), end_with_parent) as pool:
            path = pool.submit(_path_of, self.index).result()
        if contents(path) == known:
            return None
        if not is_room():
            raise AlphitaError("the memory is not enough for two indexes at once; start the server again")
        normalizer = Normalizer(index := Index.open(path, verify=False), options=self.options)
        normalizer.encoder()
        terminology = load_terminology(self.terminology) if self.terminology is not None else None
        return Opened(normalizer, terminology, workers_for(index, self.options, self.processes, self.log_mentions))


def workers_for(index: Index, options: NormalizerOptions, processes: int, log_mentions: bool = False) -> list[Worker]:
    """Return the processes that answer from an index beside this one, not started."""
    opening = Opening(index.path, contents_opened(index), options, log_mentions)
    return [Worker(opening) for _ in range(processes - 1)]


def _path_of(index: Callable[[], Index]) -> Path:
    return index().path


def default_processes(device: str, threads: int) -> int:
    """Return how many processes answer where nobody says: one a thread, but one in all where they would share a GPU."""
    return 1 if device.startswith("cuda") or (device == "auto" and NVIDIA.exists()) else threads


def is_room() -> bool:
    """Tell whether the memory is enough for a further process like this one, the mapped files not counted."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                return machine.memory() > ROOM * int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return True


def _serve(connection: Connection, opening: Opening) -> None:
    """Be a worker: open, then answer one batch after another until the pipe is closed."""
    # Ctrl-C reaches every process of a terminal; the server decides, and answers what it is at.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    machine.set_threads(opening.options.threads)
    logs.configure(mentions=opening.log_mentions)
    signal.signal(signal.SIGHUP, lambda *_: logs.reopen())
    work: Work | None = None
    while True:
        try:
            kind, questions = connection.recv()
        except (EOFError, OSError):
            return
        answers: Sequence[Any] | str | None = None
        try:
            is_first, work = work is None, work or opening()
            answers = work(kind, questions)
            if is_first:
                machine.settle()
        except Exception as error:
            logs.LOGGER.error("a worker could not answer", exc_info=error)
            if work is None and isinstance(error, AlphitaError):
                answers = refusal_of(error).message
        connection.send(answers)
