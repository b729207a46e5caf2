from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.service import batching
from alphita.service.batching import Batcher, OutOfTime, QueueFull, Shared
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


def test_clients_take_turns_by_cost_and_a_late_one_waits_for_one_batch_alone():
    work = Upper()

    async def run():
        asking = batcher(work, budget=4)
        greedy = [asking.ask("x", ["g"] * 9, client="greedy") for _ in range(2)]
        return await asyncio.gather(
            *greedy, asking.ask("x", ["m"], client="modest"), asking.ask("x", ["n"], client="n")
        )

    asyncio.run(run())
    assert ["".join(questions) for _, questions in work.batches][:3] == ["ggmn", "gggg", "gggg"]


class Paced:
    """Takes a hundredth of a second a letter, of the kind "y" little; remembers how many it was asked at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, kind: str, questions: Sequence[str], /) -> Sequence[str]:
        self.sizes.append(sum(map(len, questions)))
        time.sleep((0.0002 if kind == "y" else 0.01) * self.sizes[-1])
        return questions


def test_while_several_ask_a_batch_takes_no_longer_than_a_turn(monkeypatch):
    monkeypatch.setattr(batching, "EXPENSE", 0)
    monkeypatch.setattr(batching, "LEAST_TURN", 1)
    monkeypatch.setattr(batching, "TURN", 0.05)
    work = Paced()

    async def run():
        asking = batcher(work)
        await asking.ask("x", ["g"] * 20, client="greedy")
        await asking.ask("y", ["m"] * 300, client="modest")
        alone = len(work.sizes)
        greedy = asyncio.ensure_future(asking.ask("x", ["g"] * 40, client="greedy"))
        await asking.ask("x", ["m"], client="modest")
        await greedy
        return alone

    alone = asyncio.run(run())
    assert work.sizes[0] == 20
    assert max(work.sizes[alone:]) <= 5


def test_a_question_that_takes_longer_than_a_turn_leaves_a_worker_to_the_others(monkeypatch):
    monkeypatch.setattr(batching, "EXPENSE", 0)
    monkeypatch.setattr(batching, "LEAST_TURN", 1)
    first, second = Paced(), Paced()

    async def run():
        asking = batcher(first)
        asking.add(second)
        await asking.ask("x", ["g"], client="greedy")
        await asking.ask("x", ["m"], client="modest")
        greedy = [asyncio.ensure_future(asking.ask("x", ["g" * 60], client="greedy")) for _ in range(3)]
        await asyncio.sleep(0.01)
        start = time.monotonic()
        await asking.ask("x", ["m"], client="modest")
        waited = time.monotonic() - start
        await asyncio.gather(*greedy)
        return waited

    assert asyncio.run(run()) < 0.5
    assert sorted((60 in first.sizes, 60 in second.sizes)) == [False, True]


def test_at_its_deadline_a_request_ends_and_the_rest_is_not_computed():
    work = Paced()

    async def run():
        asking = batcher(work, budget=5)
        with pytest.raises(OutOfTime) as over:
            await asking.ask("x", ["g"] * 200, deadline=time.monotonic() + 0.2)
        assert 0 < over.value.left < 200
        assert asking.waiting == 0
        await asking.close()

    asyncio.run(run())
    assert sum(work.sizes) < 100


def test_a_client_with_less_than_its_share_gets_in_where_all_is_held():
    held = Shared(10)
    held.take("greedy", 10)
    assert not held.has_room("greedy", 1)
    assert held.has_room("modest", 5)
    assert not held.has_room("modest", 6)
    held.take("greedy", -10)
    assert held.has_room("modest", 10)
    assert (held.total, held.of("greedy")) == (0, 0)
