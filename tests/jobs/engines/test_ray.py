"""The engine that every engine is, over a Ray cluster of this machine; addresses, versions and room.

What needs a cluster is slow: test_engines.py runs a job on one.
"""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from types import SimpleNamespace

import pytest

from alphita import artefact
from alphita.errors import AlphitaError, UsageError
from alphita.jobs.engines import ray as engines
from tests.jobs.engines.engine_contract import CASES, Squares, noted

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def engine():
    with engines.open_engine(2, "local") as engine:
        yield engine


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case, engine, tmp_path):
    case(engine, tmp_path)


@pytest.mark.slow
def test_what_runs_already_is_used_and_left(engine):
    with engines.open_engine(None, None) as second:
        assert second.facts()["workers"] == engine.facts()["workers"]
    assert ray.is_initialized()
    with pytest.raises(UsageError, match="runs in this process already"):
        engines.open_engine(None, "127.0.0.1:6379")


@pytest.mark.slow
def test_a_machine_with_another_version_is_named(engine, monkeypatch, tmp_path):
    here = artefact.build()
    monkeypatch.setattr(artefact, "build", lambda: "99.9")
    with pytest.raises(UsageError, match="install the same on every machine") as caught:
        engine.check(Squares(str(tmp_path)))
    assert "99.9" in str(caught.value)
    assert here in str(caught.value)


@pytest.mark.slow
def test_errors_of_a_machine_name_it(engine):
    with pytest.raises(UsageError, match=f"on {socket.gethostname()}.*: nothing here"):
        engine.check(refuse)
    with pytest.raises(AlphitaError, match=f"on {socket.gethostname()}.*: no worker could be opened"):
        engine.check(end)


def pids(engine, folder, tasks, slow=1_000):
    squares = Squares(str(folder), slow=slow)
    return {receipt["pid"] for _, receipt in engine.run(squares, tasks, what="Squaring")}


def both(engine, folder):
    """Return the processes of both workers, however long the second takes to start."""
    for first in range(0, 40, 2):
        found = pids(engine, folder, range(first, first + 2), slow=0)
        if len(found) == 2:
            return found
    raise AssertionError("the second worker never started")


@pytest.mark.slow
def test_workers_are_kept_for_the_next_step(engine, tmp_path):
    assert both(engine, tmp_path) == pids(engine, tmp_path, range(50, 52), slow=0)


@pytest.mark.slow
def test_what_is_kept_is_freed(engine, tmp_path):
    pids(engine, tmp_path, range(6))
    assert engine._idle
    engine.check(Squares(str(tmp_path)))
    assert not engine._idle
    pids(engine, tmp_path, range(6, 9))
    with pytest.raises(AlphitaError):
        list(engine.run(Squares(str(tmp_path), fails=9), [9], what="Squaring"))
    assert not engine._idle


@pytest.mark.slow
def test_a_worker_that_goes_between_two_steps_costs_no_task(engine, tmp_path):
    for pid in pids(engine, tmp_path, range(6)):
        os.kill(pid, signal.SIGKILL)
    assert pids(engine, tmp_path, range(6, 12))
    assert noted(tmp_path, "begun") == noted(tmp_path, "ended") == Counter(range(12))


@pytest.mark.slow
def test_workers_that_cannot_start_end_the_job(engine, tmp_path, monkeypatch):
    engine.release()
    monkeypatch.setattr(engines, "_Worker", Broken)
    monkeypatch.setattr(engines, "MAX_DEATHS", 1)
    monkeypatch.setattr(engine, "_start", counted := Counted(engine._start))
    with pytest.raises(AlphitaError, match=r"Squaring: Ray could not start a worker: The actor died.*--resume"):
        pids(engine, tmp_path, range(2))
    # Of two workers, another may be starting when the last start fails.
    assert counted.times in (2, 3)
    assert not noted(tmp_path, "begun")


@pytest.mark.slow
def test_starts_that_fail_are_made_again(engine, tmp_path, monkeypatch):
    engine.release()
    start = engine._start

    def fails_first():
        with monkeypatch.context() as broken:
            if counted.times <= 2:
                broken.setattr(engines, "_Worker", Broken)
            return start()

    monkeypatch.setattr(engine, "_start", counted := Counted(fails_first))
    assert pids(engine, tmp_path, range(4))
    assert counted.times > 2
    assert noted(tmp_path, "begun") == noted(tmp_path, "ended") == Counter(range(4))


