"""Tables of rows, in CSV, TSV, Excel and Parquet: frames of the wanted columns and each row's place in the file."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from pathlib import Path, PurePath

import polars as pl

from alphita import workbooks
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology import model
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import Block, Member

# Of a row. Where each row opens a quote by mistake, so many are looked at again and again.
MAX_LINES = 1_000
# What stands between cells, the likelier first.
DELIMITERS = ",\t;|"
# Before the first block, for a header of several lines has let some wait.
_NOTHING: Block = (0, "")


class Delimited:
    """A CSV or TSV file; see `Table` and `Format`."""

    def __init__(self, member: Member, delimiter: str, quote: str, encoding: str, rejects: Rejects) -> None:
        self.member, self.quote, self.rejects = member, quote, rejects
        blocks = _files.blocks(member, encoding, rejects)
        number, text = next(blocks, (0, ""))
        if not text:
            raise InputError("no readable line in this file", file=member.place)
        first, _, rest = text.partition("\n")
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
                remedy="the first line must name the columns; the option delimiter says what stands between cells",
            )
        return header

    def frames(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames."""
        places = sorted(set(places))
        for block in chain([_NOTHING], self.feed.blocks):
            frame = self._at_once(block, places)
            if frame is not None:
                yield frame
                continue
            self.feed.load(block)
            yield self._row_by_row(places)

    def rows(self, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows one by one."""
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

    def _row_by_row(self, places: Sequence[int]) -> pl.DataFrame:
        """Return the cells of the lines that wait, and of those that the last row needs beyond."""
        lines: list[int] = []
        columns: dict[str, list[str]] = {str(place): [] for place in places}
        wanted = [(place, columns[str(place)]) for place in places]
        for line, cells in self._rows():
            lines.append(line)
            for place, column in wanted:
                column.append(cells[place])
        schema = {**dict.fromkeys(columns, pl.String), "line": pl.Int64}
        return pl.DataFrame({**columns, "line": lines}, schema=schema)

    # --- rows, one by one --------------------------------------------------------------------------------------------

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
        """Let the lines of a block wait."""
        self.waiting.extend(_files.numbered(block))

    def __iter__(self) -> Iterator[str]:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line, with its end."""
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


ROWS_AT_ONCE = 200_000
# Names of such files, where they lie among others.
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet", *workbooks.SUFFIXES)


PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Format:
    """How text files are written, and where in a workbook the table is; of Parquet nothing needs to be said."""

    delimiter: str
    quote: str
    encoding: str
    sheet: str


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
    return (
        _Parquet(member, fractions)
        if is_parquet
        else Delimited(member, format_.delimiter, format_.quote, format_.encoding, rejects)
    )


# --- Parquet ---------------------------------------------------------------------------------------------------------


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
        """Return a column as text; numbers that pandas made floats, since others are missing, as the integers they
        are."""
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
        return InputError(
            f"a column of type {column.dtype}, where text or whole numbers are wanted",
            file=self.member.place,
            line=row,
            field=self.names[int(column.name)],
            value=value,
            remedy="write it as a column of strings",
        )

    def _unreadable(self, error: Exception) -> InputError:
        return InputError(f"not a readable Parquet file: {str(error).splitlines()[0]}", file=self.member.place)


# --- Excel -----------------------------------------------------------------------------------------------------------


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
