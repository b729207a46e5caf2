"""Equal after cleaning, or no answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import refuse_argument, refuse_unknown
from alphita_lab.evaluation.systems._shared import nothing


class ExactMatchSystem:
    """Finds the term that is the query. An empty string is like nothing, not even another empty one."""

    name = "exact_match"
    rules = DEFAULT_RULES

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {"kind": "exact_match", "rules": list(self.rules)}

    def neighbours(
        self, queries: Sequence[str], terms: Sequence[str], k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """See `System`; one answer at most, of similarity 1."""
        similarity, rows = nothing(len(queries), min(k, len(terms)))
        places = {term: row for row, term in enumerate(terms) if term}
        rows[:, 0] = [places.get(query, -1) for query in queries]
        similarity[:, 0] = rows[:, 0] >= 0
        return similarity, rows

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> NDArray[np.float32]:
        """Return 1 for a pair of equal strings, 0 for others; NaN where one is empty."""
        pairs = zip(left, right, strict=True)
        return np.array([float(one == other) if one and other else np.nan for one, other in pairs], np.float32)


def load(argument: str, options: Mapping[str, str]) -> ExactMatchSystem:
    """Return the system; it takes neither argument nor options."""
    refuse_argument("exact_match", argument)
    refuse_unknown("exact_match", options, ())
    return ExactMatchSystem()
