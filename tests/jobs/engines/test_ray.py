"""The engine that every engine is, over a Ray cluster of this machine; addresses, versions and room; datasets.

What needs a cluster is slow: test_engines.py runs a job on one.
"""

from __future__ import annotations

import os
import signal
import socket
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import alphita
from alphita import artefact
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, UsageError
from alphita.index.store import Index, build
from alphita.jobs.answers import Memory
from alphita.jobs.batches import NormalizerSettings, normalize_batches, schema_of
from alphita.jobs.engines import ray as engines
from alphita.jobs.engines import ray_dataset
from alphita.jobs.engines.ray_dataset import normalize_dataset
from alphita.review.records import Decision
from tests.doubles import HashEncoder, small_terminology
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


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "small.index"
    build(small_terminology(), HashEncoder(), path)
    return str(path)


@pytest.fixture(scope="module")
def rows():
    mentions = ["seizures", None, "Common cold", "", "COLD", "seizures", "cephalgia"] * 3
    return pa.table({"mention": pa.array(mentions, pa.string()), "row": range(len(mentions))})


@pytest.fixture
def free(engine):
    """The cores are for Ray Data."""
    engine.release()


class Answering(ray_dataset._Answering):
    """With the double of an encoder, for what an index stores is the name of a model; notes what comes together."""

    def __init__(self, settings, cores, version):
        assert version == artefact.build()
        self._settings, self._normalizer = settings, Normalizer(Index.open(settings.index), encoder=HashEncoder())

    def __call__(self, table):
        distinct = sorted(set(map(repr, table["mention"].to_pylist())))
        Path(self._settings.index).with_name(f"{uuid.uuid4()}.asked").write_text("\n".join(distinct))
        return super().__call__(table)


@pytest.mark.slow
def test_a_dataset_gets_the_columns_of_the_answers_and_each_string_is_answered_once(rows, free, index, monkeypatch):
    monkeypatch.setattr(ray_dataset, "_Answering", Answering)
    settled = {"seizures": Decision("1", "lab", 1, "ann", "nil", at="2026-01-02")}
    settings = NormalizerSettings(index, top_k=2, memory=Memory(settled))
    dataset = ray.data.from_arrow([rows.slice(start, 3) for start in range(0, len(rows), 3)])
    found = pa.concat_tables(ray.get(normalize_dataset(dataset, settings, workers=1, partitions=2).to_arrow_refs()))
    expected = pa.Table.from_batches(
        normalize_batches(iter(rows.to_batches()), settings, Normalizer(Index.open(index), encoder=HashEncoder()))
    )
    assert len(expected) > len(rows)
    assert "ann" in expected["reviewer"].to_pylist()
    assert found.schema.names == expected.schema.names == schema_of(settings, rows.schema).names
    order = [("row", "ascending"), ("rank", "ascending")]
    exact = [name for name in expected.schema.names if name not in ("similarity", "confidence")]
    assert found.sort_by(order).select(exact).to_pylist() == expected.sort_by(order).select(exact).to_pylist()
    for ours, theirs in zip(found.sort_by(order)["similarity"], expected.sort_by(order)["similarity"], strict=True):
        assert ours.as_py() == pytest.approx(theirs.as_py(), abs=1e-5)
    asked = [line for file in Path(index).parent.glob("*.asked") for line in file.read_text().splitlines()]
    assert sorted(asked) == sorted(set(map(repr, rows["mention"].to_pylist())))


def test_an_actor_opens_the_index_with_its_threads(index, rows, monkeypatch):
    threads = []
    monkeypatch.setattr(ray_dataset.machine, "set_threads", threads.append)
    normalizer = Normalizer(Index.open(index), encoder=HashEncoder())
    monkeypatch.setattr(ray_dataset, "opened", {NormalizerSettings(index): normalizer}.__getitem__)
    answering = ray_dataset._Answering(NormalizerSettings(index), 3, artefact.build())
    assert threads == [3]
    assert answering(rows)["mention"].to_pylist() == rows["mention"].to_pylist()
    assert answering(rows.slice(0, 0)).schema == schema_of(NormalizerSettings(index), rows.schema)
    assert answering(pa.table(rows.schema.empty_table())).num_rows == 0
    with pytest.raises(UsageError, match=rf"made with alphita 99\.9, and this worker has {alphita.__version__}"):
        ray_dataset._Answering(NormalizerSettings(index), 1, "99.9")


@pytest.mark.slow
def test_a_dataset_is_checked_before_anything_is_answered(free):
    dataset = ray.data.from_arrow(pa.table({"text": [b"fever"], "other": ["x"]}))
    with pytest.raises(UsageError, match="has no strings"):
        normalize_dataset(dataset, NormalizerSettings("none", column="text"), workers=1)
    with pytest.raises(UsageError, match="unknown column 'mention'"):
        normalize_dataset(dataset, NormalizerSettings("none"), workers=1)
    with pytest.raises(UsageError, match="partitions must be 1 or more, not 0"):
        normalize_dataset(dataset, NormalizerSettings("none", column="other"), workers=1, partitions=0)
