"""The embedded index at the size of UMLS: n made-up vectors of 384 numbers in an inverted file (IVF-PQ).

    python bench/large_index.py N [--full] [--backend ivf_pq] [--queries 1000] [--threads T] [--seed 0] [--folder DIR]
                                  [--keep] [--output report.json]

    write     the vectors, made block by block (see `large_vectors`), into vectors.npy; in half precision unless --full
    build     the inverted file from the mapped vectors: trained on a sample, filled block by block, and the quickest
              search taken whose recall@1 is 0.99 on noisy copies of 1,000 vectors, as `alphita index` does
    exact     the nearest of all, block by block, of noisy copies of other vectors
    search    opened as `alphita normalize` opens it; mentions/s of those copies, 16 candidates each, all at once and
              one by one, and how often the nearest is found

Each step is a process of its own, and beside its seconds stands the most memory it held: anonymous (its own arrays) and
mapped (pages of the files, which the system takes back when others need them), looked at twenty times a second. A step
whose result is there already is not done again (--keep), so that it can be stopped and taken up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from alphita import machine, registry
from alphita.errors import UsageError
from alphita.index.neighbours import nearest
from alphita.index.probes import PROBES
from large_vectors import DIM, LikeTerms

ROWS_AT_ONCE = 65_536
# Candidates of a mention, as the normalizer asks for.
DEPTH = 16
# Two cosines this close are equally near.
EQUAL = 1e-6
LOOKED_EVERY = 0.05
ONE_BY_ONE = 200
# Of the queries: those that the build chooses its settings by are others than those that are counted.
BUILD, COUNTED = 1, 2
KINDS = {"RssAnon": "peak_own_bytes", "RssFile": "peak_mapped_bytes", "VmRSS": "peak_bytes"}


@contextlib.contextmanager
def watched() -> Iterator[dict[str, Any]]:
    """Fill in the seconds that pass and the most memory held meanwhile."""
    found: dict[str, Any] = dict.fromkeys(KINDS.values(), 0)
    done = threading.Event()

    def look() -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, size = line.partition(":")
                if name in KINDS:
                    found[KINDS[name]] = max(found[KINDS[name]], int(size.split()[0]) * 1024)
            if done.wait(LOOKED_EVERY):
                return

    watcher = threading.Thread(target=look, daemon=True)
    start = time.perf_counter()
    watcher.start()
    try:
        yield found
    finally:
        found["seconds"] = time.perf_counter() - start
        done.set()
        watcher.join()


def write(given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Write the vectors."""
    made = LikeTerms(given.n, given.seed)
    dtype = np.float32 if given.full else np.float16
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", dtype, (given.n, DIM))
    for start in range(0, given.n, ROWS_AT_ONCE):
        block = made.block(start, start + ROWS_AT_ONCE)
        vectors[start : start + len(block)] = block
    vectors.flush()
    return {"vectors_bytes": (folder / "vectors.npy").stat().st_size, "numbers": np.dtype(dtype).name}


