"""Equal strings only. No encoder is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import EXACT
from alphita.answer.table import CandidateTable

DESCRIPTION = "strings that are equal after cleaning, nothing else; needs no encoder"
ROUTES = EXACT
LEARNED = False


def score(table: CandidateTable) -> NDArray[np.float64]:
    """Return 1 for each candidate."""
    return np.ones(len(table.request))


def similarity(table: CandidateTable) -> NDArray[np.float32]:
    """Return 1 for each candidate."""
    return np.ones(len(table.request), np.float32)
