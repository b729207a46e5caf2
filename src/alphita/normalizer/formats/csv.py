"""CSV: UTF-8, comma, a header, quotes where needed, lines ended by LF; an empty cell is a missing value."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from alphita.normalizer.records import Line

DESCRIPTION = "comma-separated, with a header"
STREAMS = True
END = "\r\n"


class _Rows:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def write(self, row: str) -> None:
        self.texts.append(row.removesuffix(END) + "\n")


def begin(columns: Sequence[str]) -> bytes:
    """Return the header."""
    return (",".join(columns) + "\n").encode()


def encode(columns: Sequence[str], lines: Sequence[Line]) -> bytes:
    """Return the lines as CSV."""
    rows = _Rows()
    # Python before 3.13 quotes a carriage return only where it is part of the line's end; so it is, and cut off again.
    csv.writer(rows, lineterminator=END).writerows(map(attrgetter(*columns), lines))
    return "".join(rows.texts).encode("utf-8")


def finish(part: Path, out: Path) -> None:
    """Rename the part to the output."""
    part.replace(out)
