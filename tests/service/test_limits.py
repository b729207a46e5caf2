from __future__ import annotations

import asyncio
import json
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given

from alphita.service import limits
from alphita.service.limits import MAX_CLIENTS, Limits, Rate
from alphita.service.settings import Settings
from tests.service.review_service import client_of, code_of


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Client:
    """Sends one request to a middleware: chunks of a body, and what is sent back."""

    def __init__(
        self, *chunks: bytes, path: str = "/normalize", method: str = "POST", length: int | str | None = None
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
    door = Limits(app, Settings(**settings))
    asyncio.run(door(client.scope, client.receive, client.send))
    assert (door.requests.total, door.bytes.total) == (0, 0)
    return door


def answering(started_after: float = 0.0, ended_after: float = 0.0, held: asyncio.Event | None = None):
    """Return an app that echoes the body, after some seconds or once it is let go on."""

    async def app(scope, receive, send):
        body = (await receive())["body"]
        if held is not None:
            await held.wait()
        await asyncio.sleep(started_after)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(ended_after)
        await send({"type": "http.response.body", "body": body})

    return app


def one_by_one(*clients: Client, **settings) -> list[int]:
    """Return the statuses of clients that ask one after the other, in no time."""

    async def run():
        door = Limits(echo, Settings(**settings))
        door.rate._clock = Clock()
        for client in clients:
            await door(client.scope, client.receive, client.send)

    asyncio.run(run())
    return [client.status for client in clients]


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


def test_clients_are_not_remembered_without_end():
    limit = Rate(1.0, 1)
    for number in range(MAX_CLIENTS + 10):
        limit.take(str(number))
    assert len(limit._buckets) == MAX_CLIENTS


@pytest.mark.parametrize(
    ("client", "settings", "status"),
    [
        (Client(b"ab", b"", b"cd"), {}, 200),
        (Client(b"x" * 11), {"max_body": 10}, 413),
        (Client(b"x" * 6, b"x" * 5, b"never read"), {"max_body": 10}, 413),
        (Client(b"never read", length=11), {"max_body": 10}, 413),
        (Client(b"never read", length="9" * 10_000), {}, 413),
        (Client(b"x" * 50, path="/api/projects"), {"max_body": 10, "max_upload": 100}, 200),
        (Client(b"x", None), {}, None),
    ],
    ids=["in chunks", "too large", "too large in chunks", "says so", "of many digits", "a file for review", "gone"],
)
def test_a_body_reaches_the_app_whole_or_not_at_all(client, settings, status):
    content = b"".join(filter(None, client.chunks))
    ask(client, **settings)
    if status == 200:
        assert client.sent[1]["body"] == content
    elif status is None:
        assert client.sent == []
    else:
        assert (client.status, client.code) == (status, "too_large")
        assert client.chunks == [chunk for chunk in (b"never read",) if chunk in content]


def test_a_slow_body_is_given_up():
    client = Client()

    async def endless():
        await asyncio.sleep(0.005)
        return {"type": "http.request", "body": b"x", "more_body": True}

    client.receive = endless
    ask(client, seconds=0.02)
    assert (client.status, client.code) == (408, "too_slow")
    assert client.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("method", "path", "app", "status"),
    [
        ("POST", "/normalize", answering(60), 504),
        ("POST", "/normalize", answering(0, 0.1), 200),
        ("POST", "/api/projects", answering(0.1), 200),
        ("GET", "/api/projects/lab/export", answering(0.1), 200),
        ("GET", "/api/projects", answering(60), 504),
        ("POST", "/api/projects/lab/export", answering(60), 504),
    ],
)
def test_an_answer_that_has_not_begun_in_time_is_given_up_later_for_files(method, path, app, status):
    client = Client(b"", path=path, method=method)
    ask(client, app, seconds=0.02, file_seconds=60)
    assert client.status == status
    assert status == 200 or client.code == "timeout"
    assert len(client.sent) == 2


def test_an_apps_own_timeout_is_not_taken_for_the_limit():
    async def failing(scope, receive, send):
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        ask(Client(b""), failing)


@pytest.mark.parametrize("settings", [{"max_requests": 2}, {"max_buffered": 100}])
def test_requests_and_bodies_held_at_once_are_bounded(settings):
    async def run():
        held = asyncio.Event()
        door = Limits(answering(held=held), Settings(**settings))
        clients = [Client(b"x" * 40) for _ in range(3)]
        tasks = [asyncio.create_task(door(client.scope, client.receive, client.send)) for client in clients]
        await asyncio.sleep(0.01)
        assert [len(client.sent) for client in clients] == [0, 0, 2]
        held.set()
        await asyncio.gather(*tasks)
        assert door.bytes.total == 0
        return clients

    first, second, third = asyncio.run(run())
    assert (first.status, second.status) == (200, 200)
    assert (third.status, third.code, third.headers["retry-after"]) == (503, "busy", "1")


