"""Normalising Parquet of any size on an engine: read, answer each distinct question once, join, write a folder.

    Reading      each part's distinct questions, spread over buckets
    Normalising  each bucket's questions, once each
    Writing      each part's rows with their answers

Every step is a list of tasks that does not depend on the engine or on the number of its workers, and a task is done if
its file is there. So a job that was broken off goes on with what is missing, and all engines write the same bytes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import alphita
from alphita import artefact, clock, drafts, progress
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.index.choice import LOOKED_AT
from alphita.jobs import job as one_file
from alphita.jobs.batches import NormalizerSettings, opened
from alphita.jobs.engines.answering import Answering
from alphita.jobs.engines.engine import Engine, Opening, SameVersion
from alphita.jobs.engines.files import Place
from alphita.jobs.engines.joining import Joining
from alphita.jobs.engines.outputs import clear, discard, input_files, locked, look
from alphita.jobs.engines.parts import Columns, ParquetSource, cut, read, sources
from alphita.jobs.engines.plan import KIND, MANIFEST, REJECTS, ShardPlan
from alphita.jobs.engines.reading import Reading, facts_of
from alphita.jobs.reading.files import DEFAULT_COLUMN, MentionFile
from alphita.jobs.summary import Summary

# Rows for one bucket, if that does not make more of them than `MOST_BUCKETS`; a small job has some of fewer rows.
BUCKET_ROWS, FEW_ROWS, FEW_BUCKETS, MOST_BUCKETS = 100_000, 2_000, 16, 1_024
READING, NORMALISING, WRITING = "Reading", "Normalising", "Writing"


@dataclass(frozen=True)
class Shards:
    """What to normalise, and where to.

    Attributes:
        input: a Parquet file, a folder of such files or a pattern; a path or a URL.
        out: the folder to write, a path or a URL.
        settings: how; `column` "" takes the only column, or the one called "mention".
        code: the column of the input's own codes, or None.
        frequency: the column of how often each mention occurs, or None.
        private: no value of the input in rejects and errors; files for their owner only, where they lie on a disk.
        part_rows: rows of a part, about; by default as `parts.cut` chooses.
    """

    input: str
    out: str
    settings: NormalizerSettings
    code: str | None = None
    frequency: str | None = None
    private: bool = False
    part_rows: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What a job did.

    Attributes:
        summary: the counts of all rows, and the time taken by this run.
        parts: files of the output.
        distinct: questions that were answered, each once.
        engine: its facts.
        seconds: of each step in this run.
    """

    summary: Summary
    parts: int
    distinct: int
    engine: dict[str, str | int]
    seconds: dict[str, float]


def run(shards: Shards, engine: Engine, *, resume: bool = False, force: bool = False) -> Outcome:
    """Normalise Parquet on an engine."""
    if resume and force:
        raise UsageError("--resume goes on with a job, --force begins anew; give one of them")
    start = time.monotonic()
    shards = _absolute(shards)
    files = input_files(Place(shards.input), Place(shards.out))
    shards = replace(shards, settings=replace(shards.settings, column=shards.settings.column or _only_column(files[0])))
    settings, memory = replace(shards.settings, memory=None), shards.settings.memory
    columns = Columns(settings.column, shards.code, settings.context, settings.language, shards.frequency)
    found = sources(files, columns)
    normalizer = opened(settings)
    parts = tuple(cut(found, shards.part_rows))
    rows = sum(part.rows for part in parts)
    plan = ShardPlan(
        shards.out,
        settings,
        str(normalizer.index.content_hash),
        columns,
        shards.private,
        parts,
        _buckets(rows),
        memory is not None,
    )
    table = MentionFile(
        shards.input,
        "parquet",
        settings.column,
        shards.code,
        context_column=settings.context,
        language_column=settings.language,
        frequency_column=shards.frequency,
    )
    whole = one_file.Job(
        table, shards.out, "parquet", settings.top_k, shards.private, explain=settings.explain, memory=memory
    )
    identity = one_file.identity(normalizer, whole, "parquet") | _input(found, plan)
    with locked(shards.out):
        done = look(Place(shards.out), identity, resume=resume, force=force)
        if done is not None:
            return _outcome(plan, done, start, rows, normalizer)
        plan.make_folders()
        key = plan.save(identity)
        if memory is not None:
            plan.write_json(plan.decisions, memory.to_json())
        resumed = sum(parts[number].rows for number in _finished(plan.work / "written"))
        try:
            engine.check(SameVersion(Answering(shards.out, key)))
            seconds = _steps(plan, key, engine)
        except BaseException:
            _discard_if_nothing_is_done(plan)
            raise
        done = _finish(plan, identity, dict(engine.facts()), seconds)
        return _outcome(plan, done, start, resumed, normalizer)


def some_mentions(path: str, out: str, column: str | None) -> list[str]:
    """Return the first strings of an input, of its first file alone."""
    first = input_files(Place(path), Place(out))[0]
    columns = Columns(column or _only_column(first))
    part = cut(sources([first], columns), LOOKED_AT)[0]
    return [one for one in read(part, columns)[columns.mention].cast("string").to_pylist() if one]


def _steps(plan: ShardPlan, key: str, engine: Engine) -> dict[str, float]:
    """Do what is not done yet; return the seconds of each step."""
    parts = range(len(plan.parts))
    seconds = {}
    steps: list[tuple[str, Opening, Place, range, str]] = [
        (READING, Reading(plan.out, key), plan.work / "questions", parts, "parts"),
        (NORMALISING, Answering(plan.out, key), plan.work / "answers", range(plan.buckets), "buckets"),
        (WRITING, Joining(plan.out, key), plan.work / "written", parts, "parts"),
    ]
    for what, opening, folder, tasks, unit in steps:
        start = time.monotonic()
        done = _finished(folder)
        left = [task for task in tasks if task not in done]
        with progress.bar(what, total=len(tasks), unit=unit, shown=bool(left)) as bar:
            bar.advance(len(done))
            if left:
                for _ in engine.run(SameVersion(opening), left, what=what):
                    bar.advance()
        if what == READING and not plan.definitions.exists():
            plan.write_json(plan.definitions, _definitions(plan))
        seconds[what] = round(time.monotonic() - start, 3)
    engine.release()
    return seconds


