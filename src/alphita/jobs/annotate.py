"""Many texts: in chunks, each durable before the next, so that a killed job goes on with `resume`.

    OUT.parts/chunks/00017    a chunk's documents with their mentions, and what was set aside: JSON Lines (see `parts`)

The output is written from them when the last chunk is in, and appears whole, by renaming.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from alphita import artefact, clock
from alphita.annotation.annotator import Annotator
from alphita.annotation.formats import Header, chosen
from alphita.annotation.formats.jsonl import line_of, read_line
from alphita.annotation.spans import Annotated, Document
from alphita.errors import InputError, Rejects, UsageError, shorten
from alphita.jobs.parts import Chunk, Parts, beside, locked, telling_what_is_kept
from alphita.jobs.reading.texts import Texts, Unusable
from alphita.progress import bar

STDOUT = "-"
DOCUMENTS, REJECTS = "documents", "rejects"
# A chunk ends with either.
CHUNK_DOCUMENTS, CHUNK_CHARACTERS = 256, 2**20


@dataclass(frozen=True)
class Job:
    """What to annotate, and where to.

    Attributes:
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
        said: mentions by what the text says of them; one may count for several.
        accepted: mentions whose concept may be accepted unseen.
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
    parts = Parts.beside(out)
    # An output that is there already, and parts beside it: a kill came between the two.
    if not (resume and parts.exist):
        artefact.refuse_existing(out, force)
    if not writer.FOLDER:
        artefact.refuse_unwritable(out)
    if str(job.texts.path) != "-":
        artefact.refuse_same({"the input": Path(job.texts.path), "the output": out})
    identity = _identity(annotator, job, writer.__name__.rsplit(".", 1)[-1])
    with telling_what_is_kept(out, parts), locked(str(out)):
        date = parts.begin(identity, today, resume=resume, force=force)
        try:
            chunks, resumed = _annotated(annotator, job, parts)
            header = _header(annotator, date, sum(chunk.counts["documents"] for chunk in chunks))
            return _finish(job, writer, header, parts, chunks, resumed)
        except BaseException:
            if not parts.chunks():
                parts.place.remove()
            raise


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


def _annotated(annotator: Annotator, job: Job, parts: Parts) -> tuple[list[Chunk], int]:
    """Make every part that is not there yet; return all chunks, without their content, and how many texts were done."""
    past, chunks, resumed = parts.chunks(), [], 0
    with bar("Annotating", None, "texts") as shown:
        for number, texts in enumerate(_chunks(job.texts.documents())):
            digest = hashlib.sha256(repr(texts).encode("utf-8", "surrogatepass")).hexdigest()
            shown.advance(len(texts))
            documents = [one for one in texts if isinstance(one, Document)]
            if number < past:
                chunk = parts.chunk(number)
                if chunk.digest != digest:
                    raise _changed(job)
                resumed += len(documents)
            else:
                content = b"".join(map(line_of, annotator.annotate(documents)))
                rejects = b"".join(_reject_line(one) for one in texts if isinstance(one, Unusable))
                counts = {"documents": len(documents), "rejected": len(texts) - len(documents)}
                chunk = Chunk(digest, counts, {}, {DOCUMENTS: content, REJECTS: rejects})
                parts.put_chunk(number, chunk)
            chunks.append(chunk._replace(content={}))
    if len(chunks) < past:
        raise _changed(job)
    return chunks, resumed


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


def _reject_line(one: Unusable) -> bytes:
    value = None if one.value is None else shorten(one.value)
    return json.dumps([one.source, one.line, one.field, value, one.problem]).encode() + b"\n"


def _finish(
    job: Job, writer: ModuleType, header: Header, parts: Parts, chunks: Sequence[Chunk], resumed: int
) -> Summary:
    """Put output and rejects in their places; after a crash in the midst of it, it is done again."""
    out, tally = Path(job.out), _Tally()

    def lines(what: str) -> Iterator[bytes]:
        for number in range(len(chunks)):
            yield from io.BytesIO(parts.chunk(number).content[what])

    documents = tally.through(map(read_line, lines(DOCUMENTS)))
    if writer.FOLDER:
        with artefact.atomic_folder(out, force=True, private=job.private) as folder:
            for name, content in writer.write(header, documents):
                (folder / name).write_bytes(content)
    else:
        with artefact.atomic_file(out, private=job.private) as file:
            for piece in writer.write(header, documents):
                file.write(piece)
    with Rejects(job.rejects_file, private=job.private) as rejects:
        for line in lines(REJECTS):
            source, at, field, value, problem = json.loads(line)
            rejects.add(problem, file=source, line=at, field=field, value=value)
    parts.place.remove()
    return tally.summary(header, str(out), rejects.count, resumed, str(job.rejects_file) if rejects.count else None)


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
