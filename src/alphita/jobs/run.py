"""Normalising a file of any size: in chunks, each durable before the next, so that a killed job can go on.

A chunk's lines depend on the input up to its end alone: a resumed job gives the bytes of an unbroken one.
"""

from __future__ import annotations

import gc
import glob
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from alphita import clock, machine, progress
from alphita.answer.normalizer import Normalizer
from alphita.errors import InputError, Rejects, UsageError
from alphita.jobs.answers import DECISION, METHOD, Answer, AnswerStore, Question, answer_all, lines_of, question
from alphita.jobs.domains import HIDDEN, Domains
from alphita.jobs.job import (
    ACCEPTED,
    NO_CODE,
    REJECTED,
    UNWRITTEN,
    Job,
    Summary,
    check,
    check_concepts,
    format_of,
    header_of,
    identity,
    outcomes,
    rows_of,
)
from alphita.jobs.parts import DRAFTS, Chunk, Parts, beside, locked, telling_what_is_kept
from alphita.jobs.reading import MentionRow
from alphita.mappings.formats import Header, Problem, lost_anew
from alphita.mappings.record import COLUMNS, Mapping
from alphita.mention.assertion import names_in
from alphita.options import FROM_START, Restart

# A chunk ends early when its texts are this long together, so that cells of megabytes do not fill the memory, or when
# it has this many new questions, which are some ten seconds of work.
CHUNK_CHARACTERS = 16 * 2**20
CHUNK_QUESTIONS = 16_384
PROGRESS_ROWS = 10_000
# A text without one of them defines no abbreviation.
CLOSING_BRACKETS = ")]）"
# A chunk's content: the output's bytes, new answers, lines held for the next chunk (`Format.split_complete`), rejected
# rows, and accepted rows if a sample of them is wanted.
OUTPUT, ANSWERS, HELD, REJECTS, AUDIT = "output", "answers", "held", "rejects", "audit"


class Rows(NamedTuple):
    """The input rows of a chunk."""

    rows: list[MentionRow]
    asked: list[Question | None]
    new: dict[Question, MentionRow]


def run(normalizer: Normalizer, job: Job, restart: Restart = FROM_START) -> Summary:
    """Normalise a file."""
    writer = format_of(job)
    check(normalizer, job, writer, restart)
    start = time.monotonic()
    narrowed = normalizer.filters is not None or normalizer.target is not None or job.table.domain_column is not None
    if normalizer.calibration is not None and narrowed:
        progress.say("confidence was measured without filters and target; an audit (--audit) measures it with them")
    today = clock.today().isoformat()
    if job.to_stdout:
        output = _Output(job, writer, header_of(normalizer, job, today), None)
        check_concepts(normalizer, job, writer, output.header)
        unknown = _answer_all(normalizer, job, output)
        return replace(Summary.of_chunks(output.chunks, 0, start, "stdout", normalizer), unread=unknown)
    out = Path(job.out)
    parts = Parts.beside(out)
    with telling_what_is_kept(out, parts), locked(str(out)):
        name = writer.__name__.rsplit(".", 1)[-1]
        date = parts.begin(identity(normalizer, job, name), today, restart)
        try:
            output = _Output(job, writer, header_of(normalizer, job, date), parts)
            check_concepts(normalizer, job, writer, output.header)
            # The answers that are kept are millions of objects; to go through them took 7% of a job's time.
            with machine.uncollected():
                unknown = _answer_all(normalizer, job, output)
            rejects, audit = _finish(job, output, parts)
        except BaseException:
            beside(out, ".part").unlink(missing_ok=True)
            if not parts.chunks() or job.table.is_stream:
                parts.place.remove()
            raise
        resumed = sum(rows_of(chunk.counts) for chunk in output.chunks[: output.past])
        files = {"rejects": rejects, "audit": audit}
        summary = Summary.of_chunks(output.chunks, resumed, start, str(out), normalizer, **files)
        return replace(summary, unread=unknown)


