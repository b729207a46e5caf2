"""The letters alone: an equal string first, then by character n-grams. No encoder is needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import EXACT, LETTERS
from alphita.answer.rankings import EQUAL
from alphita.answer.table import CandidateTable

DESCRIPTION = "an equal string, then the greatest share of character n-grams; needs no encoder"
ROUTES = EXACT | LETTERS
LEARNED = False


def score(table: CandidateTable) -> NDArray[np.float64]:
    """Return the n-gram similarity, an equal string above all."""
    return table.letters.astype(np.float64) + EQUAL * ((table.routes & EXACT) > 0)


def similarity(table: CandidateTable) -> NDArray[np.float32]:
    """Return the n-gram similarity."""
    return table.letters
