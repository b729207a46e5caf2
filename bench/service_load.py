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
the memory; --mixed S those of one client with a mention at a time, alone and beside another that sends the worst legal
requests of one route after the other, in turn --rounds times for S seconds, by the clock and by what the server worked
meanwhile, for whom it may be, which other programs do not lengthen; --flat N the memory over N requests.
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
from urllib.parse import urlencode

import harness
from alphita.calibrate.noise import noisy
from alphita.index.store import Index
from alphita.mappings.record import bare
from alphita.review.records import ReviewRow
from alphita.review.store import ReviewStore
from alphita.service import review_files
from alphita.service.reconciling import PROPERTIES, Types

TOP = 5
UNITS = ("mentions/s", "mentions/processor-s", "mentions/s of the busiest thread")
TOLD = ("concept_id", "decision", "matched_term", "method")
HERE = Path(__file__).parents[1]
WARM_SECONDS = 20.0
UNLIMITED = ["--rate", "0", "--seconds", "300"]


class Served(NamedTuple):
    """A running server."""

    host: str
    port: int
    process: int
    is_mcp: bool = False


class Request(NamedTuple):
    """What is sent; a body that is no text is sent as JSON."""

    path: str
    body: Any = None
    media: str = "application/json"


async def send(served: Served, request: Request, **more: Any) -> bytes:  # noqa: ANN401 - of asyncio
    """Return the body of an answer."""
    body = request.body if isinstance(request.body, str) else json.dumps(request.body) if request.body else ""
    head = f"{'POST' if body else 'GET'} {request.path} HTTP/1.1\r\nHost: {served.host}:{served.port}\r\n"
    head += (
        f"Connection: close\r\nAccept: application/json, */*, text/event-stream\r\nContent-Type: {request.media}\r\n"
    )
    reader, writer = await asyncio.open_connection(served.host, served.port, limit=2**26, **more)
    writer.write(f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}".encode())
    answer = await reader.read()
    writer.close()
    first, _, content = answer.partition(b"\r\n\r\n")
    if b" 200 " not in first.split(b"\r\n")[0]:
        raise SystemExit(f"{request.path[:200]} got {answer[:2000]!r}")
    return content


async def ask(served: Served, mentions: list[str]) -> bytes:
    """Return the answers to mentions."""
    if served.is_mcp:
        return await send(served, call("normalize", mentions=mentions))
    return await send(served, Request("/normalize", {"mentions": mentions, "top": TOP}))


def call(tool: str, **given: Any) -> Request:  # noqa: ANN401 - of the tool
    """Return a request for a tool of `alphita mcp`."""
    said = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": given}}
    return Request("/mcp", said)


@contextlib.asynccontextmanager
async def serving(checkout: Path, index: Path, mode: Sequence[str] = UNLIMITED) -> AsyncIterator[Served]:
    """Start `alphita serve` of a checkout, or what `mode` begins with."""
    is_mcp = mode[:1] == ["mcp"]
    command = [sys.executable, "-m", "alphita", *([] if is_mcp else ["serve"]), *mode, "--to", str(index)]
    command += ["--http", "127.0.0.1:0"] if is_mcp else ["--port", "0"]
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
            yield Served(found[1], int(found[2]), process.pid, is_mcp)
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
SYSTEM, LAB, FORM = "http://human-phenotype-ontology.org", "urn:alphita:source:LAB", "application/x-www-form-urlencoded"
ROWS, GREEDY, EACH = 20_000, 4, 5_000


def texts(rows: int, size: int) -> list[str]:
    """Return the texts that take longest."""
    return [(f"{row} " + SLOW[row % len(SLOW)] * size)[:size] for row in range(rows)]


