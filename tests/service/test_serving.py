"""The server as a process of its own, started by the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from alphita.service import keys
from tests.waiting import SECONDS, wait_until

ROOT = Path(__file__).parents[2]


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process, self._log = process, log
        line = process.stdout.readline()
        assert line.startswith("serving on "), f"{line} {log.read_text()}"
        self.url = line.split()[2].rstrip("/")

    def log(self) -> list[dict]:
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def takes_no_more(self) -> bool:
        try:
            httpx.get(f"{self.url}/health")
        except httpx.TransportError:  # a connection that nobody takes any more may be refused, or taken and dropped
            return True
        return False

    def wait_for(self, event: str, count: int = 1) -> None:
        wait_until(lambda: sum(line["event"] == event for line in self.log()) >= count, self.process)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.service.run_server", "serve", *map(str, arguments)]


@contextmanager
def serving(folder: Path, *arguments: object, descriptors: int | None = None) -> Iterator[Server]:
    log = folder / "log.jsonl"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "GO_ON": str(folder / "go on")}
    limit = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"] if descriptors else []
    with open(log, "w") as file:
        process = subprocess.Popen(
            [*limit, *command("--port", 0, "--threads", 1, *arguments)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    try:
        yield Server(process, log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_server_stopped_in_the_midst_of_a_request_answers_it(index_path, tmp_path):
    with serving(tmp_path, "--index", index_path, "--mappings", tmp_path / "reviews.sqlite") as server:
        server.wait_for("ready")
        with httpx.Client(base_url=server.url, timeout=SECONDS) as client:
            assert client.get("/ready").json()["status"] == "ready"
            answer = client.post("/normalize", json={"mentions": ["seizure", "John headache"]})
            assert [one["concept_id"] for one in answer.json()["results"]] == ["T:1", "T:2"]
            assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
            # Of what is too large the client is told, and the connection goes on.
            for content in (b"x" * 20_000_000, (b"x" * 1_000_000 for _ in range(20))):
                assert client.post("/normalize", content=content).status_code == 413
            assert client.get("/health").status_code == 200
        found: list[httpx.Response] = []

        def ask() -> None:
            with httpx.Client(base_url=server.url, timeout=SECONDS) as client:
                found.append(client.post("/normalize", json={"mentions": ["a slow headache"]}))

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: "alphita_queue_depth 1.0" in httpx.get(f"{server.url}/metrics").text)
        server.process.send_signal(signal.SIGTERM)
        wait_until(server.takes_no_more)
        (tmp_path / "go on").touch()
        assert server.process.wait(SECONDS) == 0
        asking.join()
        assert found[0].status_code == 200
        assert found[0].json()["results"][0]["mention"] == "a slow headache"
        events = [line["event"] for line in server.log()]
        assert events.index("stopping") < len(events) - 1
        assert events[-1] == "ended"
        assert "John" not in json.dumps(server.log())
        assert server.takes_no_more()


def test_keys_open_it_to_other_machines_a_hang_up_reads_them_anew_and_ctrl_c_ends_it(index_path, tmp_path):
    path = tmp_path / "keys.tsv"
    ann = keys.add(path, "ann")
    with serving(tmp_path, "--index", index_path, "--host", "0.0.0.0", "--keys", path) as server:
        server.wait_for("ready")
        url = server.url.replace("0.0.0.0", "127.0.0.1")

        def status(key: str) -> int:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            return httpx.get(f"{url}/search?q=cold", headers=headers).status_code

        bob = keys.add(path, "bob")
        assert (status(""), status(ann), status(bob)) == (401, 200, 401)
        path.write_text(path.read_text().splitlines()[1] + "\n")
        (tmp_path / "log.jsonl").rename(tmp_path / "log.jsonl.1")
        server.process.send_signal(signal.SIGHUP)
        wait_until((tmp_path / "log.jsonl").exists)
        server.wait_for("reloaded")
        assert (status(ann), status(bob)) == (401, 200)
        # A file that is not as it should be changes nothing, and is told.
        path.write_text("bob")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("the keys stay as they were")
        assert status(bob) == 200
        (told,) = [line for line in server.log() if line["event"] == "the keys stay as they were"]
        assert "1 cells" in told["error"]["message"]
        assert (told["file"], told["line"]) == (str(path), 1)
        assert len([line for line in server.log() if line["event"] == "reloaded"]) == 1
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(SECONDS) == 130
        assert ann not in json.dumps(server.log())
        assert "Traceback" not in json.dumps(server.log())


def test_a_hang_up_of_its_terminal_ends_it(index_path, tmp_path):
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command("--port", 0, "--threads", 1, "--index", index_path),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    try:
        os.close(theirs)
        assert process.stdout.readline().startswith("serving on")
        while b'"ready"' not in os.read(ours, 65_536):
            pass
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
