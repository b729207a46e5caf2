"""A database that hangs: who asks the reviews, or /ready without end, holds no thread that others need."""

from __future__ import annotations

import asyncio
import threading
import time

from starlette.concurrency import run_in_threadpool

from alphita.service import limits, parts
from alphita.service.settings import Settings


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


def test_many_who_wait_for_the_reviews_leave_threads_to_the_others():
    go, asked = threading.Event(), list[str]()

    async def app(scope, *_: object) -> None:
        asked.append(scope["path"])
        await run_in_threadpool(go.wait, 0 if scope["path"] == "/search" else 10)

    async def attack() -> None:
        made = limits.Limits(app, Settings(rate=0, seconds=5))

        def asking(path: str, who: str) -> asyncio.Task[None]:
            scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
            sent = {"type": "http.request", "body": b""}
            return asyncio.create_task(made(scope | {"state": {"reviewer": who}}, lambda: asyncio.sleep(0, sent), None))

        paths = ("/api/projects/lab/rows", "/api/projects/lab/export", "/mappings", "/fhir/r4/ConceptMap/$translate")
        waiting = [asking(path, f"{path} {number}") for path in (*paths, "/fhir/r5/") for number in range(20)]
        await asyncio.sleep(0.2)
        assert len(asked) == limits.MAX_HELD_UP
        await asyncio.wait_for(asking("/search", "user"), 2)
        go.set()
        await asyncio.gather(*waiting)
        assert len(asked) == 101

    try:
        asyncio.run(attack())
    finally:
        go.set()
