"""Input files of mentions, read row by row: CSV, TSV, Excel, Parquet, JSON Lines, plain lines, from a file or stdin.

Only the current row (Parquet: a batch; Excel: a sheet) is held. A row that cannot be used comes with its `problem`.
"""

from __future__ import annotations

import csv
import functools
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from alphita import progress, textio, workbooks
from alphita.errors import InputError, UsageError
from alphita.jobs import scan_reports
from alphita.mention.laboratory_tests import is_unit, system_of, with_measurement
from alphita.registry import unknown
from alphita.terminology import languages
from alphita.textio import ENDED, Record, records

# The column that is taken if none is named.
DEFAULT_COLUMN = "mention"
# A count, also as spreadsheets and data frames write it where a cell of the column is missing: 3.0.
WHOLE = re.compile(r"([0-9]{1,18})(\.0*)?")
# No name of an analyte: "CD4", "C3".
_ENDS_WITH_VALUE = re.compile(r"(?:(?<![^\W_])\d|\d[.,])\d*\s*$")


class MentionRow(NamedTuple):
    """One input row; `unread` are the columns whose values nothing is known of, with these values."""

    number: int
    line: int
    mention: str | None
    code: str | None = None
    context: str | None = None
    language: str | None = None
    frequency: int | None = None
    measured: str | None = None
    domain: str | None = None
    unread: tuple[tuple[str, str], ...] = ()
    problem: str | None = None
    value: object = None
    field: str | None = None

    @property
    def asked(self) -> str:
        """What is looked up: the mention, with what was measured.

        A value at its end has unit and range, "K+ 2.8 mmol/L (3.5-5.1)"; the label of a laboratory test has specimen
        and unit, "Potassium [Serum; mmol/L]".
        """
        return self.measured or self.mention or ""


def checked(
    number: int, line: int, mention: str, further: Sequence[str | None], *, names: Sequence[str | None], encoding: str
) -> MentionRow:
    """Check the texts of a row."""
    code, context, language, frequency, unit, bounds, specimen, domain = (*further, *[None] * 8)[:8]
    for place, text in enumerate((mention, code, context, language, None, unit, bounds, specimen, domain)):
        if text is None or (text.isascii() and "\0" not in text):
            continue
        name = names[place]
        where = f" in {name!r}" if name else ""
        if "\0" in text:
            return MentionRow(number, line, None, problem=f"a NUL byte{where}", value=text, field=name)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            problem = f"not valid {encoding} text{where}"
            return MentionRow(number, line, None, problem=problem, value=printable(text), field=name)
    count = None
    if frequency is not None and (frequency := frequency.strip()):
        if not (whole := WHOLE.fullmatch(frequency)):
            problem = f"{names[4]!r} is no whole number of 0 or more"
            return MentionRow(number, line, None, problem=problem, value=printable(frequency), field=names[4])
        count = int(whole[1])
    measured = _measured(mention, unit, bounds, specimen) if unit or bounds or specimen else None
    told = mention, code, context or None, language or None, count, measured, domain or None
    return MentionRow(number, line, *told, _unread(mention, language, unit, specimen))


def _unread(mention: str, language: str | None, unit: str | None, specimen: str | None) -> tuple[tuple[str, str], ...]:
    """Return the columns whose values nothing is known of, with these values."""
    found = []
    if language and language.strip() and languages.normalize(language.strip()) is None:
        found.append(("language_column", language.strip()))
    if specimen and specimen.strip() and not system_of(specimen):
        found.append(("specimen_column", specimen.strip()))
    if unit and unit.strip() and not is_unit(unit) and not _ENDS_WITH_VALUE.search(mention):
        found.append(("unit_column", unit.strip()))
    return tuple(found)


def _measured(mention: str, unit: str | None, bounds: str | None, specimen: str | None) -> str:
    """Return a mention with the unit and range of its value; without one, with the specimen and unit of its test."""
    if specimen or not _ENDS_WITH_VALUE.search(mention):
        return with_measurement(mention, specimen, unit)
    bounds = f"({bounds.strip().strip('()[]')})" if bounds and bounds.strip() else ""
    measured = f"{(unit or '').strip()} {bounds}".strip()
    return f"{mention} {measured}" if measured else mention


def check_text(name: str, kind: Any) -> None:  # noqa: ANN401
    """Make sure that a Parquet column holds strings."""
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)):
        raise UsageError(f"column {name!r} holds {kind}, not strings; name another with --column")


