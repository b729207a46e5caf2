"""Mentions a second of `alphita serve`, asked in batches through HTTP, of this checkout and of others in turn.

    python bench/service_load.py --index X.index [--beside OTHER_CHECKOUT] -o OUT.json [--rounds 5] [--requests 12]

Each server is a process of its own, as users start it; this process is the client, on the same machine. Every mention
is new: a term of the index with noise, drawn with the seed; all servers of a round get the same ones. One client sends
requests of --rows mentions one after the other (batches), and --clients clients at once send as many (crowd). Reported
are mentions/s of wall time, of processor time (the server's and its processes') and of the processor time of the
busiest thread, which tells what a machine with nothing else to do and a core a process would give, where other programs
share this one; and the ratios to the other checkouts, round by round. Answers are compared: concept and decision;
then these with term, method, and confidence to 5 decimals, which an index of its own moves for nearly all, and what
stands together in a batch for a few.

--load N reports instead p50 and p99 of 64 clients with one mention each (N requests a round) and of 8 with 100, and
the memory; --mixed S those of one client alone for S seconds, and while another sends the worst legal requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import harness
from alphita.calibrate.noise import noisy
from alphita.index.store import Index

TOP = 5
UNITS = ("mentions/s", "mentions/processor-s", "mentions/s of the busiest thread")
TOLD = ("concept_id", "decision", "matched_term", "method")
HERE = Path(__file__).parents[1]
WARM_SECONDS = 20.0


class Served(NamedTuple):
    """A running server."""

    host: str
    port: int
    process: int


async def ask(served: Served, mentions: list[str], path: str = "/normalize", **more: Any) -> bytes:  # noqa: ANN401 - of asyncio
    """Return the body of an answer."""
    reader, writer = await asyncio.open_connection(served.host, served.port, limit=2**26, **more)
    body = json.dumps({"mentions": mentions, "top": TOP} if path == "/normalize" else {"texts": mentions}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {served.host}:{served.port}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    first, _, content = answer.partition(b"\r\n\r\n")
    if b" 200 " not in first.split(b"\r\n")[0]:
        raise SystemExit(f"a request of {len(mentions)} mentions got {answer[:2000]!r}")
    return content


@contextlib.asynccontextmanager
async def serving(checkout: Path, index: Path, *, is_default: bool = False) -> AsyncIterator[Served]:
    """Start `alphita serve` of a checkout."""
    command = [sys.executable, "-m", "alphita", "serve", "--to", str(index), "--port", "0", "--rate", "0"]
    command += [] if is_default else ["--seconds", "300"]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            found = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
            if found is None:
                log.seek(0)
                raise SystemExit(f"the server did not start: {' '.join(command)}\n{log.read()}")
            yield Served(found[1], int(found[2]), process.pid)
        finally:
            process.terminate()


def processes_of(process: int) -> list[int]:
    """Return a process and its descendants."""
    children = [
        child for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [process, *(each for child in children for each in processes_of(int(child)))]


def used(process: int) -> dict[str, float]:
    """Return the processor seconds of each thread of a process and its descendants."""
    seconds = {}
    for each in processes_of(process):
        for task in Path(f"/proc/{each}/task").iterdir():
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            seconds[task.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def memory(process: int) -> int:
    """Return the bytes that a process and its descendants hold, shared pages counted once."""
    total = 0
    for each in processes_of(process):
        rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    return total


def differences(some: list[bytes], others: list[bytes]) -> Counter[str]:
    """Return how many answers there are, and how many are not the same."""

    def told(bodies: list[bytes]) -> list[tuple[Any, ...]]:
        answers = [answer for body in bodies for answer in json.loads(body)["results"]]
        return [(*(each[name] for name in TOLD), round(each["confidence"] or 0.0, 5)) for each in answers]

    pairs = list(zip(told(some), told(others), strict=True))
    return Counter({
        "asked": len(pairs),
        "other concept or decision": sum(one[:2] != other[:2] for one, other in pairs),
        "other in anything": sum(one != other for one, other in pairs),
    })  # fmt: skip


async def measured(served: Served, requests: list[list[str]], clients: int) -> dict[str, Any]:
    """Ask by one client, and by many at once; return rates, and the answers."""
    rows = sum(map(len, requests))
    figures: dict[str, Any] = {}
    for name, at_once in (("batches", 1), ("crowd", clients)):
        free = asyncio.Semaphore(at_once)

        async def one(mentions: list[str], free: asyncio.Semaphore = free) -> bytes:
            async with free:
                return await ask(served, mentions)

        start, before = time.perf_counter(), used(served.process)
        answers = await asyncio.gather(*map(one, requests))
        wall, after = time.perf_counter() - start, used(served.process)
        spent = [seconds - before.get(thread, 0.0) for thread, seconds in after.items()]
        figures[name] = dict(zip(UNITS, (rows / wall, rows / sum(spent), rows / max(spent)), strict=True))
        figures["answers"] = answers
    return figures | {"memory": memory(served.process)}


async def latencies(served: Served, draw: Callable[[int], list[str]], clients: int, rows: int, count: int) -> Any:  # noqa: ANN401
    """Ask `count` requests of `rows` mentions by so many clients at once; return p50 and p99 in ms, and mentions/s."""
    seconds: list[float] = []
    left = iter(range(count))

    async def one() -> None:
        for _ in left:
            start = time.perf_counter()
            await ask(served, draw(rows))
            seconds.append(time.perf_counter() - start)

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    wall, seconds = time.perf_counter() - start, sorted(seconds)
    return quantiles(seconds) | {"mentions/s": count * rows / wall, "memory": memory(served.process)}


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50 and p99 in ms."""
    ordered = sorted(seconds)
    return {name: 1000 * ordered[int(share * (len(ordered) - 1))] for name, share in (("p50", 0.5), ("p99", 0.99))}


