"""A segment: an immutable part of an index, and the files that hold it.

strings.arrow   the distinct cleaned strings, sorted by bytes: row s of `vectors.npy` is the vector of string s
vectors.npy     (n_strings, dim) float32, of length 1
offsets.npy     (n_strings + 1,) int64: the terms of string s are the rows offsets[s] up to offsets[s + 1] of
terms.arrow     what is shown of each term; within a string: exact scope first, preferred first, official first
standing.npy    (n_terms,) uint8: how well a term stands for its concept, 0 best: scope before preference
concepts.arrow  id and name of each concept that has a term here
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.index.strings import SortedStrings
from alphita.terminology.text import clean_many

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

# In the order in which the terms of one string are shown.
SCOPES = ("exact", "narrow", "broad", "related")
STATUSES = ("official", "candidate", "machine")
# What a term brings along, beside its string and its concept.
TERM_COLUMNS = ("scope", "language", "source", "code", "type", "status")
STRINGS_AT_ONCE = 1_000_000


class Segment:
    """One segment, memory-mapped."""

    def __init__(self, path: Path) -> None:
        """Open the segment in the folder `path`.

        Raises:
            InputError: a file cannot be read, or they do not fit together.
        """
        self.path = path
        try:
            self.strings = SortedStrings(_read(path / "strings.arrow").column("string").chunk(0))
            self.vectors: NDArray[np.float32] = np.load(path / "vectors.npy", mmap_mode="r", allow_pickle=False)
            self.offsets: NDArray[np.int64] = np.load(path / "offsets.npy", mmap_mode="r", allow_pickle=False)
            self.standing: NDArray[np.uint8] = np.load(path / "standing.npy", mmap_mode="r", allow_pickle=False)
            self.terms = _read(path / "terms.arrow")
            self.concepts = _read(path / "concepts.arrow")
            self.term_concept: NDArray[np.int32] = self.terms.column("concept").chunk(0).to_numpy()
        except (OSError, ValueError, KeyError, IndexError, pa.ArrowException) as error:
            raise InputError(f"damaged index segment: {error}", file=path, remedy="build the index again") from None
        n = len(self.strings)
        fits = (
            self.vectors.ndim == 2
            and self.vectors.dtype == np.float32
            and len(self.vectors) == n
            and self.offsets.shape == (n + 1,)
            and int(self.offsets[-1]) == len(self.terms) == len(self.standing)
        )
        if not fits:
            raise InputError("the files of this index segment do not fit together", file=path,
                             remedy="build the index again")  # fmt: skip


class Content(NamedTuple):
    """What a segment holds beside its vectors; see the module for each."""

    strings: pa.LargeStringArray
    offsets: NDArray[np.int64]
    terms: pa.Table
    standing: NDArray[np.uint8]
    concepts: pa.Table


def collect(terminology: Terminology, rules: Sequence[str], exclude: frozenset[str]) -> Content:
    """Gather what a segment holds of the live concepts of a terminology.

    Args:
        terminology: where the terms come from; all scopes are taken.
        rules: names of the cleaning rules.
        exclude: cleaned strings to leave out.

    Raises:
        InputError: no term is left.
    """
    live = ~np.asarray(terminology.retired, dtype=bool)[terminology.term_concept]
    cleaned = _clean(terminology.terms.column("string"), rules)
    kept = live & pc.not_equal(cleaned, "").to_numpy(zero_copy_only=False)
    if exclude:
        excluded = pc.is_in(cleaned, value_set=pa.array(sorted(exclude), pa.large_string()))
        kept &= ~excluded.to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(kept)
    if len(rows) == 0:
        raise InputError("no terms of live concepts are left to index")
    cleaned = cleaned.take(pa.array(rows))
    strings = pc.unique(cleaned)
    strings = strings.take(pc.sort_indices(strings))
    string_row = pc.index_in(cleaned, value_set=strings).to_numpy(zero_copy_only=False)

    table = terminology.terms.take(pa.array(rows))
    standing = 2 * _rank(table, "scope", SCOPES) + ~table.column("preferred").to_numpy()
    concept = np.asarray(terminology.term_concept)[rows]
    order = np.lexsort((concept, _rank(table, "status", STATUSES), standing, string_row))
    offsets = np.searchsorted(string_row[order], np.arange(len(strings) + 1)).astype(np.int64)

    used, own = np.unique(concept[order], return_inverse=True)
    table = table.take(pa.array(order))
    columns = {"string": table.column("string").cast(pa.large_string()), "concept": pa.array(own.astype(np.int32))}
    columns |= {name: table.column(name) for name in (*TERM_COLUMNS, "preferred") if name in table.column_names}
    concepts = {
        name: pc.take(_text(values), pa.array(used))
        for name, values in (("id", terminology.concept_ids), ("name", terminology.concept_names))
    }
    return Content(strings, offsets, pa.table(columns), standing[order].astype(np.uint8), pa.table(concepts))


def write(path: Path, content: Content) -> None:
    """Write everything of a segment but its vectors into the folder `path`."""
    path.mkdir(parents=True)
    _write(path / "strings.arrow", pa.table({"string": content.strings}))
    _write(path / "terms.arrow", content.terms)
    _write(path / "concepts.arrow", content.concepts)
    np.save(path / "offsets.npy", content.offsets, allow_pickle=False)
    np.save(path / "standing.npy", content.standing, allow_pickle=False)


def _clean(strings: pa.ChunkedArray, rules: Sequence[str]) -> pa.LargeStringArray:
    blocks = [
        pa.array(clean_many(strings.slice(start, STRINGS_AT_ONCE).to_pylist(), tuple(rules)), pa.large_string())
        for start in range(0, len(strings), STRINGS_AT_ONCE)
    ]
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.large_string())


def _text(values: object) -> pa.LargeStringArray:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(pa.large_string()) if isinstance(values, pa.Array) else pa.array(values, pa.large_string())


def _rank(table: pa.Table, name: str, order: Sequence[str]) -> NDArray[np.int64]:
    """Return each row's place in `order`; what is not listed comes last."""
    if name not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    place = pc.index_in(table.column(name).cast(pa.string()), value_set=pa.array(order))
    return pc.fill_null(place, len(order)).to_numpy().astype(np.int64)


def _write(path: Path, table: pa.Table) -> None:
    # One record batch, so that each column is one array when it is mapped again.
    table = table.combine_chunks().unify_dictionaries()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _read(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
