"""Ray: the tasks are a dataset of Ray Data, and a pool of actors on the machines of a cluster does them.

Ray places the actors, starts one again whose process or machine is gone, and gives its task to one that is there. What
Ray leaves open is said here: a task that ends whoever does it is given up, and what a machine lacks is told at the
start.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any, Self

import alphita
from alphita import machine
from alphita.distributed.engine import MOST_DEATHS, Opening, Receipt, Worker, gave_up
from alphita.errors import AlphitaError, UsageError, require

# Seconds after which an address counts as unreachable, and a machine that opens a worker as hanging.
TO_CONNECT, TO_OPEN = 5.0, 600.0
Failure = tuple[str, int]


def open_engine(workers: int | None, address: str | None, gpus: float = 0) -> RayEngine:
    """Join a Ray cluster, or start one on this machine.

    Where Ray is running in this process already, that cluster is used, and left running. This machine must be of the
    cluster.

    Args:
        workers: actors; by default as many as there is room for: one for each processor core, or GPU share.
        address: of the cluster's head, "host:6379"; "auto" finds one that runs on this machine. By default what
            `$RAY_ADDRESS` says, or else a cluster of this machine alone is started.
        gpus: GPUs for each actor; a share such as 0.5 lets two actors use one.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: the address is none, or the cluster runs another Ray or Python, or has no room for the workers.
        AlphitaError: nothing answers at the address.
    """
    ray = require("ray", "cluster")
    require("ray.data", "cluster")
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")
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


class RayEngine:
    """Runs tasks on a Ray cluster; use as a context manager."""

    def __init__(self, ray: ModuleType, workers: int | None, gpus: float, *, started: bool) -> None:
        """Find room for the workers; `open_engine` has joined the cluster.

        Raises:
            UsageError: there is none.
        """
        self._ray, self._gpus, self._started = ray, gpus, started
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
        """Compare versions and open a worker on every machine.

        Raises:
            UsageError: a machine has another version of this package, or none.
            AlphitaError: what `opening` raised, with the machine's name; or it does not answer.
        """

        # Sent whole, for a function of this package can only be called where the same package is.
        def version() -> str | None:
            try:
                import alphita

                return alphita.__version__
            except ImportError:
                return None

        for host, found in self._everywhere(version):
            if found != alphita.__version__:
                raise UsageError(
                    f"the job began with alphita {alphita.__version__}, and {host} has "
                    f"{'none' if found is None else found}; install the same on every machine"
                )
        for host, failure in self._everywhere(_failure, opening):
            if failure is not None:
                words, code = failure
                raise (UsageError if code == UsageError.exit_code else AlphitaError)(f"on {host}: {words}")

    def run(self, opening: Opening, tasks: Sequence[int], *, what: str) -> Iterator[tuple[int, Receipt]]:
        """Do tasks, and yield each with what it gave back, as they end; see `Engine`.

        Raises:
            AlphitaError: what a task raised; or its workers died `MOST_DEATHS` times; or the cluster is lost.
        """
        if not tasks:
            return
        ray = self._ray
        # Beside the driver: while the job is there, it is.
        here = _on(ray, ray.get_runtime_context().get_node_id())
        tally = ray.remote(_Tally).options(num_cpus=0, scheduling_strategy=here).remote()
        try:
            rows = self._results(opening, tasks, tally, what)
            with contextlib.closing(rows):
                for row in rows:
                    if row["code"]:
                        error = UsageError if row["code"] == UsageError.exit_code else AlphitaError
                        raise error(row["words"])
                    yield row["task"], json.loads(row["words"])
        except ray.exceptions.RayError as error:
            raise AlphitaError(f"{what}: Ray ended the job: {_first_line(error)}") from error
        finally:
            self._stop(tally)

    def __enter__(self) -> Self:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster; one that was started here ends."""
        if self._started:
            self._ray.shutdown()

    def _results(
        self,
        opening: Opening,
        tasks: Sequence[int],
        tally: Any,  # noqa: ANN401
        what: str,
    ) -> Generator[dict[str, Any], None, None]:
        ray = self._ray
        # A block a task: what one gives back is here when it ends.
        dataset = ray.data.from_items([{"task": task} for task in tasks], override_num_blocks=len(tasks))
        dataset.set_name(what)
        quiet(ray, dataset.context)
        size = min(self._workers, len(tasks))
        done = dataset.map_batches(
            _Tasks,
            fn_constructor_args=(opening, tally, self._cores, what),
            batch_size=1,
            batch_format="pyarrow",
            # It may shrink: where a machine is gone, the actor that was there waits for the room of one with no work.
            compute=ray.data.ActorPoolStrategy(
                min_size=1, max_size=size, initial_size=size, max_tasks_in_flight_per_actor=1
            ),
            num_cpus=self._cores,
            num_gpus=self._gpus,
        )
        # Nothing is fetched ahead, which would keep each task's row until the next one's is there.
        for table in done.iter_batches(batch_size=1, batch_format="pyarrow", prefetch_batches=0):
            yield from table.to_pylist()

    def _everywhere(self, function: Any, *arguments: Any) -> list[tuple[str, Any]]:  # noqa: ANN401
        """Call a function on every machine, in a process of its own; return their names and what they gave back."""
        ray = self._ray
        # The GPU as a worker has it. No core is asked for: they may be at work.
        remote = ray.remote(num_cpus=0, num_gpus=self._gpus, max_retries=0, max_calls=1)(function)
        asked = [
            (_name(node), remote.options(scheduling_strategy=_on(ray, node["NodeID"])).remote(*arguments))
            for node in self._nodes
        ]
        answers = []
        for host, reference in asked:
            try:
                answers.append((host, ray.get(reference, timeout=TO_OPEN)))
            except ray.exceptions.GetTimeoutError:
                raise AlphitaError(f"on {host}: no worker could be opened in {TO_OPEN:.0f} s") from None
            except ray.exceptions.RayError as error:
                raise AlphitaError(f"on {host}: no worker could be opened: {_first_line(error)}") from error
        return answers

    def _stop(self, tally: Any) -> None:  # noqa: ANN401
        """End what is still at work."""
        ray = self._ray
        with contextlib.suppress(ray.exceptions.RayError):
            for worker in ray.get(tally.workers.remote(), timeout=TO_CONNECT):
                with contextlib.suppress(ray.exceptions.RayError, ValueError):
                    ray.kill(worker)
        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(tally)


