"""Normalising a file of any size: in chunks, each durable before the next, so that a killed job can go on.

    OUT.part, OUT.rejects.part     what is written so far
    OUT.answers.part               the answers so far (see `answers`): each distinct question is answered once
    OUT.audit.part                 the accepted rows so far, if a sample of them was asked for
    OUT.held.part                  for each chunk, its last lines that are written with the next ones' (`Format.closed`)
    OUT.journal                    how much of them is durable (see `journal`)

A chunk's lines depend on the input up to its end, and on nothing else: so a job that was killed and resumed gives the
same bytes as an unbroken one. The output appears whole, by renaming, when the last chunk is in.

Memory does not grow with the file beyond some 3 GB: when the answers kept have reached `answers.MOST_BYTES` (about a
million and a half distinct mentions with one candidate each), no more are kept, and a mention that is not among them is
answered once in each chunk where it stands.
"""

from __future__ import annotations

import gc
import glob
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from alphita import clock, machine, progress
from alphita.answer.normalizer import Normalizer
from alphita.calibrate.audit import draw, write_audit
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.jobs.answers import Answer, AnswerStore, Question, question
from alphita.jobs.job import Job, check, check_concepts, format_of, header_of, identity
from alphita.jobs.journal import Chunk, Journal
from alphita.jobs.lines import accepted, as_json, lines_and_counts, losses_of, problem_of, reject_lines
from alphita.jobs.parts import Parts, beside
from alphita.jobs.reading.rows import MentionRow
from alphita.jobs.remembering import answer_all
from alphita.jobs.summary import ACCEPTED, REJECTED, UNWRITTEN, Summary, rows_of
from alphita.mappings.formats import Header
from alphita.mappings.record import Mapping
from alphita.mention.assertion import names_in

# A chunk ends early when its texts are this long together, so that cells of megabytes do not fill the memory, or when
# it has this many new questions, which are some ten seconds of work.
CHUNK_CHARACTERS = 16 * 2**20
CHUNK_QUESTIONS = 16_384
PROGRESS_ROWS = 10_000
# A text without one of them defines no abbreviation.
CLOSING_BRACKETS = ")]）"
PART, REJECTS, ANSWERS, AUDIT, HELD = ".part", ".rejects.part", ".answers.part", ".audit.part", ".held.part"


class Rows(NamedTuple):
    """The input rows of a chunk.

    Attributes:
        rows: all of them.
        asked: for each its question; None for a row that cannot be used.
        new: the questions without an answer yet, in the order in which they come up, each with its first row.
    """

    rows: list[MentionRow]
    asked: list[Question | None]
    new: dict[Question, MentionRow]


