"""Look-up in an index: the strings that can match some queries, and the routes that found them.

Routes: equal after cleaning ("exact"), character n-grams ("letters"), vectors ("vectors"). All routes process all
queries at once, and their results are merged: a few dozen strings per query, each with its cosine and its n-gram
similarity, whichever route found it.
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
from alphita.index.neighbours import nearest, products, unit
from alphita.index.ngrams import Ngrams
from alphita.index.store import Index

EXACT, LETTERS, VECTORS = 1, 2, 4
ROUTES = {EXACT: "exact", LETTERS: "letters", VECTORS: "vectors"}
# Added to the routes if the string is an external name.
EXTERNAL = "borrowed"
EVERY_ROUTE = EXACT | LETTERS | VECTORS
# Encoders truncate after some hundred tokens anyway; cells of megabytes should not reach the tokenizer.
MAX_ENCODED_CHARACTERS = 4096
# Number of strings from letters and from vectors. On held-out synonyms of HPO the right concept is among 16 + 16 in all
# but a few percent of cases; more cost time and harm as often as they help.
DEPTH = 16
# Maximum results of a search in memory: 12 bytes each.
FOUND_AT_ONCE = 16_777_216


@dataclass(frozen=True, slots=True)
class Lookup:
    """The matches of some queries: pairs of a query and a string of the index, query by query.

    Attributes:
        query: (p,) int64, ascending.
        string: (p,) int64 rows of the index's strings.
        found_by: (p,) uint8, the routes that found the pair.
        cosine: (p,) float32, -1 to 1; 0 if vectors were not searched.
        letters: (p,) float32, n-gram similarity, 0 to 1; 0 if letters were not searched.
        vectors: (q, dim) float32 of length 1, of the queries; None if vectors were not searched.
        exhausted: whether a deeper search finds nothing more.
        routes: the routes that were searched.
        out_of_scope: (d,) bool, whether a described query is a name in other vocabularies that the index lacks.
        out_of_scope_share: (d,) float32, the share of its words in such names, 0 to 1.
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
    """The part of an index that is visible for each question: here, everything. Calibration hides test strings."""

    # The hidden string and concept of each question, -1 for none, (n,) each; None if nothing is hidden.
    strings: NDArray[np.int64] | None = None
    concepts: NDArray[np.int64] | None = None

    def words(self, questions: Sequence[int]) -> Sequence[Mapping[str, int]] | None:
        """Return the words of each question's hidden strings, and how many contain each; None: nothing hidden."""
        return None

    def is_there(self, index: Index, rows: NDArray[np.int64], questions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which strings of the index, by their rows (-1: none), are visible for their questions."""
        return np.ones(len(rows), bool)

    def variants(self, known: Any) -> Sequence[Any]:  # noqa: ANN401 - abbreviations
        """Return, for each question, the abbreviations without those of hidden terms; none: all are known."""
        return ()

    def lookup(
        self, index: Index, encoder: Callable[[], Encoder], queries: Sequence[str], questions: Sequence[int], how: How
    ) -> Lookup:
        """Look up queries, each for its question; see `lookup`."""
        return lookup(index, encoder, queries, how)


WHOLE = View()


class How(NamedTuple):
    """How queries are looked up.

    Attributes:
        depth: number of strings from letters and from vectors.
        described: the queries for which to determine whether they are out of scope.
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
        without: for each query, hidden strings.
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
            # Strings that share no n-gram are not found at any depth.
            shared |= bool((rows[:, -1:] >= 0).any())
        exhausted |= not shared and not routes & VECTORS
    query, string, bits = (np.concatenate(parts) for parts in zip(*found, strict=True))
    key, first = np.unique(query * count + string, return_inverse=True)
    united = np.zeros(len(key), np.uint8)
    np.bitwise_or.at(united, first, bits)
    query, string = np.divmod(key, count)
    # Recomputed pair by pair, because the last bits of the searches' results depend on the batch.
    cosine = np.zeros(len(key), np.float32)
    if vectors is not None:
        cosine = np.clip(products(vectors, query, index.vectors, string), -1.0, 1.0)
        cosine[exact[query] == string] = 1.0
    letters = np.zeros(len(key), np.float32)
    if grams is not None and index.ngrams is not None:
        letters = index.ngrams.pairwise(grams, query, string)
    elsewhere = index.segment.elsewhere
    outside = out_of_scope_names.hits(named, elsewhere), out_of_scope_names.shares(named, elsewhere)
    return Lookup(query, string, united, cosine, letters, vectors, exhausted, routes, *outside)


def _parts(queries: NDArray[np.int64], depth: int) -> list[NDArray[np.int64]]:
    """Split the queries into parts for which a search of this depth fits into memory."""
    step = max(1, FOUND_AT_ONCE // max(1, depth))
    return [queries[start : start + step] for start in range(0, max(1, len(queries)), step)]


def _listed(
    rows: NDArray[np.int64], queries: NDArray[np.int64], route: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    query, place = np.nonzero(rows >= 0)
    return queries[query], rows[query, place].astype(np.int64), np.full(len(query), route, np.uint8)


def _vectors(
    index: Index, encoder: Callable[[], Encoder], queries: Sequence[str], exact: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return (len(queries), dim) float32: the stored vector if the string is indexed, otherwise the encoder's."""
    vectors = np.empty((len(queries), index.dim), np.float32)
    known = exact >= 0
    vectors[known] = index.vectors[exact[known]]
    new = [_encodable(queries[place]) for place in np.flatnonzero(~known).tolist()]
    if new:
        vectors[~known] = encoder().encode(new)
    return vectors


def _encodable(string: str) -> str:
    # A lone surrogate is not a character; tokenizers refuse it.
    return string[:MAX_ENCODED_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class Restricted:
    """An index in which only some strings are found; everything else is unchanged."""

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
        """Number of strings that a search can find."""
        return self._n

    def rows(self, cleaned: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each cleaned string, -1 if it is not indexed or not visible."""
        rows = self._index.rows(cleaned)
        return np.where((rows >= 0) & self.allowed[rows], rows, -1)

    def search(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the k nearest of the visible strings; see `Index.search`."""
        return nearest(self._backend, (self._n, self._index.dim), unit(vectors), k)


def _of_strings(whole: Ngrams, strings: NDArray[np.bool_]) -> Ngrams:
    """Return n-grams that find only some strings; similarities do not change."""
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
