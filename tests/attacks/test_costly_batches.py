"""Who asks much holds nobody for longer than a batch may take, or half of the time."""

from __future__ import annotations

import asyncio
import time

from alphita.service import batching, fhir_batch
from alphita.service.batching import Batcher
from alphita.service.settings import Settings

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


def test_a_batch_of_fhir_leaves_others_half_of_the_interpreters_time():
    def busy(*_: object) -> dict:
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
        return {}

    entry = {"request": {"method": "GET", "url": "metadata"}}
    bundle = {"resourceType": "Bundle", "type": "batch", "entry": [entry] * 100}
    wall, worked = time.perf_counter(), time.thread_time()
    fhir_batch.answer(bundle, "/fhir/r4", busy, Settings())
    assert time.thread_time() - worked < 0.7 * (time.perf_counter() - wall)
