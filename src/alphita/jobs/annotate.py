"""Many texts: in chunks, each durable before the next, so that a killed job goes on with `resume`.

    OUT.part            the documents so far, with their mentions (JSON Lines)
    OUT.rejects.part    what was set aside so far
    OUT.journal         how much of them is durable

The output is written from the part when the last chunk is in, and appears whole, by renaming.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from alphita import artefact, clock
from alphita.annotation.annotator import Annotator
from alphita.annotation.formats import Header, chosen
from alphita.annotation.formats.jsonl import line_of, read_line
from alphita.annotation.spans import Annotated, Document
from alphita.errors import AlphitaError, InputError, Rejects, UsageError, shorten
from alphita.jobs.journal import Chunk, Journal
from alphita.jobs.parts import Parts, beside
from alphita.jobs.reading.texts import Texts, Unusable
from alphita.progress import bar

STDOUT = "-"
PART, REJECTS = ".part", ".rejects.part"
# A chunk ends with either.
CHUNK_DOCUMENTS, CHUNK_CHARACTERS = 256, 2**20


@dataclass(frozen=True)
class Job:
    """What to annotate, and where to.

    Attributes:
        texts: the input.
        out: the output, a file or a folder, or "-" for stdout.
        format: a module of `alphita.annotation.formats`; "" to take it from the output's name.
        private: no value of the input in the rejects, and an output that only its owner can read.
    """

    texts: Texts
    out: Path | str
    format: str = ""
    private: bool = False

    @property
    def rejects_file(self) -> Path:
        """Where what was set aside is told."""
        return beside(Path(self.out), ".rejects.csv")


@dataclass(frozen=True)
class Summary:
    """What a job did.

    Attributes:
        documents: texts that were annotated.
        rejected: texts that could not be used.
        words: of the texts.
        mentions: that were found.
        concepts: distinct ones among them.
        said: mentions by what the text says of them; one may count for several.
        accepted: mentions whose concept may be accepted unseen.
        resumed: texts that an earlier, broken run had done.
        lost: what the format has no place for, counted in words.
        out: the output.
        rejects: the file of rejects; None if there are none.
    """

    documents: int
    rejected: int
    words: int
    mentions: int
    concepts: int
    said: dict[str, int]
    accepted: int
    resumed: int
    lost: dict[str, int]
    out: str
    rejects: str | None


def run(annotator: Annotator, job: Job, *, resume: bool = False, force: bool = False) -> Summary:
    """Annotate all texts of a job."""
    writer = chosen(job.format, job.out)
    today = clock.today().isoformat()
    if str(job.out) == STDOUT:
        return _to_stdout(annotator, job, writer, today)
    out = Path(job.out)
    # An output that is there already, and a journal beside it: a kill came between the two.
    if not (resume and beside(out, ".journal").exists()):
        artefact.refuse_existing(out, force)
    if not writer.FOLDER:
        artefact.refuse_unwritable(out)
    if str(job.texts.path) != "-":
        artefact.refuse_same({"the input": Path(job.texts.path), "the output": out})
    name = writer.__name__.rsplit(".", 1)[-1]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        identity = _identity(annotator, job, name)
        with Journal(beside(out, ".journal"), identity, date=today, resume=resume, force=force) as journal:
            resumed = sum(chunk.counts.get("documents", 0) for chunk in journal.chunks)
            try:
                if not journal.complete:
                    _write_parts(annotator, job, journal)
                    journal.mark_complete()
                return _finish(annotator, job, writer, journal, resumed)
            except BaseException:
                if not journal.chunks:
                    _discard(out, journal)
                raise
    except OSError as error:
        kept = beside(out, ".journal").exists()
        what_now = "make room and go on with --resume" if kept else "nothing was changed"
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; {what_now}") from error


def _identity(annotator: Annotator, job: Job, name: str) -> dict[str, object]:
    """Return what must be the same for a broken job to go on."""
    settings = {key: value if value is None else str(value) for key, value in asdict(annotator.settings).items()}
    return {
        "alphita build": artefact.build(),
        "index hash": annotator.normalizer.index.content_hash,
        "error": annotator.normalizer.error,
        "filters": None if annotator.normalizer.filters is None else repr(annotator.normalizer.filters),
        "input": str(job.texts.path),
        "column": job.texts.column,
        "id column": job.texts.id_column,
        "encoding": job.texts.encoding,
        "format": name,
        "private": job.private,
        **settings,
    }


def _write_parts(annotator: Annotator, job: Job, journal: Journal) -> None:
    """Append every chunk that the journal does not have yet."""
    past = list(journal.chunks)
    durable = past[-1].lengths if past else {}
    seen = 0
    with Parts(Path(job.out), (PART, REJECTS), durable) as parts, bar("Annotating", None, "texts") as shown:
        for seen, chunk in enumerate(_chunks(job.texts.documents()), 1):
            digest = _digest(chunk)
            shown.advance(len(chunk))
            if seen <= len(past):
                if past[seen - 1].digest != digest:
                    raise _changed(job)
                continue
            documents = [one for one in chunk if isinstance(one, Document)]
            annotated = annotator.annotate(documents)
            for one in annotated:
                parts.append(PART, line_of(one))
            unusable = [one for one in chunk if isinstance(one, Unusable)]
            for some in unusable:
                parts.append(REJECTS, _reject_line(some))
            counts = {"documents": len(documents), "rejected": len(unusable)}
            journal.add(Chunk(digest, parts.sync(), counts, {}))
        if seen < len(past):
            raise _changed(job)
        parts.sync()


def _changed(job: Job) -> InputError:
    return InputError(
        "the input has changed since the job began", file=str(job.texts.path), remedy="begin anew with --force"
    )


def _chunks(documents: Iterable[Document | Unusable]) -> Iterator[list[Document | Unusable]]:
    chunk: list[Document | Unusable] = []
    characters = 0
    for one in documents:
        chunk.append(one)
        characters += len(one.text) if isinstance(one, Document) else 0
        if len(chunk) >= CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _digest(chunk: Iterable[Document | Unusable]) -> str:
    return hashlib.sha256(repr(list(chunk)).encode("utf-8", "surrogatepass")).hexdigest()


def _reject_line(one: Unusable) -> bytes:
    value = None if one.value is None else shorten(one.value)
    return json.dumps([one.source, one.line, one.field, value, one.problem]).encode() + b"\n"


def _finish(annotator: Annotator, job: Job, writer: ModuleType, journal: Journal, resumed: int) -> Summary:
    out = Path(job.out)
    part, rejected = beside(out, PART), beside(out, REJECTS)
    number = sum(chunk.counts.get("documents", 0) for chunk in journal.chunks)
    header = _header(annotator, journal.date, number)
    tally = _Tally()
    if not part.exists() and out.exists():
        # Killed when all but this was done.
        pass
    elif writer.FOLDER:
        with artefact.atomic_folder(out, force=True, private=job.private) as folder:
            for name, content in writer.write(header, tally.through(_read(part))):
                (folder / name).write_bytes(content)
    else:
        with artefact.atomic_file(out, private=job.private) as file:
            for piece in writer.write(header, tally.through(_read(part))):
                file.write(piece)
    count = sum(chunk.counts.get("rejected", 0) for chunk in journal.chunks)
    if rejected.exists():
        with Rejects(job.rejects_file, private=job.private) as rejects:
            for line in rejected.read_bytes().splitlines():
                source, at, field, value, problem = json.loads(line)
                rejects.add(problem, file=source, line=at, field=field, value=value)
    part.unlink(missing_ok=True)
    rejected.unlink(missing_ok=True)
    journal.remove()
    return tally.summary(header, str(out), count, resumed, str(job.rejects_file) if count else None)


def _read(part: Path) -> Iterator[Annotated]:
    with open(part, "rb") as lines:
        yield from map(read_line, lines)


def _discard(out: Path, journal: Journal) -> None:
    for suffix in (PART, REJECTS):
        beside(out, suffix).unlink(missing_ok=True)
    journal.remove()


def _header(annotator: Annotator, date: str, number: int) -> Header:
    sources = annotator.normalizer.index.manifest.get("sources", [])
    return Header(date, tuple(source for source in sources if isinstance(source, dict)), number)


def _to_stdout(annotator: Annotator, job: Job, writer: ModuleType, today: str) -> Summary:
    """Annotate all texts and write to stdout; what is set aside is told on stderr."""
    if writer.FOLDER:
        raise UsageError("this format is a folder of files; name one: -o FOLDER")
    rejected = 0
    annotated: list[Annotated] = []
    for chunk in _chunks(job.texts.documents()):
        annotated += annotator.annotate([one for one in chunk if isinstance(one, Document)])
        for one in chunk:
            if isinstance(one, Unusable):
                rejected += 1
                print(f"set aside: {one.source}:{one.line}: {one.problem}", file=sys.stderr)
    header, tally = _header(annotator, today, len(annotated)), _Tally()
    output: BinaryIO = sys.stdout.buffer
    sys.stdout.flush()
    for piece in writer.write(header, tally.through(iter(annotated))):
        output.write(piece)
    output.flush()
    return tally.summary(header, "stdout", rejected, 0, None)


class _Tally:
    """Counts documents on their way to the format."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.concepts: set[str] = set()

    def through(self, documents: Iterator[Annotated]) -> Iterator[Annotated]:
        """Yield the documents, counted."""
        for document in documents:
            self.counts["documents"] += 1
            self.counts["words"] += len(document.document.text.split())
            for one in document.annotations:
                self.counts["mentions"] += 1
                self.counts["accepted"] += one.decision == "accept"
                self.concepts.add(one.concept_id)
                self.said.update(one.said)
            yield document

    def summary(self, header: Header, out: str, rejected: int, resumed: int, rejects: str | None) -> Summary:
        """Return what was counted."""
        counts = self.counts
        return Summary(
            counts["documents"],
            rejected,
            counts["words"],
            counts["mentions"],
            len(self.concepts),
            dict(self.said.most_common()),
            counts["accepted"],
            resumed,
            dict(header.lost),
            out,
            rejects,
        )
