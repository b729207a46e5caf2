"""Everything that Alphita writes, small, as functions of the place that it appears at."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer

from alphita import cli, registry
from alphita.annotating.annotator import Annotator
from alphita.annotating.job import Job as TextJob
from alphita.annotating.job import run as annotate
from alphita.annotating.texts import Texts
from alphita.errors import Rejects
from alphita.graph.store import EntityVectors
from alphita.index.store import Index, build
from alphita.mappings.review.store import ReviewStore
from alphita.normalizer.answering.normalizer import Normalizer
from alphita.normalizer.writing.run import Job, run
from alphita.terminology import splits
from alphita.terminology.changes import changes
from alphita.terminology.loaders import table
from alphita.terminology.store import load_terminology, save
from tests.doubles import HashEncoder, SmallTerminology
from tests.mappings.review.reviews import add, candidate, row, say
from tests.normalizer.run_job import HEADER, table_of

TERMS = [
    ("T:1", "Headache", "exact"),
    ("T:1", "Pain in the head", "exact"),
    ("T:2", "Cold", "exact"),
    ("T:2", "Common cold", "exact"),
    ("T:3", "Fever", "exact"),
]


class Place(NamedTuple):
    """What the writers read.

    Attributes:
        folder: all of it.
        normalizer: answers.
    """

    folder: Path
    normalizer: Normalizer


class Writer(NamedTuple):
    """One thing that is written.

    Attributes:
        name: of its test.
        suffix: of what it writes.
        write: writes it at a path, that of an earlier try left unfinished too.
    """

    name: str
    suffix: str
    write: Callable[[Place, Path], None]


def prepare(folder: Path) -> Place:
    """Make what the writers read in a new folder."""
    index = build(SmallTerminology(TERMS), HashEncoder(), folder / "x.index")
    lines = [
        f"c{number},{mention} {number},,{number}\n" for number in range(40) for mention in ("headache", "cold", "fever")
    ]
    (folder / "in.csv").write_text("code,mention,context,frequency\n" + "".join(lines), encoding="utf-8")
    (folder / "notes").mkdir()
    for number in range(8):
        (folder / "notes" / f"{number}.txt").write_text("Headache since Monday, no fever. " * 9, encoding="utf-8")
    rows = "".join(f"{concept},{string}\n" for concept, string, _ in TERMS)
    (folder / "terms.csv").write_text(f"id,term\n{rows}", encoding="utf-8")
    (folder / "later.csv").write_text(f"id,term\n{rows}T:9,Cough\n", encoding="utf-8")
    _terminology(Place(folder, None), folder / "x.terminology")  # type: ignore[arg-type]
    with Rejects() as rejects:
        save(table.load([folder / "later.csv"], table.Options(), rejects), folder / "y.terminology")
    place = Place(folder, Normalizer(Index.open(index.path), encoder=HashEncoder()))
    _job("csv", place, folder / "answers.csv")
    return place


def _terminology(place: Place, target: Path) -> None:
    with Rejects() as rejects:
        save(table.load([place.folder / "terms.csv"], table.Options(), rejects), target)


def _index(_: Place, target: Path) -> None:
    build(SmallTerminology(TERMS), HashEncoder(), target)


def _split(place: Place, target: Path) -> None:
    splits.hold_out_synonyms(load_terminology(place.folder / "x.terminology"), seed=1).save(target)


def _changes(place: Place, target: Path) -> None:
    changes(*(load_terminology(place.folder / f"{name}.terminology") for name in "xy")).write(target)


def _rejects(_: Place, target: Path) -> None:
    with Rejects(target) as rejects:
        for line in range(200):
            rejects.add("odd", file="x.csv", line=line, value="value" * 9)


def _job(format: str, place: Place, target: Path) -> None:
    # What an earlier try has made durable is gone on with.
    resume = any(target.parent.glob(f"*{target.name}*.journal"))
    job = Job(table_of(place.folder / "in.csv"), target, format, top_k=2, chunk_rows=50, header=HEADER)
    run(place.normalizer, job, resume=resume)


def _annotation(format: str, place: Place, target: Path) -> None:
    resume = any(target.parent.glob(f"*{target.name}*.journal"))
    annotate(Annotator(place.normalizer), TextJob(Texts(place.folder / "notes"), target, format), resume=resume)


def _conversion(place: Place, target: Path) -> None:
    command = ["mappings", "convert", str(place.folder / "answers.csv"), "-o", str(target), "--format", "jsonl"]
    with contextlib.redirect_stdout(io.StringIO()):
        typer.main.get_command(cli.app)(command, standalone_mode=False)


def _reviews(_: Place, target: Path) -> None:
    with ReviewStore.open(target, create=True) as store:
        rows = [row(f"m{n}", candidate("T:1", "Headache"), number=n) for n in range(1, 90)]
        if store.projects():
            store.add_rows("p", rows)
        else:
            add(store, rows, "r", "p")
        say(store, 1, "accept", "T:1")


def _vectors(_: Place, target: Path) -> None:
    numbers = np.arange(12, dtype=np.float32).reshape(4, 3)
    EntityVectors([f"T:{n}" for n in range(4)], numbers, ["is_a"], numbers[:1], "transe").save(target)


def _formats(package: str, write: Callable[[str, Place, Path], None], label: str) -> Iterator[Writer]:
    for name in registry.names(package):
        yield Writer(f"{label}-{name}", f".{name}", functools.partial(write, name))


WRITERS = [
    Writer("terminology", ".terminology", _terminology),
    Writer("index", ".index", _index),
    Writer("split", ".split", _split),
    Writer("changes", ".csv", _changes),
    Writer("rejects", ".rejects.csv", _rejects),
    Writer("conversion", ".jsonl", _conversion),
    Writer("vectors", ".vectors", _vectors),
    *_formats("alphita.mappings.formats", _job, "job"),
    *_formats("alphita.annotating.formats", _annotation, "annotation"),
]
REVIEWS = Writer("reviews", ".sqlite", _reviews)
# Files that grow row by row under their own name, and say so.
GROWING = ("rejects", "reviews")


def broken_off(writer: Writer, place: Place, target: Path) -> None:
    """Write until the first chunk is durable, and break off when more is to be."""
    kept, journals = os.fsync, functools.partial(target.parent.glob, "*.journal")

    seen: list[int] = []

    def cut(descriptor: int) -> None:
        # The first time the chunk's own line is on its way.
        if seen:
            raise KeyboardInterrupt
        seen.extend(descriptor for path in journals() if path.read_bytes().count(b"\n") > 1)
        kept(descriptor)

    os.fsync = cut
    try:
        with contextlib.suppress(KeyboardInterrupt):
            writer.write(place, target)
    finally:
        os.fsync = kept
    assert list(journals())


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file or of all files of a folder, but for times and commands; {} where nothing is."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    return {one.relative_to(path.parent).as_posix(): one.read_bytes() for one in files if one.name != "manifest.json"}
