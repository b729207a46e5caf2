"""Names with their vectors and letters, memory-mapped: how near a query is to each of them.

strings.arrow   the distinct cleaned names, sorted by bytes: row s of `vectors.npy` is the vector of string s
vectors.npy     (n, dim) float32 of length 1
offsets.npy     (owners + 1,) int64: owner o has the names rows[offsets[o]] up to rows[offsets[o + 1]] of
rows.npy        int32 rows of the strings, the preferred name first
ngrams/         (see `alphita.index.ngrams`)

All names are compared, so that nothing is missed: for 100,000 of 384 numbers that reads 150 MB.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import AlphitaError, InputError
from alphita.index import ngrams
from alphita.index.encoding import Encoder
from alphita.index.neighbours import unit
from alphita.index.ngrams import Ngrams
from alphita.index.strings import SortedStrings
from alphita.search.catalogue import Owned

STRINGS_AT_ONCE = 65_536


def write(folder: Path, names: Owned, encoder: Encoder) -> None:
    """Write names into a new folder."""
    folder.mkdir(parents=True)
    table = pa.table({"string": names.strings})
    with pa.OSFile(str(folder / "strings.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    np.save(folder / "offsets.npy", names.offsets, allow_pickle=False)
    np.save(folder / "rows.npy", names.rows, allow_pickle=False)
    strings = names.strings.to_pylist()
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", mode="w+", dtype=np.float32, shape=(len(strings), encoder.dim)
    )
    for start, block in encoded(strings, encoder, f"Encoding {folder.name}"):
        vectors[start : start + len(block)] = unit(block)
    vectors.flush()
    ngrams.build(SortedStrings(names.strings), folder / "ngrams")


def encoded(strings: Sequence[str], encoder: Encoder, label: str) -> Any:  # noqa: ANN401 - an iterator
    """Yield the vectors of strings block by block, checked: (place of the first, (block, dim) float32)."""
    with progress.bar(label, total=len(strings), unit="strings") as bar:
        for start in range(0, len(strings), STRINGS_AT_ONCE):
            block = strings[start : start + STRINGS_AT_ONCE]
            vectors = encoder.encode(block)
            if vectors.shape != (len(block), encoder.dim):
                raise AlphitaError(f"the encoder gave an array of shape {vectors.shape} for {len(block)} strings")
            finite = np.isfinite(vectors).all(axis=1)
            if not finite.all():
                raise InputError(
                    "the encoder gave a vector that is not finite",
                    value=block[int(np.argmin(finite))],
                    remedy="is the model whole?",
                )
            yield start, vectors
            bar.advance(len(block))


class Names:
    """The names of some owners: titles of products, or values."""

    def __init__(self, folder: Path) -> None:
        table = pa.ipc.open_file(pa.memory_map(str(folder / "strings.arrow"))).read_all()
        self.strings = SortedStrings(table.column("string").chunk(0))
        self.vectors: NDArray[np.float32] = self._array(folder, "vectors")
        self.offsets: NDArray[np.int64] = self._array(folder, "offsets")
        self.rows: NDArray[np.int32] = self._array(folder, "rows")
        self.ngrams = Ngrams.open(folder / "ngrams")
        n = len(self.strings)
        if not len(self.vectors) == len(self.ngrams) == n or int(self.offsets[-1]) != len(self.rows):
            raise ValueError("the files of its names do not fit together")

    @staticmethod
    def _array(folder: Path, name: str) -> NDArray[Any]:
        return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def __len__(self) -> int:
        """Return the number of owners."""
        return len(self.offsets) - 1

    def similarities(self, queries: Sequence[str], vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return how near each query is to each string: the mean of cosine (0 where negative) and n-gram similarity.

        Args:
            vectors: (q, dim) float32 of length 1.

        Returns:
            (q, n strings) float32, 0 to 1.
        """
        similarity: NDArray[np.float32] = np.maximum(vectors @ self.vectors.T, 0)
        grams = self.ngrams.vectorize(queries)
        every = np.arange(len(self.strings))
        for row in range(len(queries)):
            similarity[row] += self.ngrams.pairwise(grams[row], np.zeros_like(every), every)
        similarity /= 2
        equal = self.strings.rows(queries)
        equal_rows = np.flatnonzero(equal >= 0)
        np.minimum(similarity, 1, out=similarity)
        similarity[equal_rows, equal[equal_rows]] = 1
        return similarity

    def of_owners(self, similarity: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the greatest similarity of each owner's names: (n strings,) -> (owners,)."""
        greatest: NDArray[np.float32] = np.maximum.reduceat(similarity[self.rows], self.offsets[:-1])
        return greatest

    def best(self, owner: int, similarity: NDArray[np.float32]) -> int:
        """Return the row of the owner's nearest name, the earlier of equals."""
        own = self.rows[self.offsets[owner] : self.offsets[owner + 1]]
        return int(own[int(np.argmax(similarity[own]))])

    def named(self, string: int) -> NDArray[np.int64]:
        """Return the owners, ascending, that a string names; none for the row -1."""
        entries = np.flatnonzero(self.rows == string)
        return np.unique(np.searchsorted(self.offsets, entries, side="right") - 1)
