"""Normalising a file of any size: in chunks, each durable before the next, so that a killed job can go on.

    OUT.part, OUT.rejects.part     what is written so far
    OUT.journal                    how much of it is durable (see `journal`)

A chunk's answers depend on its own rows only, never on what came before: so a job that was killed and resumed gives
the same bytes as an unbroken one. The output appears whole, by renaming, when the last chunk is in.
"""

from __future__ import annotations

import glob
import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from alphita import __version__, progress, registry
from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.normalizer.journal import Chunk, Journal
from alphita.normalizer.normalizer import Normalizer
from alphita.normalizer.records import EXACT, NEAREST, NIL, Line, lines
from alphita.normalizer.tables import Row, Table

FORMATS = "alphita.normalizer.formats"
STDOUT = "-"
CHUNK_ROWS = 10_000
# A chunk ends early when its mentions are this long together, so that cells of megabytes do not fill the memory.
CHUNK_CHARACTERS = 16 * 2**20
REJECTED = "rejected"
REJECTS_SHOWN = 5


@dataclass(frozen=True)
class Job:
    """What to normalise, where to, and how.

    Attributes:
        table: the input.
        out: the output file, or "-" for stdout.
        format: a module of `alphita.normalizer.formats`; "" to take it from the output's name.
        top_k: most candidates per row.
        private: no value of the input in rejects and errors, and an output that only its owner can read.
        chunk_rows: rows that are made durable together.
    """

    table: Table
    out: Path | str
    format: str = ""
    top_k: int = 1
    private: bool = False
    chunk_rows: int = CHUNK_ROWS

    def columns(self) -> list[str]:
        """Return the output's columns."""
        coded = self.table.code_column is not None
        return [column.name for column in fields(Line) if coded or column.name != "mention_code"]


@dataclass(frozen=True)
class Summary:
    """What a job did.

    Attributes:
        rows: input rows, rejects included.
        exact: rows answered by an exact match.
        nearest: rows answered by the nearest term.
        nil: rows for which no concept fits.
        rejected: rows that could not be used.
        resumed_rows: rows that an earlier, broken run had done.
        seconds: time taken by this run.
        rows_per_second: rows done by this run, per second.
        out: the output.
        rejects: the file of rejects, or None if there are none (or no file: the output is stdout).
    """

    rows: int
    exact: int
    nearest: int
    nil: int
    rejected: int
    resumed_rows: int
    seconds: float
    rows_per_second: float
    out: str
    rejects: str | None


def run(normalizer: Normalizer, job: Job, *, resume: bool = False, force: bool = False) -> Summary:
    """Normalise a file.

    Args:
        normalizer: what answers.
        job: input, output and options.
        resume: go on with a job that was broken off.
        force: replace an existing output, and begin anew whatever an earlier job left.

    Raises:
        UsageError: wrong options, an existing output, or a job that cannot be resumed.
        InputError: the input cannot be read.
        AlphitaError: the output cannot be written, e.g. the disk is full; what is durable stays for `resume`.
    """
    writer = _format(job)
    if str(job.out) == STDOUT:
        if resume:
            raise UsageError("stdout cannot be resumed; give an output file")
        return _to_stdout(normalizer, job, writer)
    out = Path(job.out)
    _check(job, out, resume=resume, force=force)
    start = time.monotonic()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with Journal(
            _beside(out, ".journal"), _identity(normalizer, job, writer), resume=resume, force=force
        ) as journal:
            resumed = sum(sum(chunk.counts.values()) for chunk in journal.chunks)
            try:
                if not journal.complete:
                    _write_parts(normalizer, job, writer, out, journal)
                    journal.mark_complete()
                rejects = _finish(job, writer, out, journal)
            except BaseException:
                if not journal.chunks or job.table.is_stdin:
                    _discard(out, journal)
                raise
            return _summary([chunk.counts for chunk in journal.chunks], resumed, start, str(out), rejects)
    except OSError as error:
        kept = not job.table.is_stdin and _beside(out, ".journal").exists()
        what_now = "make room and go on with --resume" if kept else "nothing was changed"
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; {what_now}") from error


