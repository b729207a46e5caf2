"""Tasks on Spark: one job a stage, one partition a task, in the Python workers of a session of its own.

Spark keeps a Python process for the next task, so what a task needs is opened once in each and kept in this module.
What goes wrong at the start of a session is told in words of our own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any

import alphita
from alphita import errors, machine
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines import MAX_DEATHS, Bench, Engine, Opening, Outcome, Receipt, gave_up, sealed, unreachable

EXTRA = "spark"
MASTERS = "local[N], spark://HOST:7077, yarn, k8s://https://HOST:PORT"
# Seconds: for a cluster to give the first worker, for those asked for, and for more to come where no number was asked
# for; and between looks for receipts.
FIRST_WORKER, ALL_WORKERS, SETTLED, LOOK = 120, 30, 5, 0.05
CHECKING = "Checking the workers"

_numbers = itertools.count(1)


def open_engine(workers: int | None, address: str | None, gpus: float = 0) -> SparkEngine:
    """Start a Spark session."""
    with warnings.catch_warnings():
        # Of versions of pandas, which is not used here.
        warnings.simplefilter("ignore", FutureWarning)
        pyspark: Any = errors.require("pyspark", EXTRA)
    return SparkEngine(*start(pyspark, workers, address, gpus))


class SparkEngine(Engine):
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
        doing = _Doing(sealed(opening), CHECKING)
        places = self._context.parallelize(range(self._workers), self._workers)
        try:
            outcomes = places.barrier().mapPartitions(doing).collect()
        except Exception as error:
            raise _failed(error, CHECKING, None) from error
        for host, outcome in outcomes:
            outcome.received(f"on {host}: ")

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
                    yield task, outcome.received()
        finally:
            job.stop()

    def close(self) -> None:
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
        self._doing = _Doing(opening, what, self._received)
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
    """Does the tasks of a partition, or (without a list for the receipts) only opens a worker; goes to the workers."""

    def __init__(self, opening: bytes, what: str, received: Any = None) -> None:  # noqa: ANN401
        self._opening, self._what, self._received = opening, what, received

    def __call__(self, tasks: Iterator[int]) -> Iterator[tuple[int | str, Outcome]]:
        for task in tasks:
            if self._received is None:
                yield socket.gethostname(), _bench.do(self._opening, None)
            else:
                # An error is an outcome, too: raised, Spark would only try again.
                outcome = _bench.do(self._opening, task, self._what)
                self._received.add([(task, outcome)])
                yield task, outcome


def _prepare() -> None:
    """Show this process the GPUs alone that Spark gave its task, before anything looks for them."""
    pyspark: Any = errors.require("pyspark", EXTRA)
    context = pyspark.TaskContext.get()
    given = context.resources().get("gpu") if context is not None else None
    if given is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(given.addresses)
    machine.set_threads(machine.threads())


# What this process has opened.
_bench = Bench(_prepare)


def _lost() -> tuple[type[Exception], ...]:
    """Return what is raised where Java is gone: that was said already, and there is nothing left to stop."""
    protocol: Any = errors.require("py4j.protocol", EXTRA)
    return OSError, protocol.Py4JError


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


def start(pyspark: Any, workers: int | None, address: str | None, gpus: float) -> tuple[Any, str, int]:  # noqa: ANN401
    """Start a session."""
    master = master_of(workers, address)
    if gpus and master.startswith("local["):
        raise UsageError("Spark on one machine hands out no GPUs; use --engine processes or ray, or a Spark cluster")
    if pyspark.SparkContext._active_spark_context is not None:
        raise UsageError(
            "a Spark session runs in this process already: stop it, or give its DataFrame to "
            "alphita.jobs.engines.spark_frames.normalize_frame"
        )
    launch_gateway: Any = errors.require("pyspark.java_gateway", EXTRA).launch_gateway
    _check_java()
    if master.startswith("spark://"):
        _check_reachable(master)
    # Spark's own choice is the first python3 on the PATH, which may be another than this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = pyspark.SparkConf().setAll(list(settings_of(master, workers, gpus).items()))
    conf.setMaster(master).setAppName("alphita")
    # What Java and Spark's log say at the start is for a message if it fails, not for the terminal.
    with tempfile.TemporaryFile() as log, warnings.catch_warnings():
        # Of versions of pandas, which is not used here.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            # Java goes on after a session ends, and serves the next of this process.
            gateway = pyspark.SparkContext._gateway or launch_gateway(conf, {"stderr": log})
            context = pyspark.SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            raise _not_started(error, master, pyspark.__version__, _said(log)) from error
        try:
            return context, master, _slots(context, master, workers, log)
        except BaseException:
            context.stop()
            raise


def master_of(workers: int | None, address: str | None) -> str:
    """Return the master to give to Spark."""
    if local := re.fullmatch(r"local(\[(\d+|\*)(,\s*\d+)?\])?", address or "local"):
        cores = local[2] if (local[2] or "*") != "*" else machine.cores()
        return f"local[{workers or cores},{MAX_DEATHS}]"
    assert address is not None
    if address.startswith("sc://"):
        raise UsageError(
            f"{address!r} is a Spark Connect server; give the master behind it ({MASTERS}), "
            "or a DataFrame of it to alphita.jobs.engines.spark_frames.normalize_frame"
        )
    if not re.fullmatch(r"yarn|k8s://\S+|spark://[^\s,/]+(,[^\s,/]+)*|local-cluster\[[\d,\s]+\]", address):
        raise UsageError(f"unknown Spark master {address!r}; choose from {MASTERS}")
    return address


def settings_of(master: str, workers: int | None, gpus: float) -> dict[str, str]:
    """Return Spark's settings; others come from its own spark-defaults.conf."""
    settings = {
        "spark.task.maxFailures": str(MAX_DEATHS),
        "spark.python.worker.reuse": "true",
        # A worker whose task is no longer wanted is killed when Spark sees that, within two seconds.
        "spark.python.task.killTimeout": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # All the workers asked for are there from the start, so that a missing index is found at the start.
        "spark.dynamicAllocation.enabled": "false",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{ALL_WORKERS}s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "5s",
        "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "3",
    }
    if master.startswith("local["):
        n = int(re.findall(r"\d+", master)[0])
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.executorEnv.OMP_NUM_THREADS": str(max(1, machine.cores() // n)),
        }
        return settings
    if workers is not None:
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
        if master.startswith("spark://"):
            settings["spark.cores.max"] = str(workers)
        else:
            settings |= {"spark.executor.instances": str(workers), "spark.executor.cores": "1"}
    if gpus:
        # An executor has no more GPUs than one task: a process that is kept finds the ones it opened on.
        settings["spark.task.resource.gpu.amount"] = f"{gpus:g}"
        settings["spark.executor.resource.gpu.amount"] = str(math.ceil(gpus))
    return settings


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if shutil.which(java) is None:
        where = f"JAVA_HOME is {home!r}, where there is none" if home else "none is on the PATH"
        raise AlphitaError(
            f"Spark needs Java 17 or later, and {where}: install it (apt install openjdk-17-jre-headless), "
            "or set JAVA_HOME"
        )


