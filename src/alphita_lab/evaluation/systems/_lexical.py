"""Systems that compare letters and words: exact_match, edit_distance, tfidf and bm25."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import UsageError, require
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, System, refuse_unknown
from alphita_lab.evaluation.systems._shared import NUMBERS_AT_ONCE, greatest, greatest_products, nothing, words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def _plain(kind: str, system: Callable[[], System]) -> SimpleNamespace:
    def load(argument: str, options: Mapping[str, str]) -> System:
        _refuse_argument(kind, argument)
        refuse_unknown(kind, options, ())
        return system()

    return SimpleNamespace(load=load)


def _refuse_argument(kind: str, argument: str) -> None:
    if argument:
        raise UsageError(f"the system {kind} takes no argument, so not {argument!r}")


class ExactMatchSystem:
    """Finds the term that equals the query after cleaning. An empty string is like nothing, not even another one."""

    name = "exact_match"
    rules = DEFAULT_RULES

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {"kind": "exact_match", "rules": list(self.rules)}

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`; one answer at most, of similarity 1."""
        similarity, rows = nothing(len(queries), min(k, len(terms)))
        places = {term: row for row, term in enumerate(terms) if term}
        rows[:, 0] = [places.get(query, -1) for query in queries]
        similarity[:, 0] = rows[:, 0] >= 0
        return similarity, rows

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return 1 for a pair of equal strings, 0 for others; NaN where one is empty."""
        pairs = zip(left, right, strict=True)
        return np.array([float(first == second) if first and second else np.nan for first, second in pairs], np.float32)


class EditDistanceSystem:
    """Levenshtein distance, normalised: 1 - edits / length of the longer string.

    Edits are insertions, deletions and substitutions of one character (Levenshtein 1966), each at a cost of 1.
    """

    name = "edit_distance"
    rules = DEFAULT_RULES

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {"kind": "edit_distance", "rules": list(self.rules)}
        self._process = require("rapidfuzz.process", "evaluate")
        self._scorer = require("rapidfuzz.distance", "evaluate").Levenshtein.normalized_similarity

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`; a term without one character in the right place is no answer."""
        k = min(k, len(terms))
        similarity, rows = nothing(len(queries), k)
        at_once = max(1, NUMBERS_AT_ONCE // len(terms))
        for start in range(0, len(queries), at_once):
            block = queries[start : start + at_once]
            values = self._process.cdist(block, terms, scorer=self._scorer, dtype=np.float32, workers=machine.cores())
            # Two empty strings have no edits between them, but say nothing of one another.
            values[[not query for query in block]] = 0
            similarity[start : start + at_once], rows[start : start + at_once] = greatest(values, k)
        return similarity, rows

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the similarity of each pair, 0 to 1; NaN where a string is empty."""
        pairs = zip(left, right, strict=True)
        return np.array(
            [self._scorer(first, second) if first and second else np.nan for first, second in pairs], np.float32
        )


class TfidfSystem:
    """Cosine of TF-IDF weighted character 3-grams inside words; weights are learnt from the strings given."""

    name = "tfidf"
    rules = DEFAULT_RULES

    def __init__(self) -> None:
        how = {"analyzer": "char_wb", "ngram_range": [3, 3]}
        self.facts: dict[str, Any] = {"kind": "tfidf", **how, "rules": list(self.rules)}

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """Return the k terms most similar to each query, by the cosine of TF-IDF of character 3-grams."""
        vectorizer, k = self._vectorizer(), min(k, len(terms))
        try:
            documents = vectorizer.fit_transform(terms)
        except ValueError:
            # Not one 3-gram in all terms: nothing is near anything.
            return nothing(len(queries), k)
        if not queries:
            return nothing(0, k)
        return greatest_products(vectorizer.transform(queries), documents, k)

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return the cosine of each pair; NaN where a string has no 3-gram at all."""
        vectorizer = self._vectorizer()
        try:
            vectorizer.fit([*left, *right])
        except ValueError:
            return np.full(len(left), np.nan, np.float32)
        first, second = vectorizer.transform(left), vectorizer.transform(right)
        cosine = np.asarray(first.multiply(second).sum(axis=1), np.float32).ravel()
        cosine[(first.getnnz(axis=1) == 0) | (second.getnnz(axis=1) == 0)] = np.nan
        return cosine

    def _vectorizer(self) -> Any:  # noqa: ANN401 - scikit-learn's TfidfVectorizer
        text = require("sklearn.feature_extraction.text", "evaluate")
        return text.TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False, dtype=np.float32)


class Bm25System:
    """Okapi BM25 over words (runs of letters and digits), with the terms as documents.

    Robertson and Zaragoza 2009, "The Probabilistic Relevance Framework: BM25 and Beyond", section 3; the weight of a
    word is ln(1 + (N - n + 0.5) / (n + 0.5)), which stays above 0 for a word of most terms. k1 = 1.2 and b = 0.75 are
    the usual defaults (Lucene's, for one).
    """

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
        counts = _counts([*left, *right], {}, grow=True)
        weighted = self._weighted(counts)
        n = len(left)
        both = counts[:n].multiply(weighted[n:]) + counts[n:].multiply(weighted[:n])
        score: NDArray[np.float32] = np.asarray(both.sum(axis=1) / 2, np.float32).ravel()
        score[(counts[:n].getnnz(axis=1) == 0) | (counts[n:].getnnz(axis=1) == 0)] = np.nan
        return score

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        """Turn the count of each word in each document into its part of the score."""
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
    """Return the count of each word of the vocabulary in each string, (n, words); `grow` adds the words met."""
    sparse = require("scipy.sparse", "evaluate")
    columns: list[int] = []
    offsets = [0]
    for string in strings:
        if grow:
            columns += [vocabulary.setdefault(word, len(vocabulary)) for word in words(string)]
        else:
            columns += [vocabulary[word] for word in words(string) if word in vocabulary]
        offsets.append(len(columns))
    shape = (len(strings), len(vocabulary))
    counts = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, offsets), shape=shape)
    # A word that stands twice is one entry of 2, in the same order in every row.
    counts.sum_duplicates()
    return counts


def _load_bm25(argument: str, options: Mapping[str, str]) -> Bm25System:
    _refuse_argument("bm25", argument)
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


exact_match = _plain("exact_match", ExactMatchSystem)
edit_distance = _plain("edit_distance", EditDistanceSystem)
tfidf = _plain("tfidf", TfidfSystem)
bm25 = SimpleNamespace(load=_load_bm25)
