"""Tables of rows: CSV, TSV and Parquet files, each row with its place in the file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders import _files, _lines
from alphita.terminology.loaders._files import Member

ROWS_AT_ONCE = 50_000
# Names of such files, where they lie among others.
ENDINGS = (".csv", ".tsv", ".tab", ".txt", ".parquet")


@dataclass(frozen=True)
class Format:
    """How text files are written; of Parquet nothing needs to be said.

    Attributes:
        delimiter: between cells; "" for what the file's name (.tsv) or its first line tells.
        quote: quotes a cell; "" where quotes mean nothing.
        encoding: of the text.
    """

    delimiter: str
    quote: str
    encoding: str


def rows(member: Member, format_: Format, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells), the line of column names first; rows of another length than that go to `rejects`.

    Rows of a Parquet file are counted from 1, its names being row 0.

    Raises:
        InputError: the file is empty, no table, or unreadable.
        UsageError: the delimiter is no single character, or the encoding unknown.
    """
    with member.open() as file:
        is_parquet = _files.read_block(file, member.place, 4) == b"PAR1"
    return _parquet(member) if is_parquet else _delimited(member, format_, rejects)


def _parquet(member: Member) -> Iterator[tuple[int, list[str]]]:
    """Yield (0, column names), then (row number from 1, cells) of a Parquet file."""
    import polars as pl

    try:
        with member.open() as file:
            scanned = pl.scan_parquet(io.BytesIO(file.read()) if member.inside else member.path)
        names = scanned.collect_schema().names()
        yield 0, names
        text = scanned.select(pl.all().cast(pl.String, strict=False).fill_null(""))
        start = 0
        while len(block := text.slice(start, ROWS_AT_ONCE).collect()):
            for row, cells in enumerate(block.iter_rows(), start + 1):
                yield row, list(cells)
            start += len(block)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"not a readable Parquet file: {str(error).splitlines()[0]}", file=member.place) from None


def _delimited(member: Member, format_: Format, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of a CSV or TSV file, the header first; rows of another length go to `rejects`."""
    lines = _lines.lines(member, format_.encoding, rejects)
    first = next(lines, None)
    if first is None:
        raise InputError("no readable line in this file", file=member.place)
    delimiter = format_.delimiter.replace("\\t", "\t") or _delimiter(member, first[1])
    if len(delimiter) != 1:
        raise UsageError(f"delimiter must be one character, not {format_.delimiter!r}")
    feed = _Feed(first, lines)
    if format_.quote:
        found = csv.reader(feed, delimiter=delimiter, quotechar=format_.quote, strict=True)
    else:
        found = csv.reader(feed, delimiter=delimiter, quotechar=None, quoting=csv.QUOTE_NONE, strict=True)
    header = _header(found, member, first, delimiter)
    yield first[0], header
    while True:
        feed.start = None
        try:
            cells = next(found)
        except StopIteration:
            return
        except csv.Error as error:
            where = f"lines {feed.start} to {feed.number}"
            problem = f"not a row of a table: {error}; a quote that is not closed? ({where})"
            rejects.add(problem, file=member.place, line=feed.start)
            continue
        if not cells:
            continue
        if len(cells) != len(header):
            problem = f"{len(cells)} cells, but the header has {len(header)}"
            rejects.add(problem, file=member.place, line=feed.start, value=delimiter.join(cells))
            continue
        yield feed.start or 0, cells


def _header(found: Iterator[list[str]], member: Member, first: tuple[int, str], delimiter: str) -> list[str]:
    try:
        header = next(found)
    except csv.Error as error:
        problem = f"its first line is no header: {error}"
        raise InputError(problem, file=member.place, line=first[0], value=first[1]) from None
    header = [name.strip() for name in header]
    if len(header) < 2:
        raise InputError(
            f"its first line has no {delimiter!r}: not a table of that kind",
            file=member.place, line=first[0], value=first[1],
            remedy="the first line must name the columns; the option delimiter says what stands between cells",
        )  # fmt: skip
    return header


class _Feed:
    """Feeds lines to the CSV reader and knows which of them it read: a row may span several."""

    def __init__(self, first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> None:
        self.waiting, self.rest = [first], rest
        self.start: int | None = None
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = self.waiting.pop() if self.waiting else next(self.rest)
        if self.start is None:
            self.start = self.number
        return line + "\n"


def _delimiter(member: Member, header: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePath(member.name).suffixes]
    if ".tsv" in suffixes or ".tab" in suffixes:
        return "\t"
    return max(",\t;|", key=lambda sign: (header.count(sign), sign == ","))
