"""Ways to rank the candidates of a mention. A module here is a choice of `alphita normalize --ranking`.

Each module has `DESCRIPTION` (one line), `ROUTES` (the routes it asks, as bits of `answering.candidates`) and
`score(table) -> (c,) float64`, greater is better; `similarity(table) -> (c,) float32` is what is shown as the
candidate's similarity and compared with the floor below which no concept is given. What is learned has `LEARNED = True`
and is scored by the calibration's ranker instead.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from alphita.answer.table import CandidateTable

# An equal string stands above everything that is merely like it.
EQUAL = 10.0


class Ranking(Protocol):
    """What a module here offers."""

    DESCRIPTION: str
    ROUTES: int
    LEARNED: bool

    def score(self, table: CandidateTable) -> NDArray[np.float64]:
        """Return the score of each candidate, (c,)."""
        ...

    def similarity(self, table: CandidateTable) -> NDArray[np.float32]:
        """Return the similarity of each candidate, (c,)."""
        ...
