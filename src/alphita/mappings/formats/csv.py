"""CSV. Specification: RFC 4180, https://www.rfc-editor.org/rfc/rfc4180, with LF as the end of a line.

UTF-8, comma, a header, quotes where needed; an empty cell is a missing value.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from alphita import spreadsheets, textio
from alphita.errors import Rejects
from alphita.mappings.formats import Header, _fields
from alphita.mappings.formats._fields import losses, split_complete, validate
from alphita.mappings.record import Mapping

__all__ = ["finish", "losses", "split_complete", "validate"]
DESCRIPTION = "comma-separated, with a header"
SUFFIXES = (".csv",)
STREAMS = True
READS = True
PREFIXED = False
LOSSES: tuple[str, ...] = ()
END = "\r\n"


class _Rows:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, row: str) -> None:
        self.texts.append(row.removesuffix(END) + "\n")


def begin(header: Header) -> bytes:
    """Return the line of column names."""
    return first_line(header, ",")


def first_line(header: Header, delimiter: str) -> bytes:
    """Return the names of the columns, after a byte order mark if one is wanted."""
    return (delimiter.join(header.columns) + "\n").encode("utf-8-sig" if header.bom else "utf-8")


def encode(header: Header, mappings: Sequence[Mapping], *, delimiter: str = ",") -> bytes:
    """Return the mappings as CSV, or with another delimiter."""
    rows = _Rows()
    # Python before 3.13 quotes a carriage return only where it is part of the line's end; so it is, and cut off again.
    writer = csv.writer(rows, lineterminator=END, delimiter=delimiter)
    cells = map(attrgetter(*header.columns), mappings)
    writer.writerows(cells if header.raw else map(header.guard, cells))
    return "".join(rows.texts).encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Rename the part to the output, and tell of cells that got an apostrophe."""
    _fields.finish(header, part, out)
    header.tell_guarded()


def read(path: Path, header: Header, rejects: Rejects, *, delimiter: str = ",") -> Iterator[Mapping]:
    """Read a file; columns that are no field are passed over, and told."""
    rows = textio.table(path, delimiter, _fields.NEEDED, rejects, how=header.reading)
    cells = ((line, {name: spreadsheets.unguarded(cell) for name, cell in row.items()}) for line, row in rows)
    return _fields.mappings(cells, path, header, rejects)