def run(normalizer: Normalizer, job: Job, *, resume: bool = False, force: bool = False) -> Summary:
    """Normalise a file."""
    writer = format_of(job)
    check(normalizer, job, writer, resume=resume, force=force)
    start = time.monotonic()
    if normalizer.calibration is not None and (normalizer.filters is not None or normalizer.target is not None):
        progress.say("confidence was measured without filters and target; an audit (--audit) measures it with them")
    today = clock.today().isoformat()
    if job.to_stdout:
        header = header_of(normalizer, job, today)
        check_concepts(normalizer, job, writer, header)
        chunks = list(_to_stdout(normalizer, job, writer, header))
        return Summary.of_chunks(chunks, 0, start, "stdout", normalizer)
    out = Path(job.out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        name = writer.__name__.rsplit(".", 1)[-1]
        with Journal(
            beside(out, ".journal"), identity(normalizer, job, name), date=today, resume=resume, force=force
        ) as journal:
            header = header_of(normalizer, job, journal.date)
            resumed = sum(rows_of(chunk.counts) for chunk in journal.chunks)
            try:
                check_concepts(normalizer, job, writer, header)
                if not journal.complete:
                    # The answers that are kept are millions of objects; to go through them took 7% of a job's time.
                    with machine.uncollected():
                        _write_parts(normalizer, job, writer, header, journal)
                    journal.mark_complete()
                rejects, audit = _finish(job, writer, header, journal)
            except BaseException:
                if not journal.chunks or job.table.is_stream:
                    _discard(out, journal)
                raise
            return Summary.of_chunks(journal.chunks, resumed, start, str(out), normalizer, rejects=rejects, audit=audit)
    except OSError as error:
        kept = not job.table.is_stream and beside(out, ".journal").exists()
        what_now = "make room and go on with --resume" if kept else "nothing was changed"
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; {what_now}") from error


def _write_parts(normalizer: Normalizer, job: Job, writer: ModuleType, header: Header, journal: Journal) -> None:
    """Append every chunk that the journal does not have yet; each is written while the next is answered."""
    out = Path(job.out)
    durable = journal.chunks[-1].lengths if journal.chunks else {}
    defined = _learn_abbreviations(normalizer, job)
    answers = AnswerStore()
    with (
        Parts(out, (PART, REJECTS, ANSWERS, HELD, *([AUDIT] if job.audit else [])), durable) as parts,
        ThreadPoolExecutor(1, thread_name_prefix="writing") as aside,
    ):
        if not durable:
            parts.append(PART, writer.begin(header))
        past, seen, restored = list(journal.chunks), 0, 0
        written: Future[None] | None = None
        for seen, chunk in enumerate(_with_progress(normalizer, job, answers), 1):
            if seen <= len(past):
                if past[seen - 1].digest != _digest(chunk.rows, defined):
                    raise _other_input(job)
                answers.restore(chunk.new, parts.read(ANSWERS, restored, past[seen - 1].lengths[ANSWERS]))
                restored = past[seen - 1].lengths[ANSWERS]
                continue
            fresh = _answer(normalizer, job, chunk.new)
            found = [None if asked is None else fresh.get(asked) or answers[asked] for asked in chunk.asked]
            kept = answers.add(fresh.items())
            if written is not None:
                written.result()
            gc.collect(1)
            written = aside.submit(_write, job, writer, header, journal, parts, chunk.rows, found, kept, defined)
        if seen < len(past):
            raise _other_input(job)
        if written is not None:
            written.result()
        if held := _held(journal, parts):
            parts.append(PART, writer.encode(header, held))
        # Without a row, the header is the output.
        parts.sync()


def _write(
    job: Job,
    writer: ModuleType,
    header: Header,
    journal: Journal,
    parts: Parts,
    rows: Sequence[MentionRow],
    found: Sequence[Answer | None],
    kept: bytes,
    defined: str,
) -> None:
    """Append a chunk and make it durable."""
    made, counts = lines_and_counts(rows, found)
    held = _held(journal, parts)
    closed, still_held = writer.closed(header, [*held, *made])
    parts.append(PART, writer.encode(header, closed))
    parts.append(ANSWERS, kept)
    parts.append(HELD, as_json(still_held))
    unwritten, lost = losses_of(writer, header, held, made)
    counts[UNWRITTEN] = len(unwritten)
    aside = beside(Path(job.out), ".rejects.chunk")
    parts.append(REJECTS, reject_lines(rows, unwritten, job, aside, parts.length(REJECTS) == 0))
    if job.audit:
        parts.append(AUDIT, accepted(made))
    journal.add(Chunk(_digest(rows, defined), parts.sync(), counts, lost))


def _held(journal: Journal, parts: Parts) -> list[Mapping]:
    """Return the lines that are written together with what follows the last durable chunk."""
    start, end = [0, 0, *(chunk.lengths.get(HELD, 0) for chunk in journal.chunks[-2:])][-2:]
    return [Mapping(*json.loads(line)) for line in parts.read(HELD, start, end).splitlines()]


def _learn_abbreviations(normalizer: Normalizer, job: Job) -> str:
    """Let the normaliser learn the abbreviations that the input defines anywhere; return a hash of what it was told."""
    if job.table.is_stream or normalizer.abbreviations is None:
        normalizer.prepare(())
        return ""
    digest = hashlib.blake2b(digest_size=16)

    def texts(bar: progress.Bar) -> Iterator[str]:
        for row in job.table.rows():
            for text in (row.mention, row.context):
                if text is not None and any(bracket in text for bracket in CLOSING_BRACKETS):
                    digest.update(json.dumps(text).encode())
                    yield text
            if row.number % PROGRESS_ROWS == 0:
                bar.advance(PROGRESS_ROWS)

    with progress.bar("Looking for abbreviations", unit="rows") as bar:
        normalizer.prepare(texts(bar))
    return digest.hexdigest()


def _answer(normalizer: Normalizer, job: Job, new: dict[Question, MentionRow]) -> dict[Question, Answer]:
    """Answer the questions of some rows, together: by what was settled before, or else by the index."""
    found = answer_all(
        [(row.asked, row.context, row.language) for row in new.values()],
        normalizer,
        job.memory,
        top_k=job.top_k,
        explain=job.explain,
        contexts=bool(job.table.context_column),
        languages=bool(job.table.language_column),
    )
    return dict(zip(new, found, strict=True))


def _chunks(rows: Iterator[MentionRow], most_rows: int, answers: AnswerStore) -> Iterator[Rows]:
    """Cut the rows into chunks; the cuts depend on the rows alone, if each chunk is answered before the next is cut."""
    chunk = Rows([], [], {})
    characters = 0
    for row in rows:
        asked = None
        if row.mention is not None:
            characters += len(row.mention) + len(row.context or "")
            asked = question(row)
            if asked not in answers:
                chunk.new.setdefault(asked, row)
        chunk.rows.append(row)
        chunk.asked.append(asked)
        if len(chunk.rows) >= most_rows or characters >= CHUNK_CHARACTERS or len(chunk.new) >= CHUNK_QUESTIONS:
            yield chunk
            chunk, characters = Rows([], [], {}), 0
    if chunk.rows:
        yield chunk


def _rows(normalizer: Normalizer, job: Job) -> Iterator[MentionRow]:
    """Yield the input's rows; with `split` one for each of the names that a mention joins, of the same number."""
    for row in job.table.rows():
        if job.split and row.mention is not None:
            yield from (row._replace(mention=name) for name in names_in(row.mention, normalizer.index.rows))
        else:
            yield row


def _with_progress(normalizer: Normalizer, job: Job, answers: AnswerStore) -> Iterator[Rows]:
    """Yield the chunks and show progress; the total is estimated from how much of the file the first one took."""
    chunks = _chunks(_rows(normalizer, job), job.chunk_rows, answers)
    first = next(chunks, None)
    if first is None:
        return
    with progress.bar("Normalising", total=job.table.estimate_rows(len(first.rows)), unit="rows") as bar:
        yield first
        bar.advance(len(first.rows))
        for chunk in chunks:
            yield chunk
            bar.advance(len(chunk.rows))


def _finish(job: Job, writer: ModuleType, header: Header, journal: Journal) -> tuple[Path | None, Path | None]:
    """Put output, rejects and audit in their places; after a crash in the midst of it, it does what is left."""
    out = Path(job.out)
    part, rejects_part, rejects = beside(out, PART), beside(out, REJECTS), job.rejects_file
    has_rejects = any(chunk.counts.get(REJECTED) or chunk.counts.get(UNWRITTEN) for chunk in journal.chunks)
    if has_rejects and rejects_part.exists():
        rejects_part.replace(rejects)
    elif not has_rejects:
        rejects_part.unlink(missing_ok=True)
        # Of an earlier run whose output is being replaced.
        rejects.unlink(missing_ok=True)
    for draft in out.parent.glob(f".{glob.escape(out.name)}.*.draft"):
        # Left by a kill while this very step was at work.
        draft.unlink()
    if not part.exists() and not out.exists():
        raise InputError("the part file is gone", file=part, remedy="begin anew with --force")
    if part.exists():
        if not job.private:
            part.chmod(0o666 & ~_umask())
        writer.finish(header, part, out)
    has_audit = job.audit and any(chunk.counts.get(ACCEPTED) for chunk in journal.chunks)
    if has_audit and beside(out, AUDIT).exists():
        with beside(out, AUDIT).open(encoding="utf-8") as file:
            sample = draw((Mapping(*json.loads(line)) for line in file), job.audit)
        write_audit(job.audit_file, sample, out, force=True)
    for suffix in (AUDIT, ANSWERS, HELD):
        beside(out, suffix).unlink(missing_ok=True)
    descriptor = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    journal.remove()
    return rejects if has_rejects else None, job.audit_file if has_audit else None


def _discard(out: Path, journal: Journal) -> None:
    for suffix in (PART, REJECTS, ANSWERS, AUDIT, HELD, ".rejects.chunk"):
        beside(out, suffix).unlink(missing_ok=True)
    journal.remove()


def _to_stdout(normalizer: Normalizer, job: Job, writer: ModuleType, header: Header) -> Iterator[Chunk]:
    """Write to stdout; yield what each chunk's counts are."""
    file = sys.stdout.buffer
    _learn_abbreviations(normalizer, job)
    answers = AnswerStore()
    held: Sequence[Mapping] = ()
    file.write(writer.begin(header))
    for chunk in _with_progress(normalizer, job, answers):
        fresh = _answer(normalizer, job, chunk.new)
        found = [None if asked is None else fresh.get(asked) or answers[asked] for asked in chunk.asked]
        made, counts = lines_and_counts(chunk.rows, found)
        answers.add(fresh.items())
        unwritten, lost = losses_of(writer, header, held, made)
        closed, held = writer.closed(header, [*held, *made])
        file.write(writer.encode(header, closed))
        file.flush()
        # There is no file of rejects, so that each must be told here.
        for row in chunk.rows:
            if row.problem is not None or row.number in unwritten:
                what, why = "rejected", problem_of(row)
                if row.number in unwritten:
                    what, why = "not written", unwritten[row.number]
                value = None if job.private else why.value
                told = InputError(why.problem, file=job.table.name, line=row.line, field=why.field or None, value=value)
                progress.say(f"{what}: {told}")
        yield Chunk("", {}, counts, lost)
    if held:
        file.write(writer.encode(header, held))
        file.flush()


def _other_input(job: Job) -> UsageError:
    return UsageError(
        f"cannot resume: {job.table.name} is not the input this job began with; "
        "give the same, or begin anew with --force"
    )


def _digest(rows: Sequence[MentionRow], defined: str) -> str:
    """Return a hash of some rows and of the abbreviations that were learned from all of them."""
    content = json.dumps([defined, rows], default=repr).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
