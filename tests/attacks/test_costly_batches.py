"""Who asks much holds nobody for longer than a batch may take, or half of the time; the event loop hardly at all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request

from alphita.service import batching, normalizing
from alphita.service.batching import Batcher
from tests.service.review_service import GROUPS, HEADER, service
from tests.service.test_fhir import AX

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


# Processor seconds that one callback of the event loop may take: some eight times what the longest does.
LONGEST = 0.06
TEXTS = [("1. x-x- no left " * 700)[:1_000]] * 1_000
DEEP = [{"query": text, "limit": 100} for text in TEXTS]
SEIZED = {"url": AX, "count": 1_000, "includeDesignations": True}
LOOK_UP, SUBSUMED = {"system": AX, "code": "2"}, {"system": AX, "codeA": "1", "codeB": "2"}
TRANSLATED = {"system": "urn:alphita:source:LAB", "code": "L1"}
BUNDLE = {
    "resourceType": "Bundle",
    "type": "batch",
    "entry": [{"request": {"method": "GET", "url": f"ValueSet/$expand?url={AX}&count=1000"}}] * 1_000,
}
# The worst legal request of each route; what has a body is posted, and by itself asked by GET.
ROW, UID = "/api/projects/lab/rows/1", {"uid": "u" * 100}
QUERIES = urlencode({"queries": json.dumps({str(place): one for place, one in enumerate(DEEP)})})
WORST: dict[str, list[tuple[str, object]]] = {
    "/normalize": [("", {"mentions": TEXTS, "top": 100, "explain": True})],
    "/annotate": [("", {"texts": ["left fever " * 900] * 200})],
    "/embed": [("", {"texts": TEXTS})],
    "/search": [("?q=a&top=100", None)],
    "/concepts/{identifier}": [("/concepts/AX:1", None)],
    "/mappings": [("", {"source": "LAB", "mentions": TEXTS})],
    "/reconcile": [("", QUERIES), ("", None)],
    "/reconcile/suggest/entity": [("?prefix=a&cursor=100", None)],
    "/reconcile/suggest/type": [("?prefix=a", None)],
    "/reconcile/suggest/property": [("?prefix=a", None)],
    "/reconcile/properties": [("", None)],
    "/reconcile/preview": [("?id=AX:1", None)],
    "/api/me": [("", None)],
    "/api/projects": [("", None), ("?name=new&source=LAB", b"mention\n" + b"x,y\n" * 100_000)],
    "/api/projects/{name}": [("/api/projects/lab", None)],
    "/api/projects/{name}/rows": [("/api/projects/lab/rows?limit=1000&state=all", None)],
    "/api/projects/{name}/rows/{row}": [(ROW, None)],
    "/api/projects/{name}/rows/{row}/decisions": [(f"{ROW}/decisions", UID | {"kind": "nil", "comment": "x" * 10_000})],
    "/api/projects/{name}/rows/{row}/adjudicate": [(f"{ROW}/adjudicate", UID | {"comment": "x" * 10_000})],
    "/api/projects/{name}/progress": [("/api/projects/lab/progress", None)],
    "/api/projects/{name}/disagreements": [("/api/projects/lab/disagreements", None)],
    "/api/projects/{name}/undo": [("/api/projects/lab/undo", UID)],
    "/api/projects/{name}/bulk": [("/api/projects/lab/bulk", UID | {"threshold": 0, "types": ["x" * 1_000] * 1_000})],
    "/api/projects/{name}/export": [("/api/projects/lab/export?settled=false", None)],
    "/health": [("", None)],
    "/ready": [("", None)],
    "/metrics": [("", None)],
    "/admin/reload": [("", {})],
    **{
        f"/fhir/{release}{path}": [("?" + urlencode(query), None), ("", urlencode(query))] if query else [("", body)]
        for release in ("r4", "r5")
        for path, query, body in (
            ("", None, BUNDLE),
            ("/metadata", None, None),
            ("/CodeSystem/$lookup", LOOK_UP, None),
            ("/CodeSystem/$subsumes", SUBSUMED, None),
            ("/CodeSystem/$validate-code", {"url": AX, "code": "2"}, None),
            ("/ConceptMap/$translate", TRANSLATED, None),
            ("/ValueSet/$expand", SEIZED, None),
            ("/ValueSet/$validate-code", {"url": AX} | LOOK_UP, None),
        )
    },
}


def test_no_route_holds_the_event_loop(tmp_path, index, monkeypatch):
    lab = service(tmp_path, index, seconds=0.5)
    longest: dict[str, float] = {}
    run = asyncio.events.Handle._run

    def timed(handle):
        began = time.thread_time()
        run(handle)
        longest[path] = max(longest.get(path, 0.0), time.thread_time() - began)

    async def ask(client: httpx.AsyncClient, url: str, body: object) -> None:
        kind = "application/x-www-form-urlencoded" if isinstance(body, str) else "application/json"
        if isinstance(body, bytes):
            kind = "text/csv"
        sent = body if body is None or isinstance(body, str | bytes) else json.dumps(body).encode()
        answer = await client.request("POST" if sent else "GET", url, content=sent, headers={"Content-Type": kind})
        assert answer.status_code not in (404, 413, 415, 500), (url, answer.text)

    async def ask_all() -> None:
        nonlocal path
        headers = {HEADER: "ann", GROUPS: "administrators"}
        transport = httpx.ASGITransport(lab.app, client=("127.0.0.1", 50_000))
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers)
        async with lab.app.router.lifespan_context(lab.app), client:
            for turn in range(2):
                for path, requests in WORST.items():
                    for url, body in requests:
                        await ask(client, url if url.startswith("/") else path + url, body)
                if turn == 0:  # what is done once, such as an import, is done by now
                    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)

    path = ""
    document = lab.app.openapi()["paths"]
    assert {path: len(document[path]) for path in document} == {path: len(asked) for path, asked in WORST.items()}
    asyncio.run(ask_all())
    assert {path: seconds for path, seconds in longest.items() if seconds > LONGEST} == {}
    lab.store.close()
