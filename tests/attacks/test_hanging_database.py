"""A database that hangs: strangers who ask /ready without end hold no thread that others need, and are told soon."""

from __future__ import annotations

import asyncio
import threading
import time

from starlette.concurrency import run_in_threadpool

from alphita.service import parts


class Hanging:
    """A store in a database that does not answer until it is let go."""

    address = "postgresql://database/reviews"

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), 0

    def is_there(self) -> bool:
        self.asked += 1
        return self.go.wait(10)


def test_a_database_that_hangs_is_asked_once_for_all_who_wait(monkeypatch):
    monkeypatch.setattr(parts, "PATIENCE", 0.2)
    store = Hanging()
    made = parts.Parts(store, None)

    async def attack() -> None:
        began = time.monotonic()
        asking = [asyncio.create_task(made.unwritable()) for _ in range(100)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(run_in_threadpool(lambda: "another"), 1) == "another"
        assert {one["reviews"] for one in await asyncio.gather(*asking)} == {parts.AWAY}
        assert time.monotonic() - began < 1
        store.go.set()
        await asyncio.sleep(0.1)
        assert await made.unwritable() == {}

    try:
        asyncio.run(attack())
    finally:
        store.go.set()
    assert store.asked == 2
