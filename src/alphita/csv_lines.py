"""Lines for a reader of CSV, which runs over many of them where a quote is never closed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator


class CsvLines:
    """Hands lines to a CSV reader, and takes back those that it took for more of one row.

    Attributes:
        row: the lines of the row being read.
        cells: how many a row has.
    """

    def __init__(self, lines: Iterator[str], first: int = 1) -> None:
        """Hand out these lines, the first of which has the number `first`."""
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
