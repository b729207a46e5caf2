"""From batches of terms to gradients: what every recipe that compares term vectors has in common.

What exceeds memory is encoded in parts, without and then with gradients (GradCache: Gao et al., RepL4NLP 2021, §3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from alphita_lab.encoder import bert
from alphita_lab.training.engine.forward import Rows, TermForward, TokenTable, tokenize
from alphita_lab.training.engine.steps import (
    MIN_TOKENS,
    Parts,
    PartSteps,
    is_exhausted,
    release,
    seed_dropout,
    tokens_that_fit,
)

if TYPE_CHECKING:
    from alphita_lab.training.engine.run import Run


@dataclass(frozen=True)
class Batch:
    """One batch."""

    terms: NDArray[np.integer[Any]]  # (u,) the terms to encode, as numbers of a `TokenTable`'s strings
    arrays: dict[str, NDArray[Any]]
    rows: int  # term rows that the batch stands for, repeats counted


Draw = Callable[[int], Batch]
"""Batch number -> batch; follows from the number (and the run's seed) alone."""
BatchLoss = Callable[[torch.Tensor, dict[str, torch.Tensor]], dict[str, torch.Tensor]]
"""((u, d) float32 vectors of a batch's terms, its arrays) -> scalars by name, "loss" among them."""


def to_encode(rows: NDArray[np.integer[Any]], *, once: bool) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
    """Return the terms to encode for a batch's rows (n,), each once or as often as it stands there, and rows' places.

    Returns:
        (u,) terms and (n,) the place of each row among them.
    """
    if once:
        return np.unique(rows, return_inverse=True)
    return rows, np.arange(len(rows))


@dataclass(frozen=True)
class _Ready:
    """A batch as the device takes it."""

    batch: Batch
    given: dict[str, torch.Tensor]
    shares: list[NDArray[np.int64]]  # the rows of each process
    # The rows of this process, part by part: where they stand among its own, and their tokens.
    parts: list[tuple[NDArray[np.int64], Rows]]


class TermSteps(PartSteps[_Ready]):
    """Runs micro-batches of terms; see `PartSteps`. They return what the loss does, and "rows"."""

    ADAPTS = True

    def __init__(
        self,
        forward: TermForward,
        tokens: TokenTable,
        draw: Draw,
        loss: BatchLoss,
        *,
        name: Callable[[int], str] = str,
        **parts: Unpack[Parts],
    ) -> None:
        self._name = name
        self.forward, self.tokens, self.draw, self.loss = forward, tokens, draw, loss
        super().__init__(lambda: tokens_that_fit(forward.module, forward.device), **parts)

    @classmethod
    def of(cls, run: Run, strings: Sequence[str], draw: Draw, loss: BatchLoss) -> TermSteps:
        """Return the steps of a run whose terms are places in `strings`."""
        tokens = tokenize(run.encoder, strings)
        return cls(run.forward, tokens, draw, loss, name=strings.__getitem__, **run.parts)

    def names(self, number: int) -> list[str]:
        return [self._name(term) for term in self.terms(number).tolist()]

    def terms(self, number: int) -> NDArray[np.integer[Any]]:
        """Return the terms of batch `number`."""
        return self.draw(number).terms

    def sizes(self, number: int) -> dict[str, float]:
        """Return how many rows batch `number` has, how many terms are encoded for them, and their tokens."""
        batch = self.draw(number)
        tokens = int(np.diff(self.tokens.offsets)[batch.terms].sum())
        return {"term rows": batch.rows, "terms encoded": len(batch.terms), "tokens": tokens}

    def _make(self, number: int) -> _Ready:
        batch = self.draw(number)
        ids, lengths = self.tokens.rows(batch.terms)
        shares = self.ranks.share(lengths)
        own = shares[self.ranks.rank]
        parts = []
        for places in _parts(lengths[own], self.tokens_at_once):
            parts.append((places, self._lay_out(ids, lengths, own[places])))
        given = {name: self.forward.tensor(array) for name, array in batch.arrays.items()}
        return _Ready(batch, given, shares, parts)

    def _lay_out(self, ids: NDArray[np.int64], lengths: NDArray[np.int64], rows: NDArray[np.int64]) -> Rows:
        """Return some rows of a batch as the model takes them."""
        if len(rows) < len(lengths):
            starts = np.cumsum(lengths) - lengths
            ids = np.concatenate([ids[starts[row] : starts[row] + lengths[row]] for row in rows])
            lengths = lengths[rows]
        return self.forward.lay_out(ids, lengths)

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        own = ready.shares[self.ranks.rank]
        kept: torch.Tensor | None = None
        vectors = torch.zeros(len(own), self.forward.encoder.dim, device=self.forward.device)
        if len(ready.parts) == 1:
            # All at once: the graph is kept, and nothing is encoded twice.
            kept = self._encode(ready, 0, number)
            vectors[torch.from_numpy(ready.parts[0][0])] = kept.detach()
        else:
            with torch.no_grad():
                for part, (places, _) in enumerate(ready.parts):
                    vectors[torch.from_numpy(places)] = self._encode(ready, part, number)
        whole = self.ranks.gather(vectors, ready.shares).requires_grad_()
        scalars = self.loss(whole, ready.given)
        (scalars["loss"] * share).backward()
        assert whole.grad is not None
        # The processes' gradients are averaged in the end, and each has only its own rows' part of the sum.
        upstream = whole.grad[torch.from_numpy(own).to(whole.device)] * self.ranks.size
        for part, (places, _) in enumerate(ready.parts):
            again = kept if kept is not None else self._encode(ready, part, number)
            again.backward(upstream[torch.from_numpy(places).to(whole.device)])
        rows = torch.tensor(float(ready.batch.rows))
        return {name: value.detach() for name, value in scalars.items()} | {"rows": rows}

    def _encode(self, ready: _Ready, part: int, number: int) -> torch.Tensor:
        # One seed a part: the second time it is encoded, dropout is what it was the first time.
        seed_dropout(self.seed, number, self.ranks.rank, part)
        return self.forward.run(ready.parts[part][1])

    def _remedy(self, ready: _Ready) -> str:
        """Find out how many tokens do fit and return what to say."""
        tokens = int(np.diff(self.tokens.offsets)[ready.batch.terms].sum())
        tried = min(self.tokens_at_once, tokens)
        fitting = tried // 2
        while fitting >= MIN_TOKENS:
            release(self.forward.module)
            if self._fits(ready, fitting):
                return (
                    f"out of memory with {tried:,} tokens encoded at once; {fitting:,} fit. Go on with --resume "
                    f"--set tokens_at_once={fitting}: slower, with the same gradients but for "
                    "dropout's draws"
                )
            fitting //= 2
        return (
            f"out of memory: not even {MIN_TOKENS} of a batch's {tokens:,} tokens can be encoded at once; "
            "take a smaller encoder, or free memory"
        )

    def _fits(self, ready: _Ready, budget: int) -> bool:
        """Tell whether the longest part of at most `budget` tokens can be encoded with gradients."""
        ids, lengths = self.tokens.rows(ready.batch.terms)
        places = np.sort(_parts(lengths, budget)[-1])
        try:
            self.forward.run(self._lay_out(ids, lengths, places)).sum().backward()
        except (RuntimeError, MemoryError) as error:
            if not is_exhausted(error):
                raise
            return False
        finally:
            release(self.forward.module)
        return True


def _parts(lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Return the places of rows in parts of at most `budget` tokens, short rows first; a longer row is a part alone."""
    if int(lengths.sum()) <= budget:
        return [np.arange(len(lengths))] if len(lengths) else []
    return bert.within(np.argsort(lengths, kind="stable"), lengths, budget)
