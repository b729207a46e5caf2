"""Processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from alphita import machine, shipped
from alphita.encoder.encoder import TermEncoder
from alphita.errors import AlphitaError, UsageError
from alphita.index import encoding, store
from alphita.jobs import indexing
from alphita.jobs.engines.processes import open_engine
from tests.doubles import small_terminology
from tests.jobs.engines.engine_contract import CASES, Squares
from tests.waiting import PYTHONPATH, has_ended, wait_until

# Runs a quick task and three that do not end, and says so when the first is done.
RUNNING = """
import sys
from alphita.jobs.engines.processes import open_engine
from tests.jobs.engines.engine_contract import Squares
with open_engine(2) as engine:
    for task, receipt in engine.run(Squares(sys.argv[1], held=1), range(4), what="Squaring"):
        print(receipt["pid"], flush=True)
"""
# Opens a new index for a server, which takes long.
RELOADING = """
import functools, multiprocessing, threading, time
from alphita.service.workers import Reopening
opening = Reopening(functools.partial(time.sleep, 600), None, False, None, 1)
threading.Thread(target=opening, args=[()], daemon=True).start()
while not (children := multiprocessing.active_children()):
    time.sleep(0.1)
print(children[0].pid, flush=True)
"""


@dataclass(frozen=True)
class Dies:
    """An opening that kills its process."""

    def __call__(self):
        os.kill(os.getpid(), 9)


@dataclass(frozen=True)
class Threads:
    """Opens a worker that tells its threads."""

    def __call__(self):
        return lambda task: {"threads": machine.threads()}


@pytest.fixture(scope="module")
def engine():
    with open_engine(2) as opened:
        yield opened


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case, engine, tmp_path):
    case(engine, tmp_path)


def test_no_process_is_left(engine, tmp_path):
    made = list(engine.run(Squares(str(tmp_path)), range(4), what="Squaring"))
    for pid in {receipt["pid"] for _, receipt in made}:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_each_has_its_share_of_the_cores(engine):
    ((_, receipt),) = engine.run(Threads(), [0], what="Telling")
    assert receipt["threads"] == max(1, machine.cores() // 2)


def test_a_process_that_dies_while_opening_is_told(engine):
    with pytest.raises(AlphitaError, match="died while it opened"):
        engine.check(Dies())


def test_what_is_for_clusters_is_refused():
    with pytest.raises(UsageError, match="--address"):
        open_engine(2, "10.0.0.1:6379")
    with pytest.raises(UsageError, match="--gpus-per-worker"):
        open_engine(2, None, 1)
    assert open_engine().workers == machine.cores()


def test_two_processes_build_the_index_of_one(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "STRINGS_A_BLOCK", 3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").symlink_to(shipped.find("models/alphita-en"))
    alone = store.build(small_terminology(), TermEncoder.load("model"), "alone.index")
    built = indexing.build(small_terminology(), "model", "built.index", engine)
    assert len(built) == 12
    assert built.content_hash == alone.content_hash
    assert built.manifest["files"] == alone.manifest["files"]
    assert not (tmp_path / "built.index.parts").exists()


@pytest.mark.parametrize("program", [RUNNING, RELOADING])
def test_processes_end_with_a_killed_driver(program, tmp_path):
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as driver:
        pid = int(driver.stdout.readline())
        driver.kill()
    wait_until(lambda: has_ended(pid))
