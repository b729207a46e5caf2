"""Steps of ELECTRA's training: sequences with entities masked whole in, the losses of generator and discriminator out.

Spans of each sequence, and its tokens outside any, are drawn with the chance of 15% each and masked whole, so 15% of
its tokens on average (`entity_masking.mask_by_span`). The generator guesses them, tokens drawn from its guesses take
their place, and the discriminator finds those among all tokens (`objectives.replaced_token`). Both run on packed tokens
without padding, the generator's large output layer on masked tokens alone.

Which tokens of batch i are masked follows from the seed and i; so does dropout, and so does the lot of each masked
token, by which one is drawn, whatever part or process it falls to. Where a batch goes in parts, or to several
processes, the gradients add up to those of the whole.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita_lab.encoder import bert
from alphita_lab.objectives import replaced_token
from alphita_lab.training.engine.forward import evaluating
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.engine.steps import BYTES, MIN_TOKENS, PartSteps, token_bytes, tokens_that_fit
from alphita_lab.training.text.masked_language import NOT_MASKED, Masking, mask_by_span

if TYPE_CHECKING:
    from alphita_lab.encoder.electra import Generator, ReplacedHead
    from alphita_lab.training.engine.forward import TermForward
    from alphita_lab.training.text.masked_steps import SequenceBatches
    from alphita_lab.training.text.sequences import Sequences

Int64 = NDArray[np.int64]
# Streams of random numbers.
MASKED, DRAWN, DROPPED, SCORED = 41, 42, 43, 44
# Arrays of logits that one masked token holds: logits, their softmax, its gradient, probabilities to draw from.
LOGIT_ARRAYS = 4
# Sequences scored at once.
AT_ONCE = 256
# The number of masked tokens of a part is rounded up to a multiple of this; see `packed`.
ROUNDED = 64


@dataclass(frozen=True)
class _Part:
    """Some sequences of a batch as the device takes them; p is the number of masked tokens rounded up, with copies of
    the first place behind the last.

    Attributes:
        packing: their tokens, masked.
        places: (p,) of the masked tokens in the packing.
        true: (p,) what stood there; NOT_MASKED behind the last.
        lots: (p,) by which tokens are drawn.
    """

    packing: bert.Packing
    places: torch.Tensor
    true: torch.Tensor
    lots: torch.Tensor
    masked: int


@dataclass(frozen=True)
class _Ready:
    """A batch of which this process has some parts; `masked` and `tokens` count those of the whole batch."""

    parts: list[_Part]
    masked: int
    tokens: int
    rows: int


class ReplacedTokenSteps(PartSteps[_Ready]):
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
        seed: int,
        weight: float = replaced_token.WEIGHT,
        tokens_at_once: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        self.forward, self.generator, self.head = forward, generator, head
        self.sequences, self.batches, self.masking = sequences, batches, masking
        self.seed, self.weight, self.ranks = seed, weight, ranks or Ranks()
        self.tokens_at_once = tokens_at_once or _tokens_that_fit(forward, generator, masking)

    def sizes(self, number: int) -> dict[str, float]:
        """Return how many sequences and tokens batch `number` has."""
        batch = self.batches.batch(number)
        return {"sequences": batch.rows, "tokens": int(np.diff(self.sequences.tokens.offsets)[batch.terms].sum())}

    def names(self, number: int) -> list[str]:
        """Return which sequences batch `number` has; not their text, which may be about patients."""
        return [f"sequence {row}" for row in self.batches.batch(number).terms]

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        totals = torch.zeros(2, device=self.forward.device)
        # The processes' gradients are averaged in the end, and each has only its own part of the sum.
        scale = self.ranks.size
        for place, part in enumerate(ready.parts):
            numbers = [self.seed, DROPPED, number, self.ranks.rank, place]
            torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1)[0]))
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
        random = np.random.default_rng([self.seed, SCORED])
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

    def _make(self, number: int) -> _Ready:
        rows = np.asarray(self.batches.batch(number).terms, np.int64)
        lengths = np.diff(self.sequences.tokens.offsets)[rows]
        own = self.ranks.share(lengths)[self.ranks.rank]
        masks, lots = (np.random.default_rng([self.seed, stream, number]) for stream in (MASKED, DRAWN))
        return self._lay_out(rows, own, masks, lots)

    def _lay_out(self, rows: Int64, own: Int64, masks: np.random.Generator, lots: np.random.Generator) -> _Ready:
        """Mask a batch.

        Args:
            rows: (n,) its sequences.
        """
        ids, lengths = self.sequences.tokens.rows(rows)
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        # Padding is any token that is never masked.
        grid = np.full(real.shape, self.masking.special_ids[0], np.int64)
        grid[real] = ids
        shown, labels = mask_by_span(grid, self.sequences.spans_of(rows), self.masking, masks)
        guessed = labels != NOT_MASKED
        lot = np.ones(labels.shape, np.float32)
        # From [0, 1) to (0, 1].
        lot[guessed] -= lots.random(int(guessed.sum()), dtype=np.float32)
        parts = [
            self._part(shown[some], labels[some], lot[some], real[some])
            for some in bert.within(own, lengths, self.tokens_at_once)
        ]
        return _Ready(parts, int(guessed.sum()), int(lengths.sum()), len(rows))

    def _part(self, shown: Int64, labels: Int64, lot: NDArray[np.float32], real: NDArray[np.bool_]) -> _Part:
        """Return the rows of these grids, each (rows, length), as a part."""
        packing = bert.Packing(shown[real], real.sum(1), self.forward.device)
        row, place = np.nonzero(labels != NOT_MASKED)
        spare = (0, -len(row) % ROUNDED)
        rows, columns = (self.forward.tensor(np.pad(array, spare)) for array in (row, place))
        true = self.forward.tensor(np.pad(labels[row, place], spare, constant_values=NOT_MASKED))
        lots = self.forward.tensor(np.pad(lot[row, place], spare, constant_values=1.0))
        return _Part(packing, packing.first[rows] + columns, true, lots, len(row))

    def _guesses(self, part: _Part) -> torch.Tensor:
        """Return the generator's logits for a part's masked tokens, (p, vocabulary) float32."""
        with self._arithmetic():
            logits: torch.Tensor = self.generator(part.packing, part.places)
        return logits.float()

    def _replace(self, part: _Part, guesses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw a token for each masked one.

        Returns:
            (flat,) the packing's ids with them, and (tokens,) bool: where another than the true one came in.
        """
        drawn = replaced_token.drawn(guesses, part.lots)[: part.masked]
        places = part.places[: part.masked]
        ids = part.packing.ids.index_copy(0, places, drawn)
        replaced = torch.zeros(part.packing.tokens, dtype=torch.bool, device=ids.device)
        return ids, replaced.index_copy(0, places, drawn != part.true[: part.masked])

    def _logits(self, part: _Part, ids: torch.Tensor) -> torch.Tensor:
        """Return the discriminator's logits for a part's tokens, (tokens,) float32, where they are `ids` (flat,)."""
        with self._arithmetic():
            states = bert.forward(self.forward.module.model, part.packing, ids)
            logits: torch.Tensor = self.head(states)
        return logits.float().split([part.packing.tokens, len(ids) - part.packing.tokens])[0]

    def _ordinary(self, part: _Part) -> torch.Tensor:
        """Return which of a part's tokens are no special ones, (tokens,) bool."""
        special = torch.tensor(self.masking.special_ids, device=part.places.device)
        ordinary = ~torch.isin(part.packing.ids[: part.packing.tokens], special)
        # What was masked was none, and shows [MASK], which is one.
        return ordinary.index_fill(0, part.places[: part.masked], True)

    def _arithmetic(self) -> Any:  # noqa: ANN401 - a context
        return torch.autocast(self.forward.device.type, torch.bfloat16) if self.forward.bf16 else nullcontext()


def _tokens_that_fit(forward: TermForward, generator: Generator, masking: Masking) -> int:
    """Return a guess at how many tokens can be encoded at once: generator and discriminator run in turn."""
    layers = token_bytes(forward.module)
    logits = masking.share * masking.vocabulary * LOGIT_ARRAYS * BYTES
    most = max(layers, token_bytes(generator) + logits)
    return max(MIN_TOKENS, int(tokens_that_fit(forward.module, forward.device) * layers / most))
