"""Sorted distinct strings, mapped from disk; and strings cut into n-grams as arrays (`ngrams` says which n-grams)."""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Up to so many strings a hash table is made, in some 20 ms, when the first is looked up.
BY_HASH = 131_072


class SortedStrings:
    """A read-only list of distinct strings in the order of their UTF-8 bytes.

    It reads the Arrow buffers in place: a hash table over millions of strings would take seconds and gigabytes to make
    at each start, binary search takes some microseconds a look-up and no memory. Up to `BY_HASH` strings there is one.
    """

    def __init__(self, array: pa.LargeStringArray) -> None:
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

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {string: row for row, string in enumerate(self.array.to_pylist())}

    def rows(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each string, -1 where there is none: (len(strings),) int64."""
        count = len(self)
        if count <= BY_HASH:
            return np.array([self._places.get(string, -1) for string in strings], np.int64)
        every = range(count)
        rows = np.full(len(strings), -1, dtype=np.int64)
        for place, string in enumerate(strings):
            wanted = string.encode("utf-8", "surrogatepass")
            row = bisect_left(every, wanted, key=self._bytes)
            if row < count and self._bytes(row) == wanted:
                rows[place] = row
        return rows


STRINGS_AT_ONCE = 65_536
# Where one character is a syllable or a word.
DENSE_SCRIPTS = 0x2E80
BITS = 21  # of a code point
TWO = np.uint64(1 << 63)  # marks a 2-gram; three code points leave that bit free


def cut(strings: Sequence[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the n-grams of all strings, repeated ones too, as packed code points, and the string each is of.

    Returns:
        (m,) uint64 and (m,) int64.
    """
    lengths = np.fromiter(map(len, strings), np.int64, len(strings)) + 2
    text = " " + "  ".join(strings) + " "
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)[: lengths.sum()]
    owner = np.repeat(np.arange(len(strings)), lengths)
    shift = np.uint64(BITS)
    within = owner[:-2] == owner[2:]
    threes = (((points[:-2] << shift) | points[1:-1]) << shift) | points[2:]
    if points.max(initial=0) < DENSE_SCRIPTS:
        return threes[within], owner[:-2][within]
    two = (owner[:-1] == owner[1:]) & (np.maximum(points[:-1], points[1:]) >= DENSE_SCRIPTS)
    twos = TWO | (points[:-1] << shift) | points[1:]
    return np.concatenate([threes[within], twos[two]]), np.concatenate([owner[:-2][within], owner[:-1][two]])


def blocks(strings: Iterable[str]) -> Iterator[list[str]]:
    """Return the strings, `STRINGS_AT_ONCE` together."""
    every = iter(strings)
    return iter(lambda: list(itertools.islice(every, STRINGS_AT_ONCE)), [])


def distinct(
    row: NDArray[np.int64], column: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct pairs, sorted by row and column."""
    keys = np.sort(row * width + column)
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys
    return np.divmod(keys, width)
