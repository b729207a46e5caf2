"""The audit log has who asked what, and nothing is answered without it; what cannot be written is told."""

from __future__ import annotations

import gzip
import ipaddress
import json
import os
import resource
import socket
from contextlib import closing

import httpx
import pytest
from starlette.requests import Request

from alphita.cli import serve
from alphita.errors import UsageError
from alphita.service import failures
from alphita.service.settings import Settings
from tests.service.review_service import HEADER, service
from tests.service.test_serving import serving


@pytest.fixture
def lines(tmp_path):
    """Return the lines written since the last call, without time and number."""
    read = 0

    def new():
        nonlocal read
        text = (tmp_path / "audit.jsonl").read_text()
        found = [json.loads(line) for line in text[read:].splitlines()]
        read = len(text)
        dates, requests = zip(*((one.pop("time"), one.pop("request")) for one in found), strict=True)
        assert list(dates) == sorted(dates)
        assert all(requests)
        return found

    return new


@pytest.fixture
def lab(tmp_path, index):
    made = service(tmp_path, index, audit=tmp_path / "audit.jsonl", log_mentions=False)
    yield made
    made.store.close()


def test_who_asked_what_and_what_came_of_it(lab, lines, tmp_path):
    client, (first, *_) = lab.as_("ann", "administrators"), lab.ids()
    who = {"user": "ann", "client": "10.1.2.3"}
    client.headers["X-Forwarded-For"] = "6.6.6.6, 10.1.2.3"
    here = "/api/projects/lab"
    body = {"uid": "u1", "kind": "accept", "seen": 0, "comment": "SECRET"}
    assert client.post(f"{here}/rows/{first}/decisions", json=body).status_code == 201
    asked, answered = lines()
    assert asked == {"event": "asked", "method": "POST", "path": f"{here}/rows/{first}/decisions", **who}
    assert answered.pop("route").endswith("/decisions")
    decision = {"decisions": [1], "kind": "accept", "uid": "u1"}
    row = {"project": "lab", "row": str(first)}
    assert answered == {"event": "answered", "method": "POST", **row, **who, **decision, "status": 201}

    assert client.get(f"{here}/rows", params={"search": "headach", "state": "all"}).status_code == 200
    (answered,) = lines()
    assert (answered["event"], answered["rows"], answered["method"]) == ("answered", [first], "GET")
    client.post("/mappings", json={"source": "LAB", "mentions": ["headach", "x"]})
    assert [one.get("mentions") for one in lines()] == [None, 2]
    client.get(f"{here}/export")
    assert [(one["rows"], one["format"]) for one in lines()] == [(1, "csv")]
    client.post(f"{here}/undo", json={"uid": "u2"})
    assert lines()[1]["decisions"] == [1]
    client.get(f"/api/projects/{'x' * 9_000}/rows/{'9' * 9_000}")
    assert len(str(lines())) < 1_000
    for path in ("/", "/health", "/search?q=headach", "/metrics"):
        client.get(path)
    assert client.get("/api/projects", headers={HEADER: ""}).status_code == 401
    (answered,) = lines()
    assert (answered["refused"], answered["client"], "user" in answered) == ("no_user", "10.1.2.3", False)
    text = (tmp_path / "audit.jsonl").read_text()
    assert "headach" not in text
    assert "SECRET" not in text
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600
    # It was moved away.
    (tmp_path / "audit.jsonl").rename(tmp_path / "old")
    lab.app.state.reload()
    client.get("/api/me")
    first, last = map(json.loads, (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (first["event"], last["route"]) == ("reopened", "/api/me")
    # Where it cannot be opened, it goes on where it was.
    lab.app.state.parts.audit.path = tmp_path / "none" / "audit.jsonl"
    lab.app.state.reload()
    assert client.get("/api/me").status_code == 200
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 3


def test_nothing_is_done_or_answered_that_cannot_be_audited(lab, index, tmp_path, monkeypatch):
    ok, here = lab.as_(), "/api/projects/lab"
    (first, *_) = lab.ids()
    body = {"uid": "u1", "kind": "accept", "seen": 0}
    file = lab.app.state.parts.audit
    with open("/dev/full", "wb") as full:
        monkeypatch.setattr(file, "_descriptor", full.fileno())
        for answer in (ok.get(f"{here}/rows"), ok.post(f"{here}/rows/{first}/decisions", json=body)):
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "no_audit"
            assert "headach" not in answer.text
        assert lab.store.progress("lab").decided == 0
        ready = ok.get("/ready")
        assert (ready.status_code, ready.json()["unwritable"]) == (503, {"audit": "No space left on device"})
    monkeypatch.undo()
    assert ok.get("/ready").json()["unwritable"] == {}
    assert json.loads((tmp_path / "audit.jsonl").read_text())["event"] == "resumed"
    assert ok.get(f"{here}/rows").status_code == 200


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "1.2.3.4"}, "1.2.3.4"),
        ("10.0.0.1", {"X-Forwarded-For": "6.6.6.6, 1.2.3.4, 10.0.0.2"}, "1.2.3.4"),
        ("10.0.0.1", {"X-Forwarded-For": "1.2.3.4:4711"}, "1.2.3.4"),
        ("10.0.0.1", {"Forwarded": 'for=6.6.6.6, for="[2001:db8::1]:4711";proto=https'}, "2001:db8::1"),
        ("10.0.0.1", {"Forwarded": "For=1.2.3.4", "X-Forwarded-For": "1.2.3.4"}, "1.2.3.4"),
        # What anybody may have made up.
        ("9.9.9.9", {"X-Forwarded-For": "1.2.3.4"}, "9.9.9.9"),
        ("10.0.0.1", {"Forwarded": "for=6.6.6.6", "X-Forwarded-For": "1.2.3.4"}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "fe80::1%<script>"}, "fe80::1"),
        ("10.0.0.1", {"X-Forwarded-For": "<script>"}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "1.2.3.4, unknown"}, "10.0.0.1"),
        ("10.0.0.1", {"Forwarded": "for=_hidden"}, "10.0.0.1"),
    ],
)
def test_the_address_that_a_request_comes_from(peer, headers, client):
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "client": (peer, 1), "headers": raw}
    proxies = [ipaddress.ip_network("10.0.0.0/8")]
    assert failures.forwarded_client(Request(scope).scope, proxies) == client


