"""Tables of rows as frames of the wanted columns, with each row's place in the file.

`opened` reads a user's CSV, TSV, Excel or Parquet file. `read_unquoted` and `read_quoted` read the bulk files of large
releases, whose columns are known: SNOMED CT's RF2, OMOP's CSV, LOINC.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path, PurePath
from typing import IO

import polars as pl
from pydantic import Field

from alphita import textio, workbooks
from alphita.config import Config
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import model
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import UTF16, Block, Member

# The most lines of a row: where each row opens a quote by mistake, that many are looked at again and again.
MAX_LINES = 1_000
ROWS_AT_ONCE = 200_000
# What may separate cells, the likelier first.
DELIMITERS = ",\t;|"
# Names of table files in folders and archives.
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet", *workbooks.SUFFIXES)
PARQUET_MAGIC = b"PAR1"
# Comes before the first block, because a header of several lines leaves some lines waiting.
_NOTHING: Block = (0, "")


class Format(Config):
    """Options of loaders of tables: how text files are written, and where in a workbook the table is."""

    delimiter: str = Field("", description="delimiter of cells; by default from the name (.tsv) or the first line")
    quote: str = Field('"', max_length=1, description="quotation mark of cells; empty: quotes have no special meaning")
    encoding: str = Field("utf-8", description="encoding of CSV and TSV files")
    sheet: str = Field("", description="sheet of an Excel workbook; by default the only one that is not empty")


class Delimited:
    """A CSV or TSV file; see `Table` and `Format`."""

    def __init__(self, member: Member, format_: Format, rejects: Rejects) -> None:
        self.member, self.quote, self.rejects = member, format_.quote, rejects
        delimiter = format_.delimiter
        blocks = _files.blocks(member, format_.encoding, rejects)
        number, text = next(blocks, (0, ""))
        if not text:
            raise InputError("no readable line in this file", file=member.place)
        first, _, rest = text.partition("\n")
        if told := textio.separator_of(first):
            delimiter, number = delimiter or told, number + 1
            first, _, rest = rest.partition("\n")
        self.delimiter = delimiter.replace("\\t", "\t") or _delimiter(member, first)
        if len(self.delimiter) != 1:
            raise UsageError(f"delimiter must be one character, not {delimiter!r}")
        self.feed = Feed(chain([(number, first + "\n"), (number + 1, rest)], blocks))
        self.reader = self._reader(self.feed)
        self.header_line, self.names = number, self._header(number, first.rstrip("\r"))
        self.split = _files.Split(self.delimiter, len(self.names))

    def _reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        if self.quote:
            return csv.reader(lines, delimiter=self.delimiter, quotechar=self.quote, strict=True)
        return csv.reader(lines, delimiter=self.delimiter, quotechar=None, quoting=csv.QUOTE_NONE, strict=True)

    def _header(self, number: int, line: str) -> list[str]:
        try:
            header = [name.strip() for name in next(self.reader)]
        except csv.Error as error:
            problem = f"its first line is no header: {error}"
            raise InputError(problem, file=self.member.place, line=number, value=line) from None
        if len(header) < 2:
            raise InputError(
                f"its first line has no {self.delimiter!r}: not a table of that kind",
                file=self.member.place,
                line=number,
                value=line,
                remedy="the first line must name the columns; the option delimiter sets the separator of cells",
            )
        return header

    def frames(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield the columns at some places as frames, with the line of each row."""
        places = sorted(set(places))
        for block in chain([_NOTHING], self.feed.blocks):
            if (frame := self._at_once(block, places)) is not None:
                yield frame
                continue
            # The lines that wait, and those beyond that the last row needs.
            self.feed.load(block)
            rows = list(self._rows())
            columns = {str(place): [cells[place] for _, cells in rows] for place in places}
            yield _frame(columns, [line for line, _ in rows])

    def rows(self, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        for block in chain([_NOTHING], self.feed.blocks):
            self.feed.load(block)
            for line, cells in self._rows():
                yield line, [cells[place] for place in places]

    def _at_once(self, block: Block, places: Sequence[int]) -> pl.DataFrame | None:
        """Return the cells, or None unless every line has the header's number of them and none has a quote in it."""
        first, text = block
        if (self.quote and self.quote in text) or not self.delimiter.isascii():
            return None
        raw = text.replace("\r\n", "\n").encode()
        return None if not raw or b"\r" in raw else self.split.frame(raw, first, places)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        feed, n_cells = self.feed, len(self.names)
        while feed.waiting:
            feed.taken = []
            try:
                cells = next(self.reader)
            except csv.Error as error:
                n_lost = self._n_lost()
                where = f"lines {feed.taken[0][0]} to {feed.taken[n_lost - 1][0]}"
                problem = f"not a row of a table: {error}; a quote that is not closed? ({where})"
                self._refuse(problem, feed.taken[0][1], n_lost)
                continue
            if len(cells) == n_cells and (len(feed.taken) == 1 or self._is_one_row(cells)):
                yield feed.taken[0][0], cells
            elif cells:
                self._refuse_cells(cells)

    def _refuse_cells(self, cells: list[str]) -> None:
        n_lost, (_, first), (_, last) = self._n_lost(), self.feed.taken[0], self.feed.taken[-1]
        # What follows a cell with line breaks may have as many cells as a row by chance.
        if n_lost == len(self.feed.taken) - 1 and not self._is_like(last, _forms_before(cells)):
            n_lost += 1
        problem, value = f"{len(cells)} cells, but the header has {len(self.names)}", self.delimiter.join(cells)
        if n_lost < len(self.feed.taken):
            problem, value = "not a row of a table: rows within a quoted cell; a quote that is not closed?", first
        self._refuse(problem, value, n_lost)

    def _refuse(self, problem: str, value: str, n_lost: int) -> None:
        taken = self.feed.taken
        self.rejects.add(problem, file=self.member.place, line=taken[0][0], value=value)
        self.feed.waiting.extendleft(reversed(taken[n_lost:]))

    def _n_lost(self) -> int:
        """Return how many of a bad row's lines are lost with it: those up to one that may begin a row."""
        later = enumerate(self.feed.taken[1:], 1)
        return next((n for n, (_, line) in later if self._may_begin(line)), len(self.feed.taken))

    def _may_begin(self, line: str) -> bool:
        cells = self._alone(line)
        if cells is not None:
            return len(cells) == len(self.names)
        # With its last quote closed a line that begins a row of several reads well.
        cells = self._alone(line + self.quote)
        return cells is not None and 1 < len(cells) <= len(self.names)

    def _alone(self, line: str) -> list[str] | None:
        try:
            return next(self._reader(iter([line + "\n"])))
        except csv.Error:
            return None

    def _is_one_row(self, cells: list[str]) -> bool:
        """Tell whether a row of several lines is not others that a quote opened by mistake took in."""
        first, *inner, last = [line for _, line in self.feed.taken if line and not line.isspace()]
        if max(map(len, cells)) > model.MAX_TEXT_CHARACTERS and self._n_lost() < len(self.feed.taken):
            return False
        if first.count(self.delimiter) != len(cells) - 1:
            return True
        before = _forms_before(cells)
        if not inner:
            return not self._is_like(last, before)
        # The cells after the one with line breaks are the last line's own.
        after = {place: _form(cell) for place, cell in enumerate(cells) if place not in before and "\n" not in cell}
        forms = before | {place: form for place, form in after.items() if form}
        return 2 * sum(self._is_like(line, forms) for line in inner) <= len(inner)

    def _is_like(self, line: str, forms: dict[int, str]) -> bool:
        """Tell whether a line by itself is a row, and one of its cells has the form given for its place."""
        row = self._alone(line)
        if row is None or len(row) != len(self.names):
            return False
        return any(_form(row[place]) == form for place, form in forms.items())


class Feed:
    """Feeds lines to the CSV reader and knows which of them it read: a row may span several.

    Attributes:
        waiting: (number, line) of a block that is being read.
    """

    def __init__(self, blocks: Iterator[Block]) -> None:
        self.blocks = blocks
        self.waiting: deque[tuple[int, str]] = deque()
        self.taken: list[tuple[int, str]] = []

    def load(self, block: Block) -> None:
        self.waiting.extend(_files.numbered(block))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        while not self.waiting:
            self.load(next(self.blocks))
        if len(self.taken) == MAX_LINES:
            raise csv.Error(f"a row of more than {MAX_LINES:,} lines")
        line = self.waiting.popleft()
        self.taken.append(line)
        return line[1] + "\n"


def _form(cell: str) -> str:
    """Return how the codes of a series are written: "L:0" for "L:100"; "" unless there are letters and digits."""
    form = re.sub(r"\d+", "0", cell)
    return form if "0" in form and any(map(str.isalpha, form)) else ""


def _forms_before(cells: list[str]) -> dict[int, str]:
    """Return the forms of codes, by their places, that stand before the first cell with a line break."""
    forms = {place: _form(cell) for place, cell in enumerate(takewhile(lambda cell: "\n" not in cell, cells))}
    return {place: form for place, form in forms.items() if form}


def _delimiter(member: Member, header: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(member.name).suffixes]
    if ".tsv" in suffixes or ".tab" in suffixes:
        return "\t"
    return max(DELIMITERS, key=lambda sign: (header.count(sign), sign == ","))


def chosen(paths: Sequence[Path], format_: Format, dropped: Counter[str]) -> list[Member]:
    """Return the tables in files, folders and archives; see `_files.chosen`."""
    files = _files.chosen(paths, ENDINGS, dropped)
    if format_.sheet and not any(map(is_workbook, files)):
        raise UsageError(
            f"there are sheets in workbooks only, and none is given; leave out --set sheet={format_.sheet}"
        )
    return files


def is_workbook(member: Member) -> bool:
    """Tell whether a file is a workbook, by its name."""
    return PurePath(member.name).suffix.lower() in workbooks.SUFFIXES


def opened(member: Member, format_: Format, rejects: Rejects, *, fractions: bool = False) -> Table:
    """Open a table; its rows of another length than the header go to `rejects`."""
    if is_workbook(member):
        return _Workbook(member, format_.sheet)
    with member.open() as file:
        is_parquet = _files.read_block(file, member.place, 4) == PARQUET_MAGIC
    return _Parquet(member, fractions) if is_parquet else Delimited(member, format_, rejects)


class _Parquet:
    # Rows are counted from 1, as `Table` says.
    header_line = 0

    def __init__(self, member: Member, fractions: bool) -> None:
        self.member, self.fractions = member, fractions
        try:
            with member.open() as file:
                self.scanned = pl.scan_parquet(
                    io.BytesIO(_files.read_whole(file, member.place)) if member.inside else member.path
                )
            self.names = self.scanned.collect_schema().names()
        except (pl.exceptions.PolarsError, OSError) as error:
            raise self._unreadable(error) from None

    def frames(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        wanted = self.scanned.select(pl.nth(place).alias(str(place)) for place in sorted(set(places)))
        start = 0
        while True:
            try:
                block = wanted.slice(start, ROWS_AT_ONCE).collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                raise self._unreadable(error) from None
            if block.is_empty():
                return
            line = pl.int_range(start + 1, start + 1 + len(block), dtype=pl.Int64).alias("line")
            yield block.select(self._text(column, start) for column in block.iter_columns()).with_columns(line)
            start += len(block)

    def rows(self, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        for frame in self.frames(places):
            for line, *cells in frame.select("line", *map(str, places)).iter_rows():
                yield line, cells

    def _text(self, column: pl.Series, start: int) -> pl.Series:
        """Return a column as text; whole numbers that pandas stored as floats become integers again."""
        if column.dtype.is_float():
            column = column.fill_nan(None)
            broken = (column != column.round()).fill_null(False) | column.is_infinite().fill_null(False)
            if broken.any() and self.fractions:
                return column.cast(pl.String).fill_null("")
            if broken.any():
                row = broken.arg_true()[0]
                raise self._unusable(column, row=start + 1 + row, value=column[row])
        if column.dtype.is_nested():
            raise self._unusable(column)
        try:
            whole = column.cast(pl.Int128) if column.dtype.is_float() else column
            return whole.cast(pl.String).fill_null("")
        except pl.exceptions.PolarsError:
            raise self._unusable(column) from None

    def _unusable(self, column: pl.Series, *, row: int | None = None, value: float | None = None) -> InputError:
        problem, field = f"a column of type {column.dtype}, but text or whole numbers are needed", int(column.name)
        remedy = "write it as a column of strings"
        return InputError(
            problem, file=self.member.place, line=row, field=self.names[field], value=value, remedy=remedy
        )

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(f"not a readable Parquet file: {str(error).splitlines()[0]}", file=self.member.place)


class _Workbook:
    def __init__(self, member: Member, sheet: str) -> None:
        if member.inside:
            raise InputError("a workbook in an archive", file=member.place, remedy="unpack the archive first")
        _, self.left = workbooks.sheet_rows(member.path, sheet or None, option="--set sheet=NAME")
        self.header_line, header = next(self.left)
        self.names = [name.strip() for name in header]

    def frames(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        places = sorted(set(places))
        schema = {"line": pl.Int64, **{str(place): pl.String for place in places}}
        rows = ((line, *cells) for line, cells in self.rows(places))
        while block := list(islice(rows, ROWS_AT_ONCE)):
            yield pl.DataFrame(block, schema=schema, orient="row")

    def rows(self, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        return ((line, [cells[place] for place in places]) for line, cells in self.left)


# A table that was opened: `names` of its columns, and the `header_line` where they stand. `frames` and `rows` yield,
# once, the columns at some places, 0 for the first: as frames that call them "0", "1", ... with `line`, or as (line,
# cells), in which case what is reported on the way comes in the order of the lines. A cell is a string, "" where it is
# empty. Rows of a Parquet file are counted from 1, its names being row 0; those of a workbook as a spreadsheet does.
Table = Delimited | _Parquet | _Workbook


# --- the bulk files of releases: millions of lines with one delimiter and no quoting ---------------------------------

BLOCK_BYTES = 32 * 2**20


def read_unquoted(
    member: Member,
    columns: Sequence[str],
    rejects: Rejects,
    *,
    optional: Sequence[str] = (),
    prepare: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Read columns of a file with tabs, a header and no quoting; `prepare` is called for each block."""
    with member.open() as file:
        header = _header(file, member)
        wanted = _places(header, columns, optional, member)
        fewest = len(header) - (header[-1] == "")

        def check(raw: bytes) -> str | None:
            n_cells = raw.count(b"\t") + 1
            wrong = "" if fewest <= n_cells <= len(header) else f"{n_cells} cells, but the header has {len(header)}"
            return _files.no_text(raw, "UTF-8") or wrong if raw else None

        lines = Lines(member.place, _files.Split("\t", len(header)), wanted, rejects, check, line=2, shown="ascii")
        cells = _cells(wanted, (*columns, *optional), member)
        pieces = iter(partial(file.read, BLOCK_BYTES), b"")
        frames = [prepare(lines.frame(block).select(cells)) for block in _files.whole_lines(pieces, member.place)]
    return pl.concat(frames or [prepare(_frame({name: [] for name in wanted}, []).select(cells))])


def _places(header: Sequence[str], columns: Sequence[str], optional: Sequence[str], member: Member) -> dict[str, int]:
    """Return the places of the columns that a header has, whatever their case."""
    names = [name.strip().casefold() for name in header]
    if missing := [name for name in columns if name.casefold() not in names]:
        shown = [name[:40] for name in header[:20]]
        problem, remedy = f"no column {missing[0]!r}; its first line has {shown}", "is it another kind of file?"
        raise InputError(problem, file=member.place, line=1, remedy=remedy)
    return {name: names.index(name.casefold()) for name in (*columns, *optional) if name.casefold() in names}


def _cells(wanted: Mapping[str, int], names: Sequence[str], member: Member) -> list[pl.Expr]:
    cells = [pl.col(name) if name in wanted else pl.lit("").alias(name) for name in names]
    return [*cells, pl.lit(member.place, dtype=pl.Categorical).alias("file"), pl.col("line")]


def _frame(columns: Mapping[str, list[str]], lines: list[int]) -> pl.DataFrame:
    return pl.DataFrame({**columns, "line": lines}, schema={**dict.fromkeys(columns, pl.String), "line": pl.Int64})


def _header(file: IO[bytes], member: Member) -> list[str]:
    raw = file.readline(2**20)
    _refuse_utf16(raw, member)
    if not raw.strip():
        raise InputError("the file is empty" if not raw else "its first line is empty", file=member.place)
    try:
        line = raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise InputError("its first line is not UTF-8: not a file of the format", file=member.place, line=1) from None
    return [name.strip() for name in line.rstrip("\r\n").split("\t")]


def _refuse_utf16(raw: bytes, member: Member) -> None:
    if raw.startswith(UTF16):
        raise InputError("this file is UTF-16; the format is UTF-8", file=member.place)


class Lines:
    """Turns blocks of lines into frames of the wanted cells (column -> place, no place twice), and counts lines.

    `check` returns what is wrong with a line, "" for a good one, None for a blank one. `line` is the number of the
    first line, `shown` the encoding in which bad lines are reported.
    """

    def __init__(
        self,
        place: str,
        split: _files.Split,
        wanted: Mapping[str, int],
        rejects: Rejects,
        check: Callable[[bytes], str | None],
        *,
        line: int,
        shown: str,
    ) -> None:
        self.place, self.split, self.wanted, self.rejects = place, split, wanted, rejects
        self.check, self.line, self.shown = check, line, shown
        self.accepted = 0

    def frame(self, block: bytes) -> pl.DataFrame:
        """Return the rows of a block of whole lines; lines that are no rows go to the rejects."""
        if b"\r" in block:  # one byte is found far faster than two
            block = block.replace(b"\r\n", b"\n")
        first = self.line
        self.line += block.count(b"\n")
        frame = None
        if b"\0" not in block and _files.is_utf8(block):
            frame = self.split.frame(block, first, list(self.wanted.values()))
        if frame is not None:
            frame = frame.select(*(pl.col(str(place)).alias(name) for name, place in self.wanted.items()), "line")
        else:
            frame = self._good_lines(block, first)
        self.accepted += len(frame)
        return frame

    def _good_lines(self, block: bytes, first: int) -> pl.DataFrame:
        numbers, rows = [], []
        for number, raw in enumerate(block.split(b"\n")[:-1], first):
            if problem := self.check(raw):
                shown = raw[:100].decode(self.shown, "replace")
                self.rejects.add(problem, file=self.place, line=number, value=shown)
            elif problem is not None:
                numbers.append(number)
                rows.append(raw.decode().split(self.split.delimiter))
        return _frame({name: [row[place] for row in rows] for name, place in self.wanted.items()}, numbers)


def read_quoted(
    member: Member, columns: Sequence[str], rejects: Rejects, *, optional: Sequence[str] = ()
) -> pl.DataFrame:
    """Read columns of a CSV file with quotes, their cells stripped; optional ones that it lacks are ""."""
    with member.open() as file:
        content = _files.read_whole(file, member.place)
    _refuse_utf16(content, member)
    records = textio.records(io.StringIO(_text(content, member, rejects), newline=""), ",")
    try:
        header = next(records).cells
    except csv.Error as error:
        raise InputError(f"its first line is no header: {error}", file=member.place, line=1) from None
    if not header:
        raise InputError("the file is empty", file=member.place)
    wanted = _places(header, columns, optional, member)
    lines: list[int] = []
    cells: dict[str, list[str]] = {name: [] for name in wanted}
    for record in records:
        if record.problem:
            rejects.add(record.problem, file=member.place, line=record.line, value=record.value)
            continue
        lines.append(record.line)
        for name, place in wanted.items():
            cells[name].append(record.cells[place].strip())
    return _frame(cells, lines).select(_cells(wanted, (*columns, *optional), member))


def _text(content: bytes, member: Member, rejects: Rejects) -> str:
    """Return a file's text; lines that are not text are reported and left empty, so that lines keep their numbers."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" not in content and _files.is_utf8(content):
        return content.decode()
    lines = content.split(b"\n")
    for number, raw in enumerate(lines):
        if problem := _files.no_text(raw, "UTF-8"):
            rejects.add(problem, file=member.place, line=number + 1, value=raw[:100].decode("ascii", "replace"))
            lines[number] = b""
    return b"\n".join(lines).decode()
