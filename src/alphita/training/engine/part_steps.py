"""Micro-steps that encode a batch in parts, as many tokens at once as the memory holds: what all of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import torch

from alphita.errors import AlphitaError
from alphita.training.engine import memory
from alphita.training.engine.ahead import Ahead

T = TypeVar("T")


class PartSteps(ABC, Generic[T]):
    """Runs micro-batches, made ahead in a thread of their own: `steps(number, share)`; a `loop.MicroSteps`.

    What derives from it makes a batch and runs it, and sets `tokens_at_once`.

    Attributes:
        tokens_at_once: tokens encoded at once with gradients.
    """

    tokens_at_once: int
    _ahead: Ahead[T] | None = None

    @property
    def kinds(self) -> tuple[memory.InParts]:
        """Itself; see `loop.MicroSteps`."""
        return (self,)

    @property
    def waited(self) -> float:
        """Seconds waited for batches so far."""
        return self._ahead.waited if self._ahead else 0.0

    def start(self, first: int, last: int, until: int | None = None) -> None:
        """Begin to make the batches `first` up to before `last`; those from `until` on when they are allowed."""
        self._ahead = Ahead(self._make, first, last, until=until)

    def allow(self, until: int) -> None:
        """Let the batches before number `until` be made."""
        assert self._ahead is not None, "start() comes first"
        self._ahead.allow(until)

    def stop(self) -> None:
        """Make no more batches."""
        if self._ahead is not None:
            self._ahead.stop()

    def __call__(self, number: int, share: float) -> dict[str, torch.Tensor]:
        """Add `share` times the gradient of micro-batch `number` and return its scalars, without gradients.

        Raises:
            AlphitaError: it does not fit the memory; the message says what to do.
        """
        assert self._ahead is not None, "start() comes first"
        ready = self._ahead.get(number)
        try:
            return self._run(ready, number, share)
        except (RuntimeError, MemoryError) as error:
            if not memory.is_exhausted(error):
                raise
        # Here, where the error no longer holds what had been computed, memory can be asked for again.
        raise AlphitaError(self._remedy(ready))

    @abstractmethod
    def names(self, number: int) -> list[str]:
        """See `loop.MicroSteps`."""

    @abstractmethod
    def _make(self, number: int) -> T:
        """Return batch `number`; called in another thread."""

    @abstractmethod
    def _run(self, ready: T, number: int, share: float) -> dict[str, torch.Tensor]:
        """Do what a call does; an error that says that there is no memory left may come out."""

    def _remedy(self, ready: T) -> str:
        """Return what to say where the memory does not do."""
        fewer = max(memory.LEAST_TOKENS, self.tokens_at_once // 2)
        return (
            f"out of memory with {self.tokens_at_once:,} tokens encoded at once; go on with --resume "
            f"--set tokens_at_once={fewer}"
        )
