"""Spark on this machine: the engine, what it says when it cannot start, and DataFrames. Needs pyspark and Java."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass

import pyarrow as pa
import pytest

import alphita
from alphita import machine
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, UsageError
from alphita.index.store import Index
from alphita.jobs.answers import Memory
from alphita.jobs.batches import NormalizerSettings, normalize_batches, schema_of
from alphita.jobs.engines import MAX_DEATHS
from alphita.review.records import Decision
from tests.jobs.engines.engine_contract import CASES
from tests.tiny import tiny_model, tiny_terminology
from tests.waiting import PYTHONPATH, has_ended, wait_until

pytestmark = pytest.mark.slow
pyspark = pytest.importorskip("pyspark")
from alphita.jobs.engines import spark  # noqa: E402 - they need it
from alphita.jobs.engines.spark_frames import normalize_frame  # noqa: E402

# Two tasks of a minute, and the id of one worker.
DRIVER = """
import sys
from alphita.jobs.engines.spark import open_engine
from tests.jobs.engines.engine_contract import Squares

if __name__ == "__main__":
    with open_engine(2, None) as engine:
        list(engine.run(Squares(sys.argv[1], waits=1), [1, 2], what="Squaring"))
"""


@dataclass(frozen=True)
class Counting:
    """Opens a worker that tells its process, its threads, and how many tasks it has done."""

    def __call__(self):
        done = []

        def work(task):
            done.append(task)
            time.sleep(0.1)
            return {"pid": os.getpid(), "done": len(done), "threads": machine.threads()}

        return work


@dataclass(frozen=True)
class NotThere:
    """An opening of a module that workers lack."""

    def __reduce__(self):
        return _unknown, ()


def _unknown():
    raise ModuleNotFoundError("No module named 'not_there'", name="not_there")


@pytest.fixture(scope="module")
def engine():
    with spark.open_engine(2, None) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case, engine, tmp_path):
    case(engine, tmp_path)


def test_a_process_opens_once_and_has_its_share_of_the_cores(engine):
    made = [receipt for _, receipt in engine.run(Counting(), range(12), what="Counting")]
    processes = {receipt["pid"] for receipt in made}
    assert len(processes) == 2
    assert sum(max(r["done"] for r in made if r["pid"] == one) for one in processes) == 12
    assert {receipt["threads"] for receipt in made} == {max(1, machine.cores() // 2)}


def test_what_a_worker_lacks_is_told_at_the_start(engine):
    with pytest.raises(AlphitaError, match=r"on .*: ModuleNotFoundError: No module named 'not_there'"):
        engine.check(NotThere())


def test_a_second_session_is_refused(engine):
    with pytest.raises(UsageError, match="session runs in this process already"):
        spark.open_engine(2, None)


def test_a_killed_driver_leaves_no_process(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)], env={**os.environ, "PYTHONPATH": PYTHONPATH}
    )
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "ended-2").exists())
    pid = int((tmp_path / "pid").read_text())
    driver.kill()
    driver.wait()
    wait_until(lambda: has_ended(pid))
    assert not (tmp_path / "ended-1").exists()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("spak://host:7077", "unknown Spark master 'spak://host:7077'; choose from local"),
        ("spark://host:70777", "'host:70777' is not HOST:PORT"),
        ("sc://host:15002", "Spark Connect"),
        ("local[x]", "unknown Spark master"),
    ],
)
def test_what_is_no_master(address, words):
    with pytest.raises(UsageError) as caught:
        _start(2, address)
    assert words in str(caught.value)


def test_a_master_that_is_not_there_is_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(AlphitaError, match=f"no Spark master answers .*127.0.0.1:{port}: Connection refused"):
        _start(2, f"spark://127.0.0.1:{port}")


def test_java_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(AlphitaError, match=f"needs Java 17 or later, and JAVA_HOME is '{tmp_path}'"):
        _start(2, None)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AlphitaError, match="needs Java 17 or later, and none is on the PATH"):
        _start(2, None)


def test_an_old_java_is_told_with_its_words(monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'Error: java.lang.UnsupportedClassVersionError: 61.0' >&2\nexit 1\n")
    java.chmod(0o755)
    script = "from alphita.jobs.engines.spark import open_engine\nopen_engine(2, None)\n"
    ran = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "JAVA_HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert "it needs Java 17 or later; its log says: Error: java.lang.UnsupportedClassVersionError" in ran.stderr


def _start(workers, address, gpus=0.0) -> None:
    # Not `open_engine`: with a session at work in this process, it would refuse for that.
    class Idle:
        _active_spark_context = None

    class Module:
        SparkContext = Idle

    spark.start(Module, workers, address, gpus)


@pytest.mark.parametrize(
    ("workers", "address", "master"),
    [
        (3, None, f"local[3,{MAX_DEATHS}]"),
        (None, None, f"local[{machine.cores()},{MAX_DEATHS}]"),
        (None, "local[5]", f"local[5,{MAX_DEATHS}]"),
        (None, "local[*]", f"local[{machine.cores()},{MAX_DEATHS}]"),
        (2, "local[5, 1]", f"local[2,{MAX_DEATHS}]"),
        (2, "spark://a:7077,b:7077", "spark://a:7077,b:7077"),
        (None, "yarn", "yarn"),
        (None, "k8s://https://host:6443", "k8s://https://host:6443"),
    ],
)
def test_masters(workers, address, master):
    assert spark.master_of(workers, address) == master


def test_settings():
    settings = spark.settings_of("spark://a:7077", 4, 0.25)
    assert settings["spark.task.maxFailures"] == str(MAX_DEATHS)
    assert settings["spark.cores.max"] == "4"
    assert (settings["spark.task.resource.gpu.amount"], settings["spark.executor.resource.gpu.amount"]) == ("0.25", "1")
    settings = spark.settings_of("yarn", 4, 2)
    assert (settings["spark.executor.instances"], settings["spark.executor.cores"]) == ("4", "1")
    assert (settings["spark.task.resource.gpu.amount"], settings["spark.executor.resource.gpu.amount"]) == ("2", "2")
    assert "spark.cores.max" not in spark.settings_of("spark://a:7077", None, 0)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ModuleNotFoundError: No module named 'alphita'", f"no module 'alphita'; install .*{alphita.__version__}"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9", "set PYSPARK_PYTHON"),
        ('java.io.IOException: Cannot run program "/x/python": error=2', "no '/x/python'; set PYSPARK_PYTHON"),
        ("Task 1 in stage 4.0 failed 3 times, most recent failure: crashed", f"task 31 ended {MAX_DEATHS} workers"),
        ("SparkContext was shut down\nat org.apache", r"Spark ended the job: SparkContext was shut down$"),
    ],
)
def test_what_the_end_of_a_job_means(said, words):
    with pytest.raises(AlphitaError, match=words):
        raise spark._failed(RuntimeError(said), "Squaring", [30, 31])


ROWS = [
    (1, "pain of the heart", "en"),
    (2, None, "en"),
    (3, "skin ache", None),
    (4, "pain of the heart", "en"),
    (5, "", None),
    (6, "sweling of the liver", "en"),
    (7, None, None),
    (8, "pain of the heart", None),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("index")
    tiny_terminology(folder / "t.terminology")
    tiny_model(folder / "model")
    words = ["--model", folder / "model", "--terminology", folder / "t.terminology", "-o", folder / "x.index"]
    subprocess.run([sys.executable, "-m", "alphita", "index", *words], check=True, capture_output=True)
    return str(folder / "x.index")


@pytest.fixture(scope="module")
def session(engine):
    from pyspark.sql import SparkSession

    made = SparkSession(engine._context)
    made.conf.set("spark.sql.shuffle.partitions", "3")
    return made


@pytest.fixture
def frame(session):
    return session.createDataFrame(ROWS, "`no.` int, `the ``mention``` string, language_ string")


@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("language", [None, "language_"])
def test_a_frame_gets_the_columns_of_the_answers(frame, index, top_k, language):
    memory = Memory({"skin ache": Decision("1", "lab", 1, "ann", "nil")}) if language is None else None
    settings = NormalizerSettings(
        index, column="the `mention`", language=language, top_k=top_k, explain=top_k > 1, memory=memory
    )
    found = normalize_frame(frame, settings)
    given = pa.table(dict(zip(frame.columns, zip(*ROWS, strict=True), strict=True)))
    normalizer = Normalizer(Index.open(index))
    expected = pa.Table.from_batches(normalize_batches(iter(given.to_batches()), settings, normalizer))
    assert found.columns == expected.schema.names == schema_of(settings, given.schema).names
    ours = sorted((row.asDict() for row in found.collect()), key=lambda row: (row["no."], row["rank"]))
    theirs = expected.to_pylist()
    assert len(ours) == len(theirs) >= len(ROWS) * min(top_k, 2) - 3
    for our, their in zip(ours, theirs, strict=True):
        # The last bits depend on which strings are encoded together.
        assert our.pop("similarity") == pytest.approx(their.pop("similarity"), abs=2e-6)
        if top_k > 1:
            assert (our.pop("explanation") is None) == (their.pop("explanation") is None)
        assert our == their


def test_wrong_columns_are_refused_before_anything_is_done(frame, session):
    for settings, wrong, words in [
        (NormalizerSettings("x"), frame, "unknown column 'mention'; did you mean 'the `mention`'"),
        (NormalizerSettings("x", column="no."), frame, "the column 'no.' has no strings"),
        (NormalizerSettings("x", column="a"), session.sql("select 'x' as a, 1 as Rank"), "a column 'Rank' already"),
    ]:
        with pytest.raises(UsageError) as caught:
            normalize_frame(wrong, settings)
        assert words in str(caught.value)
