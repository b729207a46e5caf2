"""A new index is put into service while the server answers; a broken one is not."""

from __future__ import annotations

import shutil
import signal
import threading

import httpx
import pytest

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index, build
from alphita.service import app
from alphita.service.workers import Opened, contents
from tests.doubles import ROWS, HashEncoder, SmallTerminology
from tests.service.review_service import client_of
from tests.service.test_serving import serving
from tests.waiting import SECONDS, wait_until

ASKED = {"mentions": ["seizure", "headache", "diabetes mellitus type 2", "common cold"] * 5}


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    """Two indexes of the same names; the ids of the second begin with U."""
    folder = tmp_path_factory.mktemp("reloading")
    others = [(f"U{concept[1:]}", string, scope) for concept, string, scope in ROWS]
    for name, rows in (("first", ROWS), ("second", others)):
        build(SmallTerminology(rows), HashEncoder(), folder / name)
    return folder


@pytest.fixture
def served(indexes, tmp_path):
    path = tmp_path / "served"
    shutil.copytree(indexes / "first", path)
    return path


def put(path, new) -> None:
    """Replace an index as `alphita index` does, by renaming."""
    shutil.copytree(new, path.with_name("new"))
    path.rename(path.with_name(f"old-{new.name}"))
    path.with_name("new").rename(path)


def opened(path):
    return Opened(Normalizer(Index.open(path), encoder=HashEncoder()), None, ())


def ready(client) -> str:
    wait_until(lambda: client.get("/ready").status_code == 200)
    return client.get("/ready").json()["index"]


@pytest.mark.parametrize("by", ["itself", "POST /admin/reload"])
def test_every_request_is_answered_by_one_index_or_the_other(indexes, served, by, monkeypatch):
    monkeypatch.setattr(app, "LOOK", 0.01 if by == "itself" else 600.0)
    answers: list[tuple[int, frozenset[str]]] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.is_set():
            answer = client.post("/normalize", json=ASKED)
            answers.append((answer.status_code, frozenset(one["concept_id"][0] for one in answer.json()["results"])))

    def reopen(known):
        return None if contents(served) == known else opened(served)

    with client_of(opened(served).normalizer, reopen=reopen, rate=0) as client:
        was = ready(client)
        asking = [threading.Thread(target=ask) for _ in range(3)]
        for thread in asking:
            thread.start()
        try:
            wait_until(lambda: len(answers) > 10)
            assert client.post("/admin/reload").json()["index"] == was
            put(served, indexes / "second")
            if by != "itself":
                told = client.post("/admin/reload").json()
                assert (told["status"], told["index"]) == ("ready", Index.open(served).content_hash)
            wait_until(lambda: answers[-1][1] == {"U"})
            count = len(answers)
            wait_until(lambda: len(answers) > count + 10)
        finally:
            is_over.set()
            for thread in asking:
                thread.join()
        assert {*answers} == {(200, frozenset("T")), (200, frozenset("U"))}
        assert ready(client) == Index.open(served).content_hash != was
        assert ready(client) in client.get("/metrics").text
        assert was not in client.get("/metrics").text
        assert client.get("/concepts/U:1").status_code == 200
        assert client.get("/concepts/T:1").status_code == 404


def test_a_hang_up_reloads_and_a_broken_index_leaves_the_old_one_in_service(indexes, served, tmp_path):
    with (
        serving(tmp_path, "--to", served, "--processes", 1) as server,
        httpx.Client(base_url=server.url, timeout=SECONDS) as client,
    ):
        server.wait_for("ready")
        broken = tmp_path / "broken"
        shutil.copytree(indexes / "second", broken)
        for file in broken.rglob("*.arrow"):
            file.write_bytes(b"broken")
        put(served, broken)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("the index stays as it was")
        assert client.get("/ready").json()["status"] == "ready"
        assert client.post("/normalize", json=ASKED).json()["results"][0]["concept_id"] == "T:1"
        put(served, indexes / "second")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("index reloaded")
        assert client.post("/normalize", json=ASKED).json()["results"][0]["concept_id"] == "U:1"