def _write_parts(normalizer: Normalizer, job: Job, writer: ModuleType, out: Path, journal: Journal) -> None:
    """Append every chunk that the journal does not have yet."""
    columns = job.columns()
    header = writer.begin(columns)
    done = journal.chunks[-1] if journal.chunks else None
    with (
        _open_part(_beside(out, ".part"), done.part_bytes if done else 0) as part,
        _open_part(_beside(out, ".rejects.part"), done.reject_bytes if done else 0) as rejects_part,
    ):
        if done is None:
            part.write(header)
        seen = 0
        for seen, rows in enumerate(_with_progress(job), 1):
            digest = _digest(rows)
            if seen <= len(journal.chunks):
                if journal.chunks[seen - 1].digest != digest:
                    raise _other_input(job)
                continue
            made, counts = _answer(normalizer, job, rows)
            part.write(writer.encode(columns, made))
            rejects_part.write(_reject_lines(rows, job, _beside(out, ".rejects.chunk"), rejects_part.tell() == 0))
            for file in (part, rejects_part):
                file.flush()
                os.fsync(file.fileno())
            journal.add(Chunk(digest, part.tell(), rejects_part.tell(), counts))
        if seen < len(journal.chunks):
            raise _other_input(job)
        if not journal.chunks:
            # No rows at all: the header is the output.
            part.flush()
            os.fsync(part.fileno())


def _answer(normalizer: Normalizer, job: Job, rows: Sequence[Row]) -> tuple[list[Line], dict[str, int]]:
    """Return the lines for some rows, and how many rows had which outcome."""
    usable = [row for row in rows if row.mention is not None]
    results = normalizer.normalize([row.mention or "" for row in usable], top_k=job.top_k)
    counts = {EXACT: 0, NEAREST: 0, NIL: 0, REJECTED: len(rows) - len(usable)}
    made: list[Line] = []
    for row, result in zip(usable, results, strict=True):
        counts[result.method] += 1
        made.extend(lines(row.number, row.code, result, job.top_k))
    return made, counts


def _chunks(rows: Iterator[Row], most_rows: int) -> Iterator[list[Row]]:
    """Cut the rows into chunks; the cuts depend on the rows alone."""
    chunk: list[Row] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += len(row.mention or "")
        if len(chunk) >= most_rows or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _with_progress(job: Job) -> Iterator[list[Row]]:
    """Yield the chunks and show progress; the total is estimated from how much of the file the first one took."""
    chunks = _chunks(job.table.rows(), job.chunk_rows)
    first = next(chunks, None)
    if first is None:
        return
    with progress.bar("Normalising", total=job.table.estimate_rows(len(first)), unit="rows") as bar:
        yield first
        bar.advance(len(first))
        for chunk in chunks:
            yield chunk
            bar.advance(len(chunk))


def _reject_lines(rows: Sequence[Row], job: Job, aside: Path, with_header: bool) -> bytes:
    """Return the rejects among some rows as CSV."""
    bad = [row for row in rows if row.problem is not None]
    if not bad:
        return b""
    try:
        with Rejects(aside, private=job.private) as rejects:
            for row in bad:
                rejects.add(
                    row.problem or "", file=job.table.name, line=row.line, field=job.table.column, value=row.value
                )
        content = aside.read_bytes()
    finally:
        aside.unlink(missing_ok=True)
    return content if with_header else content.partition(b"\n")[2]


