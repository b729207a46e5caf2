"""Reading the files of large releases in bulk.

The bulk files (SNOMED CT's RF2, OMOP's CSV) are lines of cells with one delimiter and no quoting, millions of them.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import csv_lines
from alphita.errors import InputError, Rejects
from alphita.terminology import model
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import UTF16, Member


def listed(option: str) -> list[str]:
    """Return the values of an option that takes several, separated by commas."""
    return [part.strip() for part in option.split(",") if part.strip()]


class Sieve:
    """Takes rows out of frames: the bad ones are reported, the unwanted ones counted.

    A frame has the columns `file` and `line`, which say where a row stands.
    """

    def __init__(self, rejects: Rejects) -> None:
        self.rejects = rejects
        self.dropped: Counter[str] = Counter()

    def refuse(self, frame: pl.DataFrame, field: str, bad: pl.Expr, problem: str) -> pl.DataFrame:
        """Report the rows for which `bad` holds or is null, with the value of `field`; return the others."""
        mask = frame.select(bad.fill_null(True).alias("bad"))["bad"]
        if not mask.any():
            return frame
        for value, line, file in frame.filter(mask).select(field, "line", "file").iter_rows():
            self.rejects.add(problem, file=file, line=line, field=field, value=value)
        return frame.filter(~mask)

    def count(self, reason: str, number: int) -> None:
        """Count rows that were left out on purpose."""
        if number:
            self.dropped[reason] += number

    def drop(self, frame: pl.DataFrame, unwanted: pl.Expr | pl.Series, reason: str) -> pl.DataFrame:
        """Leave rows out on purpose, and count them under `reason`."""
        kept = frame.filter(~unwanted)
        self.count(reason, len(frame) - len(kept))
        return kept

    def once(self, frame: pl.DataFrame, columns: Sequence[str], reason: str) -> pl.DataFrame:
        """Keep the first of the rows that are alike in some columns, in order; count the others under `reason`."""
        kept = frame.unique(columns, keep="first", maintain_order=True)
        self.count(reason, len(frame) - len(kept))
        return kept

    def strings(
        self, frame: pl.DataFrame, field: str, what: str, limit: int = model.MAX_TERM_CHARACTERS
    ) -> pl.DataFrame:
        """Refuse rows whose `field`, which messages call `what`, is blank or has more than `limit` characters."""
        cell = pl.col(field)
        frame = self.refuse(frame, field, cell.str.strip_chars() == "", f"an empty {what}")
        # Bytes are there already, characters must be counted.
        long = (cell.str.len_bytes() > limit) & (cell.str.len_chars() > limit)
        return self.refuse(frame, field, long, f"longer than {limit:,} characters")

    def dates(self, frame: pl.DataFrame, *fields: str) -> pl.DataFrame:
        """Refuse rows in which a field is not a date of the form YYYYMMDD."""
        for field in fields:
            cell = pl.col(field)
            # The calendar alone would take fewer digits, too.
            bad = ~cell.str.contains(r"^[0-9]{8}$") | cell.str.to_date("%Y%m%d", strict=False).is_null()
            frame = self.refuse(frame, field, bad, "not a date of the form YYYYMMDD")
        return frame

    def at_concepts(
        self, frame: pl.DataFrame, field: str, ids: NDArray[np.int64], left_out: NDArray[np.int64], reason: str
    ) -> pl.DataFrame:
        """Replace the numbers of concepts by their rows, and refuse rows with a number that no concept has."""
        wanted = frame[field].cast(pl.Int64, strict=False).fill_null(-1).to_numpy()
        rows = np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0)).astype(np.int32)
        known = ids[rows] == wanted
        frame = frame.with_columns(_row=pl.Series(rows), _known=pl.Series(known))
        if not known.all():
            frame = self.drop(frame, pl.Series(np.isin(wanted, left_out) & ~known), reason)
            frame = self.refuse(frame, field, ~pl.col("_known"), "no concept has this id")
        return frame.with_columns(pl.col("_row").alias(field)).drop("_row", "_known")


BLOCK_BYTES = 32 * 2**20
DELIMITER = "\t"


def sources(read: Sequence[Member], name: str, version: Callable[[Member], str | None]) -> list[dict[str, Any]]:
    """Return the manifest's entries: one a file, an archive being one file, whatever was read of it."""
    first: dict[Path, Member] = {}
    for member in read:
        first.setdefault(member.path, member)
    return [_files.source(path, name=name, version=version(member)) for path, member in first.items()]


# --- without quotes --------------------------------------------------------------------------------------------------


