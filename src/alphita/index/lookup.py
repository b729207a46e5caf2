"""One look-up in an index: which of its strings may name what some queries mean, and by which route they are found.

Routes: equal after cleaning ("exact"), character n-grams ("letters"), vectors ("vectors"). All are asked for all
queries at once, and their answers are united: a few dozen strings a query, each with its cosine and its n-gram
similarity whichever route found it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.index import out_of_scope_names
from alphita.index.encoding import Encoder
from alphita.index.neighbours import Vectors, full, nearest, unit
from alphita.index.ngrams import Ngrams
from alphita.index.store import Index

EXACT, LETTERS, VECTORS = 1, 2, 4
ROUTES = {EXACT: "exact", LETTERS: "letters", VECTORS: "vectors"}
# Given with the routes where the string is another vocabulary's name.
EXTERNAL = "borrowed"
EVERY_ROUTE = EXACT | LETTERS | VECTORS
# An encoder cuts at some hundred tokens anyway; a cell of megabytes need not reach its tokenizer.
MAX_ENCODED_CHARACTERS = 4096
# Strings that each of letters and vectors gives. On held-out synonyms of HPO the right concept is among 16 + 16 for
# all but a few in a hundred; more cost time and mislead as often as they help.
DEPTH = 16
# Two blocks of this many vectors stay in a processor's cache.
PAIRS_AT_ONCE = 1_024
# Places for what a search finds: 12 bytes each.
FOUND_AT_ONCE = 16_777_216


@dataclass(frozen=True, slots=True)
class Lookup:
    """What some queries find: pairs of a query and a string of the index, query by query.

    Attributes:
        query: (p,) int64, ascending.
        string: (p,) int64 rows of the index's strings.
        found_by: (p,) uint8, the routes that found the pair.
        cosine: (p,) float32, -1 to 1; 0 where vectors were not asked for.
        letters: (p,) float32, n-gram similarity, 0 to 1; 0 where letters were not asked for.
        vectors: (q, dim) float32 of length 1, of the queries; None where vectors were not asked for.
        exhausted: whether a deeper search finds nothing more.
        routes: those that were asked.
        out_of_scope: (d,) bool, a described query is a name of other vocabularies that the index lacks.
        out_of_scope_share: (d,) float32, the share of its words that stand in such names, 0 to 1.
    """

    query: NDArray[np.int64]
    string: NDArray[np.int64]
    found_by: NDArray[np.uint8]
    cosine: NDArray[np.float32]
    letters: NDArray[np.float32]
    vectors: NDArray[np.float32] | None
    exhausted: bool
    routes: int
    out_of_scope: NDArray[np.bool_]
    out_of_scope_share: NDArray[np.float32]


class View:
    """What of an index is there for each of some questions: everything. Calibration hides what it asks for."""

    # Of each question a string and a concept that are hidden, -1 for none, (n,) each; None: nothing is.
    strings: NDArray[np.int64] | None = None
    concepts: NDArray[np.int64] | None = None

    def words(self, questions: Sequence[int]) -> Sequence[Mapping[str, int]] | None:
        """Return in how many hidden strings of each question each of their words stands; None: in none."""
        return None

    def is_there(self, index: Index, rows: NDArray[np.int64], questions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which strings of the index, by their rows (-1: none), are there for their questions."""
        return np.ones(len(rows), bool)

    def variants(self, known: Any) -> Sequence[Any]:  # noqa: ANN401 - abbreviations
        """Return, for each question, the abbreviations without what only a hidden term says; none: all are as known."""
        return ()

    def lookup(
        self, index: Index, encoder: Callable[[], Encoder], queries: Sequence[str], questions: Sequence[int], how: How
    ) -> Lookup:
        """Look queries up, each for its question; see `lookup`."""
        return lookup(index, encoder, queries, how)


WHOLE = View()


class How(NamedTuple):
    """How queries are looked up.

    Attributes:
        depth: strings that each of letters and vectors gives.
        described: the queries of which it is asked whether they are out of scope.
    """

    depth: int = DEPTH
    routes: int = EVERY_ROUTE
    exact_is_enough: bool = False
    described: Sequence[int] = ()


