"""The ranker that `alphita calibrate` fitted: it has learned when to trust vectors, letters, words and rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from alphita.answer.candidates import EVERY_ROUTE
from alphita.answer.rankings import vectors
from alphita.answer.table import CandidateTable

DESCRIPTION = "the ranker fitted by `alphita calibrate`, with confidence and decisions"
ROUTES = EVERY_ROUTE
LEARNED = True


def score(table: CandidateTable) -> NDArray[np.float64]:
    """Return the order in which the ranker gets them; its own scores need features (see `normalizer.pipeline`)."""
    return vectors.score(table)


def similarity(table: CandidateTable) -> NDArray[np.float32]:
    """Return the cosine."""
    return table.cosine
