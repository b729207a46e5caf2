"""Training and scoring of masked language models on sequences of tokens: batches to gradients.

Which tokens of batch i are masked follows from the seed and i, and so does dropout. The loss of a batch is the mean
over its masked tokens; where a batch goes in parts their gradients add up to that mean's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from alphita_lab.encoder import bert
from alphita_lab.training.engine.forward import Rows, TermForward, TokenTable, evaluating
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.engine.steps import BYTES, MIN_TOKENS, PartSteps, token_bytes, tokens_that_fit
from alphita_lab.training.terms.batches import Batch, Draw
from alphita_lab.training.text.masked_language import (
    NOT_MASKED,
    MaskedLanguageHead,
    Masking,
    mask_by_token,
    token_states,
)

Int64 = NDArray[np.int64]
# Streams of random numbers.
ORDER, TRAINED, SCORED = 2, 3, 4
# Arrays of logits that one masked token holds between forward and backward pass.
LOGIT_ARRAYS = 3
# Sequences scored at once.
AT_ONCE = 256


class SequenceBatches:
    """Batches of sequences: every epoch all of them in another order, one epoch running into the next."""

    def __init__(self, rows: Int64, *, batch: int, seed: int) -> None:
        self._rows, self._batch, self._seed = rows, batch, seed
        self.batches = len(rows) / batch
        self._order: tuple[int, Int64] = (-1, rows)

    def batch(self, number: int) -> Batch:
        """Return batch `number`; it follows from the number and the seed alone."""
        places = number * self._batch + np.arange(self._batch)
        epochs, within = np.divmod(places, len(self._rows))
        drawn = [self._epoch(int(epoch))[within[epochs == epoch]] for epoch in np.unique(epochs)]
        return Batch(np.concatenate(drawn), {}, rows=self._batch)

    def _epoch(self, epoch: int) -> Int64:
        kept, order = self._order
        if kept != epoch:
            order = np.random.default_rng([self._seed, ORDER, epoch]).permutation(self._rows)
            self._order = (epoch, order)
        return order


@dataclass(frozen=True)
class _Part:
    """Some sequences of a batch as the device takes them: their tokens, and which of them are masked."""

    rows: Rows
    row: torch.Tensor
    place: torch.Tensor
    true: torch.Tensor


@dataclass(frozen=True)
class _Ready:
    """A batch of which this process has some parts; `masked` counts the masked tokens of all."""

    parts: list[_Part]
    masked: int
    rows: int


class MaskedSteps(PartSteps[_Ready]):
    """Runs micro-batches of masked sequences; see `PartSteps`.

    They return "loss", among several processes that of this one's sequences, and "rows".
    """

    def __init__(
        self,
        forward: TermForward,
        head: MaskedLanguageHead,
        tokens: TokenTable,
        draw: Draw,
        masking: Masking,
        *,
        seed: int,
        tokens_at_once: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        self.forward, self.head, self.tokens, self.draw, self.masking = forward, head, tokens, draw, masking
        self.seed, self.ranks = seed, ranks or Ranks()
        self.tokens_at_once = tokens_at_once or _tokens_that_fit(forward, masking)

    def sizes(self, number: int) -> dict[str, float]:
        """Return how many sequences and tokens batch `number` has."""
        batch = self.draw(number)
        return {"sequences": batch.rows, "tokens": int(np.diff(self.tokens.offsets)[batch.terms].sum())}

    def names(self, number: int) -> list[str]:
        """Return which sequences batch `number` has; not their text, which may be about patients."""
        return [f"sequence {row}" for row in self.draw(number).terms]

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        total = torch.zeros((), device=self.forward.device)
        for place, part in enumerate(ready.parts):
            numbers = [self.seed, number, self.ranks.rank, place]
            torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
            # The processes' gradients are averaged in the end, and each has only its own part of the sum.
            loss = functional.cross_entropy(self._logits(part), part.true, reduction="sum")
            loss = loss * (self.ranks.size / max(1, ready.masked))
            (loss * share).backward()
            total += loss.detach()
        return {"loss": total, "rows": torch.tensor(float(ready.rows))}

    def score(self, rows: Int64) -> dict[str, float]:
        """Return how well masked tokens of some sequences are guessed; the masks are always the same."""
        loss = right = masked = 0.0
        random = np.random.default_rng([self.seed, SCORED])
        with evaluating(self.forward.module, self.head):
            for start in range(0, len(rows), AT_ONCE):
                ids, lengths = self.tokens.rows(rows[start : start + AT_ONCE])
                parts, here = self._parts(ids, lengths, np.arange(len(lengths)), random)
                masked += here
                for part in parts:
                    logits = self._logits(part)
                    loss += float(functional.cross_entropy(logits, part.true, reduction="sum"))
                    right += float((logits.argmax(1) == part.true).sum())
        mean = loss / max(1.0, masked)
        return {
            "dev_log_probability": -mean,
            "dev_perplexity": math.exp(min(mean, 700.0)),
            "dev_accuracy": right / max(1.0, masked),
        }

    def _make(self, number: int) -> _Ready:
        batch = self.draw(number)
        ids, lengths = self.tokens.rows(batch.terms)
        own = self.ranks.share(lengths)[self.ranks.rank]
        parts, masked = self._parts(ids, lengths, own, np.random.default_rng([self.seed, TRAINED, number]))
        return _Ready(parts, masked, batch.rows)

    def _parts(self, ids: Int64, lengths: Int64, own: Int64, random: np.random.Generator) -> tuple[list[_Part], int]:
        """Mask a batch.

        Args:
            lengths: (n,) their lengths.
        """
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        # Padding is any token that is never masked.
        grid = np.full(real.shape, self.masking.special_ids[0], np.int64)
        grid[real] = ids
        shown, labels = mask_by_token(grid, np.empty((0, 3), np.int64), self.masking, random)
        parts = []
        for rows in bert.within(own, lengths, self.tokens_at_once):
            row, place = np.nonzero(labels[rows] != NOT_MASKED)
            if len(row):
                laid = self.forward.lay_out(shown[rows][real[rows]], lengths[rows])
                true = labels[rows][row, place]
                parts.append(_Part(laid, *(self.forward.tensor(array) for array in (row, place, true))))
        return parts, int((labels != NOT_MASKED).sum())

    def _logits(self, part: _Part) -> torch.Tensor:
        """Return (p, vocabulary) float32 of a part's p masked tokens."""
        with torch.autocast(self.forward.device.type, torch.bfloat16, enabled=self.forward.bf16):
            logits: torch.Tensor = self.head(token_states(self.forward, part.rows, part.row, part.place))
        return logits.float()


def _tokens_that_fit(forward: TermForward, masking: Masking) -> int:
    """Return a guess at how many tokens can be encoded at once with gradients, their share of logits included."""
    layers = token_bytes(forward.module)
    logits = masking.share * masking.vocabulary * LOGIT_ARRAYS * BYTES
    fitting = tokens_that_fit(forward.module, forward.device) * layers / (layers + logits)
    return max(MIN_TOKENS, int(fitting))