def texts(column: Any) -> list[str | None]:  # noqa: ANN401
    """Return a Parquet column as strings; bytes that are no UTF-8 become lone surrogates, 3.0 becomes 3."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        # Whole numbers where some are missing; NaN is what data frames have for a missing one.
        return [None if value is None or value != value else as_text(value) for value in column.to_pylist()]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.large_string()).to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]


def as_text(value: float) -> str:
    """Return a number as whoever wrote it means it: 3.0 is 3."""
    return f"{value:.0f}" if value % 1 == 0 else str(value)


def printable(text: str) -> str:
    """Return a text that can be written anywhere: halves of characters become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


STDIN = "-"
# The columns that may be named, the mentions' first, then as `MentionFile.checked` takes them.
FURTHER = (
    *("code_column", "context_column", "language_column", "frequency_column"),
    *("unit_column", "range_column", "specimen_column", "domain_column"),
)
# Of strings alone.
TEXTS = ("context_column", "language_column", "unit_column", "range_column", "specimen_column", "domain_column")
COLUMN_OPTIONS = ("column", *FURTHER)
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "lines",
    **dict.fromkeys(workbooks.SUFFIXES, "excel"),
}
FORMATS = ("csv", "tsv", "excel", "parquet", "jsonl", "lines")
PARQUET_ROWS_AT_ONCE = 8_192
MAGIC = {
    b"PK\x03\x04": "a zip file, or one of Excel's; name that .xlsx or say --input-format excel",
    b"\xd0\xcf\x11\xe0": "an old Excel file; name it .xls or say --input-format excel",
    b"PAR1": "a Parquet file; name it .parquet or say --input-format parquet",
    b"\x1f\x8b": "a gzip file; name it .gz",
}
MAGIC_BYTES = max(map(len, MAGIC))


