"""Reading text files by blocks of whole lines, for files of millions of them.

What `_lines` says of single lines holds here too: one that cannot be decoded or has a NUL byte is reported and left
out. The block is cut there, so that the lines of a block always follow one another.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import IO

import polars as pl

from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import Member

BLOCK_BYTES = 8 * 2**20
_LINES_AT_ONCE = 50_000
Block = tuple[int, str]


class Split:
    """Splits blocks of bytes in which every line has its number of cells, through polars at once.

    Attributes:
        delimiter: between cells, one ASCII character; there are no quotes.
        n_cells: of a line.
    """

    def __init__(self, delimiter: str, n_cells: int) -> None:
        self.delimiter, self.n_cells = delimiter, n_cells
        marks = delimiter.encode() + b"\n"
        self._others = bytes(set(range(256)) - set(marks))
        self._marks_of_a_line = delimiter.encode() * (n_cells - 1) + b"\n"

    def frame(self, raw: bytes, first: int, places: Sequence[int]) -> pl.DataFrame | None:
        """Return the cells at `places`, in columns called by these, and `line`; None: a line has not its number."""
        n_lines = raw.count(b"\n")
        if raw.translate(None, self._others) != self._marks_of_a_line * n_lines:
            return None
        cells = pl.read_csv(
            raw,
            has_header=False,
            schema={str(place): pl.String for place in range(self.n_cells)},
            columns=sorted(set(places)),
            separator=self.delimiter,
            quote_char=None,
            empty_string_is_null=False,
        )
        if len(cells) != n_lines:
            return None
        return cells.with_columns(pl.int_range(first, first + n_lines, dtype=pl.Int64).alias("line"))


def blocks(member: Member, encoding: str, rejects: Rejects) -> Iterator[Block]:
    """Yield (number of the first line, text of whole lines, each ended by a line feed)."""
    encoding = _files.check_encoding(encoding)
    if encoding.startswith(("utf-16", "utf-32")):
        yield from _joined(_files.lines(member, encoding, rejects))
        return
    # The checks of a file's beginning; what they refuse is met again below and reported then.
    next(_files.lines(member, encoding, Rejects(None)), None)
    number = 1
    with member.open() as file:
        for raw in _whole_lines(file, member):
            raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError:
                text = "\0"
            if "\0" in text:
                yield from _joined(_good_lines(raw, number, member, encoding, rejects))
            else:
                yield number, text
            number += raw.count(b"\n")


def lines(member: Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without the line's end), as `_files.lines` does and several times as fast."""
    for block in blocks(member, encoding, rejects):
        yield from numbered(block)


def numbered(block: Block) -> Iterator[tuple[int, str]]:
    """Yield (number, text without the line's end) of a block's lines."""
    first, text = block
    return ((number, line.rstrip("\r")) for number, line in enumerate(text.split("\n")[:-1], first))


def _whole_lines(file: IO[bytes], member: Member) -> Iterator[bytes]:
    rest, number = b"", 1
    while data := _next_block(file, member):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            number += data.count(b"\n")
            rest = data[end:]
        else:
            rest += data
        if len(rest) > _files.MAX_LINE_BYTES:
            problem = "a line of more than 16 MB: this is not a text file of the format"
            raise InputError(problem, file=member.place, line=number)
    if rest:
        yield rest + b"\n"


def _next_block(file: IO[bytes], member: Member) -> bytes:
    with _files.reading(member.place, packing=member.packing):
        data = file.read(BLOCK_BYTES)
        if data.endswith(b"\r"):
            data += file.read(1)
    # Old files end their lines by CR alone.
    is_lone = data.count(b"\r") > data.count(b"\r\n")
    return re.sub(rb"\r(?!\n)", b"\n", data) if is_lone else data


def _good_lines(raw: bytes, first: int, member: Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(raw.replace(b"\r\n", b"\n").split(b"\n")[:-1], first):
        problem, text = ("a NUL byte in the line", "") if b"\0" in line else ("", "")
        if not problem:
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError as error:
                problem = f"not {encoding}: byte 0x{line[error.start]:02x}; name the right one: encoding=latin-1, say"
        if problem:
            rejects.add(problem, file=member.place, line=number, value=line[:100].decode("ascii", "replace"))
        else:
            yield number, text


def _joined(lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
    """Put lines that follow one another into blocks."""
    lines = iter(lines)
    while some := list(islice(lines, _LINES_AT_ONCE)):
        start = 0
        for end in range(1, len(some) + 1):
            if end == len(some) or some[end][0] != some[end - 1][0] + 1:
                yield some[start][0], "".join(f"{line}\n" for _, line in some[start:end])
                start = end
