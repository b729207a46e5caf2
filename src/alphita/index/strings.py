"""Sorted distinct strings, mapped from disk, found by binary search."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class SortedStrings:
    """A read-only list of distinct strings in the order of their UTF-8 bytes.

    It reads the Arrow buffers in place: a hash table over millions of strings would take seconds and gigabytes to make
    at each start, binary search takes some microseconds a look-up and no memory.
    """

    def __init__(self, array: pa.LargeStringArray) -> None:
        """Wrap an Arrow array without nulls, sorted by bytes and distinct."""
        self.array = array
        _, offsets, data = array.buffers()
        self._offsets = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        self._data = memoryview(data) if data is not None else memoryview(b"")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, row: int) -> str:
        """Return the string at `row`."""
        string: str = self.array[int(row)].as_py()
        return string

    def __iter__(self) -> Iterator[str]:
        """Go through the strings in order."""
        return (string.as_py() for string in self.array)

    def _bytes(self, row: int) -> bytes:
        return bytes(self._data[self._offsets[row] : self._offsets[row + 1]])

    def rows(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each string, -1 where there is none: (len(strings),) int64."""
        count = len(self)
        every = range(count)
        found = np.full(len(strings), -1, dtype=np.int64)
        for place, string in enumerate(strings):
            wanted = string.encode("utf-8", "surrogatepass")
            row = bisect_left(every, wanted, key=self._bytes)
            if row < count and self._bytes(row) == wanted:
                found[place] = row
        return found