def read_unquoted(
    member: Member,
    columns: Sequence[str],
    rejects: Rejects,
    *,
    optional: Sequence[str] = (),
    prepare: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Read columns of a file with tabs, a header and no quoting."""
    with member.open() as file:
        header = _header(file, member)
        pieces = iter(partial(file.read, BLOCK_BYTES), b"")
        wanted = _places(header, columns, optional, member)
        parser = _Parser(member, header, wanted, rejects)
        asked = _asked(wanted, (*columns, *optional), member)
        frames = [prepare(parser.frame(block).select(asked)) for block in _files.whole_lines(pieces, member.place)]
    return pl.concat(frames or [prepare(_frame(wanted, [], []).select(asked))])


def _places(header: Sequence[str], columns: Sequence[str], optional: Sequence[str], member: Member) -> dict[str, int]:
    """Return the places of the asked columns that a header has, whatever their case."""
    names = [name.strip().casefold() for name in header]
    missing = [name for name in columns if name.casefold() not in names]
    if missing:
        raise InputError(
            f"no column {missing[0]!r}; its first line has {[name[:40] for name in header[:20]]}",
            file=member.place,
            line=1,
            remedy="is it another kind of file?",
        )
    return {name: names.index(name.casefold()) for name in (*columns, *optional) if name.casefold() in names}


def _asked(wanted: dict[str, int], names: Sequence[str], member: Member) -> list[pl.Expr]:
    there = [pl.col(name) if name in wanted else pl.lit("").alias(name) for name in names]
    return [*there, pl.lit(member.place, dtype=pl.Categorical).alias("file"), pl.col("line")]


def _frame(wanted: dict[str, int], lines: list[int], rows: Sequence[Sequence[str]]) -> pl.DataFrame:
    columns = {name: [row[place] for row in rows] for name, place in wanted.items()}
    return pl.DataFrame({**columns, "line": lines}, schema={**dict.fromkeys(columns, pl.String), "line": pl.Int64})


def _header(file: IO[bytes], member: Member) -> list[str]:
    raw = file.readline(2**20)
    if raw.startswith(UTF16):
        raise InputError("this file is UTF-16; the format is UTF-8", file=member.place)
    if not raw.strip():
        raise InputError("the file is empty" if not raw else "its first line is empty", file=member.place)
    try:
        line = raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise InputError("its first line is not UTF-8: not a file of the format", file=member.place, line=1) from None
    return [name.strip() for name in line.rstrip("\r\n").split(DELIMITER)]


class _Parser:
    """Turns blocks of lines into frames, counting lines on the way."""

    def __init__(self, member: Member, header: list[str], wanted: dict[str, int], rejects: Rejects) -> None:
        self.member, self.n_cells, self.rejects = member, len(header), rejects
        self.fewest = len(header) - (header[-1] == "")
        # Two wanted names are never one place.
        self.wanted = wanted
        self.split = _files.Split(DELIMITER, self.n_cells)
        self.line = 2

    def frame(self, block: bytes) -> pl.DataFrame:
        """Return the wanted cells of the block's lines, with their line numbers."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        first = self.line
        self.line += block.count(b"\n")
        if b"\0" not in block and _files.is_utf8(block):
            cells = self.split.frame(block, first, list(self.wanted.values()))
            if cells is not None:
                return cells.select(*(pl.col(str(place)).alias(name) for name, place in self.wanted.items()), "line")
        lines, good = self._good_lines(block, first)
        return _frame(self.wanted, lines, [line.split(DELIMITER) for line in good])

    def _good_lines(self, block: bytes, first: int) -> tuple[list[int], list[str]]:
        numbers, good = [], []
        for number, raw in enumerate(block.split(b"\n")[:-1], first):
            if not raw:
                continue
            problem, line = self._check(raw)
            if problem:
                shown = raw[:100].decode("ascii", "replace")
                self.rejects.add(problem, file=self.member.place, line=number, value=shown)
            else:
                numbers.append(number)
                good.append(line)
        return numbers, good

    def _check(self, raw: bytes) -> tuple[str, str]:
        """Return (what is wrong with the line or "", the line)."""
        if b"\0" in raw:
            return "a NUL byte in the line", ""
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            return f"not UTF-8: byte 0x{raw[error.start]:02x}", ""
        n_cells = line.count(DELIMITER) + 1
        if not self.fewest <= n_cells <= self.n_cells:
            return f"{n_cells} cells, but the header has {self.n_cells}", ""
        return "", line


# --- with quotes -----------------------------------------------------------------------------------------------------


def read_quoted(
    member: Member, columns: Sequence[str], rejects: Rejects, *, optional: Sequence[str] = ()
) -> pl.DataFrame:
    """Read columns of a CSV file, their cells stripped; otherwise as `read_unquoted`."""
    rows = _csv_rows(member, rejects)
    _, header = next(rows)
    wanted = _places(header, columns, optional, member)
    places = {name: at for at, name in enumerate(wanted)}
    lines, cells = [], []
    for line, row in rows:
        lines.append(line)
        cells.append([row[place].strip() for place in wanted.values()])
    return _frame(places, lines, cells).select(_asked(wanted, (*columns, *optional), member))


def _csv_rows(member: Member, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of a CSV file, its header first; lines that cannot be read go to `rejects`."""
    with member.open() as file:
        data = _files.read_whole(file, member.place)
    if data.startswith(UTF16):
        raise InputError("this file is UTF-16; the format is UTF-8", file=member.place)
    rows = csv_lines.records(io.StringIO(_text(data, member, rejects), newline=""), ",")
    try:
        _, line, header, _, _ = next(rows)
    except csv.Error as error:
        raise InputError(f"its first line is no header: {error}", file=member.place, line=1) from None
    if not header:
        raise InputError("the file is empty", file=member.place)
    yield line, header
    for row in rows:
        if row.problem:
            rejects.add(row.problem, file=member.place, line=row.line, value=row.value)
        else:
            yield row.line, row.cells


def _text(data: bytes, member: Member, rejects: Rejects) -> str:
    """Return a file's text; lines that are not text are reported and left empty, so that lines keep their numbers."""
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode()
        if "\0" not in text:
            return text
    except UnicodeDecodeError:
        pass
    lines = []
    for number, raw in enumerate(data.split(b"\n"), 1):
        try:
            line = raw.decode()
            problem = "a NUL byte in the line" if "\0" in line else ""
        except UnicodeDecodeError as error:
            line, problem = "", f"not UTF-8: byte 0x{raw[error.start]:02x}"
        if problem:
            rejects.add(problem, file=member.place, line=number, value=raw[:100].decode("ascii", "replace"))
            line = ""
        lines.append(line)
    return "\n".join(lines)


def release_date(member: Member) -> str | None:
    """Return the date in a file's name, such as sct2_Concept_Snapshot_INT_20250101.txt, or None."""
    dates = re.findall(r"(?<!\d)((?:19|20)\d{6})(?!\d)", member.name)
    return dates[-1] if dates else None
