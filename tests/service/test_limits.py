from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter

import httpx
import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.answer.normalizer import Normalizer
from alphita.index.store import Index
from alphita.service import limits
from alphita.service.app import create
from alphita.service.limits import MAX_CLIENTS, Limits, Rate
from alphita.service.settings import Settings
from tests.doubles import HashEncoder
from tests.service.asking import client_of, code_of
from tests.waiting import SECONDS


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """Sends one request to a middleware: chunks of a body, and what is sent back."""

    def __init__(
        self, *chunks: bytes, path: str = "/normalize", method: str = "POST", length: int | None = None
    ) -> None:
        self.chunks, self.sent = list(chunks), []
        headers = [] if length is None else [(b"content-length", str(length).encode())]
        self.scope = {"type": "http", "path": path, "method": method, "headers": headers, "client": ("10.0.0.1", 5)}

    async def receive(self):
        if not self.chunks:
            await asyncio.sleep(60)
        chunk = self.chunks.pop(0)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}

    async def send(self, message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def code(self) -> str:
        return json.loads(self.sent[1]["body"])["error"]["code"]


async def echo(scope, receive, send) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def ask(client: Client, app=echo, **settings) -> Limits:
    limits = Limits(app, Settings(**settings))
    asyncio.run(limits(client.scope, client.receive, client.send))
    assert (limits.requests, limits.bytes) == (0, 0)
    return limits


@given(st.lists(st.tuples(st.floats(0, 3), st.sampled_from("ab")), max_size=40), st.integers(1, 5), st.floats(0.1, 9))
def test_a_bucket_never_lets_more_through_than_it_says(steps, burst, rate):
    clock = Clock()
    limit = Rate(rate, burst, clock)
    held: dict[str, float] = {}
    then: dict[str, float] = {}
    for pause, client in steps:
        clock.now += pause
        held[client] = min(burst, held.get(client, burst) + (clock.now - then.get(client, clock.now)) * rate)
        then[client] = clock.now
        wait = limit.take(client)
        if abs(held[client] - 1) > 1e-9:
            assert (wait == 0) == (held[client] > 1)
        if wait == 0:
            held[client] -= 1
        else:
            assert wait == pytest.approx((1 - held[client]) / rate)


def test_after_the_time_told_it_goes_on():
    clock = Clock()
    limit = Rate(2.0, 1, clock)
    assert limit.take("a") == 0
    wait = limit.take("a")
    assert wait == pytest.approx(0.5)
    clock.now += wait
    assert limit.take("a") == 0


def test_clients_are_not_remembered_without_end():
    limit = Rate(1.0, 1)
    for number in range(MAX_CLIENTS + 10):
        limit.take(str(number))
    assert len(limit._buckets) == MAX_CLIENTS


def test_a_body_in_chunks_reaches_the_app_whole():
    client = Client(b"ab", b"", b"cd")
    ask(client)
    assert client.sent[1]["body"] == b"abcd"


@pytest.mark.parametrize("chunks", [(b"x" * 11,), (b"x" * 6, b"x" * 5), (b"x" * 6, b"x" * 5, b"never read")])
def test_a_body_too_large_is_refused(chunks):
    client = Client(*chunks)
    ask(client, max_body=10)
    assert (client.status, client.code) == (413, "too_large")


def test_a_body_that_says_it_is_too_large_is_not_read():
    client = Client(b"x", length=11)
    ask(client, max_body=10)
    assert client.status == 413
    assert client.chunks == [b"x"]


def test_a_length_of_thousands_of_digits_is_too_large():
    client = Client(b"x")
    client.scope["headers"] = [(b"content-length", b"9" * 10_000)]
    ask(client)
    assert client.status == 413


def test_a_file_for_review_may_be_larger():
    client = Client(b"x" * 50, path="/api/projects")
    ask(client, max_body=10, max_upload=100)
    assert client.status == 200


def test_a_slow_body_is_given_up():
    client = Client()

    async def endless():
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"x", "more_body": True}

    client.receive = endless
    ask(client, seconds=0.02)
    assert (client.status, client.code) == (408, "too_slow")
    assert client.headers["connection"] == "close"


def test_a_slow_answer_is_given_up():
    stopped = []

    async def slow(scope, receive, send):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    client = Client(b"")
    ask(client, slow, seconds=0.02)
    assert (client.status, client.code) == (504, "timeout")
    assert stopped == [True]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/api/projects", 200),
        ("GET", "/api/projects/lab/export", 200),
        ("GET", "/api/projects", 504),
        ("POST", "/api/projects/lab/export", 504),
    ],
)
def test_a_file_for_review_may_take_longer(method, path, status):
    async def slow(scope, receive, send):
        await asyncio.sleep(0.1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"end"})

    client = Client(b"", path=path)
    client.scope["method"] = method
    ask(client, slow, seconds=0.02, file_seconds=60)
    assert client.status == status


def test_an_answer_that_has_begun_may_take_its_time():
    async def long(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0.05)
        await send({"type": "http.response.body", "body": b"end"})

    client = Client(b"")
    ask(client, long, seconds=0.02)
    assert [one["type"] for one in client.sent] == ["http.response.start", "http.response.body"]


def test_an_apps_own_timeout_is_not_taken_for_the_limit():
    async def failing(scope, receive, send):
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        ask(Client(b""), failing)


def test_a_client_that_goes_away_costs_nothing():
    client = Client(b"x", None)
    ask(client)
    assert client.sent == []


