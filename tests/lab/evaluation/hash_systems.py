"""Systems of the tests: with vectors that are hashes of character 3-grams, of strings or of ids, and with none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from alphita.terminology.text import DEFAULT_RULES
from tests.doubles import HashEncoder


class Hashes:
    """A system with vectors; strings that hold `unknown` have none."""

    name = "hashes"

    def __init__(self, unknown: str = "\0", *, seed: int = 0, rules: tuple[str, ...] = DEFAULT_RULES) -> None:
        self.facts: dict[str, object] = {"kind": "test"}
        self.unknown, self.rules, self._encoder = unknown, rules, HashEncoder(seed=seed)

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        vectors = self._encoder.encode(strings).astype(np.float32)
        vectors[[self.unknown in string for string in strings]] = np.nan
        return vectors

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        cosine = self.encode(queries) @ self.encode(terms).T
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(cosine, order, 1), order

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> np.ndarray:
        return (self.encode(left) * self.encode(right)).sum(axis=1)


class HashedConcepts:
    """A system with vectors of ids only, none of those that are `unknown`."""

    name = "ids"

    def __init__(self, unknown: Callable[[str], bool] = lambda _: False) -> None:
        self.facts: dict[str, object] = {"kind": "test"}
        self.unknown = unknown

    def encode_concepts(self, ids: Sequence[str]) -> np.ndarray:
        vectors = HashEncoder().encode(ids).astype(np.float32)
        vectors[[self.unknown(one) for one in ids]] = np.nan
        return vectors


class SharedLetters:
    """Counts how many different letters two strings share: many ties, and strings that share none."""

    name, facts = "letters", {}
    rules = ("lowercase", "hyphens", "spaces", "ends")

    def __init__(self) -> None:
        self.asked: list[int] = []

    def of(self, left: str, right: str) -> float:
        return float(len(set(left) & set(right) - {" "}))

    def neighbours(self, queries, terms, k) -> tuple[np.ndarray, np.ndarray]:
        assert len(set(terms)) == len(terms)
        assert len(set(queries)) == len(queries)
        self.asked.append(k)
        k = min(k, len(terms))
        similarity, rows = np.zeros((len(queries), k), np.float32), np.full((len(queries), k), -1, np.int64)
        for place, query in enumerate(queries):
            values = [self.of(query, term) for term in terms]
            best = sorted(range(len(terms)), key=lambda row, values=values: (-values[row], row))[:k]
            best = [row for row in best if values[row]]
            similarity[place, : len(best)], rows[place, : len(best)] = [values[row] for row in best], best
        return similarity, rows

    def similarity(self, left, right) -> np.ndarray:
        return np.array([self.of(one, other) for one, other in zip(left, right, strict=True)], np.float32)
