"""Cosine of TF-IDF weighted character 3-grams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import require
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, plain
from alphita_lab.evaluation.systems._shared import greatest_products, nothing


class TfidfSystem:
    """Character 3-grams inside words; weights are learnt from the terms (or, for pairs, from all strings given)."""

    name = "tfidf"
    rules = DEFAULT_RULES

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {
            "kind": "tfidf",
            "analyzer": "char_wb",
            "ngram_range": [3, 3],
            "rules": list(self.rules),
        }

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> Found:
        """See `System`."""
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


load = plain("tfidf", TfidfSystem)