class _Output:
    """Where chunks go: parts, or stdout; and what is known of those that are there."""

    def __init__(self, job: Job, writer: ModuleType, header: Header, parts: Parts | None) -> None:
        self.job, self.writer, self.header, self.parts = job, writer, header, parts
        self.begun = writer.begin(header)
        self.past = 0 if parts is None else parts.chunks()
        self.chunks: list[Chunk] = []
        self.held: Sequence[Mapping] = ()

    def resume(self) -> Chunk:
        assert self.parts is not None
        chunk = self.parts.chunk(len(self.chunks))
        self.held = [Mapping(*json.loads(line)) for line in chunk.content[HELD].splitlines()]
        self.chunks.append(chunk._replace(content={}))
        return chunk

    def write(self, rows: Sequence[MentionRow], replies: Sequence[Answer | None], kept: bytes, digest: str) -> None:
        lines, counts = lines_and_counts(rows, replies)
        unwritten, lost = losses_of(self.writer, self.header, self.held, lines)
        counts[UNWRITTEN] = len(unwritten)
        if self.job.table.code_column:
            counts[NO_CODE] = len({row.number for row in rows if row.problem is None and not row.code})
        complete, self.held = self.writer.split_complete(self.header, [*self.held, *lines])
        chunk = Chunk(digest, counts, lost, {OUTPUT: self.writer.encode(self.header, complete)})
        if self.parts is None:
            self._to_stdout(chunk, rows, unwritten)
        else:
            chunk.content[ANSWERS] = kept
            chunk.content[HELD] = as_json(self.held)
            chunk.content[REJECTS] = reject_lines(rows, unwritten, self.job, Path(self.parts.place.url) / DRAFTS)
            chunk.content[AUDIT] = accepted(lines) if self.job.audit else b""
            self.parts.put_chunk(len(self.chunks), chunk)
        self.chunks.append(chunk._replace(content={}))

    def _to_stdout(self, chunk: Chunk, rows: Sequence[MentionRow], unwritten: dict[int, Problem]) -> None:
        sys.stdout.buffer.write(chunk.content[OUTPUT])
        sys.stdout.buffer.flush()
        # There is no file of rejects, so that each must be told here.
        for row in rows:
            if row.number in unwritten:
                what, why = "not written", unwritten[row.number]
            elif row.problem is not None:
                what, why = "rejected", problem_of(row)
            else:
                continue
            value = None if self.job.private else why.value
            name = self.job.table.name
            problem = InputError(why.problem, file=name, line=row.line, field=why.field or None, value=value)
            progress.say(f"{what}: {problem}")


def _answer_all(normalizer: Normalizer, job: Job, output: _Output) -> dict[str, dict[str, int]]:
    """Answer what the output does not have yet, chunk by chunk; each is written while the next is answered.

    Returns:
        By column, how many rows have which value that is not known.
    """
    unread: dict[str, Counter[str]] = {}
    domains = Domains(normalizer.types if job.table.domain_column else (), job.domains, private=job.private)
    defined = _learn_abbreviations(normalizer, job)
    answers = AnswerStore()
    if output.parts is None:
        sys.stdout.buffer.write(output.begun)
    with ThreadPoolExecutor(1, thread_name_prefix="writing") as aside:
        written: Future[None] | None = None
        for rows in _with_progress(_rows(normalizer, job, domains), job, answers):
            for column, value in (one for row in rows.rows for one in row.unread):
                unread.setdefault(column, Counter())[HIDDEN if job.private else value] += 1
            content = json.dumps([defined, rows.rows], default=repr).encode()
            digest = hashlib.blake2b(content, digest_size=16).hexdigest()
            if len(output.chunks) < output.past:
                chunk = output.resume()
                if chunk.digest != digest:
                    raise _other_input(job)
                answers.restore(rows.new, chunk.content[ANSWERS])
                continue
            fresh = _answer(normalizer, job, rows.new)
            replies = [None if query is None else fresh.get(query) or answers[query] for query in rows.asked]
            kept = answers.add(fresh.items())
            if written is not None:
                written.result()
            gc.collect(1)
            written = aside.submit(output.write, rows.rows, replies, kept, digest)
        if written is not None:
            written.result()
    if len(output.chunks) < output.past:
        raise _other_input(job)
    if output.parts is None:
        if output.held:
            sys.stdout.buffer.write(output.writer.encode(output.header, output.held))
        sys.stdout.buffer.flush()
        output.header.tell_guarded()
    return {name: dict(values) for name, values in {"domain_column": domains.unknown, **unread}.items() if values}


