"""Processes that answer beside the server's own: the same answers, and one that dies is replaced."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from dataclasses import replace

import pytest

from alphita.answer.normalizer import Normalizer, NormalizerOptions
from alphita.errors import AlphitaError, InputError
from alphita.index.store import Index, build
from alphita.service import workers
from alphita.service.batching import Batcher
from alphita.service.normalizing import EncodeKind, NormalizeKind, Question, Work
from alphita.service.workers import Opening, Worker, contents
from tests.doubles import HashEncoder, small_terminology
from tests.service.review_service import client_of
from tests.waiting import SECONDS, wait_until

QUESTIONS = [Question("seizur"), Question("head ache"), Question("cold")]


class OfHashes(Opening):
    """Opens an index whose encoder needs no model; a string with "deadly" ends the process, one with "bad" fails."""

    def __call__(self):
        work = Work(Normalizer(Index.open(self.index), encoder=HashEncoder()))

        def answer(kind, questions):
            if any("deadly" in question.string for question in questions):
                os._exit(1)
            if any("bad" in question.string for question in questions):
                raise ValueError("bad")
            return work(kind, questions)

        return answer


@pytest.fixture(scope="module")
def opening(index_path) -> OfHashes:
    return OfHashes(index_path, contents(index_path), NormalizerOptions(threads=1), log_mentions=False)


@pytest.fixture
def worker(opening):
    made = Worker(opening)
    yield made
    made.close()


def test_it_answers_as_the_server_itself_does_and_one_that_is_killed_is_replaced(worker, index_path):
    own = Work(Normalizer(Index.open(index_path), encoder=HashEncoder()))
    assert worker(NormalizeKind(3, True), QUESTIONS) == own(NormalizeKind(3, True), QUESTIONS)
    assert [vector.tolist() for vector in worker(EncodeKind(), QUESTIONS)] == [
        vector.tolist() for vector in own(EncodeKind(), QUESTIONS)
    ]
    process = worker._process
    # What it cannot answer is an error and no end.
    with pytest.raises(RuntimeError, match="the log says why"):
        worker(NormalizeKind(1, False), [Question("bad")])
    first = worker(NormalizeKind(1, False), QUESTIONS)
    assert worker._process is process
    worker._process.kill()
    assert worker(NormalizeKind(1, False), QUESTIONS) == first
    with pytest.raises(RuntimeError, match="2 workers ended"):
        worker(NormalizeKind(1, False), [Question("deadly")])
    assert worker(NormalizeKind(1, False), QUESTIONS) == first


def test_another_index_in_its_place_is_not_answered_from(opening, index_path, tmp_path):
    other = build(small_terminology(), HashEncoder(seed=3), tmp_path / "other.index")
    with pytest.raises(InputError, match="not the one that the server opened"):
        Opening(other.path, opening.contents, opening.options, log_mentions=False)()


def test_one_that_finds_another_index_is_a_failure_that_says_so(opening, index_path, tmp_path):
    moved = replace(opening, index=tmp_path / "none.index")
    worker = Worker(moved)
    try:
        with pytest.raises(AlphitaError, match="no such index"):
            worker(NormalizeKind(1, False), QUESTIONS)
        shutil.copytree(index_path, moved.index)
        assert len(worker(NormalizeKind(1, False), QUESTIONS)) == 3
    finally:
        worker.close()


def test_it_reopens_its_log(worker, tmp_path):
    log, before = tmp_path / "log", os.dup(2)
    try:
        with open(log, "a") as file:
            os.dup2(file.fileno(), 2)
        worker(NormalizeKind(1, False), QUESTIONS)
    finally:
        os.dup2(before, 2)
        os.close(before)
    log.rename(tmp_path / "log.1")
    worker.reopen_logs()
    deadline = time.monotonic() + SECONDS
    while not log.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(RuntimeError):
        worker(NormalizeKind(1, False), [Question("bad")])
    assert "ValueError" in log.read_text()


def test_processes_by_default_are_one_a_thread_but_share_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "NVIDIA", tmp_path / "none")
    assert [workers.default_processes(device, 4) for device in ("auto", "cpu", "cuda", "cuda:1")] == [4, 4, 1, 1]
    monkeypatch.setattr(workers, "NVIDIA", tmp_path)
    assert [workers.default_processes(device, 4) for device in ("auto", "cpu")] == [1, 4]


def test_the_server_takes_them_in_one_by_one_while_there_is_memory(opening, index_path, monkeypatch):
    monkeypatch.setattr("alphita.service.app.is_room", lambda: len(taken) < 2)
    taken: list[str] = []

    class Told(Worker):
        def warm_up(self):
            taken.append("taken")
            super().warm_up()

    further = [Told(opening) for _ in range(3)]
    normalizer = Normalizer(Index.open(index_path), encoder=HashEncoder())
    with client_of(normalizer, further=further) as client:
        wait_until(lambda: len(taken) == 2 and further[1]._process is not None)
        mentions = [f"headache number {number} of many" for number in range(200)]
        answers = client.post("/normalize", json={"mentions": mentions}).json()["results"]
        assert [answer["mention"] for answer in answers] == mentions
        figures = client.get("/metrics").text
        assert re.findall(r'anonymous",process="(.*?)"', figures) == ["server", "worker 1", "worker 2"]
    assert [each._process for each in further] == [None, None, None]


def test_idle_workers_share_what_waits_and_the_answers_keep_their_order():
    meeting = threading.Barrier(2, timeout=SECONDS)
    shares: list[int] = []

    def work(kind, questions):
        shares.append(len(questions))
        meeting.wait()
        return [f"{kind} {question}" for question in questions]

    async def run():
        asking = Batcher(work, cost=lambda question: 10, budget=2_000, window=0.0, capacity=1_000)
        asking.add(work)
        found = await asking.ask("x", list(range(120)))
        await asking.close()
        return found

    assert asyncio.run(run()) == [f"x {question}" for question in range(120)]
    assert shares == [60, 60]
