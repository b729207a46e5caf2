"""Reading the files of large releases in bulk.

The bulk files (SNOMED CT's RF2, OMOP's CSV) are lines of cells with one delimiter and no quoting, millions of them.
They are read in blocks. A block in which every line has its number of cells goes through polars at once; any other is
read line by line, so that each bad line is reported with its number.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import artefact, textio
from alphita.errors import InputError, Rejects
from alphita.terminology.loaders._files import Member

BLOCK_BYTES = 32 * 2**20
DELIMITER = "\t"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def sources(read: Sequence[Member], name: str, version: Callable[[Member], str | None]) -> list[dict[str, Any]]:
    """Return the manifest's entries: one a file, an archive being one file, whatever was read of it."""
    entries = {}
    for member in read:
        if member.path not in entries:
            entries[member.path] = {
                "name": name,
                "file": member.path.name,
                "version": version(member),
                "licence": None,
                "sha256": artefact.hash_file(member.path),
            }
    return list(entries.values())


# --- bulk reading ----------------------------------------------------------------------------------------------------


def read_unquoted(
    member: Member,
    columns: Sequence[str],
    rejects: Rejects,
    *,
    optional: Sequence[str] = (),
    prepare: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Read the columns of that name, and the column `line`, of a file with tabs, a header and no quoting.

    A line with more or fewer cells than the header, that is not UTF-8, or that has a NUL byte goes to `rejects`. A
    header may end in a tab where its lines do not.

    Args:
        member: the file.
        columns: those that must be there; the header's spelling may differ in case.
        rejects: takes bad lines.
        optional: columns that are "" throughout where the file lacks them.
        prepare: applied to each block of rows, to make it small before the blocks are put together.

    Raises:
        InputError: the file cannot be read, is empty or cut short, or lacks a column.
    """
    with member.open() as file:
        header = _header(file, member)
        names = [name.casefold() for name in header]
        missing = [name for name in columns if name.casefold() not in names]
        if missing:
            raise InputError(
                f"no column {missing[0]!r}; its first line has {[name[:40] for name in header[:20]]}",
                file=member.place,
                line=1,
                remedy="is it another kind of file?",
            )
        wanted = {name: names.index(name.casefold()) for name in (*columns, *optional) if name.casefold() in names}
        parser = _Parser(member, header, wanted, rejects)
        # The same order whatever the file's, so that files can be put together.
        asked = [pl.col(name) if name in wanted else pl.lit("").alias(name) for name in (*columns, *optional)]
        frames = [prepare(parser.frame(block).select(*asked, "line")) for block in _blocks(file, member)]
    return pl.concat(frames or [prepare(parser.empty().select(*asked, "line"))])


def _header(file: IO[bytes], member: Member) -> list[str]:
    raw = file.readline(2**20)
    if raw.startswith(_UTF16):
        raise InputError("this file is UTF-16; the format is UTF-8", file=member.place)
    if not raw.strip():
        raise InputError("the file is empty" if not raw else "its first line is empty", file=member.place)
    try:
        line = raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise InputError("its first line is not UTF-8: not a file of the format", file=member.place, line=1) from None
    return [name.strip() for name in line.rstrip("\r\n").split(DELIMITER)]


def _blocks(file: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield blocks of whole lines, each ending in a line end."""
    rest = b""
    while data := file.read(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            if len(rest) > 2 * BLOCK_BYTES:
                raise InputError("a line of more than 64 MB: not a text file of the format", file=member.place)
            continue
        yield rest + data[:end]
        rest = data[end:]
    if rest:
        yield rest + b"\n"


class _Parser:
    """Turns blocks of lines into frames, counting lines on the way."""

    def __init__(self, member: Member, header: list[str], wanted: dict[str, int], rejects: Rejects) -> None:
        self.member, self.n_cells, self.rejects = member, len(header), rejects
        self.fewest = len(header) - (header[-1] == "")
        # Two wanted names are never one place.
        self.wanted = wanted
        marks = DELIMITER.encode() + b"\n"
        self.others = bytes(set(range(256)) - set(marks))
        self.marks_of_a_line = DELIMITER.encode() * (self.n_cells - 1) + b"\n"
        self.line = 2

    def empty(self) -> pl.DataFrame:
        """Return the frame of no rows."""
        return pl.DataFrame(schema={**dict.fromkeys(self.wanted, pl.String), "line": pl.Int64})

    def frame(self, block: bytes) -> pl.DataFrame:
        """Return the wanted cells of the block's lines, with their line numbers."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        first, n_lines = self.line, block.count(b"\n")
        self.line += n_lines
        cells = self._at_once(block, n_lines)
        if cells is not None:
            return cells.with_columns(pl.int_range(first, first + n_lines, dtype=pl.Int64).alias("line"))
        lines, good = self._good_lines(block, first)
        if not lines:
            return self.empty()
        rows = [line.split(DELIMITER) for line in good]
        columns = {name: [row[place] for row in rows] for name, place in self.wanted.items()}
        return pl.DataFrame({**columns, "line": lines}, schema={**dict.fromkeys(columns, pl.String), "line": pl.Int64})

    def _at_once(self, block: bytes, n_lines: int) -> pl.DataFrame | None:
        """Return the cells, or None unless every line has the header's number of them and all is UTF-8."""
        marks = block.translate(None, self.others)
        if marks != self.marks_of_a_line * n_lines or b"\0" in block or not _is_utf8(block):
            return None
        places = sorted(set(self.wanted.values()))
        schema = {str(place): pl.String for place in range(self.n_cells)}
        cells = pl.read_csv(
            block,
            has_header=False,
            schema=schema,
            columns=places,
            separator=DELIMITER,
            quote_char=None,
            empty_string_is_null=False,
        )
        if len(cells) != n_lines:
            return None
        return cells.select(pl.col(str(place)).alias(name) for name, place in self.wanted.items())

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


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def csv_rows(member: Member, rejects: Rejects) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, cells) of a CSV file, its header first; lines that cannot be read go to `rejects`."""
    with member.open() as file:
        data = file.read()
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
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


# --- checks ----------------------------------------------------------------------------------------------------------


def refuse(frame: pl.DataFrame, bad: pl.Expr, problem: str, rejects: Rejects, *, file: str, field: str) -> pl.DataFrame:
    """Take the rows for which `bad` holds out of `frame`; report each with its line and the value of `field`."""
    mask = frame.select(bad.fill_null(True).alias("bad"))["bad"]
    if not mask.any():
        return frame
    for value, line in frame.filter(mask).select(field, "line").iter_rows():
        rejects.add(problem, file=file, line=line, field=field, value=value)
    return frame.filter(~mask)


def at_concepts(
    frame: pl.DataFrame,
    column: str,
    wanted: NDArray[np.int64],
    ids: NDArray[np.int64],
    left_out: NDArray[np.int64],
    refuse_unknown: Callable[[pl.DataFrame, pl.Expr, str], pl.DataFrame],
) -> tuple[pl.DataFrame, int]:
    """Replace ids by rows of the concepts.

    Args:
        frame: its rows of other ids are taken out.
        column: to replace.
        wanted: (n,) what stands there, as numbers.
        ids: of the concepts, sorted.
        left_out: of those that are left out by a choice of the user's, which is no fault of the row.
        refuse_unknown: (frame, which rows, problem) -> the frame without them, reported; for ids of no concept.

    Returns:
        The frame, and how many rows of `left_out` it had.
    """
    rows = np.searchsorted(ids, wanted).clip(max=max(len(ids) - 1, 0))
    known = ids[rows] == wanted
    frame = frame.with_columns(_row=pl.Series(rows.astype(np.int32)), _known=pl.Series(known))
    by_choice = np.isin(wanted, left_out) & ~known
    if not known.all():
        frame = refuse_unknown(frame.filter(pl.Series(~by_choice)), ~pl.col("_known"), "no concept has this id")
    return frame.with_columns(pl.col("_row").alias(column)).drop("_row", "_known"), int(by_choice.sum())


def not_a_date(column: str) -> pl.Expr:
    """Hold where a cell is not a date of the form YYYYMMDD."""
    cell = pl.col(column)
    # The calendar alone would take fewer digits, too.
    return ~cell.str.contains(r"^[0-9]{8}$") | cell.str.to_date("%Y%m%d", strict=False).is_null()


def release_date(member: Member) -> str | None:
    """Return the date in a file's name, such as sct2_Concept_Snapshot_INT_20250101.txt, or None."""
    dates = re.findall(r"(?<!\d)((?:19|20)\d{6})(?!\d)", member.name)
    return dates[-1] if dates else None
