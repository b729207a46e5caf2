"""Equal after cleaning, or no answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.systems import Found, plain
from alphita_lab.evaluation.systems._shared import nothing


class ExactMatchSystem:
    """Finds the term that is the query. An empty string is like nothing, not even another empty one."""

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
        return np.array([float(one == other) if one and other else np.nan for one, other in pairs], np.float32)


load = plain("exact_match", ExactMatchSystem)
