"""Texts to annotate: a file that is one text, a folder of them, or a table with a text a row.

    notes.txt, .md      one text, its id the file's name
    a folder            each .txt and .md in it and below it, in the order of their names
    .csv, .tsv, .jsonl, .parquet, .xlsx     a text a row, in one column; what has an id column is named by it

What cannot be used (no text, binary, of another encoding, too long) is set aside, by name and line; the rest goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from alphita.annotation.spans import Document
from alphita.errors import InputError, UsageError
from alphita.jobs.reading.files import MAGIC, MentionFile

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
    """An input of texts.

    Attributes:
        path: a file or folder; "-" is one text from stdin.
        column: of a table, the texts'; None: `text`, or the only one there is.
        id_column: of a table, the ids'; None: rows are numbered.
    """

    path: Path | str
    column: str | None = None
    id_column: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        """Check the options."""
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
        """Whether there is a text a row."""
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
            if content.startswith(magic) and not self.encoding.lower().startswith("utf-16"):
                return Unusable(source, 1, None, None, f"this is {kind}")
        try:
            # Line ends stay as they are: places count them.
            text = content.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problem = f"not valid {self.encoding} text; say --encoding, as cp1252, or convert it"
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