def test_more_requests_at_once_than_allowed_are_refused():
    held = asyncio.Event()

    async def waiting(scope, receive, send):
        await held.wait()
        await echo(scope, receive, send)

    async def run():
        limits = Limits(waiting, Settings(max_requests=2))
        clients = [Client(b"x") for _ in range(3)]
        tasks = [asyncio.create_task(limits(one.scope, one.receive, one.send)) for one in clients]
        await asyncio.sleep(0.01)
        assert [len(one.sent) for one in clients] == [0, 0, 2]
        held.set()
        await asyncio.gather(*tasks)
        return clients

    first, second, third = asyncio.run(run())
    assert (first.status, second.status) == (200, 200)
    assert (third.status, third.code, third.headers["retry-after"]) == (503, "busy", "1")


def test_bodies_held_at_once_are_bounded():
    held = asyncio.Event()

    async def waiting(scope, receive, send):
        await held.wait()
        await echo(scope, receive, send)

    async def run():
        limits = Limits(waiting, Settings(max_buffered=100))
        clients = [Client(b"x" * 60) for _ in range(2)]
        tasks = [asyncio.create_task(limits(one.scope, one.receive, one.send)) for one in clients]
        await asyncio.sleep(0.01)
        held.set()
        await asyncio.gather(*tasks)
        assert limits.bytes == 0
        return [one.status for one in clients]

    assert asyncio.run(run()) == [200, 503]


def test_a_client_over_its_rate_is_told_when_to_come_again():
    async def run():
        limits = Limits(echo, Settings(rate=0.5, burst=2))
        limits.rate._clock = Clock()
        clients = [Client(b"x") for _ in range(3)]
        for one in clients:
            await limits(one.scope, one.receive, one.send)
        other = Client(b"x")
        other.scope["client"] = ("10.0.0.2", 5)
        await limits(other.scope, other.receive, other.send)
        return [*clients, other]

    start = time.monotonic()
    clients = asyncio.run(run())
    assert time.monotonic() - start >= limits.PAUSE
    assert [one.status for one in clients] == [200, 200, 429, 200]
    assert clients[2].code == "too_many_requests"
    assert clients[2].headers["retry-after"] == "2"


def test_no_more_than_so_many_refusals_wait(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PAUSING", 3)
    monkeypatch.setattr(limits, "PAUSE", 60.0)

    async def run():
        door = Limits(echo, Settings(rate=0.5, burst=1))
        door.rate._clock = Clock()
        clients = [Client(b"x") for _ in range(6)]
        tasks = [asyncio.create_task(door(one.scope, one.receive, one.send)) for one in clients]
        await asyncio.wait(tasks, timeout=0.1)
        paused = door.pause.waiting
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return [len(one.sent) > 0 and one.status for one in clients], paused, door.pause.waiting

    assert asyncio.run(run()) == ([200, False, False, False, 429, 429], 3, 0)


def test_reviewers_behind_one_proxy_do_not_share_a_rate():
    async def run():
        limits = Limits(echo, Settings(rate=0.5, burst=1))
        limits.rate._clock = Clock()
        clients = [Client(b"x") for _ in range(3)]
        for one, name in zip(clients, ("ann", "ben", "ann"), strict=True):
            one.scope["state"] = {"reviewer": name}
            await limits(one.scope, one.receive, one.send)
        return [one.status for one in clients]

    assert asyncio.run(run()) == [200, 200, 429]


def test_health_is_always_told():
    async def run():
        limits = Limits(echo, Settings(rate=0.001, burst=1, max_requests=1))
        clients = [Client(b"", path="/health", method="GET") for _ in range(5)]
        for one in clients:
            await limits(one.scope, one.receive, one.send)
        return {one.status for one in clients}

    assert asyncio.run(run()) == {200}


QUESTION = {"mentions": ["cold"]}


def test_every_answer_has_the_security_headers(normalizer):
    with client_of(normalizer, max_body=100) as client:
        answers = [
            client.get("/health"),
            client.get("/nothing"),
            client.post("/normalize", content=b"x" * 200),
            client.put("/search"),
            client.post("/normalize", json={}),
            client.get("/search?q=x"),
        ]
    assert {one.status_code for one in answers} == {200, 404, 413, 405, 422}
    for one in answers:
        assert "default-src 'none'" in one.headers["content-security-policy"]
        assert "unsafe" not in one.headers["content-security-policy"]
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["cache-control"] == "no-store"
        assert one.headers["x-request-id"]
        assert "server" not in one.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://127.0.0.1:8080"},
    ],
)
def test_another_sites_page_may_not_change_anything(normalizer, headers):
    with client_of(normalizer) as client:
        refused = client.post("/normalize", json=QUESTION, headers=headers)
        assert refused.status_code == 403
        assert code_of(refused) == "other_site"


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://127.0.0.1:8080"}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}]
)
def test_its_own_page_and_programs_may(normalizer, headers):
    with client_of(normalizer) as client:
        assert client.post("/normalize", json=QUESTION, headers=headers).status_code == 200


def test_a_name_that_is_not_its_own_is_refused(normalizer):
    with client_of(normalizer, hosts=("localhost", "127.0.0.1", "::1")) as client:
        for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"):
            assert client.get("/health", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8080", "", "[", "a@localhost:b"):
            refused = client.get("/health", headers={"Host": host})
            assert refused.status_code == 403, host
            assert code_of(refused) == "wrong_host"


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
