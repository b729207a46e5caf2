"""How the service holds under load: single mentions at a steady rate, batches, and more clients than it takes.

    python bench/service_load.py --index X.index -o OUT.json

The server is a process of its own, as users start it; this process is the clients, on the same machine. Every mention
is new: a term of the index with noise (slips, words lost, swapped and put before), drawn with the seed.

single   requests with one mention come --per-second times a second, whether the ones before are answered or not: at
         equal distances (even), and at random (Poisson). A latency is from the moment that a request was due to its
         answer, so that waiting counts.
batches  one client sends --rows mentions a request, one request after the other.
crowd    --clients clients send --rows mentions as often as they can, and wait as long as a refusal tells them to. The
         server's memory is read twice a second. Once more by clients that do not wait (hasty_crowd).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphita import artefact, machine
from alphita.index.store import Index
from alphita.normalizer.noise import noisy

TOP = 5
OK, REFUSED = 200, (429, 503)
MEMORY_EVERY = 0.5
WARM = 20


class Mentions:
    """New mentions without end."""

    def __init__(self, index: Index, seed: int) -> None:
        """Draw from the strings of an index."""
        self._index, self._chance = index, random.Random(seed)
        self._known: set[str] = set()

    def take(self, count: int) -> list[str]:
        """Return `count` that were not given before."""
        made: list[str] = []
        while len(made) < count:
            mention = noisy(self._index.strings[self._chance.randrange(len(self._index))], self._chance)
            if mention not in self._known:
                self._known.add(mention)
                made.append(mention)
        return made


class Answer(NamedTuple):
    """Of the service: status, and what it says of coming again (None: nothing)."""

    status: int
    retry_after: float | None


class Client:
    """Connections to the service that are kept open, a free one taken for each request.

    A library's client takes a core for a millisecond or more a request, as much as the service does, on the same cores.
    """

    def __init__(self, host: str, port: int) -> None:
        """Ask the service at an address."""
        self._address = (host, port)
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def normalize(self, mentions: list[str]) -> Answer:
        """Ask about mentions."""
        body = json.dumps({"mentions": mentions, "top": TOP}).encode()
        head = f"POST /normalize HTTP/1.1\r\nHost: {self._address[0]}:{self._address[1]}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        answered = b""
        while not answered:
            reader, writer = self._free.pop() if self._free else await asyncio.open_connection(*self._address)
            writer.write(head.encode() + body)
            # The service closes connections that nobody used for some seconds.
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                answered = await reader.readuntil(b"\r\n\r\n")
        lines = answered.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        await reader.readexactly(int(headers["content-length"]))
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._free.append((reader, writer))
        again = headers.get("retry-after")
        return Answer(int(lines[0].split()[1]), None if again is None else float(again))

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._free:
            writer.close()


@contextlib.asynccontextmanager
async def served(index: Path, options: list[str]) -> AsyncIterator[tuple[Client, int]]:
    """Start `alphita serve`; gives a client of it and the number of its process."""
    command = [sys.executable, "-m", "alphita", "serve", "--index", str(index), "--port", "0", *options]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
            if found is None:
                log.seek(0)
                raise SystemExit(f"the server did not start: {' '.join(command)}\n{log.read()}")
            client = Client(found[1], int(found[2]))
            yield client, process.pid
            client.close()
        finally:
            process.terminate()


def memory_of(process: int) -> int:
    """Return the bytes of memory that a process holds, mapped files included."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Return the percentiles of latencies."""
    values = np.percentile(seconds, [50, 90, 95, 99, 100]) * 1e3
    return dict(zip(("p50_ms", "p90_ms", "p95_ms", "p99_ms", "max_ms"), values.round(2).tolist(), strict=True))


async def warm(client: Client, mentions: Mentions, rows: int) -> None:
    """Let the service open what it opens at first."""
    for some in [mentions.take(rows) for _ in range(WARM)] + [mentions.take(1) for _ in range(WARM)]:
        await client.normalize(some)


async def single(
    client: Client, mentions: Mentions, *, seconds: float, per_second: float, seed: int | None
) -> dict[str, Any]:
    """Send single mentions at a rate: at random by a seed, or evenly."""
    distances = np.full(int(seconds * per_second), 1 / per_second)
    if seed is not None:
        distances = np.random.default_rng(seed).exponential(distances)
    due = np.cumsum(distances).tolist()
    asked = mentions.take(len(due))
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    begin = time.perf_counter()

    async def send(moment: float, mention: str) -> None:
        answer = await client.normalize([mention])
        latencies.append(time.perf_counter() - begin - moment)
        statuses[answer.status] += 1

    async with asyncio.TaskGroup() as group:
        for moment, mention in zip(due, asked, strict=True):
            await asyncio.sleep(max(0.0, begin + moment - time.perf_counter()))
            group.create_task(send(moment, mention))
    return {"requests": len(due), "per_second": per_second, **milliseconds(latencies), "statuses": dict(statuses)}