def _definitions(plan: ShardPlan) -> list[tuple[str, str, int]]:
    """Return the abbreviations that the whole input defines, in the order in which they come up in it."""
    merged: Counter[tuple[str, str]] = Counter()
    for part in range(len(plan.parts)):
        for short, long, times in facts_of(plan, part)["definitions"]:
            merged[short, long] += times
    return [(short, long, times) for (short, long), times in merged.items()]


def _finish(
    plan: ShardPlan, identity: dict[str, Any], engine: dict[str, Any], seconds: dict[str, float]
) -> dict[str, Any]:
    """Write rejects and manifest, remove what was for the way, and return the manifest."""
    out = Place(plan.out)
    counts: Counter[str] = Counter()
    files: dict[str, dict[str, Any]] = {}
    with drafts.scratch() as folder:
        aside = folder / REJECTS
        with Rejects(aside, private=plan.private) as rejects:
            for part in range(len(plan.parts)):
                facts = json.loads(plan.written(part).content())
                counts.update(facts["counts"])
                size = {"size": facts["bytes"], "rows": facts["rows"], "lines": facts["lines"]}
                files[plan.output(part).name] = {"sha256": facts["sha256"], **size}
                for reject in facts["rejects"]:
                    rejects.add(**reject)
        if rejects.count:
            with (out / REJECTS).whole(plan.drafts, private=True) as file:
                file.write(aside.read_bytes())
            files[REJECTS] = {"sha256": artefact.hash_file(aside), "size": aside.stat().st_size}
    manifest: dict[str, Any] = {"kind": KIND, "format_version": artefact.FORMAT_VERSION, "files": files}
    content = manifest | {"files": {name: one["sha256"] for name, one in files.items()}}
    manifest |= {
        "content_hash": artefact.hash_json(content),
        "counts": dict(counts),
        "distinct": _distinct(plan),
        "job": identity,
        "settings": asdict(plan.settings),
        "columns": asdict(plan.columns),
        "engine": engine,
        "seconds": seconds,
        "alphita_version": alphita.__version__,
        "created": clock.now().isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }
    plan.write_json(out / MANIFEST, manifest)
    clear(out)
    return manifest


def _distinct(plan: ShardPlan) -> int:
    """Return how many questions were answered."""
    total = 0
    for bucket in range(plan.buckets):
        with plan.answers(bucket).reading() as file, pa.ipc.open_file(file) as reader:
            total += int(reader.schema.metadata[b"questions"])
    return total


def _outcome(plan: ShardPlan, manifest: dict[str, Any], start: float, resumed: int, normalizer: Normalizer) -> Outcome:
    out = Place(plan.out)
    rejects = str(out / REJECTS) if REJECTS in manifest["files"] else None
    summary = Summary.of(manifest["counts"], resumed, start, str(out), normalizer, rejects=rejects)
    parts = sum(name.startswith("part-") for name in manifest["files"])
    return Outcome(summary, parts, manifest["distinct"], manifest["engine"], manifest["seconds"])


def _finished(folder: Place) -> set[int]:
    """Return the numbers of the files in a folder: part-00017.arrow is 17."""
    return {int(name.partition(".")[0].rpartition("-")[2]) for name in folder.names()}


def _discard_if_nothing_is_done(plan: ShardPlan) -> None:
    """Remove a job that has no finished task: there is nothing to resume."""
    with suppress(AlphitaError):
        if not _finished(plan.work / "questions"):
            discard(Place(plan.out))


def _input(found: list[ParquetSource], plan: ShardPlan) -> dict[str, Any]:
    """Return what of the input and of the cut makes a job another one."""
    return {
        "input": artefact.hash_json([[source.digest, list(source.groups)] for source in found]),
        "input rows": sum(part.rows for part in plan.parts),
        "parts": len(plan.parts),
        "buckets": plan.buckets,
    }


def _buckets(rows: int) -> int:
    """Return over how many buckets the questions are spread; it depends on the number of rows alone."""
    return max(1, min(-(-rows // FEW_ROWS), FEW_BUCKETS), min(-(-rows // BUCKET_ROWS), MOST_BUCKETS))


def _only_column(file: Place) -> str:
    """Return the column of mentions if it was not named."""
    try:
        with file.reading() as raw:
            names = pq.read_schema(raw).names
    except pa.ArrowException as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=str(file)) from None
    if len(names) == 1:
        return str(names[0])
    if DEFAULT_COLUMN not in names:
        raise UsageError(f"{file} has several columns; name one with --column: {names}")
    return DEFAULT_COLUMN


def _absolute(shards: Shards) -> Shards:
    """Return the same job with paths that do not depend on the folder in which a worker runs."""

    def whole(path: str) -> str:
        path = path.removeprefix("file://")
        return path if "://" in path else os.path.normpath(artefact.absolute(Path(path)))

    settings = shards.settings
    return replace(
        shards,
        input=whole(shards.input),
        out=whole(shards.out),
        settings=replace(
            settings,
            index=whole(settings.index),
            calibration=settings.calibration and whole(settings.calibration),
            abbreviations=settings.abbreviations and whole(settings.abbreviations),
        ),
    )
