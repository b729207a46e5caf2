"""Okapi BM25 over words, with the terms as documents.

Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", section 3; the weight of a word
is ln(1 + (N - n + 0.5) / (n + 0.5)), which stays above 0 for a word of most terms. k1 = 1.2 and b = 0.75 are the usual
defaults (Lucene's, for one).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError, require
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, refuse_argument, refuse_unknown
from alphita_lab.evaluation.systems._shared import greatest_products, words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class Bm25System:
    """Words are runs of letters and digits; in Chinese, Japanese, Thai and the like each character is one."""

    rules = DEFAULT_RULES

    def __init__(self, k1: float = 1.2, b: float = 0.75, *, name: str = "bm25") -> None:
        self.k1, self.b, self.name = k1, b, name
        self.facts: dict[str, Any] = {"kind": "bm25", "k1": k1, "b": b, "rules": list(self.rules)}

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`; similarity is the BM25 score, which has no upper bound."""
        vocabulary: dict[str, int] = {}
        documents = self._weighted(_counts(terms, vocabulary, grow=True))
        return greatest_products(_counts(queries, vocabulary), documents, min(k, len(terms)))

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the mean of each pair's two scores, either string being the query; NaN where one has no word."""
        vocabulary: dict[str, int] = {}
        counts = _counts([*left, *right], vocabulary, grow=True)
        weighted = self._weighted(counts)
        n = len(left)
        both = counts[:n].multiply(weighted[n:]) + counts[n:].multiply(weighted[:n])
        score: NDArray[np.float32] = np.asarray(both.sum(axis=1) / 2, np.float32).ravel()
        score[(counts[:n].getnnz(axis=1) == 0) | (counts[n:].getnnz(axis=1) == 0)] = np.nan
        return score

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        """Turn how often each word stands in each document into its part of the score."""
        n = counts.shape[0]
        length = np.asarray(counts.sum(axis=1), np.float64).ravel()
        held = np.bincount(counts.indices, minlength=counts.shape[1])
        rarity = np.log1p((n - held + 0.5) / (held + 0.5))
        # No strings, or none with a word in it, have no average length; nothing is weighted then.
        average = length.sum() / max(n, 1) or 1.0
        saturation = self.k1 * (1 - self.b + self.b * length / average)
        often = counts.data.astype(np.float64)
        row = np.repeat(np.arange(n), np.diff(counts.indptr))
        weighted = counts.copy()
        weighted.data = rarity[counts.indices] * often * (self.k1 + 1) / (often + saturation[row])
        return weighted.astype(np.float32)


def _counts(strings: Sequence[str], vocabulary: dict[str, int], *, grow: bool = False) -> csr_matrix:
    """Return how often each word of the vocabulary stands in each string, (n, words); `grow` adds the words met."""
    sparse = require("scipy.sparse", "evaluate")
    columns: list[int] = []
    offsets = [0]
    for string in strings:
        words_of_string = words(string)
        if grow:
            columns += [vocabulary.setdefault(word, len(vocabulary)) for word in words_of_string]
        else:
            columns += [vocabulary[word] for word in words_of_string if word in vocabulary]
        offsets.append(len(columns))
    shape = (len(strings), len(vocabulary))
    counts = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, offsets), shape=shape)
    # A word that stands twice is one entry of 2, in the same order in every row.
    counts.sum_duplicates()
    return counts


def load(argument: str, options: Mapping[str, str]) -> Bm25System:
    """Return the system."""
    refuse_argument("bm25", argument)
    refuse_unknown("bm25", options, ("k1", "b", "name"))
    k1 = _number(options, "k1", 1.2, np.inf)
    b = _number(options, "b", 0.75, 1.0)
    given = [f"{key}={value}" for key, value in options.items() if key != "name"]
    return Bm25System(k1, b, name=options.get("name") or ",".join(["bm25", *given]))


def _number(options: Mapping[str, str], key: str, default: float, most: float) -> float:
    try:
        value = float(options.get(key, default))
    except ValueError:
        value = np.nan
    if not (0 <= value <= most and np.isfinite(value)):
        bound = "0 or more" if most == np.inf else f"from 0 to {most:g}"
        raise UsageError(f"option {key} of bm25 is a number {bound}, not {options[key]!r}")
    return value