def _check_reachable(master: str) -> None:
    """Try to connect to a master, for Spark itself would try for a minute."""
    problems = []
    for place in master.removeprefix("spark://").split(","):
        try:
            problem = unreachable(place)
        except ValueError:
            raise UsageError(f"unknown Spark master {master!r}: {place!r} is not HOST:PORT, as HOST:7077") from None
        if problem is None:
            return
        problems.append(f"{place}: {problem}")
    raise AlphitaError(f"no Spark master answers at {master!r} ({'; '.join(problems)}); is it started?")


def _not_started(error: Exception, master: str, version: str, log_line: str) -> AlphitaError:
    if "JAVA_GATEWAY_EXITED" in str(error):
        return AlphitaError(f"Spark's Java process ended at its start; it needs Java 17 or later{log_line}")
    return AlphitaError(
        f"Spark {version} could not start a session on {master!r}: {first_line(error)}; a cluster must run the same "
        f"version of Spark, and be able to connect back to this machine{log_line}"
    )


def _said(log: IO[bytes]) -> str:
    """Return the last line of Spark's log that says what went wrong, for the end of a message."""
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines()]
    telling = [line for line in lines if re.search(r"Error|Exception|JAVA_HOME", line) and not line.startswith("at ")]
    return f"; its log says: {errors.shorten(telling[-1], 300)}" if telling else ""


def _slots(context: Any, master: str, workers: int | None, log: IO[bytes]) -> int:  # noqa: ANN401 - a SparkContext
    """Return how many tasks can be done at one time; wait for a cluster's workers, which come one by one."""
    spark = context._jsc.sc()
    profile = spark.resourceProfileManager().defaultResourceProfile()
    began = changed = time.monotonic()
    slots = 0
    while not spark.isStopped():
        before, slots = slots, int(spark.maxNumConcurrentTasks(profile))
        now = time.monotonic()
        changed = now if slots != before else changed
        if slots and (master.startswith("local[") or slots >= (workers or math.inf) or now - changed > SETTLED):
            return slots
        if now - began > FIRST_WORKER and not slots:
            break
        time.sleep(0.2)
    raise AlphitaError(
        f"Spark's master {master!r} gave no worker: is it a master, of the same version of Spark as here, "
        f"{context.version}, and has it workers with free cores and memory?{_said(log)}"
    )


def words_of(error: Exception) -> str:
    """Return what Java raised, which says more than the text of the call that failed."""
    java = getattr(error, "java_exception", None)
    try:
        return str(java.getMessage()) if java is not None else str(error)
    except Exception:  # the connection to Java is lost, too
        return str(error)


def first_line(error: Exception) -> str:
    """Return the first line of an error's words, for a message."""
    return errors.shorten((words_of(error).strip() or type(error).__name__).splitlines()[0], 300)
