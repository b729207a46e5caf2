"""A real server with few descriptors, and more clients than those that send a header without end, or nothing."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from pathlib import Path

import httpx
import pytest

from alphita.service import limits
from tests.service.test_serving import serving

DESCRIPTORS = 128
CLIENTS = 400
SECONDS = 30.0
MAX_LOG = 200_000


def descriptors(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


@pytest.mark.slow
def test_headers_without_end_hold_nobody_else_up_and_end(index_path, tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CLIENTS + DESCRIPTORS:
        pytest.skip("this machine has too few descriptors for the clients")
    with serving(tmp_path, "--index", index_path, descriptors=DESCRIPTORS) as server:
        server.wait_for("ready")
        before = descriptors(server.process.pid)
        url = httpx.URL(server.url)
        clients = []
        try:
            for _ in range(CLIENTS):
                client = socket.create_connection((url.host, url.port), timeout=SECONDS)
                client.setblocking(False)
                clients.append(client)
            slowest, began = 0.0, time.monotonic()
            while time.monotonic() < began + limits.CONNECTION_SECONDS + 2:
                for number, client in enumerate(clients):
                    if number % 2:  # the others send nothing
                        with contextlib.suppress(OSError):
                            client.send(b"G")
                asked = time.monotonic()
                answer = httpx.post(f"{server.url}/normalize", json={"mentions": ["seizure"]}, timeout=SECONDS)
                assert answer.json()["results"][0]["concept_id"] == "T:1"
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.25)
            assert slowest < limits.CONNECTION_SECONDS
            deadline = time.monotonic() + SECONDS
            while descriptors(server.process.pid) > before + 2:
                assert time.monotonic() < deadline, "connections are still held"
                time.sleep(0.1)
            assert sum(map(is_ended, clients)) == CLIENTS
        finally:
            for client in clients:
                client.close()
        assert (tmp_path / "log.jsonl").stat().st_size < MAX_LOG


def is_ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
