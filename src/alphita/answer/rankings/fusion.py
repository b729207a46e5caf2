"""Vectors and letters in equal parts: the mean of the two similarities, nothing learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import EVERY_ROUTE, EXACT
from alphita.answer.rankings import EQUAL
from alphita.answer.table import CandidateTable

DESCRIPTION = "an equal string, then the mean of cosine and n-gram similarity"
ROUTES = EVERY_ROUTE
LEARNED = False


def score(table: CandidateTable) -> NDArray[np.float64]:
    """Return the mean of both similarities, an equal string above all."""
    return similarity(table).astype(np.float64) + EQUAL * ((table.routes & EXACT) > 0)


def similarity(table: CandidateTable) -> NDArray[np.float32]:
    """Return the mean of cosine and n-gram similarity, of the term that is greatest in both together."""
    return (table.cosine + table.letters) / np.float32(2)
