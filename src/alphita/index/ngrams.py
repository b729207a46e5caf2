"""Letter similarity: TF-IDF of character n-grams over an index's strings, memory-mapped.

A string, with a space at both ends and including its spaces, is split into 3-grams; in scripts that write a syllable or
a word as one character (code points from U+2E80: Chinese, Japanese, Korean), also into 2-grams. Each distinct n-gram of
a string counts once, with the weight

    idf(g) = ln((1 + n) / (1 + df(g))) + 1        n strings, of which df(g) have the n-gram g

and the similarity is the cosine: 1 for strings with the same n-grams, 0 for strings that share none.

Why 3-grams of the whole string: of 3,033 held-out synonyms of HPO, with 38,320 strings indexed, the right concept comes
first for 37.1% and is among 20 strings for 72.5%. With 2- to 4-grams it is 37.4 and 72.9 at three times the size and
time; with 2- and 3-grams 37.9 and 72.1; with 3-grams within words (scikit-learn's char_wb) 36.2 and 71.6. Counting an
n-gram as often as it occurs changes 0.2.

The folder:

codes.npy       (g,) uint64, sorted: the n-grams, their code points packed into one number, so that none collide
idf.npy         (g,) float32
offsets.npy     (n + 1,) the n-grams of string s are the places offsets[s] up to offsets[s + 1] of
columns.npy     (nnz,) int32 rows of codes.npy, ascending
scale.npy       (n,) float32, what makes row s unit: its n-gram g has the value idf[g] * scale[s]
frequency.npy   (g,) int64, in how many strings each n-gram is
postings.npy    (nnz,) int32, shard by shard (`STRINGS_A_SHARD` strings, so that the sums of one stay in the cache) the
                strings of each n-gram, counted from the shard's first, with
weights.npy     (nnz,) float32 their values; shard t begins where its first string does, at offsets[t * STRINGS_A_SHARD]
ends.npy        (shards, g + 1) int32, where in its shard the strings of each n-gram begin
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import InputError, UsageError
from alphita.index.neighbours import GROUP, Groups, Reached, greatest, powers

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Up to this many strings, a hash table is built once look-ups of a share of them took as long: some 30 ms.
BY_HASH, ASKED_SHARE = 262_144, 256


class SortedStrings:
    """A read-only list of distinct strings in the order of their UTF-8 bytes.

    It reads the Arrow buffers in place: a hash table of millions of strings would take seconds and gigabytes at each
    start, binary search takes microseconds per look-up and no memory. Of up to `BY_HASH` strings one is built in time.
    """

    def __init__(self, array: pa.LargeStringArray) -> None:
        self.array = array
        _, offsets, data = array.buffers()
        self._offsets = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
        self._data = memoryview(data) if data is not None else memoryview(b"")
        self._asked = 0

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, row: int) -> str:
        string: str = self.array[int(row)].as_py()
        return string

    def __iter__(self) -> Iterator[str]:
        return (string.as_py() for string in self.array)

    def _bytes(self, row: int) -> bytes:
        return bytes(self._data[self._offsets[row] : self._offsets[row + 1]])

    @functools.cached_property
    def _places(self) -> dict[str, int]:
        return {string: row for row, string in enumerate(self.array.to_pylist())}

    def rows(self, strings: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each string, -1 if there is none: (len(strings),) int64."""
        count = len(self)
        self._asked += len(strings)
        if count <= BY_HASH and self._asked * ASKED_SHARE >= count:
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
    """Return all n-grams (m,) of the strings, with repeats, as packed code points, and the string of each."""
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


# Selected products: query, ascending, string, and value.
Found = tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float32]]
SETTINGS = {"scheme": "3-grams, 2-grams from U+2E80", "term_frequency": "once", "padding": "string"}
STRINGS_A_SHARD = 131_072
QUERIES_AT_ONCE = 8192
PAIRS_AT_ONCE = 65_536
# Numbers in the look-up table of `pairwise`: it should fit into the cache.
TABLE_NUMBERS = 1 << 20
# Strings examined for one query, over all its n-grams: beyond this, its most frequent n-grams are left out of the
# search, and the results are rescored with all of them. Among 40,000 strings, hardly any query reaches the limit. Among
# a million, all n-grams allow some 250 queries/s per core, and this some 800; the best string is the same for all of
# 500 misspelt strings, and for 99.4% of as many also reordered; of the 16 best, 96% and 91% are found.
POSTINGS_A_QUERY = 150_000
# Up to this many strings, queries are processed one by one: among 190,000 in two fifths of the time of a joint product,
# among 60,000 in a fifth. Among a million a joint product takes less.
ONE_BY_ONE = 4 * STRINGS_A_SHARD
# Their similarities are found in the cache.
SUMMED_AT_ONCE = 8
# What the order of a sum changes of it at most.
ROUNDING = 1e-5
# SciPy's internal function, which adds products to an array; other releases may name it differently.
ADD = "csc_matvec"
# Less than any value that is scaled to 1 or more.
BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))
# Rescored strings, as a multiple of the requested ones.
SCORED_AGAIN = 6


