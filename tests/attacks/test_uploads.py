"""Small files that ask for much, sent to a real server whose memory is limited: it refuses them, and goes on."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import io
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.service.test_serving import SECONDS, serving

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads /proc")]
ADDRESSES = 6 * 2**30
# Of the server itself, and of what it starts.
MAX_GROWTH, MAX_APART = 200 * 2**20, 2.5 * 2**30
HEAD = "row,mention,concept_id\n"


def sheet(cell: str) -> bytes:
    made = openpyxl.Workbook()
    made.active["A1"], made.active[cell] = "mention", "x"
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()


def lines(count: int, line: str = "1,x,T:1") -> bytes:
    return gzip.compress((HEAD + f"{line}\n" * count).encode())


def distinct(count: int) -> bytes:
    return (HEAD + "".join(f"{row},severe headache {row},T:1\n" for row in range(count))).encode()


def parquet() -> bytes:
    """Return 8,000 rows that all have one cell of a megabyte."""
    cells = pa.DictionaryArray.from_arrays(pa.array([0] * 8_000, pa.int32()), pa.array(["x" * 2**20]))
    same = pa.array(["T:1"] * 8_000)
    file = io.BytesIO()
    pq.write_table(pa.table({"row": range(8_000), "mention": cells, "concept_id": same}), file, compression="zstd")
    return file.getvalue()


def memory(process: int, field: str = "VmHWM") -> int:
    """Return bytes; 0 of a process that is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status if line.startswith(field)), 0)


def children(process: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(one) for one in file.read_text().split()]
    return [*found, *(one for child in found for one in children(child))]


def until(is_so, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def server(index_path, tmp_path):
    limits = ("--seconds", 3, "--file-seconds", 240)
    with serving(tmp_path, "--index", index_path, "--mappings", tmp_path / "reviews.sqlite", *limits) as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        running.wait_for("ready")
        yield running


def sending(server, content: bytes) -> http.client.HTTPConnection:
    """Begin an import, and return while it goes on in a process of its own."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=SECONDS)
    connection.request("POST", "/api/projects?name=new&source=S", content, {"Content-Type": "text/csv"})
    until(lambda: children(server.process.pid))
    return connection


def projects(server) -> list[str]:
    return [one["name"] for one in httpx.get(f"{server.url}/api/projects").json()["projects"]]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.xlsx", lambda: sheet("XFD1048576"), "cells lie between"),
        ("a.xlsx", lambda: sheet("CV1048576"), "cells lie between"),
        ("a.csv", lambda: lines(2_000_000), "more than 500,000 mappings"),
        ("a.csv", lambda: lines(2_000_000, "x"), "more than 500,000 rows that cannot be read"),
        ("a.csv", lambda: lines(20_000_000), "unpacked it has more than"),
        ("a.parquet", parquet, ""),
    ],
    ids=["far", "columns", "lines", "rejects", "gzip", "parquet"],
)
def test_a_small_file_that_asks_for_much(server, name, content, said):
    body = content()
    assert len(body) < 300_000
    before, most = memory(server.process.pid), 0
    asked = {"name": "new", "source": "S", "filename": name}
    headers = {"Content-Type": "application/octet-stream"}
    with httpx.Client(base_url=server.url, timeout=300) as client, ThreadPoolExecutor(1) as pool:
        sent = pool.submit(client.post, "/api/projects", params=asked, content=body, headers=headers)
        while not sent.done():
            most = max([most, *map(memory, children(server.process.pid))])
            time.sleep(0.01)
        answer = sent.result()
        assert answer.status_code == 422, answer.text
        assert said in answer.json()["error"]["message"]
        assert client.get("/ready").json()["status"] == "ready"
        assert client.post("/normalize", json={"mentions": ["seizure"]}).status_code == 200
    assert memory(server.process.pid) - before < MAX_GROWTH
    assert 0 < most < MAX_APART
    assert projects(server) == []
    assert children(server.process.pid) == []


def test_an_import_ends_with_its_client(server):
    connection = sending(server, distinct(400_000))
    connection.close()
    until(lambda: not children(server.process.pid), 5)
    assert projects(server) == []
    until(lambda: any(line.get("status") == 499 for line in server.log()), 5)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_an_import_ends_with_the_server(server, sent):
    connection = sending(server, distinct(400_000))
    apart = children(server.process.pid)
    start = time.monotonic()
    server.process.send_signal(sent)
    server.process.wait(SECONDS)
    # An import that is nearly done has the time that a request has.
    assert time.monotonic() - start < 15
    until(lambda: not any(memory(one, "VmRSS") for one in apart), 5)
    connection.close()


def test_one_import_after_the_other(server):
    first, second = (sending(server, HEAD.encode() + b"1,x,T:1\n") for _ in range(2))
    assert [one.getresponse().status for one in (first, second)] == [201, 201]
    assert projects(server) == ["new"]