async def batches(client: Client, mentions: Mentions, *, seconds: float, rows: int) -> dict[str, Any]:
    """Send requests of many mentions, one after the other."""
    latencies: list[float] = []
    spent = 0.0
    while spent < seconds:
        asked = mentions.take(rows)
        begin = time.perf_counter()
        answer = await client.normalize(asked)
        latencies.append(time.perf_counter() - begin)
        if answer.status != OK:
            raise SystemExit(f"a request of {rows} mentions got {answer.status}")
        spent += latencies[-1]
    return {
        "requests": len(latencies), "rows": rows, "mentions_per_second": round(rows * len(latencies) / spent, 1),
        **milliseconds(latencies),
    }  # fmt: skip


async def crowd(
    client: Client, process: int, mentions: Mentions, *, seconds: float, clients: int, rows: int,
    hasty: bool,
) -> dict[str, Any]:  # fmt: skip
    """Let many clients ask as often as they can."""
    # Drawn beforehand, or it would take time here; repeated where there are not enough, for the service has no cache.
    drawn = [mentions.take(rows) for _ in range(4 * clients)]
    statuses: Counter[int] = Counter()
    unexplained = 0
    memory: list[int] = []
    answered: list[float] = []
    end = time.perf_counter() + seconds

    async def one(number: int) -> None:
        nonlocal unexplained
        turn = number
        while time.perf_counter() < end:
            begin = time.perf_counter()
            answer = await client.normalize(drawn[turn % len(drawn)])
            turn += clients
            statuses[answer.status] += 1
            if answer.status == OK:
                answered.append(time.perf_counter() - begin)
                continue
            unexplained += answer.status not in REFUSED or answer.retry_after is None
            if not hasty and answer.retry_after is not None:
                await asyncio.sleep(min(answer.retry_after, max(0.0, end - time.perf_counter())))

    async def watch() -> None:
        while True:
            memory.append(memory_of(process))
            await asyncio.sleep(MEMORY_EVERY)

    watching = asyncio.create_task(watch())
    begin = time.perf_counter()
    await asyncio.gather(*(one(number) for number in range(clients)))
    spent = time.perf_counter() - begin
    watching.cancel()
    third = max(1, len(memory) // 3)
    return {
        "clients": clients, "rows": rows, "hasty": hasty, "seconds": round(spent, 1),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "refused_without_retry_after_or_otherwise": unexplained,
        "mentions_per_second": round(rows * len(answered) / spent, 1), **milliseconds(answered or [0.0]),
        "memory_mb": {
            name: round(value / 1e6)
            for name, value in (
                ("start", memory[0]), ("first_third", float(np.median(memory[:third]))),
                ("last_third", float(np.median(memory[-third:]))), ("peak", max(memory)),
            )
        },
    }  # fmt: skip


async def measured(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the loads, the crowds each on a server of its own."""
    mentions = Mentions(Index.open(arguments.index), arguments.seed)
    found: dict[str, Any] = {}
    # One client alone may ask as often as it can: the limit of requests a second is for the crowds.
    async with served(arguments.index, ["--rate", "0"]) as (client, _):
        await warm(client, mentions, arguments.rows)
        for name, seed in (("single_even", None), ("single_random", arguments.seed)):
            found[name] = await single(
                client, mentions, seconds=arguments.seconds, per_second=arguments.per_second, seed=seed
            )
        found["batches"] = await batches(client, mentions, seconds=arguments.seconds, rows=arguments.rows)
    for name, hasty in (("crowd", False), ("hasty_crowd", True)):
        async with served(arguments.index, []) as (client, process):
            await warm(client, mentions, arguments.rows)
            found[name] = await crowd(
                client, process, mentions, seconds=arguments.seconds, clients=arguments.clients, rows=arguments.rows,
                hasty=hasty,
            )  # fmt: skip
    return found


def main(given: list[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--output", "-o", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--per-second", type=float, default=50.0)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(given)
    manifest = Index.open(arguments.index).manifest
    found = asyncio.run(measured(arguments))
    words = list(map(str, sys.argv[1:] if given is None else given))
    found |= {
        "index": manifest["counts"] | {"calibrated": (arguments.index / "calibration").is_dir()},
        "command": ["bench/service_load.py", *words],
        "machine": machine.describe(),
    }
    with artefact.atomic_file(arguments.output, "w") as file:
        json.dump(found, file, indent=1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
