"""Who asks first, and much, holds nobody who comes later for longer than a batch may take."""

from __future__ import annotations

import asyncio
import time

from alphita.service import batching
from alphita.service.batching import Batcher

QUESTION = 0.002


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
