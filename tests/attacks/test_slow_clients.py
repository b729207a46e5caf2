"""Connections whose clients leave the server waiting end; those of the others go on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
import uvicorn

from alphita.service import limits

LIMIT = 0.4
SECONDS = 20.0
LARGE = b"x" * 16_000_000
ROOM = limits.connection_limits
HEADER = b"Host: localhost\r\n"


async def app(scope, receive, send):
    """Answer at once, or "/slow" after twice the limit, or "/large" with more than any buffer holds; "?WHO" asks."""
    scope["state"]["turn"] = scope["query_string"].decode()
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * LIMIT)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": LARGE if scope["path"] == "/large" else b"fine"})


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def address(listening) -> tuple[str, int]:
    return listening.getsockname()


@pytest.fixture(autouse=True)
def server(listening, monkeypatch) -> Iterator[uvicorn.Server]:
    monkeypatch.setattr(limits, "CONNECTION_SECONDS", LIMIT)
    monkeypatch.setattr(limits, "connection_limits", lambda: (4, 16))
    config = uvicorn.Config(app, http=limits.Connection, ws="none", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    yield server
    server.should_exit = True
    running.join(SECONDS)
    assert not running.is_alive()


def ended(client: socket.socket) -> float:
    """Return the seconds until the server ends a connection; what it sends before is passed over."""
    client.settimeout(SECONDS)
    began = time.monotonic()
    try:
        while client.recv(65_536):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - began


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\n" + HEADER,
        b"GET / HTTP/1.1\r\n" + HEADER + b"\r\nGET /again HTTP/1.1\r\n",
        b"POST / HTTP/1.1\r\n" + HEADER + b"Content-Length: 1000\r\n\r\nx",
    ],
    ids=["nothing", "half a header", "half of the next header", "half of a body that nobody reads"],
)
def test_a_client_that_goes_on_a_byte_at_a_time_is_not_waited_for(address, sent):
    with closing(socket.create_connection(address)) as client:
        client.sendall(sent)
        began = time.monotonic()

        def drip() -> None:
            try:
                while sent and time.monotonic() < began + SECONDS:
                    time.sleep(LIMIT / 8)
                    client.sendall(b"x")
            except OSError:
                pass

        dripping = threading.Thread(target=drip)
        dripping.start()
        assert ended(client) < SECONDS / 2
        dripping.join()


def test_a_client_that_does_not_take_its_answer_is_not_waited_for(server, address):
    with closing(socket.create_connection(address)) as client:
        client.sendall(b"GET /large HTTP/1.1\r\n" + HEADER + b"\r\n")
        deadline = time.monotonic() + SECONDS
        while not server.server_state.total_requests or server.server_state.connections:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        client.settimeout(SECONDS)
        got = 0
        try:
            while part := client.recv(65_536):
                got += len(part)
        except ConnectionError:
            pass
        assert got < len(LARGE)


def test_who_takes_nothing_holds_its_share_of_the_memory_and_nobody_elses(server, address, monkeypatch):
    monkeypatch.setattr(limits, "CONNECTION_SECONDS", SECONDS)
    monkeypatch.setattr(limits, "MAX_UNTAKEN", 1.5 * len(LARGE))
    clients = []
    for who in (b"eve", b"eve", b"ann"):
        clients.append(socket.create_connection(address))
        # The next request, of somebody unknown, hides nobody.
        ends = b" HTTP/1.1\r\n" + HEADER + b"\r\n"
        clients[-1].sendall(b"GET /large?" + who + ends + b"GET /" + ends)
        clients[-1].settimeout(SECONDS)
        assert clients[-1].recv(1)
    got = [0] * 3
    for number, client in enumerate(clients):
        with contextlib.suppress(ConnectionError, TimeoutError), closing(client):
            while part := client.recv(1_000_000):
                got[number] += len(part)
    assert [count > len(LARGE) for count in got] == [True, False, True]


def test_a_client_may_take_its_answer_slowly(address):
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        client.connect(address)
        client.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n" + HEADER + b"\r\n")
        client.settimeout(SECONDS)
        got, slow = 0, time.monotonic() + 4 * LIMIT
        # What the kernel took of it is no more than a part of what is to be taken.
        while part := client.recv(8_192 if time.monotonic() < slow else 400_000):
            got += len(part)
            time.sleep(LIMIT / 40 if time.monotonic() < slow else 0)
        assert got > len(LARGE)


def test_an_answer_may_take_its_time_and_the_connection_is_used_again(address):
    with httpx.Client(base_url="http://{}:{}".format(*address), timeout=SECONDS) as client:
        for path in ("/slow", "/", "/slow", "/large"):
            assert client.get(path).status_code == 200


def test_where_there_are_too_many_the_one_waited_for_longest_makes_room(address):
    silent = [socket.create_connection(address) for _ in range(4)]
    try:
        # What came before is accepted before what comes now.
        assert httpx.get("http://{}:{}/slow".format(*address), timeout=SECONDS).text == "fine"
        assert ended(silent[0]) < SECONDS / 2
    finally:
        for one in silent:
            one.close()


def test_half_of_the_descriptors_are_for_connections(monkeypatch):
    measure = ROOM.__wrapped__
    for soft, room in ((256, (128, 64)), (1_024, (512, 256)), (1_000_000, (2_048, 512)), (-1, (2_048, 512))):
        monkeypatch.setattr("resource.getrlimit", lambda _, soft=soft: (soft, soft))
        assert measure() == room
