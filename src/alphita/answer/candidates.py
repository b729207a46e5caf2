"""Candidates of mentions: which strings of the index may name what a mention means, and by which route they were found.

Routes: equal after cleaning ("exact"), character n-grams ("letters"), vectors ("vectors"); an abbreviation is looked
up as its expansion, by the same routes. All are asked for all distinct strings of a batch at once, and their answers
are united: a few dozen strings a mention, each with its cosine and its n-gram similarity whichever route found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.index.encoding import Encoder
from alphita.index.neighbours import Vectors, full, unit
from alphita.index.store import Index

EXACT, LETTERS, VECTORS = 1, 2, 4
ROUTES = {EXACT: "exact", LETTERS: "letters", VECTORS: "vectors"}
# Told beside the routes where the string is another vocabulary's name.
BORROWED = "borrowed"
EVERY_ROUTE = EXACT | LETTERS | VECTORS
# An encoder cuts at some hundred tokens anyway; a cell of megabytes need not reach its tokenizer.
MAX_ENCODED_CHARACTERS = 4096
# Strings that each of letters and vectors gives. On held-out synonyms of HPO the right concept is among 16 + 16 for
# all but a few in a hundred; more cost time and mislead as often as they help.
DEPTH = 16
# Two blocks of so many vectors stay in a processor's cache.
PAIRS_AT_ONCE = 1_024
# Places for what a search finds: 12 bytes each.
FOUND_AT_ONCE = 16_777_216


class CandidatePairs(NamedTuple):
    """Pairs of a query and a string of the index, query by query.

    Attributes:
        query: (p,) int64, ascending.
        string: (p,) int64 rows of the index's strings.
        routes: (p,) uint8, the routes that found the pair.
        cosine: (p,) float32, -1 to 1; 0 where vectors were not asked for.
        letters: (p,) float32, n-gram similarity, 0 to 1; 0 where letters were not asked for.
        vectors: (q, dim) float32 of length 1, of the queries; None where vectors were not asked for.
    """

    query: NDArray[np.int64]
    string: NDArray[np.int64]
    routes: NDArray[np.uint8]
    cosine: NDArray[np.float32]
    letters: NDArray[np.float32]
    vectors: NDArray[np.float32] | None
    exhausted: bool
    asked: int = EVERY_ROUTE


def gather(
    index: Index,
    encoder: Callable[[], Encoder],
    queries: Sequence[str],
    *,
    depth: int = DEPTH,
    routes: int = EVERY_ROUTE,
    exact_is_enough: bool = False,
    without: Sequence[Sequence[str]] | None = None,
) -> CandidatePairs:
    """Find the strings nearest to each query by every route."""
    if index.ngrams is None:
        routes &= ~LETTERS
    count, depth = len(index), min(depth, index.findable)
    exhausted = depth == index.findable
    exact = index.rows(queries)
    known = np.flatnonzero(exact >= 0)
    found = [(known, exact[known], np.full(len(known), EXACT, np.uint8))] if routes & EXACT else []
    vectors = grams = None
    shared = False
    open_ = np.flatnonzero(exact < 0) if exact_is_enough else np.arange(len(queries))
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
    return CandidatePairs(query, string, united, cosine, letters, vectors, exhausted, routes)


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
