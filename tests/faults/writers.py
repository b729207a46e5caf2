"""Everything that Alphita writes, small, as functions of the place that it appears at."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from alphita import cli, registry, report
from alphita.annotation.annotator import Annotator
from alphita.answer.calibration_store import Calibration
from alphita.answer.normalizer import Normalizer
from alphita.errors import Rejects
from alphita.index.store import Index, build
from alphita.jobs import folder as sharded
from alphita.jobs.annotate import Job as TextJob
from alphita.jobs.annotate import Texts
from alphita.jobs.annotate import run as annotate
from alphita.jobs.batches import NormalizerSettings
from alphita.jobs.run import Job, run
from alphita.options import Restart
from alphita.review.store import ReviewStore
from alphita.search import store as search
from alphita.terminology import splits
from alphita.terminology.changes import changes
from alphita.terminology.loaders import products, table
from alphita.terminology.store import load_terminology, save
from alphita_lab.evaluation import run as evaluation
from alphita_lab.graph.store import EntityVectors
from tests.answer.synthetic import VocabularyEncoder, quick_fit, synthetic_terminology
from tests.doubles import HashEncoder, SmallTerminology
from tests.jobs.conftest import HEADER, mention_file
from tests.jobs.engines.serial import Serial
from tests.review.reviews import add, candidate, row, say

FIXTURES = Path(__file__).parents[1] / "fixtures"
TERMS = [
    ("T:1", "Headache", "exact"),
    ("T:1", "Pain in the head", "exact"),
    ("T:2", "Cold", "exact"),
    ("T:2", "Common cold", "exact"),
    ("T:3", "Fever", "exact"),
]
# Of what T is joined with: two of its concepts are said to be one of the other's.
MAPPINGS = """subject_id\tpredicate_id\tobject_id\tmapping_justification
T:1\tskos:exactMatch\tU:1\tsemapv:ManualMappingCuration
T:2\tskos:exactMatch\tU:1\tsemapv:ManualMappingCuration
T:3\tno predicate\tU:1\tsemapv:ManualMappingCuration
"""


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
    _save(table, folder / "later.csv", folder / "y.terminology")
    (folder / "other.csv").write_text("id,term\nU:1,Headache\n", encoding="utf-8")
    _save(table, folder / "other.csv")
    (folder / "mappings.sssom.tsv").write_text(MAPPINGS, encoding="utf-8")
    _save(products, FIXTURES / "terminology" / "products" / "products.csv", folder / "products.terminology")
    asked = pa.table({"mention": ["headache", "", "cold", "fevers", "a\0b"] * 20, "code": list(range(100))})
    pq.write_table(asked, folder / "in.parquet")
    place = Place(folder, Normalizer(Index.open(index.path), encoder=HashEncoder()))
    _job("csv", place, folder / "answers.csv")
    return place


def _save(loader: ModuleType, source: Path, target: Path | None = None) -> None:
    with Rejects() as rejects:
        save(loader.load([source], loader.Options(), rejects), target or source.with_suffix(".terminology"))


def _terminology(place: Place, target: Path) -> None:
    _save(table, place.folder / "terms.csv", target)


def _merge(place: Place, target: Path) -> None:
    read = (place.folder / f"{name}.terminology" for name in ("x", "other"))
    _command("terminology", "merge", *read, "--mappings", place.folder / "mappings.sssom.tsv", "-o", target)


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
    resume = target.with_name(f"{target.name}.parts").exists()
    job = Job(mention_file(place.folder / "in.csv"), target, format, top_k=2, chunk_rows=50, header=HEADER)
    run(place.normalizer, job, Restart(resume=resume))


def _annotation(format: str, place: Place, target: Path) -> None:
    resume = target.with_name(f"{target.name}.parts").exists()
    annotate(
        Annotator(place.normalizer), TextJob(Texts(place.folder / "notes"), target, format), Restart(resume=resume)
    )


def _shards(place: Place, target: Path) -> None:
    settings = NormalizerSettings(str(place.folder / "x.index"), ranking="letters", top_k=2, floor=0.3)
    shards = sharded.Shards(str(place.folder / "in.parquet"), str(target), settings, "code", part_rows=40)
    with mock.patch.object(sharded, "FEW_ROWS", 60):
        sharded.run(shards, Serial(), Restart(resume=target.is_dir()))


def _command(*words: str | Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        typer.main.get_command(cli.app)([*map(str, words)], standalone_mode=False)


def _conversion(place: Place, target: Path) -> None:
    _command("mappings", "convert", place.folder / "answers.csv", "-o", target, "--format", "jsonl")


def _report(_: Place, target: Path) -> None:
    plan = evaluation.EvaluationPlan(benchmarks=["psytar"], baselines=["edit_distance"], data=FIXTURES / "benchmarks")
    # What differs from run to run: the seconds; and git is not to write where it may not.
    with mock.patch("time.perf_counter", return_value=0.0), mock.patch.object(report, "_commit", return_value=None):
        evaluation.run(plan, target)


def _search(place: Place, target: Path) -> None:
    search.build(load_terminology(place.folder / "products.terminology"), HashEncoder(), target)


def _calibration(place: Place, target: Path) -> None:
    # Fitted by the first that asks, for it takes seconds.
    path, encoder = place.folder / "large.index", VocabularyEncoder()
    index = Index.open(path) if path.exists() else build(synthetic_terminology(), encoder, path)
    fitted = path.with_suffix(".calibration")
    if not fitted.exists():
        quick_fit(index, encoder).save(fitted)
    Calibration.load(fitted, index).save(target)


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
    Writer("merge", ".terminology", _merge),
    Writer("shards", ".answers", _shards),
    Writer("report", ".report", _report),
    Writer("search", ".search", _search),
    Writer("calibration", ".calibration", _calibration),
    Writer("vectors", ".vectors", _vectors),
    *_formats("alphita.mappings.formats", _job, "job"),
    *_formats("alphita.annotation.formats", _annotation, "annotation"),
]
REVIEWS = Writer("reviews", ".sqlite", _reviews)
# What grows under its own name, row by row or part by part, and says so.
GROWING = ("rejects", "reviews", "shards")
# Files that lie beside the output of a job that is not finished.
ON_THE_WAY = (".part", ".lock")


def broken_off(writer: Writer, place: Place, target: Path) -> None:
    """Write until the first chunk is durable, and break off when more is to be."""
    kept, chunks = os.fsync, functools.partial(target.parent.glob, "*.parts/chunks/*")

    def cut(descriptor: int) -> None:
        if list(chunks()):
            raise KeyboardInterrupt
        kept(descriptor)

    os.fsync = cut
    try:
        with contextlib.suppress(KeyboardInterrupt):
            writer.write(place, target)
    finally:
        os.fsync = kept
    assert list(chunks())


def content(path: Path) -> dict[str, bytes]:
    """Return the bytes of a file or of all files of a folder, and of what lies beside it under its name.

    Without times and commands, and what an unfinished job has for the way; {} where nothing is.
    """
    files = sorted(one for found in path.parent.glob(f"{path.name}*") for one in (found, *found.rglob("*")))
    files = [one for one in files if one.is_file()]
    return {
        one.relative_to(path.parent).as_posix(): one.read_bytes()
        for one in files
        if one.name != "manifest.json" and one.suffix not in ON_THE_WAY and f"{path.name}.parts/" not in str(one)
    }
