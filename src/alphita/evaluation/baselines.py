"""What a trained encoder must beat: nearest neighbours by character 3-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import require

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Queries compared at once; the product of a block is sparse and small.
QUERIES_AT_ONCE = 8192


def tfidf_neighbours(
    queries: Sequence[str], terms: Sequence[str], k: int, *, threads: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the `k` nearest terms of each query by cosine of TF-IDF weighted character 3-grams.

    3-grams are taken inside words with a space at either end ("char_wb"), so that a word of one letter has some too.
    Weights are learnt from the terms. Give both sides cleaned: case counts.

    Args:
        queries: q strings.
        terms: n strings.
        k: neighbours wanted, 1 or more.
        threads: cores to use; None: all.

    Returns:
        Similarities (q, k) float32, 0 to 1, and rows of the terms (q, k) int64, most similar first. Where fewer terms
        share a 3-gram with the query, 0 and -1.

    Raises:
        MissingExtra: scikit-learn or sparse_dot_topn is not installed.
        ValueError: there is no term, or `k` is below 1.
    """
    if k < 1 or not terms:
        raise ValueError(f"needs terms and a k of 1 or more, not {len(terms)} terms and k={k}")
    text = require("sklearn.feature_extraction.text", "train")
    topn = require("sparse_dot_topn", "train")
    vectorizer = text.TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False, dtype=np.float32)
    similarity = np.zeros((len(queries), k), np.float32)
    rows = np.full((len(queries), k), -1, np.int64)
    try:
        columns = vectorizer.fit_transform(terms).T.tocsr()
    except ValueError:
        # Not one 3-gram in all terms: nothing is near anything.
        return similarity, rows
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        block = vectorizer.transform(queries[start : start + QUERIES_AT_ONCE])
        found = topn.sp_matmul_topn(block, columns, top_n=k, n_threads=threads or machine.cores())
        _fill(found, similarity[start:], rows[start:], k)
    return similarity, rows


def _fill(found: csr_matrix, similarity: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> None:
    """Write a CSR matrix row by row, the greatest first; equal ones in the order of their columns."""
    indptr, indices, data = found.indptr, found.indices, found.data
    counts = np.diff(indptr)
    query = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((indices, -data, query))
    place = np.arange(len(data)) - np.repeat(indptr[:-1], counts)
    kept = place < k
    similarity[query[kept], place[kept]] = data[order][kept]
    rows[query[kept], place[kept]] = indices[order][kept]


def rank_concepts(
    similarity: NDArray[np.float32], rows: NDArray[np.int64], term_concept: NDArray[np.int32], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Turn nearest terms into nearest concepts: each concept once, by its best term.

    Args:
        similarity: (q, c) of each query's nearest terms, most similar first.
        rows: (q, c) their rows; -1 where there is none.
        term_concept: (n,) the concept of each term.
        k: concepts wanted.

    Returns:
        Similarities (q, k) and concepts (q, k) int64, best first; 0 and -1 where c terms name fewer than k concepts.
    """
    concept = np.where(rows >= 0, np.asarray(term_concept, np.int64)[rows], -1)
    order = np.argsort(concept, axis=1, kind="stable")
    ordered = np.take_along_axis(concept, order, axis=1)
    new = np.ones(concept.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.empty_like(new)
    np.put_along_axis(first, order, new & (ordered >= 0), axis=1)
    place = np.cumsum(first, axis=1) - 1
    query, column = np.nonzero(first & (place < k))
    best = np.zeros((len(rows), k), np.float32)
    concepts = np.full((len(rows), k), -1, np.int64)
    best[query, place[query, column]] = similarity[query, column]
    concepts[query, place[query, column]] = concept[query, column]
    return best, concepts