def _learn_abbreviations(normalizer: Normalizer, job: Job) -> str:
    """Let the normaliser learn the abbreviations that the input defines anywhere; return a hash of what it was told."""
    if job.table.is_stream or normalizer.abbreviations is None:
        normalizer.prepare(())
        return ""
    digest = hashlib.blake2b(digest_size=16)

    def texts(bar: progress.Bar) -> Iterator[str]:
        number = 0
        for number, row in enumerate(job.table.rows(), 1):
            for text in (row.mention, row.context):
                if text is not None and any(bracket in text for bracket in CLOSING_BRACKETS):
                    digest.update(json.dumps(text).encode())
                    yield text
            if number % PROGRESS_ROWS == 0:
                bar.advance(PROGRESS_ROWS)
        bar.advance(number % PROGRESS_ROWS)

    with progress.bar("Looking for abbreviations", unit="rows") as bar:
        normalizer.prepare(texts(bar))
    return digest.hexdigest()


def _answer(normalizer: Normalizer, job: Job, new: dict[Question, MentionRow]) -> dict[Question, Answer]:
    """Answer the questions of some rows, together: by what was settled before, or else by the index."""
    replies = answer_all(
        [(row.asked, row.context, row.language, row.domain) for row in new.values()],
        normalizer,
        job,
        contexts=bool(job.table.context_column),
        languages=bool(job.table.language_column),
    )
    return dict(zip(new, replies, strict=True))


def _chunks(rows: Iterator[MentionRow], most_rows: int, answers: AnswerStore) -> Iterator[Rows]:
    """Cut the rows into chunks; the cuts depend on the rows alone, if each chunk is answered before the next is cut."""
    chunk = Rows([], [], {})
    characters = 0
    for row in rows:
        query = None
        if row.mention is not None:
            characters += len(row.mention) + len(row.context or "")
            query = question(row)
            if query not in answers:
                chunk.new.setdefault(query, row)
        chunk.rows.append(row)
        chunk.asked.append(query)
        if len(chunk.rows) >= most_rows or characters >= CHUNK_CHARACTERS or len(chunk.new) >= CHUNK_QUESTIONS:
            yield chunk
            chunk, characters = Rows([], [], {}), 0
    if chunk.rows:
        yield chunk


def _rows(normalizer: Normalizer, job: Job, domains: Domains) -> Iterator[MentionRow]:
    """Yield the input's rows; with `split` one for each of the names that a mention joins, of the same number."""
    for given in job.table.rows():
        row = given if given.domain is None else given._replace(domain=domains.of(given.domain))
        if job.split and row.mention is not None:
            yield from (row._replace(mention=name) for name in names_in(row.mention, normalizer.index.rows))
        else:
            yield row


def _with_progress(rows: Iterator[MentionRow], job: Job, answers: AnswerStore) -> Iterator[Rows]:
    """Yield the chunks and show progress; the total is estimated from how much of the file the first one took."""
    chunks = _chunks(rows, job.chunk_rows, answers)
    first = next(chunks, None)
    if first is None:
        return
    with progress.bar("Normalising", total=job.table.estimate_rows(len(first.rows)), unit="rows") as bar:
        yield first
        bar.advance(len(first.rows))
        for chunk in chunks:
            yield chunk
            bar.advance(len(chunk.rows))


