"""Reads changed files, one a seed: READER,... FROM TO ("all": every reader). Prints those that give a fault.

With --endless each file of a reader besides, once, with gigabytes of NUL after what it holds.

A fault is anything but rows or a user's error.

A reader has an end in time, and takes no more than 2 GB in all; after an error nothing that it writes is there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from alphita.errors import AlphitaError
from tests.faults.changing import changed
from tests.faults.readers import Reader, readers
from tests.faults.writers import prepare

# Seconds of processors for one file.
MAX_SECONDS = 20
# More than any reader may hold.
ENDLESS = 3 * 2**30
MAX_BYTES = 2 * 2**30
# In memory, where there is such a place: nothing here is about what is durable.
SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
SEEDS = Path(__file__).with_name("seeds.tsv")


class TooLong(BaseException):
    """A file takes too long."""


def _files(folder: Path) -> set[str]:
    # SQLite keeps two more beside a file that it cannot tidy up.
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {path.relative_to(folder).as_posix() for path in files}


def problem_of(reader: Reader, seed: int) -> str | None:
    """Read a folder in which one file is changed as a seed says; return what is wrong with what came of it."""
    rng = random.Random(f"{reader.name} {seed}")
    which = rng.choice(sorted(reader.files))
    return _problem(reader, lambda folder: (folder / which).write_bytes(changed(reader.files[which], rng)))


def endless_problem(reader: Reader, which: str) -> str | None:
    """Read a folder in which one file has no end; return what is wrong with what came of it."""
    return _problem(reader, lambda folder: os.truncate(folder / which, ENDLESS))


def _problem(reader: Reader, change: Callable[[Path], object]) -> str | None:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as name:
        folder = Path(name) / "in"
        for file, content in reader.files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        change(folder)
        before = _files(Path(name))
        try:
            with _limited():
                reader.read(folder)
        except AlphitaError as error:
            if left := _files(Path(name)) - before:
                return f"left behind after an error: {sorted(left)}"
            return f"an error of {len(str(error)):,} characters" if len(str(error)) > 5_000 else None
        # A panic of Rust is no Exception.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return traceback.format_exc()
        drafts = [path for path in _files(Path(name)) if ".draft" in path or ".part" in path]
        return f"left behind: {drafts}" if drafts else None


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise after some seconds of work."""

    def end(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def seeds_of(name: str) -> list[int]:
    """Return the seeds at which a reader once failed."""
    lines = SEEDS.read_text(encoding="utf-8").splitlines()[1:]
    return [int(seed) for reader, seed, _ in (line.split("\t") for line in lines) if reader == name]


def main(names: Sequence[str], seeds: range, *, endless: bool = False) -> int:
    """Run; return how many seeds failed, of readers that are said to stderr as they come."""
    failed = 0
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        every = readers(prepare(Path(folder)))
        for name in names or every:
            before = time.process_time()
            problems: list[int | str] = []
            for seed in seeds:
                # From what native code does there may be no way back: what it was is told before.
                print(f"\r{name} {seed}", end="", file=sys.stderr, flush=True)
                if problem := problem_of(every[name], seed):
                    problems.append(seed)
                    print(f"{name} {seed}: {problem}", flush=True)
            for which in every[name].files if endless else ():
                # Python skips what comes after packed bytes one NUL at a time.
                if not which.endswith(".gz") and (problem := endless_problem(every[name], which)):
                    problems.append(which)
                    print(f"{name} {which} without end: {problem}", flush=True)
            failed += len(problems)
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
            seconds = time.process_time() - before
            print(f"{name}: {len(seeds):,} read, {len(problems)} failed, {seconds:.0f} s, {most} MB so far", flush=True)
    return failed + (most > MAX_BYTES >> 20)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (16 * 2**30, 16 * 2**30))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", help='names, with commas between them, or "all"')
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("last", type=int, help="the seed after the last")
    parser.add_argument("--endless", action="store_true", help="each file without an end, too")
    given = parser.parse_args()
    names = [] if given.readers == "all" else given.readers.split(",")
    sys.exit(min(main(names, range(given.first, given.last), endless=given.endless), 1))