def lookup(
    index: Index,
    encoder: Callable[[], Encoder],
    queries: Sequence[str],
    how: How = How(),
    without: Sequence[Sequence[str]] | None = None,
) -> Lookup:
    """Find the strings nearest to each query by every route.

    Args:
        without: for each query, strings that are taken as not there.
    """
    routes, named = how.routes, [queries[query] for query in how.described]
    if index.ngrams is None:
        routes &= ~LETTERS
    count, depth = len(index), min(how.depth, index.findable)
    exhausted = depth == index.findable
    exact = index.rows(queries)
    known = np.flatnonzero(exact >= 0)
    found = [(known, exact[known], np.full(len(known), EXACT, np.uint8))] if routes & EXACT else []
    vectors = grams = None
    shared = False
    open_ = np.flatnonzero(exact < 0) if how.exact_is_enough else np.arange(len(queries))
    if routes & VECTORS:
        vectors = unit(_vectors(index, encoder, queries, exact))
        for part in _parts(open_, depth):
            _, rows = index.search(vectors[part], depth)
            found.append(_listed(rows, part, VECTORS))
    if routes & LETTERS and index.ngrams is not None:
        grams = index.ngrams.vectorize(queries, without)
        for part in _parts(open_, depth):
            _, rows = index.ngrams.search(grams if len(part) == len(queries) else grams[part], depth)
            found.append(_listed(rows, part, LETTERS))
            # Strings that share no n-gram are found at no depth.
            shared |= bool((rows[:, -1:] >= 0).any())
        exhausted |= not shared and not routes & VECTORS
    query, string, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
    key, first = np.unique(query * count + string, return_inverse=True)
    united = np.zeros(len(key), np.uint8)
    np.bitwise_or.at(united, first, bits)
    query, string = np.divmod(key, count)
    # Worked out anew, pair by pair: what the searches return differs in its last bits from batch to batch.
    cosine = np.zeros(len(key), np.float32)
    if vectors is not None:
        _dot(vectors, query, index.vectors, string, cosine)
        cosine[exact[query] == string] = 1.0
    letters = np.zeros(len(key), np.float32)
    if grams is not None and index.ngrams is not None:
        letters = index.ngrams.pairwise(grams, query, string)
    elsewhere = index.segment.elsewhere
    return Lookup(
        query,
        string,
        united,
        cosine,
        letters,
        vectors,
        exhausted,
        routes,
        out_of_scope_names.hits(named, elsewhere),
        out_of_scope_names.shares(named, elsewhere),
    )


def _parts(queries: NDArray[np.int64], depth: int) -> list[NDArray[np.int64]]:
    """Return the queries in parts for which a search of this depth fits into memory, however few strings it finds."""
    step = max(1, FOUND_AT_ONCE // max(1, depth))
    return [queries[start : start + step] for start in range(0, max(1, len(queries)), step)]


def _listed(
    rows: NDArray[np.int64], queries: NDArray[np.int64], route: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    query, place = np.nonzero(rows >= 0)
    return queries[query], rows[query, place].astype(np.int64), np.full(len(query), route, np.uint8)


def _dot(
    left: NDArray[np.float32],
    left_rows: NDArray[np.int64],
    right: Vectors,
    right_rows: NDArray[np.int64],
    out: NDArray[np.float32],
) -> None:
    """Write into `out` (p,) the inner products of pairs of rows, in blocks that stay in the cache."""
    for start in range(0, len(out), PAIRS_AT_ONCE):
        part = slice(start, start + PAIRS_AT_ONCE)
        np.einsum("ij,ij->i", left[left_rows[part]], full(right[right_rows[part]]), out=out[part])
    np.clip(out, -1.0, 1.0, out=out)


def _vectors(
    index: Index, encoder: Callable[[], Encoder], queries: Sequence[str], exact: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return (len(queries), dim) float32: the stored vector where the string is indexed, else the encoder's."""
    vectors = np.empty((len(queries), index.dim), np.float32)
    known = exact >= 0
    vectors[known] = index.vectors[exact[known]]
    new = [_encodable(queries[place]) for place in np.flatnonzero(~known).tolist()]
    if new:
        vectors[~known] = encoder().encode(new)
    return vectors


def _encodable(string: str) -> str:
    # A lone surrogate is no character; tokenizers refuse it.
    return string[:MAX_ENCODED_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class Restricted:
    """An index of which only some strings are found; everything else is the index's own."""

    def __init__(self, index: Index, strings: NDArray[np.bool_]) -> None:
        self._index, self.allowed = index, strings
        self._n = int(strings.sum())
        self._backend = index.backend.only(strings)
        self.ngrams = None if index.ngrams is None else _of_strings(index.ngrams, strings)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the index's own
        return getattr(self._index, name)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def findable(self) -> int:
        """How many strings a search can find."""
        return self._n

    def rows(self, cleaned: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each cleaned string, -1 where it is not indexed, or not to be found."""
        rows = self._index.rows(cleaned)
        return np.where((rows >= 0) & self.allowed[rows], rows, -1)

    def search(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest of the strings that may be found; see `Index.search`."""
        return nearest(self._backend, (self._n, self._index.dim), unit(vectors), k)


def _of_strings(whole: Ngrams, strings: NDArray[np.bool_]) -> Ngrams:
    """Return n-grams that find only some strings; similarities stay as they are."""
    from scipy.sparse import csr_matrix

    part = copy.copy(whole)
    part._lists = []
    start = 0
    for lists in whole._lists:
        kept = strings[start : start + lists.shape[1]][lists.indices]
        ends = np.concatenate([[0], np.cumsum(kept)])[lists.indptr].astype(lists.indptr.dtype)
        part._lists.append(csr_matrix((lists.data[kept], lists.indices[kept], ends), shape=lists.shape))
        start += lists.shape[1]
    return part
