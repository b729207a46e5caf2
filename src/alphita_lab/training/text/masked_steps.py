"""Steps of masked language models and of ELECTRA on sequences of tokens: batches to gradients, and dev scores.

The masks of batch i follow from the seed and i, and so do dropout and the lots by which ELECTRA's tokens are drawn.
Where a batch goes in parts, or to several processes, the gradients add up to those of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from alphita_lab.encoder import bert
from alphita_lab.objectives import replaced_token
from alphita_lab.training.engine.forward import Rows, TermForward, TokenTable, evaluating
from alphita_lab.training.engine.steps import (
    BYTES,
    MIN_TOKENS,
    Parts,
    PartSteps,
    seed_dropout,
    token_bytes,
    tokens_that_fit,
)
from alphita_lab.training.terms.batches import Batch, Draw
from alphita_lab.training.terms.samplers import EpochWalk
from alphita_lab.training.text.masked_language import (
    NOT_MASKED,
    MaskedLanguageHead,
    Masking,
    mask_by_span,
    mask_by_token,
    token_states,
)

if TYPE_CHECKING:
    from alphita_lab.encoder.electra import Generator, ReplacedHead
    from alphita_lab.training.text.sequences import Sequences

Int64 = NDArray[np.int64]
# Streams of random numbers.
ORDER, TRAINED, SCORED = 2, 3, 4
MASKED, DRAWN, DROPPED, REPLACED_SCORED = 41, 42, 43, 44
# Arrays of logits that one masked token holds between forward and backward pass.
LOGIT_ARRAYS = 3
# Logits, their softmax, its gradient, probabilities to draw from.
REPLACED_LOGIT_ARRAYS = 4
# Sequences scored at once.
AT_ONCE = 256


class SequenceBatches:
    """Batches of rows: every epoch all of them in another order, one epoch running into the next."""

    def __init__(self, rows: Int64, *, batch: int, seed: int) -> None:
        self._rows, self._batch = rows, batch
        self.batches = len(rows) / batch
        self._walk = EpochWalk(len(rows), batch, [seed, ORDER])

    def batch(self, number: int) -> Batch:
        """Return batch `number`; it follows from the number and the seed alone."""
        return Batch(self._rows[self._walk.places(number)], {}, rows=self._batch)


def _sizes(tokens: TokenTable, batch: Batch) -> dict[str, float]:
    return {"sequences": batch.rows, "tokens": int(np.diff(tokens.offsets)[batch.terms].sum())}


def _names(batch: Batch) -> list[str]:
    """Return the numbers of a batch's sequences; not their text, which may be about patients."""
    return [f"sequence {row}" for row in batch.terms]


def _grid(ids: Int64, lengths: Int64, masking: Masking) -> tuple[Int64, NDArray[np.bool_]]:
    """Return sequences side by side, (n, longest), and where their tokens are."""
    real = np.arange(lengths.max(initial=0)) < lengths[:, None]
    # Padding is any token that is never masked.
    grid = np.full(real.shape, masking.special_ids[0], np.int64)
    grid[real] = ids
    return grid, real


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
        **parts: Unpack[Parts],
    ) -> None:
        self.forward, self.head, self.tokens, self.draw, self.masking = forward, head, tokens, draw, masking
        super().__init__(lambda: _tokens_that_fit(forward, masking), **parts)

    def sizes(self, number: int) -> dict[str, float]:
        return _sizes(self.tokens, self.draw(number))

    def names(self, number: int) -> list[str]:
        return _names(self.draw(number))

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        total = torch.zeros((), device=self.forward.device)
        for place, part in enumerate(ready.parts):
            seed_dropout(self.seed, number, self.ranks.rank, place)
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
        """Mask a batch of sequences end to end; return this process' parts, and how many tokens are masked in all."""
        grid, real = _grid(ids, lengths, self.masking)
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
        with self.forward.arithmetic():
            logits: torch.Tensor = self.head(token_states(self.forward, part.rows, part.row, part.place))
        return logits.float()


def _tokens_that_fit(forward: TermForward, masking: Masking) -> int:
    """Return a guess at how many tokens can be encoded at once with gradients, their share of logits included."""
    layers = token_bytes(forward.module)
    logits = masking.share * masking.vocabulary * LOGIT_ARRAYS * BYTES
    fitting = tokens_that_fit(forward.module, forward.device) * layers / (layers + logits)
    return max(MIN_TOKENS, int(fitting))


