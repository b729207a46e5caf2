"""Input files of mentions, read row by row: CSV, TSV, Parquet, JSON Lines, plain lines, from a file or from stdin.

Nothing is held but the row (for Parquet: a batch of rows) being read, so a file may be larger than memory. A row that
cannot be used comes with its `problem` and the next ones go on; only what spoils the whole file raises.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from alphita.errors import InputError, UsageError
from alphita.registry import unknown

STDIN = "-"
SUFFIXES = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".txt": "lines",
}  # fmt: skip
FORMATS = ("csv", "tsv", "parquet", "jsonl", "lines")
# The column that is taken if none is named.
DEFAULT_COLUMN = "mention"
# A quote that is never closed would swallow the rest of the file into one cell.
MAX_CELL_CHARACTERS = 1_000_000
MAX_LINE_BYTES = 64 * 2**20
PARQUET_ROWS_AT_ONCE = 8_192
MAGIC = {
    b"PK\x03\x04": "an Excel or zip file; save it as CSV in UTF-8",
    b"\xd0\xcf\x11\xe0": "an old Excel file; save it as CSV in UTF-8",
    b"PAR1": "a Parquet file; name it .parquet or say --input-format parquet",
    b"\x1f\x8b": "a gzip file; name it .gz",
    b"\xff\xfe": "UTF-16 text; convert it to UTF-8",
    b"\xfe\xff": "UTF-16 text; convert it to UTF-8",
}


class Row(NamedTuple):
    """One input row.

    Attributes:
        number: 1-based; a header is not counted, rows with a problem are.
        line: the line of the file it begins at (for Parquet: the row number).
        mention: the string to normalise; None if there is a problem.
        code: what the code column holds, if one was named.
        problem: why the row cannot be used, or None.
        value: the offending value.
    """

    number: int
    line: int
    mention: str | None
    code: str | None = None
    problem: str | None = None
    value: object = None


@dataclass
class Table:
    """An input and how to read it.

    Attributes:
        path: the file, or "-" for stdin.
        format: one of `FORMATS`; "" to take it from the file's name (stdin: plain lines).
        column: the column of mentions; None if there is only one, or one called "mention".
        code_column: a column to carry along, or None.
        encoding: of the text; any in which a line ends with the byte 10.
        delimiter: between cells; "" for the format's own.
    """

    path: Path | str
    format: str = ""
    column: str | None = None
    code_column: str | None = None
    encoding: str = "utf-8"
    delimiter: str = ""
    _raw: IO[bytes] | None = field(default=None, repr=False)
    _line: int = field(default=0, repr=False)
    _rows: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Settle the format and check the options against it.

        Raises:
            UsageError: an unknown format or encoding, or a column of a file without columns.
        """
        if not self.format:
            self.format = "lines" if self.is_stdin else _format_of(Path(self.path))
        if self.format not in FORMATS:
            raise UsageError(unknown("input format", self.format, FORMATS))
        if self.format == "lines" and (self.column or self.code_column):
            raise UsageError("plain lines have no columns; say --input-format csv, tsv or jsonl")
        if self.format == "parquet" and self.is_stdin:
            raise UsageError("Parquet cannot be read from stdin; give a file")
        if len(self.delimiter) > 1:
            raise UsageError(f"the delimiter must be one character, not {self.delimiter!r}")
        try:
            ends_with_10 = "\n".encode(self.encoding) == b"\n"
        except (LookupError, UnicodeError):
            raise UsageError(f"unknown encoding {self.encoding!r}; e.g. utf-8, cp1252, latin-1") from None
        if not ends_with_10:
            raise UsageError(f"encoding {self.encoding!r} cannot be read line by line; convert the file to UTF-8")

    @property
    def is_stdin(self) -> bool:
        """Whether the input comes from stdin."""
        return str(self.path) == STDIN

    @property
    def name(self) -> str:
        """What errors call the input."""
        return "stdin" if self.is_stdin else str(self.path)

    def estimate_rows(self, read: int) -> int | None:
        """Return about how many rows there are, going by how much of the file `read` rows took; None for stdin."""
        if self._rows is not None:
            return self._rows
        if self._raw is None or self._raw.closed or not self._raw.tell():
            return None
        return max(read, round(read * Path(self.path).stat().st_size / self._raw.tell()))

    def rows(self) -> Iterator[Row]:
        """Read the rows, one after the other.

        Raises:
            InputError: the file is missing, empty, damaged or of another kind.
            UsageError: it lacks the column.
        """
        if self.format == "parquet":
            yield from self._parquet()
            return
        readers = {"csv": self._delimited, "tsv": self._delimited, "jsonl": self._json_lines, "lines": self._plain}
        number = 0
        with self._open() as file:
            try:
                for row in readers[self.format](file):
                    number = row.number
                    yield row
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise InputError(f"damaged gzip file: {error}", file=self.name, line=self._line) from None
        self._rows = number

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        if self.is_stdin:
            yield sys.stdin.buffer
            return
        try:
            self._raw = open(self.path, "rb")  # noqa: SIM115 - closed below
        except OSError as error:
            raise InputError(f"cannot read the input: {error.strerror}", file=self.name) from None
        with self._raw:
            if Path(self.path).suffix.lower() == ".gz":
                with gzip.GzipFile(fileobj=self._raw) as unpacked, io.BufferedReader(unpacked) as buffered:
                    yield buffered
            else:
                yield self._raw

    def _lines(self, file: IO[bytes]) -> Iterator[str]:
        """Yield decoded lines with their ends; bytes that are no text become lone surrogates, found per cell later."""
        first = True
        while raw := file.readline(MAX_LINE_BYTES + 1):
            self._line += 1
            if len(raw) > MAX_LINE_BYTES:
                raise InputError(f"a line of more than {MAX_LINE_BYTES >> 20} MB", file=self.name, line=self._line,
                                 remedy="is this a text file with one row a line?")  # fmt: skip
            if first:
                first = False
                for magic, kind in MAGIC.items():
                    if raw.startswith(magic):
                        raise InputError(f"this is {kind}", file=self.name)
                raw = raw.removeprefix(codecs.BOM_UTF8)
            yield raw.decode(self.encoding, "surrogateescape")
        if first:
            raise InputError("the file is empty", file=self.name)

    def _delimited(self, file: IO[bytes]) -> Iterator[Row]:
        csv.field_size_limit(MAX_CELL_CHARACTERS)
        delimiter = self.delimiter or ("\t" if self.format == "tsv" else ",")
        reader = csv.reader(self._lines(file), delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
        except csv.Error as error:
            raise InputError(f"the header cannot be read: {error}", file=self.name, line=1) from None
        mention_at = self._choose(header, self.column)
        code_at = None if self.code_column is None else self._choose(header, self.code_column)
        number = 0
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                number += 1
                yield Row(number, line, None, problem=f"not a row of this format: {error}")
                continue
            if not cells:
                continue
            number += 1
            if len(cells) != len(header):
                problem = f"{len(cells)} cells, but the header has {len(header)}"
                yield Row(number, line, None, problem=problem, value=delimiter.join(cells))
                continue
            yield self._row(number, line, cells[mention_at], None if code_at is None else cells[code_at])

    def _plain(self, file: IO[bytes]) -> Iterator[Row]:
        for number, text in enumerate(self._lines(file), 1):
            yield self._row(number, number, text.rstrip("\r\n"), None)

    def _json_lines(self, file: IO[bytes]) -> Iterator[Row]:
        column: str | None = None
        number = 0
        for line, text in enumerate(self._lines(file), 1):
            if not text.strip():
                continue
            number += 1
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                yield Row(number, line, None, problem=f"not JSON: {error}", value=text)
                continue
            if not isinstance(record, dict):
                yield Row(number, line, None, problem="not a JSON object", value=text)
                continue
            if column is None:
                # The first object shows the names; only there a missing column spoils the whole file.
                keys = list(record)
                column = keys[self._choose(keys, self.column)]
                if self.code_column is not None:
                    self._choose(keys, self.code_column)
            yield self._json_row(number, line, record, column)

    def _json_row(self, number: int, line: int, record: dict[str, Any], column: str) -> Row:
        mention = record.get(column, ...)
        if mention is ...:
            return Row(number, line, None, problem=f"no {column!r} in this object", value=list(record))
        if not isinstance(mention, str | None):
            return Row(number, line, None, problem=f"{column!r} is not a string", value=mention)
        code = None if self.code_column is None else record.get(self.code_column)
        if not isinstance(code, str | int | float | None):
            return Row(number, line, None, problem=f"{self.code_column!r} is neither string nor number", value=code)
        return self._row(number, line, mention or "", None if code is None else str(code))

    def _parquet(self) -> Iterator[Row]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if Path(self.path).stat().st_size == 0:
                raise InputError("the file is empty", file=self.name)
            parquet = pq.ParquetFile(self.path)
            self._rows = parquet.metadata.num_rows
            schema = parquet.schema_arrow
            names = [schema.names[self._choose(schema.names, self.column)]]
            if self.code_column is not None:
                names.append(schema.names[self._choose(schema.names, self.code_column)])
            _check_text(names[0], schema.field(names[0]).type)
            number = 0
            for batch in parquet.iter_batches(batch_size=PARQUET_ROWS_AT_ONCE, columns=list(dict.fromkeys(names))):
                columns = [_texts(batch.column(name)) for name in names]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield self._row(number, number, cells[0] or "", cells[1] if len(cells) > 1 else None)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"this is no Parquet file that can be read: {error}", file=self.name) from None

    def _row(self, number: int, line: int, mention: str, code: str | None) -> Row:
        for name, text in ((self.column, mention), (self.code_column, code)):
            if text is None or (text.isascii() and "\0" not in text):
                continue
            where = f" in {name!r}" if name else ""
            if "\0" in text:
                return Row(number, line, None, problem=f"a NUL byte{where}", value=text)
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                return Row(number, line, None, problem=f"not valid {self.encoding} text{where}", value=_printable(text))
        return Row(number, line, mention, code)

    def _choose(self, names: Sequence[str], column: str | None) -> int:
        """Return which of `names` is `column`, or is the one to take when none is named."""
        shown = [_printable(name) for name in names]
        if column is None and len(names) == 1:
            return 0
        if column is None and DEFAULT_COLUMN not in names:
            raise UsageError(f"{self.name} has several columns; name one with --column: {shown}")
        wanted = column or DEFAULT_COLUMN
        if wanted not in names:
            other = next((mark for mark in ";\t|," if len(names) == 1 and mark in names[0]), None)
            hint = f"; are its cells divided by {other!r}? then say --delimiter {other!r}" if other else ""
            raise UsageError(f"{self.name}: {unknown('column', wanted, shown)}{hint}")
        if list(names).count(wanted) > 1:
            raise UsageError(f"{self.name}: column {wanted!r} stands more than once in the header {shown}")
        return list(names).index(wanted)


def _format_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {path.name!r}; say --input-format, one of {list(FORMATS)}")
    return SUFFIXES[suffix]


def _check_text(name: str, kind: Any) -> None:  # noqa: ANN401
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)):
        raise UsageError(f"column {name!r} holds {kind}, not strings; name another with --column")


def _texts(column: Any) -> list[str | None]:  # noqa: ANN401
    """Return a Parquet column as strings; bytes that are no UTF-8 become lone surrogates."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.large_string()).to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
