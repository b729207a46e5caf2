"""Requests that a proxy and the server might read differently end in 400 and a closed connection."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import closing

import pytest
import uvicorn

from alphita.service import limits

HOST = b"Host: localhost\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = b"Transfer-Encoding: chunked\r\n"
AGAIN = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
BODY = b"\r\n3\r\nabc\r\n0\r\n\r\n"


async def app(scope, receive, send):
    """Answer with what was read."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    said = f"{scope['method']} {scope['path']} {body.decode()}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(said))]})
    await send({"type": "http.response.body", "body": said})


@pytest.fixture(scope="module")
def address():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(app, http=limits.Connection, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        running.start()
        yield listening.getsockname()
        server.should_exit = True
        running.join()


def ask(address, *parts: bytes) -> tuple[list[int], bytes, bool]:
    """Return the status of each answer, all that was read, and whether the server closed the connection."""
    with closing(socket.create_connection(address)) as client:
        client.settimeout(0.3)
        for part in parts:
            client.sendall(part)
        got = b""
        try:
            while block := client.recv(65_536):
                got += block
        except TimeoutError:
            return [int(one) for one in re.findall(rb"HTTP/1.1 (\d{3})", got)], got, False
        except ConnectionError:
            pass
        return [int(one) for one in re.findall(rb"HTTP/1.1 (\d{3})", got)], got, True


REFUSED = {
    "both lengths": POST + b"Content-Length: 4\r\n" + CHUNKED + b"\r\n0\r\n\r\n" + AGAIN,
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a length with a sign": POST + b"Content-Length: +4\r\n\r\nabcd",
    "a length below nothing": POST + b"Content-Length: -1\r\n\r\nabcd",
    "a length of another script": POST + "Content-Length: ٤\r\n\r\nabcd".encode(),
    "a length without end": POST + b"Content-Length: " + b"9" * 50 + b"\r\n\r\nabcd",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "HTTP/2.0": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "chunks of HTTP/1.0": b"POST / HTTP/1.0\r\n" + HOST + CHUNKED + BODY,
    "lines end in LF": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "one line ends in LF": b"GET / HTTP/1.1\r\n" + HOST + b"X: y\nZ: 1\r\n\r\n",
    "CR within a line": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\rY: b\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n" + BODY,
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\nContent-Length: 3\r\n\r\nabc",
    "another encoding": POST + b"Transfer-Encoding: xchunked\r\n" + BODY,
    "two encodings": POST + CHUNKED + b"Transfer-Encoding: identity\r\n" + BODY,
    "an encoding after VT": POST + b"Transfer-Encoding: \x0bchunked\r\n" + BODY,
    "LF in a chunk's extension": POST + CHUNKED + b"\r\n3;a\nb\r\nabc\r\n0\r\n\r\n",
    "a chunk's end that is none": POST + CHUNKED + b"\r\n3\r\nabcXX0\r\n\r\n",
    "a chunk's length with a sign": POST + CHUNKED + b"\r\n-1\r\nabc\r\n0\r\n\r\n",
    "a chunk's length as in C": POST + CHUNKED + b"\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk's length without end": POST + CHUNKED + b"\r\n" + b"f" * 30 + b"\r\nabc\r\n0\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + b"Host: evil\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "another server's address": b"GET http://evil/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel": b"CONNECT evil:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "NUL": b"GET / HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n",
    "a header without end": b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 200_000,
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(address, sent):
    statuses, got, closed = ask(address, sent)
    assert closed
    assert statuses in ([400], [])  # an answer is lost where the client still sends
    assert b"smuggled" not in got


def test_a_head_that_is_refused_has_no_body_and_ends_the_connection(address, caplog):
    statuses, got, closed = ask(address, b"HEAD http://evil/x HTTP/1.1\r\n" + HOST + b"\r\n")
    assert (statuses, closed, got.endswith(b"\r\n\r\n")) == ([400], True, True)
    assert not [one for one in caplog.records if one.name == "asyncio"]


def test_what_only_looks_odd_is_read_as_it_is(address):
    inner = POST + b"Content-Length: %d\r\n\r\n" % len(AGAIN) + AGAIN
    assert ask(address, inner)[1].endswith(b"POST / " + AGAIN)
    extended = POST + CHUNKED + b"\r\n3;a=b\r\nabc\r\n0\r\nX-User: root\r\nContent-Length: 9\r\n\r\n"
    assert ask(address, extended)[1].endswith(b"POST / abc")
    # A chunk whose line has no end is waited for.
    assert ask(address, POST + CHUNKED + b"\r\n3\nabc\n0\n\n")[0] == []


@pytest.mark.parametrize("cut", range(1, 2 * len(POST), 9))
def test_requests_that_follow_one_another_are_cut_anywhere(address, cut):
    both = POST + b"Content-Length: 3\r\n\r\nab\nGET /2 HTTP/1.1\r\n" + HOST + b"\r\n"
    statuses, got, closed = ask(address, both[:cut], both[cut:])
    assert (statuses, closed) == ([200, 200], False)
    assert got.endswith(b"GET /2 ")
    assert b"POST / ab\n" in got
