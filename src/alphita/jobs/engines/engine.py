"""What runs a job's tasks: processes of this machine, Ray or Spark. A module here that has an `open_engine` is one.

A job is cut into numbered tasks. A task reads files and writes one, whole or not at all, so doing it twice does no
harm: all that an engine has to know is which tasks are left. What a worker needs for them (an encoder, a mapped index)
it opens once, from an `Opening` that is small and can be pickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from alphita import artefact
from alphita.errors import AlphitaError, UsageError

# Deaths of workers at one task after which the job is given up: it is the task that kills them.
MOST_DEATHS = 3
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
            AlphitaError: what a task raised; or a task's workers died `MOST_DEATHS` times.
        """
        ...

    def release(self) -> None:
        """Let go of workers that are kept for another `run`: there is none for the time being."""
        ...

    def __enter__(self) -> Self:
        """Use as a context manager."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers."""
        ...


@dataclass(frozen=True)
class SameVersion:
    """An opening that refuses a machine with another build of this package than the one the job began on.

    Attributes:
        opening: the job's.
        version: of the package where the job began, with the hash of its code (`builds.build`).
    """

    opening: Opening
    version: str = field(default_factory=artefact.build)

    def __call__(self) -> Worker:
        """Open the worker."""
        if (here := artefact.build()) != self.version:
            raise UsageError(
                f"the job began with alphita {self.version}, and this worker has {here}; "
                "install the same on every machine"
            )
        return self.opening()


def sealed(opening: Opening) -> bytes:
    """Return an opening as bytes, for the job's own workers: what they then import may wait until threads are set."""
    return pickle.dumps(opening)


def unsealed(opening: bytes) -> Opening:
    """Return the opening that the job itself sealed. Never for what comes from a file or from anybody else."""
    made: Opening = pickle.loads(opening)
    return made


def gave_up(what: str, task: int) -> AlphitaError:
    """Return the error for a task that killed its workers."""
    return AlphitaError(
        f"{what}: task {task} ended {MOST_DEATHS} workers that did it, so it is given up; is their memory enough? "
        "What is finished is kept, and the job goes on with --resume"
    )