def _finish(job: Job, writer: ModuleType, out: Path, journal: Journal) -> Path | None:
    """Put output and rejects in their places; done again after a crash in the midst of it, it does what is left."""
    part, rejects_part, rejects = _beside(out, ".part"), _beside(out, ".rejects.part"), _beside(out, ".rejects.csv")
    has_rejects = any(chunk.counts[REJECTED] for chunk in journal.chunks)
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
        writer.finish(part, out)
    descriptor = os.open(out.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    journal.remove()
    return rejects if has_rejects else None


def _discard(out: Path, journal: Journal) -> None:
    for suffix in (".part", ".rejects.part", ".rejects.chunk"):
        _beside(out, suffix).unlink(missing_ok=True)
    journal.remove()


def _to_stdout(normalizer: Normalizer, job: Job, writer: ModuleType) -> Summary:
    if not writer.STREAMS:
        raise UsageError(f"{job.format or 'this format'} cannot be written to stdout; give a file, or --format csv")
    start = time.monotonic()
    columns = job.columns()
    file = sys.stdout.buffer
    file.write(writer.begin(columns))
    all_counts = []
    shown = 0
    for rows in _with_progress(job):
        made, counts = _answer(normalizer, job, rows)
        file.write(writer.encode(columns, made))
        file.flush()
        all_counts.append(counts)
        for row in rows:
            if row.problem is not None and shown < REJECTS_SHOWN:
                shown += 1
                progress.say(f"rejected: {job.table.name}:{row.line}: {row.problem}")
    return _summary(all_counts, 0, start, "stdout", None)


def _summary(
    all_counts: Sequence[dict[str, int]], resumed: int, start: float, out: str, rejects: Path | None
) -> Summary:
    total = {name: sum(counts[name] for counts in all_counts) for name in (EXACT, NEAREST, NIL, REJECTED)}
    rows = sum(total.values())
    seconds = time.monotonic() - start
    return Summary(
        rows, total[EXACT], total[NEAREST], total[NIL], total[REJECTED], resumed, round(seconds, 3),
        round((rows - resumed) / max(seconds, 1e-9), 1), out, None if rejects is None else str(rejects),
    )  # fmt: skip


def _other_input(job: Job) -> UsageError:
    return UsageError(
        f"cannot resume: {job.table.name} is not the input this job began with; "
        "give the same, or begin anew with --force"
    )


def _identity(normalizer: Normalizer, job: Job, writer: ModuleType) -> dict[str, Any]:
    """Return what must be the same for a broken job to go on; the input's rows are compared chunk by chunk."""
    table = job.table
    return {
        "alphita version": __version__,
        "index hash": normalizer.index.content_hash,
        "floor": normalizer.floor,
        "precision": normalizer.precision,
        "top": job.top_k,
        "format": writer.__name__.rsplit(".", 1)[-1],
        "private": job.private,
        "input format": table.format,
        "column": table.column,
        "code column": table.code_column,
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "chunk rows": job.chunk_rows,
    }


def _digest(rows: Sequence[Row]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for row in rows:
        digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _check(job: Job, out: Path, *, resume: bool, force: bool) -> None:
    if resume and force:
        raise UsageError("--resume goes on with a job, --force begins anew; give one of them")
    if resume and job.table.is_stdin:
        raise UsageError("input from stdin cannot be resumed; give a file")
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file")
    if not job.table.is_stdin and out.exists() and out.samefile(job.table.path):
        raise UsageError(f"{out} is the input; choose another name for the output")
    unfinished = resume and _beside(out, ".journal").exists()
    if out.exists() and not force and not unfinished:
        raise UsageError(f"{out} already exists; choose another name or use --force")


def _format(job: Job) -> ModuleType:
    choices = registry.names(FORMATS)
    name = job.format or ("csv" if str(job.out) == STDOUT else Path(job.out).suffix.lower().removeprefix("."))
    if not job.format and name not in choices:
        raise UsageError(f"cannot tell the format of {job.out} by its name; say --format, one of {choices}")
    return registry.load(FORMATS, name)


def _open_part(path: Path, length: int) -> IO[bytes]:
    """Open a part file for appending at `length`, cutting off what is not known to be durable."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    file = os.fdopen(descriptor, "r+b")
    if os.fstat(descriptor).st_size < length:
        file.close()
        raise InputError("the part file is shorter than the journal says", file=path, remedy="begin anew with --force")
    file.truncate(length)
    file.seek(length)
    return file


def _beside(out: Path, suffix: str) -> Path:
    return out.with_name(out.name + suffix)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
