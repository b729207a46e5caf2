"""Names that lie near another and mean something else, as further negatives: CODER++'s mining for pairs of text.

A name near the drawn one teaches what a word more, another site or an opposite changes. But vocabularies that were
merged leave concepts apart that mean the same, so a name is taken only from a concept of the same vocabulary, which
keeps its own concepts apart, and not where it has the same words in another order or number.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.terminology.text import plain_words
from alphita.training.terms.mining import Encoder, MinedNeighbours, oldest_needed

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology
    from alphita.training.terms.names import TrainingNames
    from alphita.training.terms.triples import Int64

# Of so many nearest names of each, the first few that mean something else are drawn from.
SEARCHED, DRAWN_FROM = 32, 6
# Up to so many names the search is exact without a GPU; with one it always is.
EXACT_UP_TO = 100_000


class NearNames:
    """Draws names near others, mined anew every so many steps."""

    def __init__(
        self, terminology: Terminology, names: TrainingNames, folder: Path, *, every: int, checkpoint_every: int = 0
    ) -> None:
        """Prepare to mine.

        Args:
            terminology: whose concepts' prefixes say their vocabulary.
            names: the names that train.
            folder: where findings are kept.
            every: steps between minings.
            checkpoint_every: steps between the checkpoints that a run may go on from.
        """
        self._every, self._checkpoint_every = every, checkpoint_every
        self._concept = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
        prefixes = [one.partition(":")[0] for one in terminology.concept_ids.to_pylist()]
        self._vocabulary = _numbers(prefixes)[self._concept]
        self._words = _numbers(list(map(same_words, names.strings)))
        self._mined = MinedNeighbours(names.strings, SEARCHED, folder, exact_up_to=EXACT_UP_TO)

    def mine(self, step: int, encoder: Encoder) -> None:
        """Hear that `step` comes next; search with the weights as they are where it is time."""
        start = step - step % self._every
        if start != self._mined.step:
            needed_from = oldest_needed(step, self._every, self._checkpoint_every)
            weights = encoder if step == start else None
            self._mined.refresh(start, np.arange(len(self._concept)), weights, needed_from=needed_from)

    def guess(self) -> None:
        """Take any names for the nearest: for a trial of the batches' size."""
        self._mined.guess(np.arange(len(self._concept)))

    def draw(self, names: Int64, rng: np.random.Generator) -> tuple[Int64, Int64]:
        """Draw one for each of n names; none for those that have none.

        Returns:
            (m,) numbers of names, and (m,) the place among the n that each is for.
        """
        found = self._mined.of(names).astype(np.int64)
        fit = self._vocabulary[found] == self._vocabulary[names][:, None]
        fit &= self._concept[found] != self._concept[names][:, None]
        fit &= self._words[found] != self._words[names][:, None]
        rank = np.cumsum(fit, axis=1)
        some = np.minimum(rank[:, -1], DRAWN_FROM)
        wanted = 1 + (rng.random(len(names)) * some).astype(np.int64)
        of = np.flatnonzero(some)
        return found[of, (fit & (rank == wanted[:, None])).argmax(1)[of]], of


def same_words(string: str) -> str:
    """Return a cleaned string's words, sorted, each once and in the singular, without those that say nothing."""
    return " ".join(sorted({*plain_words(string)} - {""}))


def _numbers(strings: Sequence[str]) -> NDArray[np.int64]:
    """Return a number for each string, (n,), the same for equal ones."""
    return pa.array(strings).dictionary_encode().indices.to_numpy().astype(np.int64)
