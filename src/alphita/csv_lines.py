"""The rows of lines of CSV, of which a quote that is never closed loses one line; what is wrong is told with each."""

from __future__ import annotations

import csv
import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

# A quote that is never closed would swallow the rows after it into one cell.
MAX_CELL_CHARACTERS = 1_000_000
UNCLOSED = "a quote is opened, and where it is closed the row does not end"


class CsvLines:
    """Hands lines to a CSV reader, and takes back those that it took for more of one row.

    Attributes:
        row: the lines of the row being read.
        cells: how many a row has.
    """

    def __init__(self, lines: Iterator[str], first: int = 1) -> None:
        self._lines = lines
        self._ahead: deque[str] = deque()
        self._line = first
        self._closing = 0
        self.row: list[str] = []
        self.cells: float = math.inf

    def __iter__(self) -> Iterator[str]:
        """Return itself."""
        return self

    def __next__(self) -> str:
        """Return the next line of the row being read."""
        # Each of these lines ends a cell. To the reader the input ends here, within quotes: an error that it gets over.
        # Without it, lines that each close a quote and open one would be read again from every one of them on.
        if self._closing > self.cells:
            raise StopIteration
        line = self._ahead.popleft() if self._ahead else next(self._lines)
        if self.row and '"' in line.replace('""', ""):
            self._closing += 1
        self.row.append(line)
        return line

    def begin_row(self) -> int:
        """Begin the next row; return the number of its first line."""
        self._line += len(self.row)
        self.row.clear()
        self._closing = 0
        return self._line

    def take_back(self) -> str:
        """Let the row be its first line alone, which is returned; the others are read again."""
        self._ahead.extendleft(reversed(self.row[1:]))
        del self.row[1:]
        return self.row[0].rstrip("\r\n")


class Record(NamedTuple):
    """A row, its first line, and its cells; or why it is none, with the offending text."""

    number: int
    line: int
    cells: list[str]
    problem: str = ""
    value: str = ""


def records(lines: Iterator[str], delimiter: str, first: int = 1) -> Iterator[Record]:
    """Yield the header, as row 0, and the rows that are not empty."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    given = CsvLines(lines, first)
    reader = csv.reader(given, delimiter=delimiter, strict=True)
    header = next(reader, [])
    yield Record(0, first, header)
    given.cells = len(header)
    number = 0
    while True:
        line = given.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number += 1
            problem = UNCLOSED if len(given.row) > 1 else str(error)
            yield Record(number, line, [], f"not a row of this format: {problem}", given.take_back())
            continue
        if not cells:
            continue
        number += 1
        if len(cells) == len(header):
            yield Record(number, line, cells)
        elif any(later.count(delimiter) == len(header) - 1 for later in given.row[1:]):
            yield Record(number, line, [], f"not a row of this format: {UNCLOSED}", given.take_back())
        else:
            problem = f"{len(cells)} cells, but the header has {len(header)}"
            if len(given.row) > 1:
                problem += f" (lines {line} to {line + len(given.row) - 1})"
            yield Record(number, line, [], problem, delimiter.join(cells))
