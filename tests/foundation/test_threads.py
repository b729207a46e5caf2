"""Work too small for several threads is done by the calling one."""

from __future__ import annotations

import subprocess
import sys
import threading

import faiss
import numpy as np
import pytest
import torch

from alphita import machine
from alphita.index.backends import _rounded
from alphita.index.backends import faiss as backends_faiss
from alphita.index.backends.faiss import ROUNDED_FROM, FaissBackend
from alphita_lab.encoder import torch_runtime
from tests.encoder.conftest import encoder, tiny  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads(), faiss.omp_get_max_threads()
    machine_threads(2)
    yield
    torch.set_num_threads(before[0])
    faiss.omp_set_num_threads(before[1])


def machine_threads(count: int) -> None:
    torch.set_num_threads(count)
    faiss.omp_set_num_threads(count)


def counts() -> tuple[int, int]:
    return torch.get_num_threads(), faiss.omp_get_max_threads()


def test_one_thread_and_then_as_before():
    with machine.one_thread():
        assert counts() == (1, 1)
        with machine.one_thread():
            assert counts() == (1, 1)
        assert counts() == (1, 1)
    assert counts() == (2, 2)
    with pytest.raises(ZeroDivisionError), machine.one_thread():
        raise ZeroDivisionError
    assert counts() == (2, 2)


def test_numpy_is_set_too_and_gets_back_what_was_set_for_all(monkeypatch):
    seen: list[int] = []
    monkeypatch.setattr(machine, "_numpy_threads", lambda: seen.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with machine.one_thread(), machine.one_thread():
        assert seen == [1, 1]
    assert seen == [1, 1, 2, 2]


def test_numpy_s_library_is_found_where_it_is_of_a_wheel():
    code = (
        "import numpy, time; from alphita import machine\n"
        "if machine._numpy_threads() is not None:\n"
        "    machine.set_threads(1)\n"
        "    time.sleep(0.5)  # a thread that was begun at the import spins for a while\n"
        "    a = numpy.ones((1500, 1500)); wall, own = time.process_time(), time.thread_time()\n"
        "    a @ a\n"
        "    assert time.process_time() - wall < 1.2 * (time.thread_time() - own) + 0.01\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_threads_keep_theirs():
    seen, ready, inside, looked = [], threading.Event(), threading.Event(), threading.Event()

    def look() -> None:
        machine_threads(2)
        seen.append(counts())
        ready.set()
        inside.wait()
        seen.append(counts())
        looked.set()

    other = threading.Thread(target=look)
    other.start()
    ready.wait()
    with machine.one_thread():
        inside.set()
        looked.wait()
    other.join()
    assert seen == [(2, 2), (2, 2)]


def test_a_few_terms_are_encoded_by_one_thread_and_many_by_all(encoder, monkeypatch):  # noqa: F811
    seen = []
    real = torch_runtime.bert.pool
    monkeypatch.setattr(
        torch_runtime.bert, "pool", lambda *given, **more: (seen.append(counts()), real(*given, **more))[1]
    )
    one = encoder.encode(["heart attack"])
    many = encoder.encode(["heart attack", *(f"seizure {number}" for number in range(60))])
    assert seen == [(1, 1), (2, 2)]
    np.testing.assert_allclose(many[0], one[0], atol=1e-5)


@pytest.mark.parametrize("way", ["bf16", "faiss"])
def test_one_query_is_searched_by_one_thread_and_more_by_all(way, monkeypatch):
    monkeypatch.setattr(_rounded, "by_torch", lambda _: way)
    monkeypatch.setattr(backends_faiss, "ASKED_BEFORE", 0)
    function = "_searched" if way == "faiss" else "_multiplied"
    vectors = np.random.default_rng(0).standard_normal((ROUNDED_FROM, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    backend = FaissBackend(vectors)
    seen = []
    real = getattr(_rounded.Rounded, function)
    monkeypatch.setattr(_rounded.Rounded, function, lambda *given: (seen.append(counts()), real(*given))[1])
    assert backend.search(vectors[5:6], 1)[1].tolist() == [[5]]
    assert backend.search(vectors[5:8], 1)[1].tolist() == [[5], [6], [7]]
    assert seen == [(1, 1), (2, 2)]
