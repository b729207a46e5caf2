"""Reading the files of large releases in bulk.

The bulk files (SNOMED CT's RF2, OMOP's CSV) are lines of cells with one delimiter and no quoting, millions of them.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import textio
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
        fewest = len(header) - (header[-1] == "")

        def check(raw: bytes) -> str | None:
            n_cells = raw.count(DELIMITER.encode()) + 1
            right = fewest <= n_cells <= len(header)
            wrong = "" if right else f"{n_cells} cells, but the header has {len(header)}"
            return _files.no_text(raw, "UTF-8") or wrong if raw else None

        split = _files.Split(DELIMITER, len(header))
        lines = Lines(member.place, split, wanted, rejects, check, line=2, shown="ascii")
        asked = _asked(wanted, (*columns, *optional), member)
        frames = [prepare(lines.frame(block).select(asked)) for block in _files.whole_lines(pieces, member.place)]
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


def _frame(wanted: Mapping[str, int], lines: list[int], rows: Sequence[Sequence[str]]) -> pl.DataFrame:
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


class Lines:
    """Turns blocks of lines, which have one delimiter and no quotes, into frames of the wanted cells; counts lines.

    Args:
        wanted: column -> place; no two of them at one place.
        check: says of a line what is wrong with it, "" for a good one; None: it is blank.
        line: number of the first one.
        shown: encoding in which a bad line is shown.
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
        """Return the wanted cells of the block's lines, with their line numbers."""
        if b"\r" in block:  # one byte is found far faster than two
            block = block.replace(b"\r\n", b"\n")
        first = self.line
        self.line += block.count(b"\n")
        cells = None
        if b"\0" not in block and _files.is_utf8(block):
            cells = self.split.frame(block, first, list(self.wanted.values()))
        if cells is not None:
            cells = cells.select(*(pl.col(str(place)).alias(name) for name, place in self.wanted.items()), "line")
        else:
            cells = _frame(self.wanted, *self._good_lines(block, first))
        self.accepted += len(cells)
        return cells

    def _good_lines(self, block: bytes, first: int) -> tuple[list[int], list[list[str]]]:
        numbers, good = [], []
        for number, raw in enumerate(block.split(b"\n")[:-1], first):
            if problem := self.check(raw):
                shown = raw[:100].decode(self.shown, "replace")
                self.rejects.add(problem, file=self.place, line=number, value=shown)
            elif problem is not None:
                numbers.append(number)
                good.append(raw.decode().split(self.split.delimiter))
        return numbers, good


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
    rows = textio.records(io.StringIO(_text(data, member, rejects), newline=""), ",")
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
    if b"\0" not in data and _files.is_utf8(data):
        return data.decode()
    lines = data.split(b"\n")
    for number, raw in enumerate(lines):
        if problem := _files.no_text(raw, "UTF-8"):
            rejects.add(problem, file=member.place, line=number + 1, value=raw[:100].decode("ascii", "replace"))
            lines[number] = b""
    return b"\n".join(lines).decode()


def release_date(member: Member) -> str | None:
    """Return the date in a file's name, such as sct2_Concept_Snapshot_INT_20250101.txt, or None."""
    dates = re.findall(r"(?<!\d)((?:19|20)\d{6})(?!\d)", member.name)
    return dates[-1] if dates else None
