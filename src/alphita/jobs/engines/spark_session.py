"""Starting a Spark session: its master, its settings, and clear words for what goes wrong then."""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import warnings
from typing import IO, Any

from alphita import errors, machine
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines.engine import MOST_DEATHS

EXTRA = "spark"
MASTERS = "local[N], spark://HOST:7077, yarn, k8s://https://HOST:PORT"
# Seconds: for a master to take a connection, for a cluster to give the first worker, for those asked for, and for more
# to come where no number was asked for.
CONNECT, FIRST_WORKER, ALL_WORKERS, SETTLED = 5, 120, 30, 5


def start(pyspark: Any, workers: int | None, address: str | None, gpus: float) -> tuple[Any, str, int]:  # noqa: ANN401
    """Start a session."""
    if workers is not None and workers < 1:
        raise UsageError(f"workers must be 1 or more, not {workers}")
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
        return f"local[{workers or cores},{MOST_DEATHS}]"
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
        "spark.task.maxFailures": str(MOST_DEATHS),
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
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise UsageError(f"unknown Spark master {master!r}: {place!r} is not HOST:PORT, as HOST:7077")
        try:
            socket.create_connection((host, int(port)), CONNECT).close()
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise AlphitaError(f"no Spark master answers at {master!r} ({'; '.join(problems)}); is it started?")


def _not_started(error: Exception, master: str, version: str, said: str) -> AlphitaError:
    if "JAVA_GATEWAY_EXITED" in str(error):
        return AlphitaError(f"Spark's Java process ended at its start; it needs Java 17 or later{said}")
    return AlphitaError(
        f"Spark {version} could not start a session on {master!r}: {first_line(error)}; a cluster must run the same "
        f"version of Spark, and be able to connect back to this machine{said}"
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