@dataclass
class MentionFile:
    """An input and how to read it.

    Attributes:
        path: the file, or "-" for stdin.
        format: one of `FORMATS`; "" to take it from the file's name (stdin: plain lines).
        column: the column of mentions; None if there is only one, or one called "mention".
        code_column: a column to carry along, or None.
        context_column: the column of the texts that the mentions stand in, or None.
        language_column: the column of the mentions' languages, or None.
        frequency_column: the column of how often each mention occurs, or None.
        unit_column: the column of the unit of the value that a mention ends with, or of a laboratory test, or None.
        range_column: the column of the range of that value, "3.5-5.1" or "<5", or None.
        specimen_column: the column of the specimen of a laboratory test, or None.
        domain_column: the column that says which concepts may answer a mention, see `Domains`, or None.
        sheet: of an Excel workbook; None if only one has anything in it.
        private: errors do not name the columns there are, which without a header are cells of the first row.
        encoding: of the text; UTF-16 with a byte order mark is seen from the file.
        encoding_option: the option that sets the encoding, for messages.
        delimiter: between cells; "": the format's own, or another one if it fits more rows.
    """

    path: Path | str
    format: str = ""
    column: str | None = None
    code_column: str | None = None
    encoding: str = "utf-8"
    delimiter: str = ""
    context_column: str | None = None
    language_column: str | None = None
    frequency_column: str | None = None
    unit_column: str | None = None
    range_column: str | None = None
    specimen_column: str | None = None
    domain_column: str | None = None
    sheet: str | None = None
    private: bool = False
    encoding_option: str = "--encoding"
    _told: set[str] = field(default_factory=set, repr=False)
    _raw: IO[bytes] | None = field(default=None, repr=False)
    _line: int = field(default=0, repr=False)
    n_rows: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.format:
            self.format = "lines" if self.is_stdin else _format_of(Path(self.path))
        if self.format not in FORMATS:
            raise UsageError(unknown("input format", self.format, FORMATS))
        if self.format == "lines" and (self.column or any(self.further())):
            raise UsageError("plain lines have no columns; say --input-format csv, tsv or jsonl")
        if self.format in ("parquet", "excel") and self.is_stream:
            kind = self.format.capitalize()
            raise UsageError(f"{kind} cannot be read from {'stdin' if self.is_stdin else 'a pipe'}; give a file")
        if self.sheet is not None and self.format != "excel":
            raise UsageError(f"there are sheets in Excel workbooks only, not in {self.format}; leave out --sheet")
        if len(self.delimiter) > 1:
            raise UsageError(f"the delimiter must be one character, not {self.delimiter!r}")
        textio.check_encoding(self.encoding)

    def take_counts(self) -> None:
        """Of a scan report, take the counts beside the values, if no other column of counts is named, and say so."""
        if self.format != "excel" or self.frequency_column is not None:
            return
        header = next(workbooks.sheet_rows(self.path, self.sheet)[1])[1]
        if scan_reports.is_header(header):
            self.column = self.column or (header[0] if len(header) == 2 else None)
            self.frequency_column = scan_reports.FREQUENCY
            if self.column in header[::2]:
                truncated = scan_reports.is_truncated(workbooks.sheet_rows(self.path, self.sheet)[1], self.column)
                rare = "; the report leaves out its rare values" if truncated else ""
                progress.say(
                    f"{self.name}: a scan report of WhiteRabbit; counts are those beside {self.column!r}{rare}"
                )

    @property
    def is_stdin(self) -> bool:
        return str(self.path) == STDIN

    @property
    def is_stream(self) -> bool:
        """Whether the input can be read once only: stdin, or a pipe that goes by a file's name."""
        path = self.path
        return self.is_stdin or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))

    @property
    def name(self) -> str:
        return "stdin" if self.is_stdin else str(self.path)

    def estimate_rows(self, read: int) -> int | None:
        """Return about how many rows there are, going by how much of the file `read` rows took; None for a stream."""
        if self.n_rows is not None:
            return self.n_rows
        if self.is_stream or self._raw is None or self._raw.closed or not self._raw.tell():
            return None
        return max(read, round(read * Path(self.path).stat().st_size / self._raw.tell()))

    def rows(self) -> Iterator[MentionRow]:
        """Yield the rows of the file; what is no row goes to the rejects."""
        self._line = 0
        if self.format in ("parquet", "excel"):
            yield from self._parquet() if self.format == "parquet" else self._delimited(None)
            return
        readers: dict[str, Callable[[IO[bytes]], Iterator[MentionRow]]] = {
            "csv": self._delimited,
            "tsv": self._delimited,
            "jsonl": functools.partial(_json_rows, self),
            "lines": self._plain,
        }
        with self.opened() as file:
            try:
                yield from readers[self.format](file)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise InputError(f"damaged gzip file: {error}", file=self.name, line=self._line) from None

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the file, unpacked if it is gzipped; standard input stays open."""
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

    def lines(self, file: IO[bytes]) -> Iterator[str]:
        """Yield decoded lines with their ends; bytes that are no text become lone surrogates, found per cell later."""
        buffered = cast(io.BufferedReader, file)
        start = buffered.peek(MAGIC_BYTES)
        for magic, kind in MAGIC.items():
            if start.startswith(magic):
                raise InputError(f"this is {kind}", file=self.name)
        if not start:
            raise InputError("the file is empty", file=self.name)
        for text in textio.decoded_lines(buffered, self.name, self._reading):
            for line in ENDED.finditer(text):
                self._line += 1
                yield line[0]

    @property
    def _reading(self) -> textio.Reading:
        return textio.Reading(self.encoding, self.encoding_option, self._tell)

    def _tell(self, text: str) -> None:
        """Say once what was guessed of the file, which is read several times."""
        if text not in self._told:
            self._told.add(text)
            progress.say(text)

    def _parquet(self) -> Iterator[MentionRow]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            if Path(self.path).stat().st_size == 0:
                raise InputError("the file is empty", file=self.name)
            parquet = pq.ParquetFile(self.path)
            self.n_rows = parquet.metadata.num_rows
            schema = parquet.schema_arrow
            wanted = [schema.names[self.choose(schema.names, self.column)]]
            wanted += [name and schema.names[self.choose(schema.names, name)] for name in self.further()]
            names = list(dict.fromkeys(name for name in wanted if name is not None))
            check_text(names[0], schema.field(names[0]).type)
            for name in (getattr(self, option) for option in TEXTS):
                # Data frames store a column without any value as one of nulls.
                if name is not None and not pa.types.is_null(schema.field(name).type):
                    check_text(name, schema.field(name).type)
            number = 0
            for batch in parquet.iter_batches(batch_size=PARQUET_ROWS_AT_ONCE, columns=names):
                columns = [[None] * len(batch) if name is None else texts(batch.column(name)) for name in wanted]
                for mention, *further in zip(*columns, strict=True):
                    number += 1
                    yield self.checked(number, number, mention or "", *further)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"this is no Parquet file that can be read: {error}", file=self.name) from None

    def _delimited(self, file: IO[bytes] | None) -> Iterator[MentionRow]:
        records = self.records(file)
        pick = self._picker(next(records)[2])
        for number, line, cells, problem, value in records:
            if problem:
                yield MentionRow(number, line, None, problem=problem, value=value)
            else:
                yield self.checked(number, line, *pick([*cells, None]))

    def records(self, file: IO[bytes] | None) -> Iterator[Record]:
        """Yield the header, as row 0, and the rows of a CSV or TSV; without a file, of a workbook's sheet."""
        if file is None:
            self.n_rows, sheet = workbooks.sheet_rows(self.path, self.sheet)
            for number, (line, cells) in enumerate(scan_reports.field_rows(sheet, self.column)):
                yield Record(number, line, cells)
            self.n_rows = number
            return
        own = self.delimiter or ("\t" if self.format == "tsv" else ",")
        how = None if self.delimiter else self._reading
        delimiter, lines, before = textio.divided(self.lines(file), own, self.name, how)
        rows = records(lines, self.delimiter or delimiter, before + 1)
        try:
            record = next(rows)
        except csv.Error as error:
            raise InputError(f"the header cannot be read: {error}", file=self.name, line=1) from None
        yield record
        for record in rows:
            yield record._replace(value=printable(record.value)) if record.problem else record
        self.n_rows = record.number

    def _picker(self, header: Sequence[str]) -> Callable[[list[str | None]], tuple[Any, ...]]:
        """Return what takes mention, code, context, ... from the cells of a row, to which one of None was added."""
        # Where a column was not named, the cell after the last, which is None.
        return itemgetter(
            self.choose(header, self.column),
            *(len(header) if name is None else self.choose(header, name) for name in self.further()),
        )

    def _plain(self, file: IO[bytes]) -> Iterator[MentionRow]:
        for number, text in enumerate(self.lines(file), 1):
            yield self.checked(number, number, text.rstrip("\r\n"))
        self.n_rows = self._line

    def further(self) -> tuple[str | None, ...]:
        """Return the columns beside the mentions', in the order of `checked`."""
        return tuple(getattr(self, name) for name in FURTHER)

    def checked(self, number: int, line: int, mention: str, *further: str | None) -> MentionRow:
        """Check the texts of a row, those of the columns `further` in their order."""
        row = checked(number, line, mention, further, names=(self.column, *self.further()), encoding=self.encoding)
        if row.problem is not None and row.problem.startswith("not valid ") and self.format not in ("parquet", "excel"):
            self._tell(f"{self.name}:{line}: not valid {self.encoding} text; {self._reading.remedy}")
        return row

    def choose(self, names: Sequence[str], column: str | None) -> int:
        """Return which of `names` is `column`, or is the one to take when none is named."""
        shown = [printable(name) for name in names]
        listed = f": {shown}"
        if self.private:
            # Where there is no header, these are cells of the first row.
            listed = f"; it has {len(names):,}, which --private does not show"
            if self.format in ("csv", "tsv", "excel"):
                listed += "; its first line must name them"
        if column is None and len(names) == 1:
            return 0
        if column is None and DEFAULT_COLUMN not in names:
            raise UsageError(f"{self.name} has several columns; name one with --column{listed}")
        wanted = column or DEFAULT_COLUMN
        if wanted not in names:
            problem = f"unknown column {wanted!r}{listed}" if self.private else unknown("column", wanted, shown)
            raise UsageError(f"{self.name}: {problem}")
        if list(names).count(wanted) > 1:
            raise UsageError(f"{self.name}: column {wanted!r} stands more than once in the header{listed}")
        return list(names).index(wanted)