async def crowds(servers: Sequence[Served], draw: Callable[[int], list[str]], rounds: int, requests: int) -> Any:  # noqa: ANN401
    """Return per server the latencies of 64 clients with a mention each, and of 8 with 100, round by round."""
    found: list[list[dict[str, Any]]] = []
    for number in range(rounds):
        sizes = (("64 x 1", 64, 1, requests), ("8 x 100", 8, 100, max(8, requests // 50)))
        found.append([{name: await latencies(one, draw, *size) for name, *size in sizes} for one in servers])
        print(f"round {number + 1}: {json.dumps(found[-1])}", flush=True)
    return found


# The largest mentions and texts that are legal, of patterns that once took longest.
SLOW = ("fever no left ", "x 3 po ", "she denies fever, no rash ", "1. x-x-")


async def mixed(served: Served, draw: Callable[[int], list[str]], seconds: float) -> dict[str, Any]:
    """Return the latencies of a client with a mention at a time, alone, and while another sends the worst requests."""

    async def quiet(until: float) -> list[float]:
        found = []
        while time.perf_counter() < until:
            start = time.perf_counter()
            await ask(served, draw(1))
            found.append(time.perf_counter() - start)
        return found

    async def greedy(path: str, size: int, rows: int) -> None:
        while True:
            texts = [(f"{row} " + SLOW[row % len(SLOW)] * size)[:size] for row in range(rows)]
            with contextlib.suppress(SystemExit, ConnectionError):  # refused: its time is over
                await ask(served, texts, path, local_addr=("127.0.0.2", 0))

    figures = {"alone": quantiles(await quiet(time.perf_counter() + seconds))}
    worst = [asyncio.create_task(greedy(*one)) for one in (("/normalize", 1_000, 1_000), ("/annotate", 10_000, 180))]
    try:
        await asyncio.sleep(5)
        beside = await quiet(time.perf_counter() + seconds)
    finally:
        for task in worst:
            task.cancel()
    figures["beside the worst"] = quantiles(beside) | {"requests": len(beside)}
    return figures | {"p99 ratio": figures["beside the worst"]["p99"] / figures["alone"]["p99"]}


async def compare(
    served: Sequence[tuple[Path, Path]],
    *,
    rounds: int = 5,
    requests: int = 12,
    rows: int = 256,
    clients: int = 8,
    seed: int = 0,
    load: int = 0,
    beside: float = 0.0,
) -> dict[str, Any]:
    """Return the figures of checkouts, each with its index, round by round; the first is compared with the others."""
    index, chance = Index.open(served[0][1]), random.Random(seed)

    def draw(rows: int = rows) -> list[str]:
        return [noisy(index.strings[row], chance) for row in chance.choices(range(len(index)), k=rows)]

    found: list[list[dict[str, Any]]] = []
    different: Counter[str] = Counter()
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(*checkout, is_default=bool(beside))) for checkout in served]
        for server in servers:
            await asyncio.gather(*(ask(server, draw(min(rows, 32))) for _ in range(8)))
        await asyncio.sleep(WARM_SECONDS)  # further processes come by and by
        for server in servers:
            await asyncio.gather(*(ask(server, draw(min(rows, 32))) for _ in range(8)))
        if load or beside:
            figures: dict[str, Any] = {"crowds": await crowds(servers, draw, rounds, load)} if load else {}
            return figures | ({"mixed": await mixed(servers[0], draw, beside)} if beside else {})
        for _ in range(rounds):
            asked = [draw() for _ in range(requests)]
            found.append([await measured(server, asked, clients) for server in servers])
            answers = [each.pop("answers") for each in found[-1]]
            for each in answers[1:]:
                different.update(differences(answers[0], each))
    ratios = {
        name: {
            unit: {"median": statistics.median(some), "least": min(some), "most": max(some)}
            for unit in UNITS
            if (some := [turn[0][name][unit] / other[name][unit] for turn in found for other in turn[1:]])
        }
        for name in ("batches", "crowd")
    }
    return {"rounds": found, "answers": different, "ratios": ratios}


def main() -> None:
    """Measure and write."""
    parser = harness.parser(__doc__, rounds=5, output=True)
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--beside", type=Path, action="append", default=[], help="another checkout")
    parser.add_argument("--beside-index", type=Path, help="the index that the others serve, if not the same")
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--load", type=int, default=0, help="instead: latencies of crowds, of so many requests a round")
    parser.add_argument("--mixed", type=float, default=0.0, help="instead: one client beside the worst, for s seconds")
    given = parser.parse_args()
    served = [(HERE, given.index), *((checkout, given.beside_index or given.index) for checkout in given.beside)]
    sizes = {name: getattr(given, name) for name in ("rounds", "requests", "rows", "clients", "seed")}
    figures = asyncio.run(compare(served, **sizes, load=given.load, beside=given.mixed))
    harness.write(given, figures, index=Index.open(given.index).manifest["counts"])
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