def build(strings: Sequence[str] | SortedStrings, folder: Path) -> None:
    """Write the n-grams of `strings` into a new folder."""
    from scipy.sparse import csr_matrix

    folder.mkdir(parents=True)
    n = len(strings)
    # Split twice instead of stored: all n-grams of millions of strings take gigabytes.
    codes = np.unique(np.concatenate([np.unique(cut(block)[0]) for block in blocks(strings)]))
    columns, counts = [], []
    for block in blocks(strings):
        grams, owner = cut(block)
        row, column = distinct(owner, np.searchsorted(codes, grams), len(codes))
        columns.append(column.astype(np.int32))
        counts.append(np.bincount(row, minlength=len(block)))
    column = np.concatenate(columns)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    del columns
    df = np.bincount(column, minlength=len(codes))
    idf = (np.log((1 + n) / (1 + df)) + 1).astype(np.float32)
    # Arrays as large as all n-grams are written shard by shard: for many millions of strings they take gigabytes.
    postings, weights = (
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, column.shape)
        for name, dtype in (("postings", np.int32), ("weights", np.float32))
    )
    scale, ends = np.empty(n, np.float32), []
    for start in range(0, n, STRINGS_A_SHARD):
        own = offsets[start : start + STRINGS_A_SHARD + 1]
        part = slice(own[0], own[-1])
        values, own = idf[column[part]], own - own[0]
        scale[start : start + STRINGS_A_SHARD] = _scale(values, own)
        values *= np.repeat(scale[start : start + STRINGS_A_SHARD], np.diff(own))
        shard = csr_matrix((values, column[part], own), shape=(len(own) - 1, len(codes))).tocsc()
        postings[part], weights[part] = shard.indices, shard.data
        ends.append(shard.indptr.astype(np.int32))
    files = {"codes": codes, "idf": idf, "offsets": offsets, "columns": column, "scale": scale, "frequency": df}
    for name, array in (files | {"ends": np.stack(ends)}).items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


