"""Levenshtein distance, normalised: 1 - edits / length of the longer string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import machine
from alphita.errors import require
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, plain
from alphita_lab.evaluation.systems._shared import NUMBERS_AT_ONCE, greatest, nothing


class EditDistanceSystem:
    """Edits are insertions, deletions and substitutions of one character (Levenshtein 1966), each at a cost of 1."""

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
        return np.array([self._scorer(one, other) if one and other else np.nan for one, other in pairs], np.float32)


load = plain("edit_distance", EditDistanceSystem)
