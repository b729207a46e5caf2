"""Many texts: a file, a folder or a table, annotated in chunks, so that a killed job goes on with `resume`.

OUT.parts/chunks/00017    a chunk's documents with their mentions, and what was set aside (see `parts`)
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
from typing import BinaryIO, NamedTuple

from alphita import artefact, clock, textio
from alphita.annotation.annotator import Annotator
from alphita.annotation.formats import Header, chosen
from alphita.annotation.formats.jsonl import line_of, read_line
from alphita.annotation.spans import Annotated, Document
from alphita.errors import InputError, Rejects, UsageError, shorten
from alphita.jobs.parts import Chunk, Parts, beside, locked, telling_what_is_kept
from alphita.jobs.reading import MAGIC, MentionFile
from alphita.options import FROM_START, Restart
from alphita.progress import bar

STDOUT = "-"
DOCUMENTS, REJECTS = "documents", "rejects"
# A chunk ends with either.
CHUNK_DOCUMENTS, CHUNK_CHARACTERS = 256, 2**20


@dataclass(frozen=True)
class Job:
    """What to annotate, and where to."""

    texts: Texts
    out: Path | str
    format: str = ""
    private: bool = False

    @property
    def rejects_file(self) -> Path:
        return beside(Path(self.out), ".rejects.csv")


@dataclass(frozen=True)
class Summary:
    """What a job did."""

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


def run(annotator: Annotator, job: Job, restart: Restart = FROM_START) -> Summary:
    """Annotate all texts of a job."""
    writer = chosen(job.format, job.out)
    today = clock.today().isoformat()
    if str(job.out) == STDOUT:
        return _to_stdout(annotator, job, writer, today)
    out = Path(job.out)
    parts = Parts.beside(out)
    # An output that is there already, and parts beside it: a kill came between the two.
    if not (restart.resume and parts.exist):
        artefact.refuse_existing(out, restart.force)
    if not writer.FOLDER:
        artefact.refuse_unwritable(out)
    if str(job.texts.path) != "-":
        artefact.refuse_same({"the input": Path(job.texts.path), "the output": out})
    identity = _identity(annotator, job, writer.__name__.rsplit(".", 1)[-1])
    with telling_what_is_kept(out, parts), locked(str(out)):
        date = parts.begin(identity, today, restart)
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
        **{name: getattr(annotator.normalizer, name) for name in ("error", "nil_error")},
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
            documents = [text for text in texts if isinstance(text, Document)]
            if number < past:
                chunk = parts.chunk(number)
                if chunk.digest != digest:
                    raise _changed(job)
                resumed += len(documents)
            else:
                content = b"".join(map(line_of, annotator.annotate(documents)))
                rejects = b"".join(_reject_line(text) for text in texts if isinstance(text, Unusable))
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
    for text in documents:
        chunk.append(text)
        characters += len(text.text) if isinstance(text, Document) else 0
        if len(chunk) >= CHUNK_DOCUMENTS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _reject_line(text: Unusable) -> bytes:
    value = None if text.value is None else shorten(text.value)
    return json.dumps([text.source, text.line, text.field, value, text.problem]).encode() + b"\n"


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
        annotated += annotator.annotate([text for text in chunk if isinstance(text, Document)])
        for text in chunk:
            if isinstance(text, Unusable):
                rejected += 1
                print(f"set aside: {text.source}:{text.line}: {text.problem}", file=sys.stderr)
    header, tally = _header(annotator, today, len(annotated)), _Tally()
    output: BinaryIO = sys.stdout.buffer
    sys.stdout.flush()
    for piece in writer.write(header, tally.through(iter(annotated))):
        output.write(piece)
    output.flush()
    return tally.summary(header, "stdout", rejected, 0, None)


COUNTED = ("documents", "words", "mentions", "accepted")


class _Tally:
    """Counts documents on their way to the format."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.concepts: set[str] = set()

    def through(self, documents: Iterator[Annotated]) -> Iterator[Annotated]:
        for document in documents:
            self.counts["documents"] += 1
            self.counts["words"] += len(document.document.text.split())
            for annotation in document.annotations:
                self.counts["mentions"] += 1
                self.counts["accepted"] += annotation.decision == "accept"
                self.concepts.add(annotation.concept_id)
                self.said.update(annotation.said)
            yield document

    def summary(self, header: Header, out: str, rejected: int, resumed: int, rejects: str | None) -> Summary:
        documents, words, mentions, accepted = map(self.counts.__getitem__, COUNTED)
        found = mentions, len(self.concepts), dict(self.said.most_common()), accepted
        return Summary(documents, rejected, words, *found, resumed, dict(header.lost), out, rejects)


