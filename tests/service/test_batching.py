from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.service.batching import Batcher, QueueFull
from tests.waiting import SECONDS

LONG = float(SECONDS)


class Upper:
    """Answers a string by its upper case and kind; fails for one with "bad" in it; remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []
        self.threads: set[str] = set()

    def __call__(self, kind: str, questions: Sequence[str], /) -> list[str]:
        self.threads.add(threading.current_thread().name)
        self.batches.append((kind, list(questions)))
        if any("bad" in question for question in questions):
            raise ValueError("bad")
        return [f"{kind} {question.upper()}" for question in questions]


def batcher(work, *, cost=len, budget: int = 100, window: float = 0.0, capacity: int = 1_000, **more) -> Batcher:
    return Batcher(work, cost=cost, budget=budget, window=window, capacity=capacity, **more)


strings = st.text("abc", min_size=1, max_size=12) | st.just("bad")
requests = st.tuples(st.sampled_from(["x", "y"]), st.lists(strings, max_size=9), st.integers(0, 3))


@given(st.lists(requests, max_size=12), st.integers(1, 25))
def test_everyone_gets_their_own_answers_in_order(asked, budget):
    work = Upper()

    async def one(asking: Batcher, kind: str, questions: list[str], rounds: int):
        for _ in range(rounds):
            await asyncio.sleep(0)
        return await asking.ask(kind, questions)

    async def run():
        asking = batcher(work, budget=budget)
        found = await asyncio.gather(*(one(asking, *each) for each in asked), return_exceptions=True)
        assert asking.waiting == 0
        await asking.close()
        return found

    for (kind, questions, _), found in zip(asked, asyncio.run(run()), strict=True):
        if any("bad" in question for question in questions):
            assert isinstance(found, ValueError)
        else:
            assert found == [f"{kind} {question.upper()}" for question in questions]
    for _, batch in work.batches:
        assert sum(map(len, batch)) <= budget or len(batch) == 1
    if not any("bad" in one for _, questions, _ in asked for one in questions):
        answered = sorted(one for _, batch in work.batches for one in batch)
        assert answered == sorted(one for _, questions, _ in asked for one in questions)
    assert len(work.threads) <= 1
    assert threading.main_thread().name not in work.threads


@pytest.mark.parametrize(
    ("budget", "requests", "batches"),
    [
        (100, ["x a", "x b", "x c", "x d"], ["x a b c d"]),
        (100, ["x a", "y b", "x c", "y d"], ["x a c", "y b d"]),
        (2, ["x a b c d e f", "x z"], ["x a b", "x z c", "x d e", "x f"]),
        (100, ["x"], []),
    ],
    ids=["together", "kinds apart", "others between the parts of a large one", "nothing"],
)
def test_requests_that_come_at_once_are_answered_in_batches(budget, requests, batches):
    work = Upper()

    async def run():
        asking = batcher(work, budget=budget)
        return await asyncio.gather(*(asking.ask(kind, questions) for kind, *questions in map(str.split, requests)))

    answers = asyncio.run(run())
    assert answers == [[f"{request[0]} {letter.upper()}" for letter in request.split()[1:]] for request in requests]
    assert [" ".join([kind, *questions]) for kind, questions in work.batches] == batches


@pytest.mark.parametrize(
    ("announced", "over", "options"),
    [(False, False, {}), (True, True, {}), (True, False, {"window": 0.01}), (True, False, {"budget": 1})],
    ids=["a lone request", "one announced and refused", "one announced within the window", "a full batch"],
)
def test_it_does_not_wait(announced, over, options):
    async def run():
        asking = batcher(Upper(), **{"window": LONG} | options)
        with asking.announce() if announced else contextlib.nullcontext() as arrival:
            if over:
                arrival.over()
            return await asyncio.wait_for(asking.ask("x", ["a"]), LONG / 10)

    assert asyncio.run(run()) == ["x A"]


def test_a_batch_waits_for_an_announced_request():
    work = Upper()

    async def late(asking, arrival):
        await asyncio.sleep(0.05)
        return await asking.ask("x", ["late"], arrival)

    async def run():
        asking = batcher(work, window=LONG)
        return await asyncio.gather(asking.ask("x", ["early"]), late(asking, asking.announce()))

    asyncio.run(run())
    assert work.batches == [("x", ["early", "late"])]


def test_a_full_queue_refuses_and_says_when_to_come_again():
    held = threading.Event()

    def work(kind: str, questions: Sequence[str], /) -> list[str]:
        held.wait(LONG)
        return list(questions)

    async def run():
        asking = batcher(work, capacity=4)
        first = asyncio.create_task(asking.ask("x", list("abc")))
        await asyncio.sleep(0.01)
        with pytest.raises(QueueFull) as full:
            await asking.ask("x", list("de"))
        assert full.value.seconds > 0
        second = asyncio.create_task(asking.ask("x", ["d"]))
        await asyncio.sleep(0)
        assert asking.waiting == 4
        held.set()
        assert await first == list("abc")
        assert await second == ["d"]
        assert asking.waiting == 0
        # By itself a request may be larger than the queue.
        assert await asking.ask("x", list("abcdefgh")) == list("abcdefgh")

    asyncio.run(run())


def test_a_request_that_is_given_up_makes_room_and_is_not_answered():
    held, work = threading.Event(), Upper()

    def slow(kind: str, questions: Sequence[str], /) -> list[str]:
        held.wait(LONG)
        return work(kind, questions)

    async def run():
        asking = batcher(slow)
        first = asyncio.create_task(asking.ask("x", ["a"]))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(asking.ask("x", ["b"]))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        assert asking.waiting == 1
        held.set()
        assert await first == ["x A"]
        assert await asking.ask("x", ["c"]) == ["x C"]

    asyncio.run(run())
    assert work.batches == [("x", ["a"]), ("x", ["c"])]


def test_closing_answers_what_is_waiting():
    async def run():
        asking = batcher(Upper(), budget=1)
        asked = [asyncio.create_task(asking.ask("x", [one])) for one in "abc"]
        await asyncio.sleep(0)
        await asking.close()
        assert all(one.done() for one in asked)
        return await asyncio.gather(*asked)

    assert asyncio.run(run()) == [["x A"], ["x B"], ["x C"]]


def test_a_wrong_number_of_answers_is_an_error():
    async def run():
        await batcher(lambda kind, questions: []).ask("x", ["a"])

    with pytest.raises(RuntimeError, match="1 questions got 0 answers"):
        asyncio.run(run())