def test_a_server_on_a_full_disk_says_so_until_it_is_over(index_path, tmp_path):
    store, path, log = tmp_path / "reviews.sqlite", tmp_path / "s.sock", tmp_path / "log.jsonl"
    arguments = ("--index", index_path, "--mappings", store, "--trust-user-header", HEADER)
    upload = "row,mention,concept_id\n0,pain 0,T:1\n1,pain 1,T:1\n2,pain"
    (rights := tmp_path / "rights.toml").write_text('["*"]\nrights = ["read", "review", "administer"]\n')
    with serving(tmp_path, *arguments, "--rights", rights, "--socket", path) as server:
        server.wait_for("ready")
        assert path.stat().st_mode & 0o777 == 0o660
        transport = httpx.HTTPTransport(uds=str(path))
        with httpx.Client(transport=transport, base_url="http://localhost", headers={HEADER: "ann"}, timeout=30) as ann:
            add = {"params": {"name": "lab", "source": "S"}, "headers": {"Content-Type": "text/csv"}}
            assert ann.post("/api/projects", content=upload, **add).status_code == 201
            pid, files = server.process.pid, resource.RLIMIT_FSIZE
            _, hard = resource.prlimit(pid, files)
            rows = [one["id"] for one in ann.get("/api/projects/lab/rows").json()["rows"]]
            # As a full disk: no file may grow, the log neither.
            resource.prlimit(pid, files, (log.stat().st_size, hard))
            said = {"uid": "u", "kind": "accept", "seen": 0}
            refused = ann.post(f"/api/projects/lab/rows/{rows[0]}/decisions", json=said)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
            exported = ann.get("/api/projects/lab/export", params={"format": "xlsx", "settled": False})
            assert (exported.status_code, exported.json()["error"]["code"]) == (503, "unavailable")
            assert str(tmp_path) not in refused.text
            # Small as it is sent, too large unpacked: in the process that reads it.
            refused = ann.post("/api/projects", content=gzip.compress(upload.encode() + b"\n" * 100_000), **add)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "unavailable")
            ready = ann.get("/ready")
            assert (ready.status_code, ready.json()["status"]) == (503, "unwritable")
            assert ready.json()["unwritable"].keys() == {"reviews", "log"}
            resource.prlimit(pid, files, (hard, hard))
            assert ann.get("/health").status_code == 200
            assert ann.get("/ready").json()["status"] == "ready"
            assert ann.post(f"/api/projects/lab/rows/{rows[0]}/decisions", json=said).status_code == 201
        server.process.kill()
        server.process.wait()
    assert "the log could not be written" in {line["event"] for line in server.log()}
    # What a killed server leaves is removed, what is used is not.
    assert path.is_socket()
    with serving(tmp_path, *arguments, "--socket", path) as server:
        server.wait_for("ready")
        with pytest.raises(OSError, match="another server listens there"):
            serve.UnixSocket(path, 1)
        server.process.terminate()
        assert server.process.wait(30) == 0
        assert not path.exists()


def test_a_socket_of_systemd(monkeypatch, tmp_path):
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))

    def listen(made, **settings):
        monkeypatch.setattr(serve, "FIRST_OF_SYSTEMD", os.dup(made.fileno()))
        with closing(serve.listen(Settings(**settings))) as found:
            return found.getsockname()

    with socket.create_server(("127.0.0.1", 0)) as own, socket.create_server(("0.0.0.0", 0)) as every:
        assert listen(own) == own.getsockname()
        with pytest.raises(UsageError, match="--socket must be given"):
            listen(own, socket=tmp_path / "s")
        with pytest.raises(UsageError, match="would let other machines in"):
            listen(every)