def _format_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix == ".txt" and _is_unicode_text(path):
        return "tsv"
    if suffix not in SUFFIXES:
        raise UsageError(f"cannot tell the format of {path.name!r}; say --input-format, one of {list(FORMATS)}")
    return SUFFIXES[suffix]


def _is_unicode_text(path: Path) -> bool:
    """Tell whether a file is a table that Excel saved as "Unicode Text": UTF-16, with tabs between its cells."""
    try:
        with open(path, "rb") as file:
            start = file.read(textio.LOOKED_AT_CHARACTERS)
    except OSError:
        return False
    return start.startswith(textio.UTF16) and "\t" in start.decode("utf-16", "replace").partition("\n")[0]


# Looked at, to see which keys there are: so many lines at most, and no more of long ones.
LOOKED_AT_LINES = 1_000
LOOKED_AT_CHARACTERS = 16 * 2**20


def _json_rows(table: MentionFile, file: IO[bytes]) -> Iterator[MentionRow]:
    """Read the rows of an opened file."""
    lines = enumerate(table.lines(file), 1)
    looked_at, column = _look_at(table, lines)
    number = 0
    for line, text in chain(looked_at, lines):
        if not text.strip():
            continue
        number += 1
        try:
            record = textio.json_value(text)
        except ValueError as error:
            yield MentionRow(number, line, None, problem=f"not JSON: {error}", value=text)
            continue
        if not isinstance(record, dict):
            yield MentionRow(number, line, None, problem="not a JSON object", value=text)
            continue
        yield _row(table, number, line, record, column)
    table.n_rows = number