# The number of masked tokens of a part is rounded up to a multiple of this; see `packed`.
ROUNDED = 64


@dataclass(frozen=True)
class _ReplacedPart:
    """Some sequences of a batch as the device takes them; p is the number of masked tokens rounded up, with copies of
    the first place behind the last.
    """

    packing: bert.Packing  # their tokens, masked
    places: torch.Tensor  # (p,) of the masked tokens in the packing
    true: torch.Tensor  # (p,) what stood there; NOT_MASKED behind the last
    lots: torch.Tensor  # (p,) by which tokens are drawn
    masked: int


@dataclass(frozen=True)
class _ReplacedReady:
    """A batch of which this process has some parts; `masked` and `tokens` count those of the whole batch."""

    parts: list[_ReplacedPart]
    masked: int
    tokens: int
    rows: int


class ReplacedTokenSteps(PartSteps[_ReplacedReady]):
    """Runs micro-batches of masked sequences; see `PartSteps`.

    They return "generator_loss" and "discriminator_loss"; "loss", their sum, the second times `weight`; and "rows".
    Among several processes the losses are those of this one's sequences.
    """

    def __init__(
        self,
        forward: TermForward,
        generator: Generator,
        head: ReplacedHead,
        sequences: Sequences,
        batches: SequenceBatches,
        masking: Masking,
        *,
        weight: float = replaced_token.WEIGHT,
        **parts: Unpack[Parts],
    ) -> None:
        self.forward, self.generator, self.head = forward, generator, head
        self.sequences, self.batches, self.masking = sequences, batches, masking
        self.weight = weight
        super().__init__(lambda: _replaced_tokens_that_fit(forward, generator, masking), **parts)

    def sizes(self, number: int) -> dict[str, float]:
        return _sizes(self.sequences.tokens, self.batches.batch(number))

    def names(self, number: int) -> list[str]:
        return _names(self.batches.batch(number))

    def _run(self, ready: _ReplacedReady, number: int, share: float) -> dict[str, torch.Tensor]:
        totals = torch.zeros(2, device=self.forward.device)
        # The processes' gradients are averaged in the end, and each has only its own part of the sum.
        scale = self.ranks.size
        for place, part in enumerate(ready.parts):
            seed_dropout(self.seed, DROPPED, number, self.ranks.rank, place)
            guesses = self._guesses(part)
            guessing = replaced_token.guessing(guesses, part.true, masked=ready.masked) * scale
            ids, replaced = self._replace(part, guesses)
            # No gradient goes from one to the other: what the generator keeps for its own can go first.
            (guessing * share).backward()
            del guesses
            logits = self._logits(part, ids)
            detection = replaced_token.detection(logits, replaced, tokens=ready.tokens) * scale
            (detection * (self.weight * share)).backward()
            totals += torch.stack([guessing.detach(), detection.detach()])
        return {
            "loss": totals[0] + self.weight * totals[1],
            "generator_loss": totals[0],
            "discriminator_loss": totals[1],
            "rows": torch.tensor(float(ready.rows)),
        }

    def score(self, rows: Int64) -> dict[str, float]:
        """Return how well tokens of some sequences are guessed and found; masks and lots are always the same."""
        guessing = detection = right = masked = tokens = 0.0
        logits, replaced = [], []
        random = np.random.default_rng([self.seed, REPLACED_SCORED])
        with evaluating(self.forward.module, self.generator, self.head):
            for start in range(0, len(rows), AT_ONCE):
                some = rows[start : start + AT_ONCE]
                ready = self._lay_out(some, np.arange(len(some)), random, random)
                masked, tokens = masked + ready.masked, tokens + ready.tokens
                for part in ready.parts:
                    guesses = self._guesses(part)
                    guessing += float(replaced_token.guessing(guesses, part.true, masked=1))
                    right += float((guesses.argmax(1) == part.true).sum())
                    ids, there = self._replace(part, guesses)
                    scores = self._logits(part, ids)
                    detection += float(replaced_token.detection(scores, there, tokens=1))
                    ordinary = self._ordinary(part)
                    logits.append(scores[ordinary].cpu())
                    replaced.append(there[ordinary].cpu())
        return {
            "dev_replaced_auc": replaced_token.area_under_curve(torch.cat(logits), torch.cat(replaced)),
            "dev_discriminator_loss": detection / max(1.0, tokens),
            "dev_generator_accuracy": right / max(1.0, masked),
            "dev_generator_loss": guessing / max(1.0, masked),
        }

    def _make(self, number: int) -> _ReplacedReady:
        rows = np.asarray(self.batches.batch(number).terms, np.int64)
        lengths = np.diff(self.sequences.tokens.offsets)[rows]
        own = self.ranks.share(lengths)[self.ranks.rank]
        masks, lots = (np.random.default_rng([self.seed, stream, number]) for stream in (MASKED, DRAWN))
        return self._lay_out(rows, own, masks, lots)

    def _lay_out(
        self, rows: Int64, own: Int64, masks: np.random.Generator, lots: np.random.Generator
    ) -> _ReplacedReady:
        """Mask a batch of sequences, (n,) rows."""
        ids, lengths = self.sequences.tokens.rows(rows)
        grid, real = _grid(ids, lengths, self.masking)
        shown, labels = mask_by_span(grid, self.sequences.spans_of(rows), self.masking, masks)
        guessed = labels != NOT_MASKED
        lot = np.ones(labels.shape, np.float32)
        # From [0, 1) to (0, 1].
        lot[guessed] -= lots.random(int(guessed.sum()), dtype=np.float32)
        parts = [
            self._part(shown[some], labels[some], lot[some], real[some])
            for some in bert.within(own, lengths, self.tokens_at_once)
        ]
        return _ReplacedReady(parts, int(guessed.sum()), int(lengths.sum()), len(rows))

    def _part(self, shown: Int64, labels: Int64, lot: NDArray[np.float32], real: NDArray[np.bool_]) -> _ReplacedPart:
        """Return the rows of these grids, each (rows, length), as a part."""
        packing = bert.Packing(shown[real], real.sum(1), self.forward.device)
        row, place = np.nonzero(labels != NOT_MASKED)
        spare = (0, -len(row) % ROUNDED)
        rows, columns = (self.forward.tensor(np.pad(array, spare)) for array in (row, place))
        true = self.forward.tensor(np.pad(labels[row, place], spare, constant_values=NOT_MASKED))
        lots = self.forward.tensor(np.pad(lot[row, place], spare, constant_values=1.0))
        return _ReplacedPart(packing, packing.first[rows] + columns, true, lots, len(row))

    def _guesses(self, part: _ReplacedPart) -> torch.Tensor:
        """Return the generator's logits for a part's masked tokens, (p, vocabulary) float32."""
        with self.forward.arithmetic():
            logits: torch.Tensor = self.generator(part.packing, part.places)
        return logits.float()

    def _replace(self, part: _ReplacedPart, guesses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw a token for each masked one.

        Returns:
            (flat,) the packing's ids with them, and (tokens,) bool: where another than the true one came in.
        """
        drawn = replaced_token.drawn(guesses, part.lots)[: part.masked]
        places = part.places[: part.masked]
        ids = part.packing.ids.index_copy(0, places, drawn)
        replaced = torch.zeros(part.packing.tokens, dtype=torch.bool, device=ids.device)
        return ids, replaced.index_copy(0, places, drawn != part.true[: part.masked])

    def _logits(self, part: _ReplacedPart, ids: torch.Tensor) -> torch.Tensor:
        """Return the discriminator's logits for a part's tokens, (tokens,) float32, where they are `ids` (flat,)."""
        with self.forward.arithmetic():
            states = bert.forward(self.forward.module.model, part.packing, ids)
            logits: torch.Tensor = self.head(states)
        return logits.float().split([part.packing.tokens, len(ids) - part.packing.tokens])[0]

    def _ordinary(self, part: _ReplacedPart) -> torch.Tensor:
        """Return which of a part's tokens are no special ones, (tokens,) bool."""
        special = torch.tensor(self.masking.special_ids, device=part.places.device)
        ordinary = ~torch.isin(part.packing.ids[: part.packing.tokens], special)
        # What was masked was none, and shows [MASK], which is one.
        return ordinary.index_fill(0, part.places[: part.masked], True)


def _replaced_tokens_that_fit(forward: TermForward, generator: Generator, masking: Masking) -> int:
    """Return a guess at how many tokens can be encoded at once: generator and discriminator run in turn."""
    layers = token_bytes(forward.module)
    logits = masking.share * masking.vocabulary * REPLACED_LOGIT_ARRAYS * BYTES
    most = max(layers, token_bytes(generator) + logits)
    return max(MIN_TOKENS, int(tokens_that_fit(forward.module, forward.device) * layers / most))
