"""The exam of a head: held-back synonyms and noisy strings, asked against the other strings with and without it.

A question is right if the nearest candidate is a name of its concept.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.encoder.head import Head
from alphita.index.neighbours import unit

QUESTIONS, CANDIDATES = 3_000, 60_000
# While it learns it is looked at more briefly.
BRIEF_QUESTIONS, BRIEF_CANDIDATES = 1_000, 10_000
# Expected length of the noise that stands in for misspelling where no misspelt strings are given.
NOISE = 0.5
QUESTIONS_AT_ONCE = 256

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]


class Marks(NamedTuple):
    """Which questions were answered rightly.

    Attributes:
        right: (q,) bool.
        noisy_right: (r,) bool.
    """

    right: NDArray[np.bool_]
    noisy_right: NDArray[np.bool_]

    def figures(self) -> dict[str, float | None]:
        """Return the shares, for JSON; None where nothing was asked."""
        asked = {"accuracy_at_1": self.right, "noisy_accuracy_at_1": self.noisy_right}
        return {name: round(float(found.mean()), 4) if len(found) else None for name, found in asked.items()}

    def against(self, before: Marks, *, noisy: bool = False) -> tuple[int, int]:
        """Return how many questions these have right and `before` wrong, and the other way round."""
        new, old = (marks.noisy_right if noisy else marks.right for marks in (self, before))
        return int((new & ~old).sum()), int((old & ~new).sum())


class Exam(NamedTuple):
    """The questions; see the module.

    Attributes:
        candidates: (c, d) vectors of names, and the concept of each.
        concept: (c,).
        questions: (q, d) vectors of held-back names.
        wanted: (q,) the concept of each.
        noisy: (r, d) vectors of noisy names.
        noisy_wanted: (r,).
    """

    candidates: Floats
    concept: Rows
    questions: Floats
    wanted: Rows
    noisy: Floats
    noisy_wanted: Rows

    @classmethod
    def of(
        cls,
        x: Floats,
        concept: Rows,
        held: NDArray[np.bool_],
        noised: tuple[Floats, Rows] | None,
        random: np.random.Generator,
    ) -> Exam:
        """Draw an exam.

        Args:
            x: (n, d) vectors of names.
            concept: (n,) the concept of each.
            held: (n,) bool, whether it is held back.
        """
        known = np.flatnonzero(~held)
        asked = np.flatnonzero(held & np.isin(concept, concept[known]))
        asked = np.sort(random.permutation(asked)[:QUESTIONS])
        own = np.isin(concept[known], concept[asked])
        order = np.concatenate([known[own], random.permutation(known[~own])])
        candidates = np.sort(order[:CANDIDATES])
        if noised is None:
            drawn = random.permutation(candidates)[:QUESTIONS]
            noise = random.standard_normal((len(drawn), x.shape[1]), np.float32)
            noisy, wanted = unit(x[drawn] + np.float32(NOISE * x.shape[1] ** -0.5) * noise), concept[drawn]
        else:
            place = np.flatnonzero(np.isin(noised[1], concept[candidates]))
            place = np.sort(random.permutation(place)[:QUESTIONS])
            noisy, wanted = noised[0][place], noised[1][place]
        return cls(x[candidates], concept[candidates], x[asked], concept[asked], noisy, wanted)

    def brief(self, random: np.random.Generator) -> Exam:
        """Return a smaller exam of the same kind, without noisy strings."""
        asked = random.permutation(len(self.questions))[:BRIEF_QUESTIONS]
        own = np.isin(self.concept, self.wanted[asked])
        others = random.permutation(np.flatnonzero(~own))
        kept = np.concatenate([np.flatnonzero(own), others])[:BRIEF_CANDIDATES]
        return Exam(
            self.candidates[kept],
            self.concept[kept],
            self.questions[asked],
            self.wanted[asked],
            self.noisy[:0],
            self.noisy_wanted[:0],
        )

    def marks(self, head: Head | None) -> Marks:
        """Return what is right with a head, or with the vectors as they are."""

        def seen(vectors: Floats) -> Floats:
            return vectors if head is None else head(vectors)

        candidates = seen(self.candidates)
        return Marks(
            self._right(seen(self.questions), self.wanted, candidates),
            self._right(seen(self.noisy), self.noisy_wanted, candidates),
        )

    def _right(self, questions: Floats, wanted: Rows, candidates: Floats) -> NDArray[np.bool_]:
        nearest = np.empty(len(questions), np.int64)
        for start in range(0, len(questions), QUESTIONS_AT_ONCE):
            rows = slice(start, start + QUESTIONS_AT_ONCE)
            nearest[rows] = (questions[rows] @ candidates.T).argmax(1)
        return np.asarray(self.concept[nearest] == wanted)