def _look_at(table: MentionFile, lines: Iterator[tuple[int, str]]) -> tuple[list[tuple[int, str]], str]:
    """Read on until all columns asked for have been seen; return what was read, and the column of mentions."""
    further = [name for name in table.further() if name is not None]
    wanted = {table.column or DEFAULT_COLUMN, *further}
    looked_at: list[tuple[int, str]] = []
    keys: dict[str, None] = {}
    characters = 0
    for line, text in islice(lines, LOOKED_AT_LINES):
        looked_at.append((line, text))
        characters += len(text)
        # What is not JSON is told of when its row comes.
        with suppress(ValueError):
            keys |= dict.fromkeys(record if isinstance(record := textio.json_value(text), dict) else ())
        if wanted <= keys.keys() or characters > LOOKED_AT_CHARACTERS:
            break
    if not keys:
        return looked_at, table.column or DEFAULT_COLUMN
    names = list(keys)
    for name in further:
        table.choose(names, name)
    return looked_at, names[table.choose(names, table.column)]


def _row(table: MentionFile, number: int, line: int, record: dict[str, Any], column: str) -> MentionRow:
    mention = record.get(column, ...)
    if mention is ...:
        return MentionRow(number, line, None, problem=f"no {column!r} in this object", value=list(record), field=column)
    values = {option: (name := getattr(table, option)) and record.get(name) for option in FURTHER}
    for name, text in ((column, mention), *((getattr(table, option), values[option]) for option in TEXTS)):
        if not isinstance(text, str | None):
            return MentionRow(number, line, None, problem=f"{name!r} is not a string", value=text, field=name)
    for option in ("code_column", "frequency_column"):
        name, value = getattr(table, option), values[option]
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            problem = f"{name!r} is neither string nor number"
            return MentionRow(number, line, None, problem=problem, value=value, field=name)
        values[option] = None if value is None else as_text(value) if isinstance(value, float) else str(value)
    return table.checked(number, line, mention or "", *values.values())


def cells_of(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the cells of every row by column, with the number of `MentionFile.rows`; rows of no use are left out."""
    readers = {"csv": _delimited, "tsv": _delimited, "excel": _delimited, "parquet": _parquet, "jsonl": _json_lines}
    if table.format not in readers:
        raise UsageError(f"{table.name}: plain lines have no columns; if there are some, say of which format it is")
    yield from readers[table.format](table)


def _delimited(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    with nullcontext() if table.format == "excel" else table.opened() as file:
        records = table.records(file)
        names = [printable(name) for name in next(records).cells]
        for record in records:
            if not record.problem:
                yield record.number, dict(zip(names, map(printable, record.cells), strict=True))


def _json_lines(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    with table.opened() as file:
        for number, text in enumerate((text for text in table.lines(file) if text.strip()), 1):
            with suppress(ValueError):
                if isinstance(record := textio.json_value(text), dict):
                    yield number, {name: _shown(value) for name, value in record.items()}


def _parquet(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        for batch in pq.ParquetFile(table.path).iter_batches(batch_size=PARQUET_ROWS_AT_ONCE):
            for record in batch.to_pylist():
                number += 1
                yield number, {name: _shown(value) for name, value in record.items()}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=table.name) from None


def _shown(value: object) -> str:
    if value is None or value != value:
        return ""
    return as_text(value) if isinstance(value, float) else printable(str(value))
