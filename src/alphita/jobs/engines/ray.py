"""Ray: a pool of actors on the machines of a cluster does the tasks, and is kept from one step to the next.

An actor has one task at a time. One that is gone is replaced, and its task is given to another.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from alphita import artefact, machine
from alphita.errors import AlphitaError, UsageError, require
from alphita.jobs.engines import MAX_DEATHS, Bench, Engine, Opening, Outcome, Receipt, gave_up, sealed, unreachable

# Seconds after which a machine that opens a worker counts as hanging.
TO_OPEN = 600.0


def open_engine(workers: int | None, address: str | None, gpus: float = 0) -> RayEngine:
    """Join a Ray cluster, or start one on this machine."""
    ray = require("ray", "cluster")
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise UsageError(f"GPUs per worker must be a share of one (0.5) or a whole number, not {gpus:g}")
    running = ray.is_initialized()
    if not running:
        _connect(ray, address or os.environ.get("RAY_ADDRESS") or "local", workers)
    elif address not in (None, "auto", here := ray.get_runtime_context().gcs_address):
        raise UsageError(f"Ray runs in this process already, at {here}, not at {address}; give no address")
    try:
        return RayEngine(ray, workers, gpus, started=not running)
    except BaseException:
        if not running:
            ray.shutdown()
        raise


class RayEngine(Engine):
    """Runs tasks on a Ray cluster."""

    def __init__(self, ray: ModuleType, workers: int | None, gpus: float, *, started: bool) -> None:
        self._ray, self._gpus, self._started = ray, gpus, started
        self._idle: list[Any] = []
        self._nodes = [node for node in ray.nodes() if node["Alive"] and _room(node, 1, gpus)]
        most = sum(_room(node, 1, gpus) for node in self._nodes)
        if not most or (workers or 0) > most:
            unit = f"{gpus:g} GPUs and a processor core" if gpus else "a processor core"
            raise UsageError(
                f"the Ray cluster has room for {most} workers with {unit} each, not for {workers or 1}; "
                "give fewer, or start more machines with 'ray start'"
            )
        self._workers = workers or most
        # A worker fits on any of the machines, for the others may go.
        self._cores = max(
            cores
            for cores in range(1, 1 + min(int(node["Resources"]["CPU"]) for node in self._nodes))
            if cores == 1 or sum(_room(node, cores, gpus) for node in self._nodes) >= self._workers
        )

    def facts(self) -> dict[str, str | int]:
        """Return the engine's name and version, its workers, their threads, and the number of machines."""
        return {
            "engine": "ray",
            "version": self._ray.__version__,
            "workers": self._workers,
            "threads": self._cores,
            "machines": len(self._nodes),
        }

    def check(self, opening: Opening) -> None:
        # What they hold may be asked for: GPUs, above all.
        """See `Engine.check`."""
        self.release()

        # Sent whole, for a function of this package can only be called where the same package is.
        def look(opening: bytes, version: str) -> tuple[str | None, Outcome | None]:
            try:
                from alphita.artefact import build
            except ImportError:
                return None, None
            if build() != version:
                return build(), None
            from alphita.jobs.engines import Bench

            return version, Bench(lambda: None).do(opening, None)

        here = artefact.build()
        answers = self._everywhere(look, sealed(opening), here)
        for host, (build_there, _) in answers:
            if build_there != here:
                raise UsageError(
                    f"the job began with alphita {here}, and {host} has "
                    f"{'none' if build_there is None else build_there}; install the same on every machine"
                )
        for host, (_, outcome) in answers:
            outcome.received(f"on {host}: ")

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """See `Engine.run`."""
        ray, problem, failed_starts = self._ray, "", 0
        waiting, deaths = deque(tasks), Counter[int]()
        self.release(down_to=len(tasks))
        pending: dict[Any, _Asked] = {}
        # Where a machine goes, all that it was starting fails at once.
        most_starts = MAX_DEATHS * self._workers
        try:
            packed = sealed(opening)
            while left := len(waiting) + sum(request.task is not None for request in pending.values()):
                while len(pending) < min(self._workers, left) and (self._idle or failed_starts < most_starts):
                    # One of the step before may be gone by now: it, too, is asked before it gets a task.
                    new = not self._idle
                    actor = self._start() if new else self._idle.pop()
                    pending[actor.ready.remote()] = _Asked(actor, new=new)
                if not pending:
                    raise AlphitaError(f"{what}: Ray could not start a worker: {problem}; go on with --resume")
                ended, _ = ray.wait(list(pending), timeout=TO_OPEN if left == len(waiting) else None)
                if not ended:
                    raise AlphitaError(f"{what}: Ray had no room for a worker in {TO_OPEN:.0f} s; go on with --resume")
                request = pending.pop(ended[0])
                try:
                    answer, failed_starts = ray.get(ended[0]), 0
                except ray.exceptions.RayError as error:
                    self._kill(request.actor)
                    if request.task is None:
                        failed_starts, problem = failed_starts + request.new, _first_line(error)
                        continue
                    deaths[request.task] += 1
                    if deaths[request.task] == MAX_DEATHS:
                        raise gave_up(what, request.task) from None
                    waiting.appendleft(request.task)
                    continue
                if waiting:
                    task = waiting.popleft()
                    pending[request.actor.do.remote(packed, task, what)] = _Asked(request.actor, task)
                else:
                    self._idle.append(request.actor)
                if request.task is not None:
                    yield request.task, answer.received()
        except BaseException as error:
            self.release()
            if isinstance(error, ray.exceptions.RayError):
                raise AlphitaError(f"{what}: Ray ended the job: {_first_line(error)}") from error
            raise
        finally:
            for request in pending.values():
                self._kill(request.actor)

    def close(self) -> None:
        """End the workers and leave the cluster; one that was started here ends."""
        self.release()
        if self._started:
            self._ray.shutdown()

    def release(self, down_to: int = 0) -> None:
        """End the workers that wait for the next step but so many, and so free their cores and GPUs."""
        while len(self._idle) > down_to:
            self._kill(self._idle.pop())

    def _start(self) -> Any:  # noqa: ANN401
        """Ask for one more worker; there is one when its `ready` returns."""
        options = {"num_cpus": self._cores, "num_gpus": self._gpus, "scheduling_strategy": "SPREAD"}
        return self._ray.remote(_Worker).options(**options).remote(self._cores)

    def _kill(self, actor: Any) -> None:  # noqa: ANN401
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(actor)

    def _everywhere(self, function: Any, *arguments: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Call a function on every machine, in a process of its own; return their names and what they gave back."""
        ray = self._ray
        # The GPU as a worker has it. No core is asked for: they may be at work.
        remote = ray.remote(num_cpus=0, num_gpus=self._gpus, max_retries=0, max_calls=1)(function)
        on: Any = require("ray.util.scheduling_strategies", "cluster").NodeAffinitySchedulingStrategy
        pending = []
        for node in self._nodes:
            name, address = node.get("NodeManagerHostname") or "", node["NodeManagerAddress"]
            host = f"{name} ({address})" if name and name != address else str(address)
            pending.append(
                (host, remote.options(scheduling_strategy=on(node["NodeID"], soft=False)).remote(*arguments))
            )
        answers = []
        for host, reference in pending:
            try:
                answers.append((host, ray.get(reference, timeout=TO_OPEN)))
            except ray.exceptions.GetTimeoutError:
                raise AlphitaError(f"on {host}: no worker could be opened in {TO_OPEN:.0f} s") from None
            except ray.exceptions.RayError as error:
                raise AlphitaError(f"on {host}: no worker could be opened: {_first_line(error)}") from error
        return answers


@dataclass(frozen=True)
class _Asked:
    """An actor that was asked something: to do a task, or (None) whether it is there."""

    actor: Any
    task: int | None = None
    new: bool = False


class _Worker:
    """An actor: opens what a step needs with its first task, and keeps it until the next step."""

    def __init__(self, threads: int) -> None:
        self._bench = Bench(lambda: machine.set_threads(threads))

    def ready(self) -> None:
        """Return when the actor has started."""

    def do(self, opening: bytes, task: int, what: str) -> Outcome:
        return self._bench.do(opening, task, what)


def _connect(ray: ModuleType, address: str, workers: int | None) -> None:
    """Join or start a cluster."""
    # Ray reports its use to its makers unless it is told not to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Of a worker that is killed Ray prints a page to stdout; what is left to know comes as an error.
    ray._private.worker._worker_logs_enabled = False
    options: dict[str, Any] = {"logging_level": logging.CRITICAL, "log_to_driver": False}
    if address == "local":
        # More workers than cores may be asked for; they take turns.
        options |= {"num_cpus": max(workers or 1, machine.cores()), "include_dashboard": False}
    elif address != "auto":
        _reach(address)
    try:
        ray.init(address=address, **options)
    except (RuntimeError, OSError, ValueError) as error:
        problem = f"could not join the Ray cluster at {address}: "
        words = " ".join(_chain(error).split())
        if "mismatch" in words.lower():
            raise UsageError(problem + " ".join(str(error).split())) from error
        if "AuthToken" in words or "AuthenticationError" in words:
            raise UsageError(
                problem
                + "it wants its token; have the same ~/.ray/auth_token on every machine, and RAY_AUTH_MODE=token "
                "in the environment"
            ) from error
        raise AlphitaError(
            f"{problem}{_first_line(error)}; this machine must be of the cluster: 'ray start --address=HOST:6379'"
        ) from error


def _reach(address: str) -> None:
    """Raise an error unless something listens at `address`; Ray itself tries for a minute."""
    if "://" in address:
        raise UsageError(
            f"the address of a Ray cluster is HOST:PORT, not {address!r}; run this on a machine of the cluster, "
            "or hand it over with 'ray job submit'"
        )
    try:
        problem = unreachable(address)
    except ValueError:
        raise UsageError(
            f"the address of a Ray cluster is 'auto' or HOST:PORT, as 10.0.0.1:6379, not {address!r}"
        ) from None
    if problem is not None:
        raise AlphitaError(f"no Ray cluster answers at {address}: {problem}; start one with 'ray start --head'")


def _room(node: dict[str, Any], cores: int, gpus: float) -> int:
    """Return how many workers of so many cores and GPUs fit on a machine."""
    fit = int(node["Resources"].get("CPU", 0) // cores)
    if not gpus:
        return fit
    has = node["Resources"].get("GPU", 0)
    # Shares do not add up over two GPUs.
    return min(fit, int(has) * int(1 / gpus) if gpus < 1 else int(has // gpus))


def _chain(error: BaseException | None) -> str:
    """Return the words of an error and of what caused it."""
    words = []
    while error is not None:
        words.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(words)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