def worst(index: Index) -> dict[str, Request]:
    """Return the worst legal request of each route of `alphita serve`."""

    def bundle(path: str, **query: object) -> Request:
        entry = {"request": {"method": "GET", "url": f"{path}?{urlencode(query)}"}}
        return Request("/fhir/r4", {"resourceType": "Bundle", "type": "batch", "entry": [entry] * 1_000})

    ids = index.segment.concepts.column("id").to_pylist()[:1_000]
    kinds = [one["id"] for one in Types(index).branches]
    queries = {str(row): {"query": text, "type": kinds, "limit": 100} for row, text in enumerate(texts(1_000, 900))}
    extend = {"ids": ids, "properties": [{"id": name} for name in PROPERTIES]}
    whole = {"url": SYSTEM, "count": 1_000, "includeDesignations": "true", "displayLanguage": "de-CH"}
    return {
        "normalize": Request("/normalize", {"mentions": texts(1_000, 1_000), "explain": True, "top": 100}),
        "annotate": Request("/annotate", {"texts": texts(180, 10_000)}),
        "embed": Request("/embed", {"texts": texts(1_000, 1_000)}),
        "search": Request(f"/search?{urlencode({'q': 'a', 'top': 100})}"),
        "concepts": Request("/concepts/HP:0000118"),
        "reconcile queries": Request("/reconcile", urlencode({"queries": json.dumps(queries)}), FORM),
        "reconcile extend": Request("/reconcile", urlencode({"extend": json.dumps(extend)}), FORM),
        "reconcile suggest": Request("/reconcile/suggest/entity?prefix=a&cursor=80"),
        "mappings": Request("/mappings", {"source": "LAB", "mentions": texts(1_000, 1_000)}),
        "review rows": Request("/api/projects/lab/rows?state=all&limit=1000"),
        "review progress": Request("/api/projects/lab/progress"),
        "review export": Request("/api/projects/lab/export?format=jsonl"),
        "FHIR expand": Request(f"/fhir/r4/ValueSet/$expand?{urlencode(whole)}"),
        "FHIR batch of expand": bundle("ValueSet/$expand", **whole),
        "FHIR batch of expand by filter": bundle(
            "ValueSet/$expand", url=SYSTEM, filter="a", includeDesignations="true"
        ),
        "FHIR batch of lookup": bundle("CodeSystem/$lookup", system=SYSTEM, code="HP:0000118"),
        "FHIR batch of translate": bundle("ConceptMap/$translate", system=LAB, code="L7"),
        "FHIR batch of translate back": bundle(
            "ConceptMap/$translate", system=SYSTEM, code=ids[7], reverse="true", targetsystem=LAB
        ),
    }


WORST_CALLS = {
    "MCP normalize": call("normalize", mentions=texts(10, 1_000), top=100),
    "MCP annotate": call("annotate", texts=texts(5, 10_000)),
    "MCP search": call("search", text="a", top=100),
}


def reviewed(store: Path, index: Index) -> None:
    """Fill a store with a project of decided rows."""
    ids, names = (index.segment.concepts.column(name).to_pylist() for name in ("id", "name"))
    concepts = [(ids[row % len(ids)], names[row % len(ids)]) for row in range(ROWS)]
    decided = {"relation": "exact", "confidence": 1.0, "decision": "accept"}
    rows = [
        ReviewRow(
            0, "lab", row, f"L{row}", name, 1, {}, (bare(row, f"L{row}", name, id, concept_name=name, **decided),)
        )
        for row, (id, name) in enumerate(concepts, 1)
    ]
    with ReviewStore.open(store, create=True) as opened:
        review_files.add(opened, review_files.project_of("lab", "LAB", "text", index, blind=False), rows, index)
        opened.bulk("lab", "ann", "all", threshold=0.0)


async def at_rest(served: Served) -> None:
    """Wait until a server does no more of what clients that have gone asked for."""
    before, seconds = -1.0, sum(used(served.process).values())
    while seconds - before > 0.05:
        await asyncio.sleep(0.5)
        before, seconds = seconds, sum(used(served.process).values())


async def mixed(served: Served, draw: Callable[[int], list[str]], worst: Request, rounds: int, seconds: float) -> Any:  # noqa: ANN401
    """Return the latencies of a client with a mention at a time, alone and beside another with the worst requests."""
    answered, processes = 0, processes_of(served.process)

    def clocks() -> tuple[float, float]:
        # What Linux calls the processor clock of another process.
        return time.perf_counter(), sum(time.clock_gettime(~process << 3 | 2) for process in processes)

    async def quiet() -> list[tuple[float, float]]:
        found, until = [], time.perf_counter() + seconds
        while time.perf_counter() < until:
            start = clocks()
            await ask(served, draw(1))
            found.append((clocks()[0] - start[0], clocks()[1] - start[1]))
            await asyncio.sleep(0.01)
        return found

    async def greedy() -> None:
        nonlocal answered
        while True:
            with contextlib.suppress(SystemExit, ConnectionError):  # refused: its time is over
                await send(served, worst, local_addr=("127.0.0.2", 0))
                answered += 1

    times: dict[str, list[tuple[float, float]]] = {"alone": [], "beside": []}
    for _ in range(rounds):
        times["alone"] += await quiet()
        tasks = [asyncio.create_task(greedy()) for _ in range(GREEDY)]
        await asyncio.sleep(1)
        times["beside"] += await quiet()
        for task in tasks:
            task.cancel()
        await at_rest(served)
    found: dict[str, Any] = {"requests": [*map(len, times.values()), answered]}
    for place, clock in enumerate(("clock", "processor")):
        alone, beside = (quantiles([one[place] for one in some]) for some in times.values())
        ratio = {name: beside[name] / alone[name] for name in alone}
        found[clock] = {"alone": alone, "beside": beside, "ratio": ratio}
    return found


