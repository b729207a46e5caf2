"""More clients than the server can answer: it refuses, says when to come again, and holds no more than it may."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import httpx

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from alphita.service.app import create
from alphita.service.settings import Settings
from tests.doubles import HashEncoder
from tests.waiting import SECONDS

CLIENTS, REQUESTS, QUEUE = 50, 6, 40


def test_fifty_clients_over_the_limit(index_path):
    enough = threading.Event()

    class Laborious(HashEncoder):
        def encode(self, strings):
            enough.wait(SECONDS)
            return super().encode(strings)

    app = create(
        Settings(queue=QUEUE, rate=0, max_requests=45, batch_tokens=50),
        Normalizer(Index.open(index_path), encoder=Laborious()),
    )
    depths: list[float] = []
    refusals: list[httpx.Response] = []

    async def client_of(asking: httpx.AsyncClient, number: int) -> list[httpx.Response]:
        answers = []
        for turn in range(REQUESTS):
            mentions = [f"headach {number} {turn} {place}" for place in range(3)]
            answers.append(await asking.post("/normalize", json={"mentions": mentions}))
            refusals.extend(one for one in answers[-1:] if one.status_code == 503)
        return answers

    async def watch(asking: httpx.AsyncClient) -> None:
        while True:
            lines = (await asking.get("/metrics")).text.splitlines()
            depths.extend(float(line.split()[1]) for line in lines if line.startswith("alphita_queue_depth "))
            if len(refusals) > CLIENTS and any(depths):
                enough.set()
            await asyncio.sleep(0.005)

    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as asking:
            watching = asyncio.create_task(watch(asking))
            answers = await asyncio.gather(*(client_of(asking, number) for number in range(CLIENTS)))
            watching.cancel()
            last = await asking.post("/normalize", json={"mentions": ["seizure"]})
            return [*(one for some in answers for one in some), last]

    answers = asyncio.run(run())
    counts = Counter(one.status_code for one in answers)
    assert set(counts) == {200, 503}
    assert counts[503] == len(refusals) > CLIENTS
    assert answers[-1].status_code == 200
    for one in answers:
        if one.status_code == 503:
            assert int(one.headers["retry-after"]) >= 1
            assert one.json()["error"]["code"] in ("queue_full", "busy")
        else:
            assert all(result["mention"] for result in one.json()["results"])
    assert 0 < max(depths) <= QUEUE