def _finish(job: Job, output: _Output, parts: Parts) -> tuple[Path | None, Path | None]:
    """Put output, rejects and audit in their places; after a crash in the midst of it, it is done again."""
    out, writer, header = Path(job.out), output.writer, output.header
    for draft in out.parent.glob(f".{glob.escape(out.name)}.*.draft"):
        # Left by a kill while this very step was at work.
        draft.unlink()
    part, rejects = beside(out, ".part"), Path(parts.place.url) / DRAFTS / REJECTS

    def private(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW, 0o600)

    with open(part, "wb", opener=private) as file, open(rejects, "wb", opener=private) as aside:
        file.write(output.begun)
        for number in range(len(output.chunks)):
            content = parts.chunk(number).content
            file.write(content[OUTPUT])
            aside.write(content[REJECTS].partition(b"\n")[2] if aside.tell() else content[REJECTS])
        if output.held:
            file.write(writer.encode(header, output.held))
        for written in (file, aside):
            written.flush()
            os.fsync(written.fileno())
    has_rejects = rejects.stat().st_size > 0
    if has_rejects:
        rejects.replace(job.rejects_file)
    else:
        # Of an earlier run whose output is being replaced.
        job.rejects_file.unlink(missing_ok=True)
    if not job.private:
        mask = os.umask(0o077)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
    writer.finish(header, part, out)
    has_audit = job.audit and any(chunk.counts.get(ACCEPTED) for chunk in output.chunks)
    if has_audit:
        from alphita.calibrate.audit import draw, write_audit

        lines = (line for n in range(len(output.chunks)) for line in parts.chunk(n).content[AUDIT].splitlines())
        write_audit(job.audit_file, draw((Mapping(*json.loads(line)) for line in lines), job.audit), out, force=True)
    descriptor = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    parts.place.remove()
    return job.rejects_file if has_rejects else None, job.audit_file if has_audit else None


def _other_input(job: Job) -> UsageError:
    return UsageError(
        f"cannot resume: {job.table.name} is not the input this job began with; "
        "give the same, or begin anew with --force"
    )


_record = attrgetter(*COLUMNS)


def lines_and_counts(
    rows: Sequence[MentionRow], replies: Sequence[Answer | None]
) -> tuple[list[Mapping], dict[str, int]]:
    """Return the lines of some rows, and how many rows had which outcome."""
    lines: list[Mapping] = []
    tally: Counter[tuple[str, str | None]] = Counter()
    for row, answered in zip(rows, replies, strict=True):
        if answered is None:
            tally[REJECTED, None] += 1
            continue
        lines.extend(lines_of(row, answered))
        tally[answered[0][METHOD], answered[0][DECISION]] += 1
    return lines, outcomes(tally)


def accepted(lines: Sequence[Mapping]) -> bytes:
    """Return the accepted rows among some lines, as JSON."""
    return as_json(line for line in lines if line.rank == 1 and line.decision == "accept")


def as_json(lines: Iterable[Mapping]) -> bytes:
    """Return lines as JSON, one a line."""
    return "".join(json.dumps(_record(line)) + "\n" for line in lines).encode()


def losses_of(
    writer: ModuleType, header: Header, held: Sequence[Mapping], lines: Sequence[Mapping]
) -> tuple[dict[int, Problem], dict[str, int]]:
    """Return why which rows cannot be written, and what else the format does not hold of lines after those held."""
    if not writer.LOSSES:
        return {}, {}
    unwritten: dict[int, Problem] = {}
    for line in lines:
        if line.rank == 1 and (problem := writer.validate(header, line)) is not None:
            unwritten[line.row] = problem
    return unwritten, lost_anew(writer, header, held, lines)


def reject_lines(rows: Sequence[MentionRow], unwritten: dict[int, Problem], job: Job, drafts: Path) -> bytes:
    """Return the rejects among some rows as CSV, in order: those that were not read, and those not written."""
    bad = [row for row in rows if row.problem is not None or row.number in unwritten]
    if not bad:
        return b""
    aside = drafts / "rejects.chunk"
    with Rejects(aside, private=job.private) as rejects:
        for row in bad:
            why = unwritten.get(row.number) or problem_of(row)
            rejects.add(why.problem, file=job.table.name, line=row.line, field=why.field, value=why.value)
    return aside.read_bytes()


def problem_of(row: MentionRow) -> Problem:
    """Return why a row could not be read."""
    return Problem(row.problem or "", row.field or "", row.value)
