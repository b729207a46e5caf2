"""Who asks much holds nobody for longer than a batch may take, or half of the time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from starlette.requests import ClientDisconnect, Request

from alphita.service import batching, normalizing
from alphita.service.batching import Batcher

QUESTION, STEPS = 0.002, 200


def test_who_comes_while_one_client_asks_alone_waits_for_a_short_batch():
    def slow(kind, questions):
        time.sleep(QUESTION * len(questions))
        return questions

    async def attack() -> tuple[float, float]:
        made = Batcher(slow, cost=lambda _: 4, budget=2_048, window=0.0, capacity=8_192)
        await made.ask("kind", ["warm up"] * 20, client="attacker")
        began = time.monotonic()
        attacker = asyncio.create_task(made.ask("kind", ["x"] * 500, client="attacker"))
        await asyncio.sleep(0.05)
        await made.ask("kind", ["y"], client="user")
        user = time.monotonic() - began
        await attacker
        attacked = time.monotonic() - began
        await made.close()
        return user, attacked

    user, attacked = asyncio.run(attack())
    assert attacked >= 500 * QUESTION
    assert user < 3 * batching.ALONE < attacked


def test_what_works_in_threads_takes_turns_of_half_the_time_while_others_ask_and_ends_with_its_client():
    worked, gone = [], []

    def steps() -> Iterator[int]:
        for step in range(STEPS):
            began = time.monotonic()
            time.sleep(QUESTION * 10)
            worked.append(time.monotonic() - began)
            yield step

    class Asking(Request):
        async def is_disconnected(self) -> bool:
            return bool(gone)

    def slow(_, questions):
        time.sleep(1)
        return questions

    async def attack() -> None:
        made = Batcher(slow, cost=lambda _: 4, budget=2_048, window=0.0, capacity=8_192)
        work = normalizing.in_turns(made, Asking({"type": "http", "state": {"turn": "attacker"}}), steps())
        attacker = asyncio.create_task(work)
        await made.ask("kind", ["x"], client="user")
        assert 0 < sum(worked) < 0.7
        gone.append(True)
        with pytest.raises(ClientDisconnect):
            await attacker
        assert len(worked) < STEPS
        await made.close()

    asyncio.run(attack())