class Counted:
    """A function, and how often it was called."""

    def __init__(self, function):
        self.function, self.times = function, 0

    def __call__(self):
        self.times += 1
        return self.function()


class Broken:
    """A worker's actor that ends as it starts."""

    def __init__(self, threads):
        end()

    def ready(self):
        pass


@pytest.mark.slow
def test_a_cluster_without_room_is_told(engine, tmp_path, monkeypatch):
    both(engine, tmp_path)
    monkeypatch.setattr(engines, "TO_OPEN", 0.5)
    with engines.open_engine(2, None) as second, pytest.raises(AlphitaError, match=r"no room for a worker in 0 s"):
        pids(second, tmp_path, range(50, 52))


def refuse():
    raise UsageError("nothing here")


def end():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_room_is_asked_for_at_the_start(engine):
    with pytest.raises(UsageError, match="has room for 2 workers with a processor core each, not for 3"):
        engines.open_engine(3, None)
    with pytest.raises(UsageError, match=r"has room for 0 workers with 0\.5 GPUs and a processor core each, not for 1"):
        engines.open_engine(None, None, gpus=0.5)


@pytest.mark.parametrize(
    ("resources", "cores", "gpus", "room"),
    [
        ({"CPU": 8.0}, 1, 0, 8),
        ({"CPU": 8.0}, 3, 0, 2),
        ({}, 1, 0, 0),
        ({"CPU": 8.0}, 1, 1, 0),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 1, 2),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 2, 1),
        # A worker lies on one GPU: a third does not fit on the rest of two.
        ({"CPU": 8.0, "GPU": 2.0}, 1, 0.6, 2),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 0.5, 4),
        ({"CPU": 3.0, "GPU": 2.0}, 1, 0.5, 3),
    ],
)
def test_room(resources, cores, gpus, room):
    assert engines._room({"Resources": resources}, cores, gpus) == room


@pytest.mark.parametrize(
    ("cpus", "workers", "cores"),
    [([8], None, 1), ([8], 2, 4), ([8], 3, 2), ([8, 2], 1, 2), ([8, 8], 3, 4), ([4, 4], 2, 4), ([4, 4], 8, 1)],
)
def test_cores_of_a_worker_fit_on_any_machine(cpus, workers, cores):
    nodes = [{"Alive": True, "Resources": {"CPU": float(cpu)}} for cpu in cpus]
    gone = {"Alive": False, "Resources": {"CPU": 1.0}}
    cluster = SimpleNamespace(nodes=lambda: [*nodes, gone], __version__="2")
    facts = engines.RayEngine(cluster, workers, 0, started=False).facts()
    assert facts["threads"] == cores
    assert facts["workers"] == workers or sum(cpus)
    assert facts["machines"] == len(cpus)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://127.0.0.1:10001", "run this on a machine of the cluster"),
        ("127.0.0.1", "HOST:PORT"),
        ("127.0.0.1:port", "HOST:PORT"),
        (":6379", "HOST:PORT"),
        ("127.0.0.1:70000", "HOST:PORT"),
    ],
)
def test_what_is_no_address(address, words):
    with pytest.raises(UsageError, match=words):
        engines._connect(ray, address, None)


def test_a_closed_port_is_told():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(AlphitaError, match=rf"no Ray cluster answers at {address}: Connection refused; .*ray start"):
        engines._connect(ray, address, None)


def caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (
            RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.9\n    Python: 3.9"),
            UsageError,
            "Ray: 2.9 Python: 3.9",
        ),
        (ConnectionError("Could not find any running Ray instance.\nMore"), AlphitaError, "any running Ray instance"),
        (RuntimeError("The port is taken"), AlphitaError, "The port is taken"),
        (
            caused(ConnectionError("Failed to connect"), RuntimeError("RPC error: InvalidAuthToken: missing")),
            UsageError,
            "RAY_AUTH_MODE=token",
        ),
    ],
)
def test_what_ray_refuses_is_said_in_a_line(raised, kind, words, monkeypatch):
    def init(**options):
        raise raised

    other = SimpleNamespace(init=init, _private=SimpleNamespace(worker=SimpleNamespace()))
    with pytest.raises(kind, match=words) as caught:
        engines._connect(other, "auto", None)
    assert "\n" not in str(caught.value)
