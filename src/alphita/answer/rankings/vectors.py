"""The embedding alone: an equal string first, then by cosine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import EXACT, VECTORS
from alphita.answer.rankings import EQUAL
from alphita.answer.table import CandidateTable

DESCRIPTION = "an equal string, then the nearest vectors"
ROUTES = EXACT | VECTORS
LEARNED = False


def score(table: CandidateTable) -> NDArray[np.float64]:
    """Return the cosine, an equal string above all."""
    return table.cosine.astype(np.float64) + EQUAL * ((table.routes & EXACT) > 0)


def similarity(table: CandidateTable) -> NDArray[np.float32]:
    """Return the cosine."""
    return table.cosine