def test_a_client_over_its_rate_is_told_when_to_come_again():
    clients = [Client(b"x") for _ in range(4)]
    clients[3].scope["client"] = ("10.0.0.2", 5)
    start = time.monotonic()
    assert one_by_one(*clients, rate=0.5, burst=2) == [200, 200, 429, 200]
    assert time.monotonic() - start >= limits.PAUSE
    assert clients[2].code == "too_many_requests"
    assert clients[2].headers["retry-after"] == "2"


def test_no_more_than_so_many_refusals_wait(monkeypatch):
    monkeypatch.setattr(limits, "MAX_PAUSING", 3)
    monkeypatch.setattr(limits, "PAUSE", 60.0)

    async def run():
        door = Limits(echo, Settings(rate=0.5, burst=1))
        door.rate._clock = Clock()
        clients = [Client(b"x") for _ in range(6)]
        tasks = [asyncio.create_task(door(client.scope, client.receive, client.send)) for client in clients]
        await asyncio.wait(tasks, timeout=0.1)
        paused = door.pause.waiting
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return [len(client.sent) > 0 and client.status for client in clients], paused, door.pause.waiting

    assert asyncio.run(run()) == ([200, False, False, False, 429, 429], 3, 0)


def test_reviewers_behind_one_proxy_do_not_share_a_rate():
    clients = [Client(b"x") for _ in range(3)]
    for client, name in zip(clients, ("ann", "ben", "ann"), strict=True):
        client.scope["state"] = {"reviewer": name}
    assert one_by_one(*clients, rate=0.5, burst=1) == [200, 200, 429]


def test_health_is_always_told():
    clients = [Client(b"", path="/health", method="GET") for _ in range(5)]
    assert set(one_by_one(*clients, rate=0.001, burst=1, max_requests=1)) == {200}


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
    assert {answer.status_code for answer in answers} == {200, 404, 413, 405, 422}
    for one in answers:
        assert "default-src 'none'" in one.headers["content-security-policy"]
        assert "unsafe" not in one.headers["content-security-policy"]
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["cache-control"] == "no-store"
        assert one.headers["x-request-id"]
        assert "server" not in one.headers


HERE = {"Origin": "http://127.0.0.1:8080"}
OTHERS = ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:9999"})
SITES = [
    *((headers, 200) for headers in ({}, HERE, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"})),
    *((headers, 403) for headers in OTHERS),
    *(({"Sec-Fetch-Site": site, **more}, 403) for site in ("cross-site", "same-site") for more in ({}, HERE)),
]


def test_another_sites_page_may_not_change_anything(normalizer):
    with client_of(normalizer) as client:
        for headers, status in SITES:
            answer = client.post("/normalize", json=QUESTION, headers=headers)
            assert answer.status_code == status, headers
            assert status == 200 or code_of(answer) == "other_site"


def test_a_name_that_is_not_its_own_is_refused(normalizer):
    with client_of(normalizer, hosts=("localhost", "127.0.0.1", "::1")) as client:
        for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"):
            assert client.get("/health", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8080", "", "[", "a@localhost:b"):
            refused = client.get("/health", headers={"Host": host})
            assert refused.status_code == 403, host
            assert code_of(refused) == "wrong_host"


def test_a_large_body_counts_as_several_requests():
    clients = [Client(b"x" * 30_000), Client(b"x"), Client(b"x")]
    assert one_by_one(*clients, rate=0.001, burst=3) == [200, 429, 429]
    clients = [Client(b"x" * 9_999), Client(b"x"), Client(b"x"), Client(b"x")]
    assert one_by_one(*clients, rate=0.001, burst=3) == [200, 200, 200, 429]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b'{"mentions":[' + b"1," * 10_001 + b"1]}", 413),
        (b'{"mentions":["' + b"a," * 20_000 + b'"]}', 200),
        (b'{"mentions":["' + rb"\"," * 20_000 + b'"]}', 200),
        (b'["' + rb"\\" + b'",' + b"1," * 10_001 + b"1]", 413),
        (b'""' * 30_000 + b"," * 10_001, 413),
    ],
    ids=["numbers", "commas in text", "escaped quotes", "an escaped backslash", "strings"],
)
def test_json_of_more_values_than_any_request_has_is_not_read(content, status):
    client = Client(content)
    ask(client)
    assert client.status == status


def test_of_what_works_in_threads_two_requests_of_a_client_go_on_at_once():
    working: list[int] = []
    most: list[int] = []

    async def app(scope, receive, send):
        await receive()
        working.append(1)
        most.append(len(working))
        await asyncio.sleep(0.01)
        working.pop()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run(path, clients):
        door = Limits(app, Settings(rate=0))
        given = [Client(b"x", path=path) for _ in range(6)]
        for number, client in enumerate(given):
            client.scope["client"] = (f"10.0.0.{number % clients}", 5)
        await asyncio.gather(*(door(client.scope, client.receive, client.send) for client in given))
        assert [client.status for client in given] == [200] * 6
        assert not door._threads

    for path, clients, expected in (("/fhir/r4", 1, 2), ("/fhir/r4", 2, 4), ("/normalize", 1, 6)):
        most.clear()
        asyncio.run(run(path, clients))
        assert max(most) == expected
