"""Two kinds of micro-steps in turn, by chance: each optimiser step is of one kind.

Liu, Jiang and Lyu, COLING 2022, algorithm 1: "select a training batch from RTD and PAP tasks randomly". Which kind a
step is follows from the seed and the step's number; each kind numbers its own batches from 0, so that it goes through
its data as if it were alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from alphita.training.engine.dry_run import Timed
    from alphita.training.engine.memory import InParts
    from alphita.training.engine.ranks import Ranks

# The stream of random numbers that chooses.
CHOSEN = 47


class SwitchingSteps:
    """Runs micro-batches of two kinds; a `loop.MicroSteps`.

    Attributes:
        ranks: the processes that share the work.
    """

    def __init__(
        self, usual: Timed, other: Timed, *, share: float, steps: int, accumulation: int, seed: int, prefix: str
    ) -> None:
        """Choose the steps.

        Args:
            usual: the one kind.
            other: the other.
            share: of the steps that are of the other kind, 0 to 1.
            steps: how many there are.
            accumulation: micro-batches a step; all are of its kind.
            seed: of the choice.
            prefix: before the names of what the other kind returns, but "loss" and "rows".
        """
        self._both = (usual, other)
        self._prefix = prefix
        chosen = np.random.default_rng([seed, CHOSEN]).random(steps) < share
        self._other = np.repeat(chosen, accumulation)
        # How many micro-batches of the other kind come before each number.
        self._before = np.concatenate([[0], np.cumsum(self._other)])
        self.ranks: Ranks = usual.ranks

    @property
    def shares(self) -> tuple[int, int]:
        """How many micro-batches of either kind there are."""
        return len(self._other) - int(self._before[-1]), int(self._before[-1])

    @property
    def kinds(self) -> Sequence[InParts]:
        """Both; see `loop.MicroSteps`."""
        return [one for kind in self._both for one in kind.kinds]

    @property
    def tokens_at_once(self) -> int:
        """The larger of the two."""
        return max(one.tokens_at_once for one in self.kinds)

    @property
    def waited(self) -> float:
        """Seconds waited for batches so far."""
        return sum(kind.waited for kind in self._both)

    def start(self, first: int, last: int, until: int | None = None) -> None:
        """See `loop.MicroSteps`."""
        for place, kind in enumerate(self._both):
            limit = None if until is None else self._own(until, place)
            kind.start(self._own(first, place), self._own(last, place), limit)

    def allow(self, until: int) -> None:
        """See `loop.MicroSteps`."""
        for place, kind in enumerate(self._both):
            kind.allow(self._own(until, place))

    def stop(self) -> None:
        """See `loop.MicroSteps`."""
        for kind in self._both:
            kind.stop()

    def sizes(self, number: int) -> dict[str, float]:
        """Return what micro-batch `number` has: tokens, whatever its kind."""
        place, own = self.of_kind(number)
        return {"tokens": self._both[place].sizes(own)["tokens"]}

    def names(self, number: int) -> list[str]:
        """See `loop.MicroSteps`."""
        place, own = self.of_kind(number)
        return self._both[place].names(own)

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        """Add `share` times the gradient of micro-batch `number`; return its scalars."""
        place, own = self.of_kind(number)
        scalars = self._both[place](own, share)
        if not place:
            return scalars
        kept = {name: scalars[name] for name in ("loss", "rows")}
        return kept | {f"{self._prefix}{name}": value for name, value in scalars.items() if name != "rows"}

    def of_kind(self, number: int) -> tuple[int, int]:
        """Return the kind of micro-batch `number`, 0 or 1 for the other, and its number within its kind."""
        place = int(self._other[number])
        return place, self._own(number, place)

    def _own(self, number: int, place: int) -> int:
        """Return how many micro-batches of kind `place` come before `number`."""
        other = int(self._before[min(number, len(self._other))])
        return other if place else min(number, len(self._other)) - other