async def every_route(index: Path, seed: int, rounds: int, seconds: float, only: str) -> dict[str, Any]:
    """Return the latencies beside the worst requests of every route."""
    opened, chance = Index.open(index), random.Random(seed)

    def draw(rows: int) -> list[str]:
        return [noisy(opened.strings[row], chance) for row in chance.choices(range(len(opened)), k=rows)]

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "reviews.sqlite"
        reviewed(store, opened)
        for mode, requests in ((["--mappings", str(store)], worst(opened)), (["mcp"], WORST_CALLS)):
            if not any(only in name for name in requests):
                continue
            async with serving(HERE, index, mode) as served:
                await asyncio.sleep(WARM_SECONDS)
                await asyncio.gather(*(ask(served, draw(32)) for _ in range(8)))
                for name in filter(lambda name: only in name, requests):
                    figures[name] = await mixed(served, draw, requests[name], rounds, seconds)
                    print(f"{name}: {json.dumps(figures[name])}", flush=True)
    return figures


async def flat(served: Served, draw: Callable[[int], list[str]], count: int) -> list[dict[str, Any]]:
    """Return the memory, and latencies of 16 clients with a mention each, after every so many of `count` requests."""
    found = []
    for done in range(0, count, EACH):
        figures = await latencies(served, draw, 16, 1, EACH)
        found.append({"requests": done + EACH} | figures | {"resident": resident(served.process)})
        print(json.dumps(found[-1]), flush=True)
    return found


def resident(process: int) -> int:
    """Return the bytes of a process and its descendants that are in memory and no file's."""
    found = (Path(f"/proc/{one}/status").read_text() for one in processes_of(process))
    return 1024 * sum(int(kilobytes) for status in found for kilobytes in re.findall(r"RssAnon:\s+(\d+)", status))


async def compare(
    served: Sequence[tuple[Path, Path]],
    *,
    rounds: int = 5,
    requests: int = 12,
    rows: int = 256,
    clients: int = 8,
    seed: int = 0,
    load: int = 0,
    flatness: int = 0,
) -> dict[str, Any]:
    """Return the figures of checkouts, each with its index, round by round; the first is compared with the others."""
    index, chance = Index.open(served[0][1]), random.Random(seed)

    def draw(rows: int = rows) -> list[str]:
        return [noisy(index.strings[row], chance) for row in chance.choices(range(len(index)), k=rows)]

    found: list[list[dict[str, Any]]] = []
    different: Counter[str] = Counter()
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(serving(*checkout)) for checkout in served]
        for server in servers:
            await asyncio.gather(*(ask(server, draw(min(rows, 32))) for _ in range(8)))
        await asyncio.sleep(WARM_SECONDS)  # further processes come by and by
        for server in servers:
            await asyncio.gather(*(ask(server, draw(min(rows, 32))) for _ in range(8)))
        if load:
            return {"crowds": await crowds(servers, draw, rounds, load)}
        if flatness:
            return {"memory": await flat(servers[0], draw, flatness)}
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
    parser.add_argument("--only", default="", help="of --mixed: routes with this in their names")
    parser.add_argument("--flat", type=int, default=0, help="instead: memory over so many requests")
    given = parser.parse_args()
    served = [(HERE, given.index), *((checkout, given.beside_index or given.index) for checkout in given.beside)]
    sizes = {name: getattr(given, name) for name in ("rounds", "requests", "rows", "clients", "seed")}
    if given.mixed:
        mixing = every_route(given.index, given.seed, given.rounds, given.mixed, given.only)
        figures = {"mixed": asyncio.run(mixing)}
    else:
        figures = asyncio.run(compare(served, **sizes, load=given.load, flatness=given.flat))
    harness.write(given, figures, index=Index.open(given.index).manifest["counts"])
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