PLAIN = (".txt", ".md", ".text", "")
DEFAULT_COLUMN = "text"
# Characters of one text, at most: it is read whole, and a gigabyte of memory goes with it.
LONGEST = 4 * 2**20
# More controls than this share, and it is no text.
CONTROLS = 0.02
_ALLOWED_CONTROLS = frozenset("\t\n\r\f")


class Unusable(NamedTuple):
    """What is set aside: where it stands, and why it cannot be used."""

    source: str
    line: int
    field: str | None
    value: object
    problem: str


@dataclass(frozen=True)
class Texts:
    """An input of texts."""

    path: Path | str
    column: str | None = None
    id_column: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        try:
            "".encode(self.encoding)
        except LookupError:
            raise UsageError(f"unknown encoding {self.encoding!r}; e.g. utf-8, cp1252, latin-1") from None
        if not self.is_table and (self.column or self.id_column):
            raise UsageError("plain texts have no columns; leave out --column and --id-column, or give a table")
        if not self.is_table and str(self.path) != "-" and not Path(self.path).exists():
            raise InputError("no such file or folder", file=self.path)

    @property
    def is_table(self) -> bool:
        path = Path(self.path)
        return str(self.path) != "-" and not path.is_dir() and self._ending(path) not in PLAIN

    @staticmethod
    def _ending(path: Path) -> str:
        return path.suffix.lower()

    def documents(self) -> Iterator[Document | Unusable]:
        """Yield the texts, and what cannot be used, in their order."""
        path = Path(self.path)
        if str(self.path) == "-":
            import sys

            yield self._content(sys.stdin.buffer, "stdin", "stdin")
        elif path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.is_file() and self._ending(file) in PLAIN[:3]]
            if not files:
                raise InputError("there is no .txt or .md file in this folder", file=path)
            for file in files:
                yield self._file(file, file.relative_to(path).with_suffix("").as_posix())
        elif self.is_table:
            yield from self._rows()
        else:
            yield self._file(path, path.stem)

    def _file(self, path: Path, name: str) -> Document | Unusable:
        try:
            with open(path, "rb") as file:
                return self._content(file, name, str(path))
        except OSError as error:
            return Unusable(str(path), 1, None, None, f"cannot be read: {error.strerror}")

    def _content(self, file: BinaryIO, name: str, source: str) -> Document | Unusable:
        """Read a text of which the size is not known: that of a pipe or a device has no end."""
        # No encoding has more bytes a character.
        content = file.read(4 * LONGEST + 1)
        if len(content) > 4 * LONGEST:
            return Unusable(source, 1, None, None, _too_long())
        return self._text(content, name, source)

    def _text(self, content: bytes, name: str, source: str) -> Document | Unusable:
        for magic, kind in MAGIC.items():
            if content.startswith(magic):
                return Unusable(source, 1, None, None, f"this is {kind}")
        how = textio.Reading(self.encoding, "--encoding")
        try:
            # Line ends stay as they are: places count them.
            text = content.decode(how.decoder(content))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problem = f"not valid {self.encoding} text; {how.remedy}"
            return Unusable(source, line, None, content[error.start : error.start + 8].hex(" "), problem)
        validate = _problem(text)
        return Document(name, text, source) if validate is None else Unusable(source, 1, None, None, validate)

    def _rows(self) -> Iterator[Document | Unusable]:
        table = MentionFile(self.path, column=self._column(), code_column=self.id_column, encoding=self.encoding)
        for row in table.rows():
            if row.problem is not None or row.mention is None:
                why = row.problem or "no text"
                yield Unusable(table.name, row.line, row.field or self.column, row.value, why)
                continue
            validate = _problem(row.mention)
            if validate is not None:
                yield Unusable(table.name, row.line, self.column or DEFAULT_COLUMN, None, validate)
                continue
            yield Document(row.code or str(row.number), row.mention, table.name, row.line)

    def _column(self) -> str | None:
        """Return the column of the texts: the one that is named, else `text` if there is one, else what is taken."""
        if self.column is not None:
            return self.column
        try:
            next(MentionFile(self.path, column=DEFAULT_COLUMN, encoding=self.encoding).rows(), None)
        except UsageError:
            return None
        return DEFAULT_COLUMN


def _problem(text: str) -> str | None:
    if not text.strip():
        return "there is no text in it"
    if len(text) > LONGEST:
        return _too_long()
    controls = sum(text.count(chr(code)) for code in range(32) if chr(code) not in _ALLOWED_CONTROLS)
    return "this is binary, no text" if controls > CONTROLS * len(text) else None


def _too_long() -> str:
    problem = f"longer than {LONGEST >> 20} million characters"
    return f"{problem}; divide it into several files, or make it a table with a text a row"
