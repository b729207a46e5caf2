"""Normalising Parquet of any size on an engine: read, answer each distinct question once, join, write a folder.

Each step is a list of tasks that depends on the input alone; a task whose file exists (see `parts`) is done.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import alphita
from alphita import artefact, clock, drafts, machine, progress
from alphita.answer.candidates import ranking_of
from alphita.answer.filters import Filters
from alphita.answer.normalizer import Normalizer
from alphita.errors import AlphitaError, InputError, Rejects, UsageError, counted, shorten
from alphita.index.choice import LOOKED_AT
from alphita.index.lookup import VECTORS
from alphita.jobs import job as one_file
from alphita.jobs.answers import Memory
from alphita.jobs.batches import KINDS, NormalizerSettings, empty_batch, load, normalize_batches, opened, spread
from alphita.jobs.domains import Domains
from alphita.jobs.engines import Engine, Receipt, SameVersion, Worker
from alphita.jobs.job import NO_CODE, REJECTED, Summary, outcomes
from alphita.jobs.parquet_parts import ASKED, QUESTION, Columns, Part, Rows, cut, read, rows_of, sources
from alphita.jobs.parts import JOB, Parts, Place, everywhere, locked, refuse_other
from alphita.jobs.reading import DEFAULT_COLUMN
from alphita.mention.schwartz_hearst import find_pairs
from alphita.options import FROM_START, Restart

KIND = "normalization"
MANIFEST, REJECTS, WORK = "manifest.json", "rejects.csv", "_work"
DEFINITIONS, DECISIONS = "definitions.json", "decisions.json"
READING, NORMALISING, WRITING = "Reading", "Normalising", "Writing"
# Where the files of a step's tasks lie, and what they are of.
FOLDERS = {READING: ("questions", "parts"), NORMALISING: ("answers", "buckets"), WRITING: ("written", "parts")}
QUESTIONS, ANSWERS, WRITTEN = "questions/part-{:05}.arrow", "answers/bucket-{:05}.arrow", "written/part-{:05}.json"
OUTPUT = "part-{:05}.parquet"
# Rows for one bucket, if that does not make more of them than `MAX_BUCKETS`; a small job has some of fewer rows.
BUCKET_ROWS, FEW_ROWS, FEW_BUCKETS, MAX_BUCKETS = 100_000, 2_000, 16, 1_024
# Questions answered together. The last bits of a similarity depend on it, so it is the same everywhere.
BLOCK = 8_192
# The number of the question that a line answers, among those of one part in one bucket.
PLACE = "place"
_OWN = {"row": pa.int64(), "frequency": pa.int64()}


@dataclass(frozen=True)
class Shards:
    """What to normalise, and where to."""

    input: str
    out: str
    settings: NormalizerSettings
    code: str | None = None
    frequency: str | None = None
    private: bool = False
    part_rows: int | None = None
    domains: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a job did."""

    summary: Summary
    parts: int
    distinct: int
    engine: dict[str, str | int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class Plan:
    """A job, cut into tasks: what every worker must know."""

    out: str
    settings: NormalizerSettings
    index_hash: str
    columns: Columns
    names: tuple[str, ...]
    private: bool
    parts: tuple[Part, ...]
    buckets: int
    remembers: bool = False
    work: Parts = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "work", Parts(Place(self.out) / WORK, self.private))

    @contextmanager
    def output(self, name: str) -> Iterator[IO[bytes]]:
        with (Place(self.out) / name).whole(self.work.drafts, private=self.private) as file:
            yield file

    def output_json(self, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        with self.output(name) as file:
            file.write((json.dumps(value, indent=1) + "\n").encode())

    def save(self, identity: dict[str, Any]) -> str:
        """Make the folders, write `job.json`, and return the key by which workers know that it is this one."""
        Place(self.out).make(private=self.private)
        self.work.make(*(folder for folder, _ in FOLDERS.values()))
        plan = {name: value for name, value in asdict(self).items() if name != "work"}
        key = artefact.hash_json(plan)
        self.output_json(JOB, {"kind": KIND, "key": key, "job": identity, "plan": plan})
        return key

    @classmethod
    def load(cls, out: str, key: str) -> Plan:
        """Read a job's plan on a worker, and see that it can write there."""
        file = Place(out) / JOB
        remedy = "all machines must see the same folder: a shared disk, or a URL such as s3://bucket/folder"
        try:
            read = json.loads(file.content())
        except InputError:
            raise InputError(f"{platform.node()} does not see the job", file=str(file), remedy=remedy) from None
        if read.get("key") != key:
            raise InputError(f"{platform.node()} sees another job", file=str(file), remedy=remedy)
        record = read["plan"]
        settings = record["settings"] | {"definitions": ()}
        settings["domains"] = tuple(map(tuple, settings["domains"]))
        if settings["filters"] is not None:
            given = settings["filters"].items()
            filters: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in given}
            settings["filters"] = Filters(**filters)
        plan = cls(
            **record
            | {
                "settings": NormalizerSettings(**settings),
                "columns": Columns(**record["columns"]),
                "names": tuple(record["names"]),
                "parts": tuple(Part(**{**item, "groups": tuple(item["groups"])}) for item in record["parts"]),
            }
        )
        probe = f"drafts/probe.{secrets.token_hex(6)}"
        try:
            plan.work.put(probe, b"")
        except AlphitaError as error:
            raise AlphitaError(f"{platform.node()} cannot write in the output: {error}") from None
        (plan.work.place / probe).remove()
        return plan

    @contextmanager
    def writing(self, name: str, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with self.work.whole(name) as file, pa.ipc.new_file(file, schema, options=options) as writer:
            yield writer

    @contextmanager
    def reading(self, name: str) -> Iterator[pa.ipc.RecordBatchFileReader]:
        with (self.work.place / name).reading() as file, pa.ipc.open_file(file) as reader:
            yield reader


def run(shards: Shards, engine: Engine, restart: Restart = FROM_START) -> Outcome:
    """Normalise Parquet on an engine."""
    restart.check()
    start = time.monotonic()
    given = shards.settings
    settings = replace(
        given,
        index=everywhere(given.index),
        calibration=given.calibration and everywhere(str(given.calibration)),
        abbreviations=given.abbreviations and everywhere(str(given.abbreviations)),
        memory=None,
    )
    source, out = Place(everywhere(shards.input)), Place(everywhere(shards.out))
    files = input_files(source, out)
    settings = replace(settings, column=settings.column or _only_column(files[0]))
    asked = {name: getattr(settings, name) for name in ("context", "language", "domain")}
    columns = Columns(settings.column, code=shards.code, frequency=shards.frequency, **asked)
    files_of_input = sources(files, columns)
    normalizer = opened(settings)
    parts = tuple(cut(files_of_input, shards.part_rows))
    domains = _domains(shards, parts, normalizer)
    settings = replace(settings, omop=normalizer.omop.known, domains=tuple(domains.known.items()))
    rows = sum(part.rows for part in parts)
    whole = one_file.Job(
        columns.table(source.url),
        out.url,
        "parquet",
        settings.top_k,
        shards.private,
        explain=settings.explain,
        memory=given.memory,
    )
    plan = Plan(
        out.url,
        settings,
        str(normalizer.index.content_hash),
        columns,
        tuple(whole.columns(normalizer)),
        shards.private,
        parts,
        # It depends on the number of rows alone.
        _buckets(rows),
        given.memory is not None,
    )
    identity = one_file.identity(normalizer, whole, "parquet") | {
        "input": artefact.hash_json([[source.digest, list(source.groups)] for source in files_of_input]),
        "input rows": rows,
        "parts": len(parts),
        "buckets": plan.buckets,
    }
    with locked(out.url):
        manifest, resumed = look(out, identity, restart), rows
        if manifest is None:
            key = plan.save(identity)
            if given.memory is not None:
                plan.work.put_json(DECISIONS, given.memory.to_json())
            resumed = sum(parts[number].rows for number in plan.work.done("written"))
            try:
                engine.check(SameVersion(Step(NORMALISING, out.url, key)))
                seconds = _steps(plan, key, engine)
            except BaseException:
                with suppress(AlphitaError):
                    # Without a finished task there is nothing to resume.
                    if not plan.work.done("questions"):
                        discard(out)
                raise
            manifest = _finish(plan, identity, dict(engine.facts()), seconds)
    rejects = str(out / REJECTS) if REJECTS in manifest["files"] else None
    summary = Summary.of(manifest["counts"], resumed, start, str(out), normalizer, rejects=rejects)
    summary = replace(summary, unread={"domain_column": dict(domains.unknown)} if domains.unknown else {})
    n_parts = sum(name.startswith("part-") for name in manifest["files"])
    return Outcome(summary, n_parts, manifest["distinct"], manifest["engine"], manifest["seconds"])


def _domains(shards: Shards, parts: Sequence[Part], normalizer: Normalizer) -> Domains:
    """Return the domains of the input's rows, and count those of values that are none."""
    domains = Domains(normalizer.types, shards.domains, private=shards.private)
    if (name := shards.settings.domain) is not None:
        for part in parts:
            counts = read(part, Columns(name)).column(name).cast(pa.string()).value_counts().to_pylist()
            for count in counts:
                domains.of(count["values"], count["counts"])
    return domains


def some_mentions(path: str, out: str, column: str | None) -> list[str]:
    """Return the first strings of an input, of its first file alone."""
    first = input_files(Place(path), Place(out))[0]
    columns = Columns(column or _only_column(first))
    part = cut(sources([first], columns), LOOKED_AT)[0]
    return [mention for mention in read(part, columns)[columns.mention].cast("string").to_pylist() if mention]


@dataclass(frozen=True)
class Step:
    """Opens a worker for the tasks of a step: what, of the job in which folder, of which key."""

    what: str
    out: str
    key: str

    def __call__(self) -> Worker:
        plan = Plan.load(self.out, self.key)
        if self.what == NORMALISING:
            return Answering(plan)
        return partial(read_questions if self.what == READING else write_rows, plan)


def _steps(plan: Plan, key: str, engine: Engine) -> dict[str, float]:
    """Do what is not done yet; return the seconds of each step."""
    seconds = {}
    for what, (folder, unit) in FOLDERS.items():
        start = time.monotonic()
        tasks = range(plan.buckets if unit == "buckets" else len(plan.parts))
        done = plan.work.done(folder)
        left = [task for task in tasks if task not in done]
        with progress.bar(what, total=len(tasks), unit=unit, shown=bool(left)) as bar:
            bar.advance(len(done))
            if left:
                for _ in engine.run(SameVersion(Step(what, plan.out, key)), left, what=what):
                    bar.advance()
        if what == READING and not (plan.work.place / DEFINITIONS).exists():
            # In the order in which they come up in the whole input.
            merged: Counter[tuple[str, str]] = Counter()
            for part in tasks:
                with plan.reading(QUESTIONS.format(part)) as reader:
                    for short, long, times in json.loads(reader.schema.metadata[DEFINITIONS.encode()]):
                        merged[short, long] += times
            plan.work.put_json(DEFINITIONS, [(short, long, times) for (short, long), times in merged.items()])
        seconds[what] = round(time.monotonic() - start, 3)
    engine.release()
    return seconds


def read_questions(plan: Plan, task: int) -> Receipt:
    """Write the distinct questions of part number `task`, and the abbreviations that it defines: the shuffle's map."""
    rows = rows_of(plan.parts[task], plan.columns, plan.buckets)
    question_of_row, first, times = np.unique(rows.asked, return_index=True, return_counts=True)
    defined: Counter[tuple[str, str]] = Counter()
    # In the order in which they come up, and in how many rows.
    order = np.argsort(first)
    mentions, contexts, *_ = (
        column.to_pylist() for column in rows.questions.take(pa.array(question_of_row[order])).columns
    )
    for count, *texts in zip(times[order].tolist(), mentions, contexts, strict=True):
        for text in filter(None, texts):
            for pair in find_pairs(text):
                defined[pair.short, pair.long] += count
    definitions = [(short, long, count) for (short, long), count in defined.items()]
    schema = QUESTION.with_metadata({DEFINITIONS: json.dumps(definitions)})
    with plan.writing(QUESTIONS.format(task), schema) as writer:
        for begin, end in zip(rows.bounds[:-1].tolist(), rows.bounds[1:].tolist(), strict=True):
            writer.write_batch(rows.questions.slice(begin, end - begin).cast(schema))
    return {"rows": plan.parts[task].rows}


class Answering:
    """Answers buckets of distinct questions, once each, for all parts that ask them.

    The encoder and the index are freed with it.
    """

    def __init__(self, plan: Plan) -> None:
        definitions: tuple[tuple[str, str, int], ...] = ()
        if (plan.work.place / DEFINITIONS).exists():
            pairs = json.loads(plan.work.get(DEFINITIONS))
            definitions = tuple((short, long, times) for short, long, times in pairs)
        memory = Memory.from_json(json.loads(plan.work.get(DECISIONS))) if plan.remembers else None
        settings = replace(plan.settings, definitions=definitions, memory=memory)
        try:
            self.normalizer: Normalizer = load(settings)
        except InputError as error:
            raise InputError(f"on {platform.node()}: {error}") from None
        if self.normalizer.index.content_hash != plan.index_hash:
            raise InputError(
                f"on {platform.node()} this is another index than where the job began",
                file=settings.index,
                remedy="copy the same index to every machine",
            )
        if ranking_of(self.normalizer.ranking).routes & VECTORS:
            self.normalizer.encoder()
        self.plan = plan
        # In the files of questions the columns have these names.
        self.settings = settings.renamed(ASKED)

    def __call__(self, task: int) -> Receipt:
        questions_of_parts, questions = self._gathered(task)
        added = self.settings.added
        schema = pa.schema([(name, KINDS.get(name, pa.string())) for name in added])
        blocks = (questions.slice(start, BLOCK) for start in range(0, len(questions), BLOCK))
        answered = normalize_batches(blocks, self.settings, self.normalizer)
        lines = pa.concat_batches([empty_batch(schema), *(batch.select(added) for batch in answered)])
        begins = np.flatnonzero(lines.column("rank").to_numpy() == 1)
        # How many lines the answer to each question has.
        counts = np.diff(np.append(begins, len(lines)))
        schema = schema.insert(0, pa.field(PLACE, pa.int32())).with_metadata({"questions": str(len(questions))})
        with self.plan.writing(ANSWERS.format(task), schema) as writer:
            for numbers in questions_of_parts:
                place, line = spread(counts, numbers)
                chosen = lines.take(pa.array(line)).columns
                writer.write_batch(pa.RecordBatch.from_arrays([pa.array(place, pa.int32()), *chosen], schema=schema))
        return {"questions": len(questions)}

    def _gathered(self, bucket: int) -> tuple[list[NDArray[np.int64]], pa.RecordBatch]:
        """Read a bucket's questions of all parts: which each part asks, and the distinct ones."""
        groups: list[list[tuple[str, ...]]] = []
        for part in range(len(self.plan.parts)):
            with self.plan.reading(QUESTIONS.format(part)) as reader:
                columns = [column.to_pylist() for column in reader.get_batch(bucket).columns]
            # A context, a language or a domain is never empty, so that "" stands for none, and can be sorted.
            groups.append([tuple(text or "" for text in question) for question in zip(*columns, strict=True)])
        distinct = sorted(set().union(*groups))
        number = dict(zip(distinct, range(len(distinct)), strict=True))
        questions_of_parts = [np.array([number[question] for question in group], np.int64) for group in groups]
        mentions, *further = list(zip(*distinct, strict=True)) or [()] * len(QUESTION)
        arrays = [mentions, *([text or None for text in column] for column in further)]
        return questions_of_parts, pa.RecordBatch.from_arrays(
            [pa.array(array, kind) for array, kind in zip(arrays, QUESTION.types, strict=True)], schema=QUESTION
        )


def write_rows(plan: Plan, task: int) -> Receipt:
    """Write the output of part number `task`, each row as often as its answer has lines: the end of the shuffle."""
    part = plan.parts[task]
    rows = rows_of(part, plan.columns, plan.buckets)
    batches = []
    for bucket in range(plan.buckets):
        with plan.reading(ANSWERS.format(bucket)) as reader:
            batch = reader.get_batch(task)
        # From the number of the question in its bucket to that in the part.
        place = pc.add(batch.column(PLACE).cast(pa.int64()), int(rows.bounds[bucket]))
        batches.append(batch.set_column(0, PLACE, place))
    lines = pa.Table.from_batches(batches)
    row, line = spread(np.bincount(lines.column(PLACE).to_numpy(), minlength=len(rows.questions)), rows.asked)
    taken, numbers = lines.take(pa.array(line)), pa.array(row)
    given = {
        "row": pa.array(rows.numbers),
        "mention_code": rows.code,
        "mention": rows.mention,
        "frequency": rows.frequency,
    }
    schema = pa.schema([(name, (_OWN | KINDS).get(name, pa.string())) for name in plan.names])
    arrays: list[Any] = [given[name].take(numbers) if name in given else taken.column(name) for name in plan.names]
    output = pa.Table.from_arrays(
        [array.cast(kind) for array, kind in zip(arrays, schema.types, strict=True)], schema=schema
    )
    with plan.output(OUTPUT.format(task)) as file:
        hashed = _Hashed(file)
        with pq.ParquetWriter(hashed, output.schema, compression="snappy") as writer:
            writer.write_table(output)
    facts = {
        "rows": part.rows,
        "lines": len(output),
        "sha256": hashed.digest.hexdigest(),
        "bytes": hashed.size,
        "counts": counts_of(output) | {REJECTED: len(rows.rejects), NO_CODE: _without_code(rows)},
        "rejects": [
            {
                "problem": row.problem or "it cannot be used",
                "file": str(Place(part.file)),
                "line": row.line,
                "field": row.field,
                "value": None if plan.private or row.value is None else shorten(row.value),
            }
            for row in rows.rejects
        ],
    }
    plan.work.put_json(WRITTEN.format(task), facts)
    return {"rows": part.rows}


def _without_code(rows: Rows) -> int:
    return 0 if rows.code is None else sum(not code for code in rows.code.to_pylist())


class _Hashed(io.RawIOBase):
    """A file that is written on, and hashed on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest, self.size = file, hashlib.sha256(), 0

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - whatever has bytes
        view = memoryview(data)
        self.file.write(view)
        self.digest.update(view)
        self.size += view.nbytes
        return view.nbytes

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size


def counts_of(output: pa.Table) -> dict[str, int]:
    """Count the rows of an output by method and by decision."""
    first = output.filter(pc.equal(output.column("rank"), 1)).select(["method", "decision"])
    tally = first.group_by(["method", "decision"]).aggregate([([], "count_all")]).to_pylist()
    return outcomes({(row["method"], row["decision"]): row["count_all"] for row in tally})


def _finish(plan: Plan, identity: dict[str, Any], engine: dict[str, Any], seconds: dict[str, float]) -> dict[str, Any]:
    """Write rejects and manifest, remove what was for the way, and return the manifest."""
    counts: Counter[str] = Counter()
    files: dict[str, dict[str, Any]] = {}
    with drafts.scratch() as folder:
        aside = folder / REJECTS
        with Rejects(aside, private=plan.private) as rejects:
            for part in range(len(plan.parts)):
                facts = json.loads(plan.work.get(WRITTEN.format(part)))
                counts.update(facts["counts"])
                size = {"size": facts["bytes"], "rows": facts["rows"], "lines": facts["lines"]}
                files[OUTPUT.format(part)] = {"sha256": facts["sha256"], **size}
                for reject in facts["rejects"]:
                    rejects.add(**reject)
        if rejects.count:
            with (Place(plan.out) / REJECTS).whole(plan.work.drafts, private=True) as file:
                file.write(aside.read_bytes())
            files[REJECTS] = {"sha256": artefact.hash_file(aside), "size": aside.stat().st_size}
    distinct = 0
    for bucket in range(plan.buckets):
        with plan.reading(ANSWERS.format(bucket)) as reader:
            distinct += int(reader.schema.metadata[b"questions"])
    manifest: dict[str, Any] = {"kind": KIND, "format_version": artefact.FORMAT_VERSION, "files": files}
    content = manifest | {"files": {name: facts_of_file["sha256"] for name, facts_of_file in files.items()}}
    manifest |= {
        "content_hash": artefact.hash_json(content),
        "counts": dict(counts),
        "distinct": distinct,
        "job": identity,
        "settings": asdict(plan.settings),
        "columns": asdict(plan.columns),
        "engine": engine,
        "seconds": seconds,
        "alphita_version": alphita.__version__,
        "created": clock.now().isoformat(timespec="seconds"),
        "command": machine.command(),
    }
    plan.output_json(MANIFEST, manifest)
    clear(Place(plan.out))
    return manifest


def _buckets(rows: int) -> int:
    """Return over how many buckets the questions are spread; it depends on the number of rows alone."""
    return max(1, min(-(-rows // FEW_ROWS), FEW_BUCKETS), min(-(-rows // BUCKET_ROWS), MAX_BUCKETS))


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


def look(out: Place, identity: dict[str, Any], restart: Restart) -> dict[str, Any] | None:
    """See what is in the output's folder; return the manifest of a finished job that is to be resumed."""
    names = out.names()
    if not names:
        if out.exists() and "." in out.name and out.is_local and Path(out.url).is_file():
            raise UsageError(f"{out} is a file; with --engine the output is a folder")
        return None
    if MANIFEST not in names and JOB not in names:
        if set(names) <= {WORK}:
            out.remove()
            return None
        raise UsageError(f"{out} is not empty, and holds no job; choose another name")
    record = json.loads((out / (MANIFEST if MANIFEST in names else JOB)).content())
    if record.get("kind") != KIND:
        raise UsageError(f"{out} holds something else than an output of alphita normalize; choose another name")
    if restart.force:
        old = out.move_aside()
        (old / WORK).remove()
        # By its description an unfinished job's folder is still known as an output.
        if MANIFEST in names or old.names() == [JOB]:
            discard(old)
        if old.exists():
            progress.say(f"the earlier output is now {old}")
        return None
    if not restart.resume and MANIFEST in names:
        raise UsageError(f"{out} already exists; choose another name or use --force")
    if not restart.resume:
        raise UsageError(f"an unfinished job is there ({out}); go on with --resume, or begin anew with --force")
    refuse_other(record["job"], identity)
    if MANIFEST in names:
        clear(out)
        progress.say(f"{out} is finished already")
        return dict(record)
    return None


def clear(out: Place) -> None:
    """Remove what a finished job does not need."""
    (out / WORK).remove()
    (out / JOB).remove()


def discard(out: Place) -> None:
    """Remove what a job has for the way; of the folder, if nothing else is in it, nothing stays."""
    clear(out)
    if not out.names():
        out.remove()


def input_files(given: Place, out: Place) -> list[Place]:
    """Return the Parquet files of an input; those that earlier jobs wrote into its folder are passed over, and told."""
    files = given.parquet_files()
    below = [*given.folders_with(MANIFEST, JOB), *given.folders_matched(files)]
    outputs = [folder for folder in below if _is_output(folder)]
    kept = [file for file in files if not any(_lies_in(file, folder) for folder in outputs)]
    for file in kept:
        if file.url == out.url or _lies_in(file, out):
            raise UsageError(f"{out} holds the input; choose another folder for the output")
    if files[0].url != given.url and _lies_in(out, given):
        raise UsageError(f"{out} lies in the folder of the input; choose another one for the output")
    if len(kept) < len(files):
        progress.say(
            f"not read: {counted(len(files) - len(kept), 'file')} of an earlier output: {', '.join(map(str, outputs))}"
        )
    if not kept:
        raise InputError("no Parquet file is there but earlier outputs", file=str(given), remedy="give the one to read")
    return kept


def _is_output(folder: Place) -> bool:
    for name in (MANIFEST, JOB):
        if (folder / name).exists():
            try:
                return bool(json.loads((folder / name).content()).get("kind") == KIND)
            except (ValueError, AttributeError):
                # Whatever else has a file of this name.
                return False
    return False


def _lies_in(place: Place, folder: Place) -> bool:
    return place.url.startswith(folder.url.rstrip("/") + "/")
