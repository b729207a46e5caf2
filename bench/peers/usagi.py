"""What Usagi 1.4 gives for a source name: TF-IDF of character 2- and 3-grams, found with Lucene 4.9 and scored again.

This is no part of Usagi, and none of its code; it repeats what its source does:

- Terms are the names and synonyms of standard and classification concepts, and the names of other concepts as terms of
  the concept that they map to, if they differ from its name. The source names are documents, too, which are never found
  but count for the frequencies.
- A term is cut into all its 2- and 3-grams, spaces too, in lower case; no stop words, no stemming.
- Lucene's DefaultSimilarity takes the best 100 terms: coord x sum of sqrt(tf) x idf^2 x norm, where idf is
  1 + ln(N / (df + 1)) and norm is 1 / sqrt(grams), kept in a byte with three bits of mantissa.
- These are scored again by the cosine of vectors with ln(N / df) for each gram that occurs. Of equal scores, terms that
  are the concept's name come first; then the order of Lucene's. A concept stands where its best term does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

N_TAKEN = 100


class Term(NamedTuple):
    """A term of a concept, with what the concept is filtered by."""

    text: str
    concept: int
    is_name: bool
    domain: str
    standard: bool


def grams(text: str) -> list[str]:
    """Return the 2- and 3-grams of a text."""
    text = text.lower()
    return [text[start : start + size] for size in (2, 3) for start in range(len(text) - size + 1)]


def norm(length: int) -> float:
    """Return 1 / sqrt(length) as Lucene's byte keeps it."""
    bits = int(np.float32(1 / np.sqrt(length)).view(np.int32)) if length else 0
    return float(np.int32(bits >> 21 << 21).view(np.float32))


class Usagi:
    """The terms of concepts, and the source names of one import."""

    def __init__(self, terms: Sequence[Term], source_names: Iterable[str]) -> None:
        self.terms = terms
        texts = [term.text for term in terms]
        counted = self._counts([*texts, *source_names])
        n = counted.shape[0]
        frequency = np.asarray((counted > 0).sum(axis=0)).ravel()
        self.found_idf = 1 + np.log(n / (frequency + 1))
        self.idf = np.log(n / frequency)
        counted = counted[: len(terms)]
        lengths = np.asarray(counted.sum(axis=1)).ravel()
        norms = np.array([norm(int(length)) for length in lengths])
        self.present = (counted > 0).astype(np.float64)
        # Columns are grams: a query takes only its own.
        self.found = sp.csc_array(sp.diags_array(norms) @ counted.sqrt())
        self.sizes = np.sqrt(self.present @ self.idf**2)
        self.present = sp.csc_array(self.present)
        self.domains = np.array([term.domain for term in terms])
        self.standard = np.array([term.standard for term in terms])

    def _counts(self, texts: Sequence[str]) -> sp.csr_array:
        self.columns: dict[str, int] = {}
        rows, columns = [], []
        for row, text in enumerate(texts):
            for gram in grams(text):
                rows.append(row)
                columns.append(self.columns.setdefault(gram, len(self.columns)))
        shape = (len(texts), len(self.columns))
        counts = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=shape).tocsr()
        counts.sum_duplicates()
        return counts

    def search(self, name: str, domains: Collection[str] = ()) -> list[tuple[int, float]]:
        """Return the standard concepts for a source name with their scores, best first; `domains`: these only."""
        columns = sorted({self.columns[gram] for gram in grams(name) if gram in self.columns})
        if not columns:
            return []
        allowed = self.standard & np.isin(self.domains, list(domains)) if domains else self.standard
        overlap = self.present[:, columns].sum(axis=1)
        lucene = overlap / len(columns) * (self.found[:, columns] @ self.found_idf[columns] ** 2)
        rows = np.flatnonzero(allowed & (lucene > 0))
        rows = rows[np.argsort(-lucene[rows], kind="stable")[:N_TAKEN]]
        size = np.sqrt((self.idf[columns] ** 2).sum())
        scores = self._cosines(rows, columns, size)
        found = [
            (self.terms[row], score) for row, score in zip(rows.tolist(), scores.tolist(), strict=True) if score > 0
        ]
        best: dict[int, float] = {}
        for term, score in sorted(found, key=lambda pair: (-pair[1], not pair[0].is_name)):
            best.setdefault(term.concept, score)
        return list(best.items())

    def _cosines(self, rows: NDArray[np.int64], columns: list[int], size: float) -> NDArray[np.float32]:
        dots = self.present[:, columns].tocsr()[rows] @ self.idf[columns] ** 2
        return (dots / (self.sizes[rows] * size)).astype(np.float32)