class Ngrams:
    """The n-grams of an index's strings, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.codes: NDArray[np.uint64] = self._array("codes")
        self.idf: NDArray[np.float32] = self._array("idf")
        self.offsets: NDArray[np.int64] = self._array("offsets")
        self.columns: NDArray[np.int32] = self._array("columns")
        self.scale: NDArray[np.float32] = self._array("scale")
        self.frequency: NDArray[np.int64] = self._array("frequency")
        self.postings: NDArray[np.int32] = self._array("postings")
        self.ends: NDArray[np.int32] = self._array("ends")
        self.weights: NDArray[np.float32] = self._array("weights")
        fits = (
            len(self.codes) == len(self.idf) == len(self.frequency)
            and self.ends.shape == (-(-len(self.scale) // STRINGS_A_SHARD), len(self.codes) + 1)
            and len(self.offsets) == len(self.scale) + 1
            and len(self.columns) == len(self.postings) == len(self.weights) == self.offsets[-1]
        )
        if not fits:
            raise ValueError("its files do not fit together")

    @classmethod
    def open(cls, folder: Path) -> Ngrams:
        """Open the files that `build` wrote."""
        try:
            return cls(folder)
        except (OSError, ValueError, IndexError) as error:
            raise InputError(f"damaged n-grams: {error}", file=folder, remedy="build the index again") from None

    def _array(self, name: str) -> NDArray[Any]:
        return np.asarray(np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))

    def __len__(self) -> int:
        return len(self.scale)

    def vectorize(self, strings: Sequence[str], without: Sequence[Sequence[str]] | None = None) -> csr_matrix:
        """Return the unit TF-IDF rows of strings: (len(strings), len(codes)) float32, columns ascending."""
        from scipy.sparse import csr_matrix

        columns: list[NDArray[np.int64]] = []
        counts = [np.zeros(1, np.int64)]
        for block in blocks(strings):
            grams, owner = cut(block)
            place = np.searchsorted(self.codes, grams).clip(max=len(self.codes) - 1)
            known = self.codes[place] == grams
            row, column = distinct(owner[known], place[known], len(self.codes))
            columns.append(column)
            counts.append(np.bincount(row, minlength=len(block)))
        offsets = np.cumsum(np.concatenate(counts))
        column = np.concatenate(columns).astype(np.int32) if columns else np.zeros(0, np.int32)
        if without is not None:
            column, offsets = self._elsewhere(column, offsets, without)
        values = self.idf[column]
        values *= np.repeat(_scale(values, offsets), np.diff(offsets))
        # The constructor would check them, which takes as long as all else for one query.
        matrix = csr_matrix((len(strings), len(self.codes)), dtype=np.float32)
        matrix.data, matrix.indices, matrix.indptr = values, column, offsets.astype(np.int32)
        matrix.has_sorted_indices = True
        return matrix

    def _elsewhere(
        self, column: NDArray[Any], offsets: NDArray[np.int64], without: Sequence[Sequence[str]]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the n-grams of each row that occur in strings other than its `without`, and the new offsets."""
        width, n = len(self.codes), len(without)
        key = np.repeat(np.arange(n), np.diff(offsets)) * width + column
        taken = [np.zeros(0, np.int64)]
        rows = np.repeat(np.arange(n), [len(some) for some in without])
        gone = [string for some in without for string in some]
        start = 0
        for block in blocks(gone):
            grams, owner = cut(block)
            row, places = distinct(owner, np.searchsorted(self.codes, grams), width)
            taken.append(rows[start + row] * width + places)
            start += len(block)
        hidden, times = np.unique(np.concatenate(taken), return_counts=True)
        if not len(hidden):
            return column, offsets
        place = np.searchsorted(hidden, key).clip(max=len(hidden) - 1)
        kept = (hidden[place] != key) | (times[place] < self.frequency[column])
        return column[kept], np.concatenate([[0], np.cumsum(kept)])[offsets]

    def search(self, queries: csr_matrix, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k strings most similar to each query, a row of `vectorize`, most similar first; ties by row."""
        if k < 0:
            raise UsageError(f"k must be 0 or more, not {k}")
        similarity, rows = np.zeros((queries.shape[0], k), np.float32), np.full((queries.shape[0], k), -1, np.int64)
        if k:
            for start in range(0, queries.shape[0], QUERIES_AT_ONCE):
                part = slice(start, start + QUERIES_AT_ONCE)
                # Selecting rows takes as long as everything else for one query.
                some = queries if queries.shape[0] <= QUERIES_AT_ONCE else queries[part]
                similarity[part], rows[part] = self._search(some, k)
        return similarity, rows

    def _search(self, queries: csr_matrix, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        affordable, cut_short = self._affordable(queries)
        # One more than requested shows whether the last place is tied; a product may have kept any of the ties.
        depth = np.where(cut_short, SCORED_AGAIN * k, k + 1).clip(max=len(self))
        one_by_one = len(self) <= ONE_BY_ONE
        query, string, value = (self._one_by_one if one_by_one else self._product)(affordable, depth)
        again = cut_short[query]
        value[again] = self.pairwise(queries, query[again], string[again])
        similarity, rows = greatest(query, string, value, queries.shape[0], k + 1)
        last = similarity[:, k - 1]
        tied = (last - similarity[:, k] <= ROUNDING * last) & (rows[:, k] >= 0) & ~cut_short
        for row in np.flatnonzero(tied).tolist():
            line, string, value, _ = self._reaching(self._similarities(queries, row)[None], k + 1)
            best = greatest(line, string, value, 1, k + 1)
            similarity[row], rows[row] = best[0][0], best[1][0]
        return np.minimum(similarity[:, :k], 1), rows[:, :k]

    def _one_by_one(self, queries: csr_matrix, depth: NDArray[np.int64]) -> Found:
        """Return the `depth` (q,) greatest products of each query with the strings, including ties for the last."""
        parts = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        summed = self._sums_of(queries)
        for most in np.unique(depth).tolist():
            those = np.flatnonzero(depth == most)
            for start in range(0, len(those), SUMMED_AT_ONCE):
                some = those[start : start + SUMMED_AT_ONCE]
                line, string, value, _ = self._reaching(summed(some.tolist()), most)
                parts.append((some[line], string, value))
        query, string, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        return query, string, value

    def _sums_of(self, queries: csr_matrix) -> Callable[[Sequence[int]], NDArray[np.float32]]:
        """Return what finds the similarity of some of the queries to every string, in whole groups."""
        from scipy.sparse import _sparsetools

        add = getattr(_sparsetools, ADD, None)
        if add is None:
            return lambda rows: np.stack([self._similarities(queries, row) for row in rows])
        # One call for all n-grams of a query, the last first: what lies between two of them then ends before it begins.
        grams = queries.indices[::-1]
        weights = np.zeros(2 * len(grams), np.float32)
        weights[::2] = queries.data[::-1]
        ends = [np.stack([lists.indptr[grams], lists.indptr[grams + 1]], axis=1).ravel() for lists in self._lists]
        places = (2 * (len(grams) - queries.indptr)).tolist()

        def summed(rows: Sequence[int]) -> NDArray[np.float32]:
            similarity = np.zeros((len(rows), -(-len(self) // GROUP) * GROUP), np.float32)
            for line, row in enumerate(rows):
                part, most = slice(places[row + 1], places[row]), places[row] - places[row + 1] - 1
                for number, lists in enumerate(self._lists if most > 0 else ()):
                    start = number * STRINGS_A_SHARD
                    there = similarity[line, start : start + lists.shape[1]]
                    add(len(there), most, ends[number][part], lists.indices, lists.data, weights[part], there)
            return similarity

        return summed

    def _affordable(self, queries: csr_matrix) -> tuple[csr_matrix, NDArray[np.bool_]]:
        """Return the queries without n-grams that are too frequent for the search, and which queries lost some."""
        from scipy.sparse import csr_matrix

        frequency = self.frequency[queries.indices]
        whole = np.concatenate([[0], np.cumsum(frequency)])
        if (np.diff(whole[queries.indptr]) <= POSTINGS_A_QUERY).all():
            return queries, np.zeros(queries.shape[0], bool)
        row = np.repeat(np.arange(queries.shape[0]), np.diff(queries.indptr))
        order = np.lexsort((frequency, row))
        looked_at = np.cumsum(frequency[order]) - whole[queries.indptr[:-1]][row[order]]
        # The rarest one is always kept.
        kept = (looked_at <= POSTINGS_A_QUERY) | (np.arange(len(order)) == queries.indptr[row[order]])
        order = np.sort(order[kept])
        counts = np.bincount(row[order], minlength=queries.shape[0])
        parts = (queries.data[order], queries.indices[order], np.concatenate([[0], np.cumsum(counts)]))
        return csr_matrix(parts, shape=queries.shape), counts < np.diff(queries.indptr)

    def _product(self, queries: csr_matrix, depths: NDArray[np.int64]) -> Found:
        """Return the greatest products of each query with the strings, as many as the maximum of `depths` (q,)."""
        from scipy.sparse import csr_matrix
        from sparse_dot_topn import sp_matmul_topn, zip_sp_matmul_topn

        depth = int(depths.max())
        used, own = np.unique(queries.indices, return_inverse=True)
        if not len(used):
            return np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
        needed = csr_matrix((queries.data, own, queries.indptr), shape=(queries.shape[0], len(used)))
        how: dict[str, Any] = {"top_n": depth, "sort": True, "n_threads": min(machine.threads(), queries.shape[0])}
        best = sp_matmul_topn(needed, self._lists[0][used], **how)
        for number, lists in enumerate(self._lists[1:], 1):
            # A string counts only if it is not below the last one found so far; not sorting the others saves half of
            # the time. The limit is one number for all queries, so each is multiplied by the power of two that moves
            # its limit to between 1 and 2, which changes no digit.
            scale = powers(best, depth)
            scaled = csr_matrix(
                (needed.data * np.repeat(scale, np.diff(needed.indptr)), own, needed.indptr), shape=needed.shape
            )
            near = sp_matmul_topn(scaled, lists[used], threshold=BELOW_ONE, **how)
            near.data /= np.repeat(scale, np.diff(near.indptr))
            # The results so far count as one part, as wide as its parts together.
            best.resize((queries.shape[0], number * STRINGS_A_SHARD))
            best = zip_sp_matmul_topn(depth, [best, near])
        return np.repeat(np.arange(best.shape[0]), np.diff(best.indptr)), best.indices, best.data

    @functools.cached_property
    def _lists(self) -> list[csr_matrix]:
        """The strings of each n-gram with their values, (g, strings of the shard) for each shard, mapped."""
        from scipy.sparse import csr_matrix

        shards = []
        for ends, start in zip(self.ends, range(0, len(self), STRINGS_A_SHARD), strict=True):
            stop = min(start + STRINGS_A_SHARD, len(self))
            part = slice(int(self.offsets[start]), int(self.offsets[stop]))
            lists = csr_matrix((len(self.codes), stop - start), dtype=np.float32)
            # The constructor would copy parts of larger arrays.
            lists.data, lists.indices, lists.indptr = self.weights[part], self.postings[part], ends
            shards.append(lists)
        return shards

    def _reaching(self, similarity: NDArray[np.float32], k: int) -> Reached:
        """Return the k strings most similar to each query by shared n-grams, including ties for the last."""
        above_0 = np.finfo(np.float32).tiny
        groups = Groups(similarity, k)
        return groups.reaching(np.maximum(groups.bound, above_0))

    def _similarities(self, queries: csr_matrix, row: int) -> NDArray[np.float32]:
        """Return the similarity of one query to every string, in whole groups, added up in the order of `_product`."""
        from scipy.sparse import _sparsetools

        add = getattr(_sparsetools, ADD, None)
        similarity = np.zeros(-(-len(self) // GROUP) * GROUP, np.float32)
        for lists, start in zip(self._lists, range(0, len(self), STRINGS_A_SHARD), strict=True):
            part = similarity[start : min(start + STRINGS_A_SHARD, len(self))]
            for place in range(queries.indptr[row], queries.indptr[row + 1]):
                gram, weight = queries.indices[place], queries.data[place : place + 1]
                ends = lists.indptr[gram : gram + 2]
                if add is not None:
                    add(len(part), 1, ends, lists.indices, lists.data, weight, part)
                else:
                    some = slice(*ends)
                    part[lists.indices[some]] += weight * lists.data[some]
        return similarity

    def pairwise(
        self, queries: csr_matrix, query_rows: NDArray[np.int64], string_rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the similarity (p,), 0 to 1, with all n-grams, of rows of queries (best ascending) and strings."""
        similarity = np.empty(len(query_rows), np.float32)
        order = np.argsort(query_rows, kind="stable")
        wanted, starts = np.unique(query_rows[order], return_index=True)
        starts = np.append(starts, len(order))
        width = len(self.codes)
        at_once = max(1, min(TABLE_NUMBERS // width, len(wanted)))
        table = np.zeros(at_once * width, np.float32)
        for first in range(0, len(wanted), at_once):
            some = queries if at_once == queries.shape[0] else queries[wanted[first : first + at_once]]
            lines = np.repeat(np.arange(some.shape[0]) * width, np.diff(some.indptr)) + some.indices
            table[lines] = some.data * self.idf[some.indices]
            ends = starts[first : first + some.shape[0] + 1]
            line = np.repeat(np.arange(some.shape[0]) * width, np.diff(ends))
            for begin in range(ends[0], ends[-1], PAIRS_AT_ONCE):
                pairs = slice(begin, min(begin + PAIRS_AT_ONCE, ends[-1]))
                rows = string_rows[order[pairs]]
                summed = self._sums(table, line[pairs.start - ends[0] : pairs.stop - ends[0]], rows)
                similarity[order[pairs]] = summed * self.scale[rows]
            table[lines] = 0
        return np.minimum(similarity, 1, out=similarity)

    def _sums(
        self, table: NDArray[np.float32], line: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """For each pair, sum the table's values from `line` on at the n-grams of its string."""
        begin = self.offsets[rows]
        counts = self.offsets[rows + 1] - begin
        ends = np.cumsum(counts)
        places = np.arange(ends[-1]) + np.repeat(begin - (ends - counts), counts)
        columns = table[self.columns[places] + np.repeat(line, counts)]
        # Every indexed string has an n-gram, so no sum is empty.
        summed: NDArray[np.float32] = np.add.reduceat(columns, ends - counts)
        return summed


def _scale(values: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the factor that gives each row unit length, (rows,); 0 for an empty row."""
    scale = np.zeros(len(offsets) - 1, np.float32)
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        scale[filled] = 1 / np.sqrt(np.add.reduceat(values * values, offsets[filled], dtype=np.float64))
    return scale
