"""Tables of rows, in CSV, TSV, Excel and Parquet: frames of the wanted columns and each row's place in the file."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePath
from typing import Protocol

import polars as pl

from alphita import workbooks
from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._delimited_rows import Delimited
from alphita.terminology.loaders._files import Member

ROWS_AT_ONCE = 200_000
# Names of such files, where they lie among others.
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet", *workbooks.SUFFIXES)


PARQUET_MAGIC = b"PAR1"


@dataclass(frozen=True)
class Format:
    """How text files are written, and where in a workbook the table is; of Parquet nothing needs to be said.

    Attributes:
        delimiter: between cells; "" for what the file's name (.tsv) or its first line tells.
        quote: quotes a cell; "" where quotes mean nothing.
        encoding: of the text.
        sheet: of a workbook; "" for the only one that has something in it.
    """

    delimiter: str
    quote: str
    encoding: str
    sheet: str


class Table(Protocol):
    """A table that was opened.

    Attributes:
        names: of its columns.
        header_line: where they stand.
    """

    names: list[str]
    header_line: int

    def frames(self, places: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames, once: the columns at these places, and `line`.

        A cell is a string, "" where it is empty. Rows of a Parquet file are counted from 1, its names being row 0;
        those of a workbook have the numbers that a spreadsheet shows.

        Args:
            places: of the wanted columns, 0 for the first; frames name them "0", "1", ...

        Raises:
            InputError: the file is cut short, or a column holds what is neither text nor whole numbers.
        """
        ...

    def rows(self, places: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells of the columns at these places, in that order), once; otherwise as `frames`.

        Slower, but what is reported on the way comes in the order of the lines.
        """
        ...


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
    # Rows are counted from 1, as in `Table.frames`.
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