class _Tally:
    """An actor that knows how often each task was begun, and by whom, for a worker that was killed cannot tell."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()
        self._workers: dict[str, Any] = {}

    def begin(self, task: int, name: str, worker: Any) -> int:  # noqa: ANN401
        """Note a beginning, and return how many there were."""
        self._workers[name] = worker
        self._begun[task] += 1
        return self._begun[task]

    def end(self, task: int) -> None:
        """Note that it came to its end."""
        del self._begun[task]

    def workers(self) -> list[Any]:
        """Return the actors that began something."""
        return list(self._workers.values())


class _Tasks:
    """An actor of Ray Data: opens a worker with its first task, and keeps it."""

    def __init__(self, opening: Opening, tally: Any, threads: int, what: str) -> None:  # noqa: ANN401
        self._opening, self._tally, self._threads, self._what = opening, tally, threads, what
        self._worker: Worker | None = None

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401
        """Do the one task of a table; return a table of the task, a code (0: done) and its receipt or what failed."""
        import pyarrow as pa
        import ray

        (task,) = batch["task"].to_pylist()
        me = ray.get_runtime_context()
        begun = ray.get(self._tally.begin.remote(task, me.get_actor_id(), me.current_actor))
        try:
            if begun > MOST_DEATHS:
                raise gave_up(self._what, task)
            if self._worker is None:
                # Not when the actor starts: where opening ends the process, Ray would start it for ever.
                machine.set_threads(self._threads)
                self._worker = self._opening()
            words, code = json.dumps(self._worker(task)), 0
        except AlphitaError as error:
            words, code = str(error), error.exit_code
        except Exception as error:
            words, code = _fault(self._what, task, error), AlphitaError.exit_code
        self._tally.end.remote(task)
        return pa.table({"task": [task], "code": [code], "words": [words]})


def quiet(ray: ModuleType, context: Any) -> None:  # noqa: ANN401
    """Keep Ray Data's bars and lines from the terminal; errors are raised."""
    context.enable_progress_bars = False
    context.enable_operator_progress_bars = False
    context.print_on_execution_start = False
    for name in ("ray.data", "ray.util"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _connect(ray: ModuleType, address: str, workers: int | None) -> None:
    """Join or start a cluster.

    Raises:
        UsageError: a wrong address, or a cluster of another Ray or Python.
        AlphitaError: nothing answers.
    """
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
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"the address of a Ray cluster is 'auto' or HOST:PORT, as 10.0.0.1:6379, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), TO_CONNECT).close()
    except OSError as error:
        raise AlphitaError(
            f"no Ray cluster answers at {address}: {error.strerror or error}; start one with 'ray start --head'"
        ) from error


def _room(node: dict[str, Any], cores: int, gpus: float) -> int:
    """Return how many workers of so many cores and GPUs fit on a machine."""
    fit = int(node["Resources"].get("CPU", 0) // cores)
    if not gpus:
        return fit
    has = node["Resources"].get("GPU", 0)
    # Shares do not add up over two GPUs.
    return min(fit, int(has) * int(1 / gpus) if gpus < 1 else int(has // gpus))


def _on(ray: ModuleType, node: str) -> Any:  # noqa: ANN401
    strategies = require("ray.util.scheduling_strategies", "cluster")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)


def _name(node: dict[str, Any]) -> str:
    name, address = node.get("NodeManagerHostname") or "", node["NodeManagerAddress"]
    return f"{name} ({address})" if name and name != address else str(address)


def _failure(opening: Opening) -> Failure | None:
    """Open a worker, and return what failed: the words and the exit code."""
    try:
        opening()
    except AlphitaError as error:
        return str(error), error.exit_code
    return None


def _fault(what: str, task: int, error: Exception) -> str:
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{what}: task {task} failed: {type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


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