def build(given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Build what the backend needs."""
    before = {path.name for path in folder.iterdir()}
    made = LikeTerms(given.n, given.seed)
    settings = registry.load("alphita.index.backends", given.backend).build(
        _vectors(folder), folder, lambda: made.queries(min(PROBES, given.n), BUILD)[1]
    )
    size = sum(path.stat().st_size for path in folder.iterdir() if path.name not in before)
    return {"settings": settings, "index_bytes": size, "bytes_a_vector": size / given.n}


def exact(given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Find the nearest of all."""
    queries = LikeTerms(given.n, given.seed).queries(given.queries, COUNTED)[1]
    vectors = _vectors(folder)
    backend = registry.load("alphita.index.backends", "faiss").attach(vectors)
    start = time.perf_counter()
    similarity, rows = nearest(backend, vectors.shape, queries, 1)
    seconds = time.perf_counter() - start
    np.savez(folder / "exact.npz", similarity=similarity[:, 0], rows=rows[:, 0])
    return {"mentions_per_second": given.queries / seconds}


def search(given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Search, and compare with the nearest of all."""
    own, queries = LikeTerms(given.n, given.seed).queries(given.queries, COUNTED)
    settings = json.loads((folder / "build.json").read_text())["settings"]
    vectors = _vectors(folder)
    start = time.perf_counter()
    backend = registry.load("alphita.index.backends", given.backend).attach(vectors, folder, settings)
    opened = time.perf_counter()
    similarity, rows = nearest(backend, vectors.shape, queries, DEPTH)  # reads what it needs of the files
    first = time.perf_counter()
    nearest(backend, vectors.shape, queries, DEPTH)
    again = time.perf_counter()
    times = []
    for query in queries[:ONE_BY_ONE, None]:
        begin = time.perf_counter()
        nearest(backend, vectors.shape, query, DEPTH)
        times.append(time.perf_counter() - begin)
    truth = np.load(folder / "exact.npz")
    return {
        "open_seconds": opened - start, "mentions_per_second_first": given.queries / (first - opened),
        "mentions_per_second": given.queries / (again - first),
        "one_median_ms": 1e3 * float(np.median(times)), "one_95_percent_ms": 1e3 * float(np.quantile(times, 0.95)),
        "recall_at_1": float((similarity[:, 0] >= truth["similarity"] - EQUAL).mean()),
        "same_row": float((rows[:, 0] == truth["rows"]).mean()), "own_is_nearest": float((truth["rows"] == own).mean()),
    }  # fmt: skip


STEPS: dict[str, Callable[[SimpleNamespace, Path], dict[str, Any]]] = {
    "write": write, "build": build, "exact": exact, "search": search,
}  # fmt: skip


def run_step(step: str, given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Do one step in this process; return its figures and keep them in the folder."""
    machine.set_threads(given.threads)
    with watched() as found:
        figures = STEPS[step](given, folder)
    figures = {**figures, **found}
    (folder / f"{step}.json").write_text(json.dumps(figures), encoding="utf-8")
    return figures


def measure(given: SimpleNamespace, folder: Path) -> dict[str, Any]:
    """Do all steps that are not done yet, each in a process of its own; return all figures.

    Raises:
        UsageError: the folder holds another bench's files.
    """
    asked = vars(given)
    if (folder / "asked.json").exists() and json.loads((folder / "asked.json").read_text()) != asked:
        raise UsageError(f"{folder} holds the files of another run; choose another folder")
    (folder / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    found: dict[str, Any] = {**asked, "dim": DIM}
    for step in STEPS:
        if not (folder / f"{step}.json").exists():
            subprocess.run([sys.executable, __file__, str(given.n), "--step", step, "--folder", folder], check=True)
        found[step] = json.loads((folder / f"{step}.json").read_text())
        print(f"{step}: {json.dumps(found[step])}", flush=True)
    found["peak_bytes"] = max(found[step]["peak_bytes"] for step in STEPS)
    return {**found, "machine": machine.describe()}


def _vectors(folder: Path) -> Any:  # noqa: ANN401
    return np.asarray(np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False))


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, help="vectors")
    parser.add_argument("--full", action="store_true", help="store them in single precision")
    parser.add_argument("--backend", default="ivf_pq", choices=registry.names("alphita.index.backends"))
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--threads", type=int, help="of every library; all cores by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--folder", type=Path, help="where there is room (800 bytes a vector); by default a temporary one"
    )
    parser.add_argument("--keep", action="store_true", help="keep the folder, and take up what it holds already")
    parser.add_argument("--output", type=Path, help="also write the figures here, as JSON")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.step:
        run_step(given.step, SimpleNamespace(**json.loads((given.folder / "asked.json").read_text())), given.folder)
        return
    if given.n < 1 or given.queries < 1:
        parser.error("N and --queries must be 1 or more")
    if given.keep and given.folder is None:
        parser.error("--keep needs a --folder")
    asked = {name: getattr(given, name) for name in ("n", "full", "backend", "queries", "threads", "seed")}
    if given.keep:
        given.folder.mkdir(parents=True, exist_ok=True)
    folder = given.folder if given.keep else Path(tempfile.mkdtemp(prefix="large_index_", dir=given.folder))
    try:
        found = measure(SimpleNamespace(**asked), folder)
    finally:
        if not given.keep:
            shutil.rmtree(folder)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
