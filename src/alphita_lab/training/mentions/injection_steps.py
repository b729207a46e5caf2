"""Steps of training with injected entities: masked sequences in, L_MLM + L_EL out.

Of each batch of sequences some tokens are masked, and the mentions that hold one whole; one forward pass gives the
states of which the masked tokens are guessed, and the mentions in the graph's space, which are linked, masked or not.
The order of the sequences and the masking follow from the seed and the batch's number alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from alphita_lab.encoder import packed
from alphita_lab.objectives.entity_linking import entity_linking, masked_language_model
from alphita_lab.training.engine import memory
from alphita_lab.training.engine.part_steps import PartSteps
from alphita_lab.training.engine.ranks import Ranks
from alphita_lab.training.text.entity_masking import NOT_MASKED, Masking, mask_by_token

if TYPE_CHECKING:
    from alphita_lab.encoder.injected_bert import InjectedBert
    from alphita_lab.training.mentions.injection_data import LinkedMentions
    from alphita_lab.training.mentions.store import MentionBatch, TokenSets
    from alphita_lab.training.text.masked_steps import SequenceBatches

Int64 = NDArray[np.int64]
MASKED = 31
"""The stream of random numbers that masks."""


@dataclass(frozen=True)
class MaskedSequences:
    """Sequences side by side.

    Attributes:
        input_ids: (b, t) int64, masked.
        attention_mask: (b, t) int64, 0 where padded.
        mentions: (m, 3) int64 rows [sequence, start, end).
        gold: (m,) int64 the entity of each, or -1.
        labels: (b, t) int64 the true token where it is to be guessed, else NOT_MASKED.
    """

    input_ids: Int64
    attention_mask: Int64
    mentions: Int64
    gold: Int64
    labels: Int64

    def some(self, rows: Int64) -> MaskedSequences:
        """Return some of them, (k,) rows ascending, as long as the longest of these."""
        length = int(self.attention_mask[rows].sum(1).max())
        inside = np.isin(self.mentions[:, 0], rows)
        mentions = self.mentions[inside].copy()
        mentions[:, 0] = np.searchsorted(rows, mentions[:, 0])
        ids, mask, labels = (array[rows, :length] for array in (self.input_ids, self.attention_mask, self.labels))
        return MaskedSequences(ids, mask, mentions, self.gold[inside], labels)


def mask_sequences(
    sequences: TokenSets, rows: Int64, gold: Int64, masking: Masking, random: np.random.Generator
) -> MaskedSequences:
    """Put sequences side by side and mask them, mentions whole.

    Args:
        rows: (b,) which.
        gold: (f,) the entity of each form, or -1.
    """
    batch = sequences.batch(rows)
    shown, labels = mask_by_token(batch.input_ids, apart(batch.mentions[:, :3]), masking, random)
    return MaskedSequences(shown, batch.attention_mask, batch.mentions[:, :3], gold[batch.mentions[:, 3]], labels)


def apart(spans: Int64) -> Int64:
    """Return spans, (m, 3) rows [sequence, start, end), with those that share a token made one."""
    spans_apart: list[list[int]] = []
    for row, start, end in spans[np.lexsort((spans[:, 1], spans[:, 0]))].tolist():
        if spans_apart and spans_apart[-1][0] == row and start < spans_apart[-1][2]:
            spans_apart[-1][2] = max(spans_apart[-1][2], end)
        else:
            spans_apart.append([row, start, end])
    return np.array(spans_apart, np.int64).reshape(-1, 3)


@dataclass(frozen=True)
class _Part:
    """Sequences that are encoded at once.

    Attributes:
        packing: where their tokens lie.
        mentions: (m, 3) rows [sequence, start, end).
        gold: (m,) the entity of each, or -1.
        places: (p,) where the tokens to be guessed lie.
        true: (p,) what they are.
    """

    packing: packed.Packing
    mentions: torch.Tensor
    gold: torch.Tensor
    places: torch.Tensor
    true: torch.Tensor


@dataclass(frozen=True)
class _Ready:
    """This process' share of a batch, as the device takes it.

    Attributes:
        parts: of sequences that are encoded at once.
        guessed, linked: tokens to be guessed and mentions with gold in the whole batch, 1 at least.
    """

    parts: list[_Part]
    guessed: int
    linked: int
    mentions: int
    tokens: int


class InjectionSteps(PartSteps[_Ready]):
    """Runs micro-batches of sequences with mentions; see `PartSteps`.

    A batch of more tokens than fit the memory goes in parts; the gradients are those of the whole (but for dropout, of
    which each part has its own draws), for both losses are sums over tokens and mentions, divided by their numbers in
    the whole batch. Nothing is padded.

    They return "loss"; "language", L_MLM; "linking", L_EL; "linked", the share of mentions whose nearest entity is the
    gold one; and "rows", the number of mentions.
    """

    def __init__(
        self,
        injected: InjectedBert,
        head: torch.nn.Module,
        data: LinkedMentions,
        batches: SequenceBatches,
        masking: Masking,
        *,
        seed: int,
        linking: Literal["mean", "sum"] = "mean",
        bf16: bool = False,
        tokens_at_once: int = 0,
        ranks: Ranks | None = None,
    ) -> None:
        """Prepare.

        Args:
            head: (p, hidden) states -> (p, v) scores over the vocabulary.
        """
        self.injected, self.head, self.data, self.batches, self.masking = injected, head, data, batches, masking
        self.seed, self.linking, self.bf16, self.ranks = seed, linking, bf16, ranks or Ranks()
        self.device = injected.device
        self.tokens_at_once = tokens_at_once or memory.tokens_that_fit(injected, self.device)

    def draw(self, number: int) -> MaskedSequences:
        """Return batch `number`."""
        random = np.random.default_rng([self.seed, MASKED, number])
        rows = self._rows(number)
        return mask_sequences(self.data.mentions.sequences, rows, self.data.gold, self.masking, random)

    def names(self, number: int) -> list[str]:
        """Return the names that batch `number` mentions."""
        batch = self.data.mentions.sequences.batch(self._rows(number))
        return [self.data.mentions.strings[form].as_py() for form in dict.fromkeys(batch.mentions[:, 3].tolist())]

    def sizes(self, number: int) -> dict[str, float]:
        """Return how many sequences, mentions and tokens batch `number` has."""
        batch = self.draw(number)
        tokens = int(batch.attention_mask.sum())
        return {"sequences": len(batch.input_ids), "mentions": len(batch.mentions), "tokens": tokens}

    def _run(self, ready: _Ready, number: int, share: float) -> dict[str, torch.Tensor]:
        own: dict[str, torch.Tensor] = {}
        for place, part in enumerate(ready.parts):
            # One seed a part: dropout is the same whether or not the run was resumed.
            state = np.random.SeedSequence([self.seed, number, self.ranks.rank, place]).generate_state(1)
            torch.manual_seed(int(state[0]))
            scalars = self._losses(part, ready)
            # The processes' gradients are averaged in the end, and each has only its own part of the sum.
            (scalars["loss"] * share * self.ranks.size).backward()
            for name, value in scalars.items():
                own[name] = own[name] + value.detach() if name in own else value.detach()
        return self._of_all(own) | {"rows": torch.tensor(float(ready.mentions))}

    def _remedy(self, ready: _Ready) -> str:
        return (
            f"out of memory with {ready.tokens:,} tokens encoded at once; go on with --resume --set "
            f"tokens_at_once={max(1, ready.tokens // 2)}: slower, with the same gradients but for dropout's draws"
        )

    def _rows(self, number: int) -> Int64:
        return self.batches.batch(number).terms.astype(np.int64)

    def _losses(self, part: _Part, ready: _Ready) -> dict[str, torch.Tensor]:
        """Return what a part adds to the batch's scalars; equation (6)."""
        context: Any = torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        with context:
            output = self.injected.packed(part.packing, part.mentions)
            scores = self.head(output.last_hidden_state.index_select(0, part.places))
        language = masked_language_model(scores, part.true) * (len(part.true) / ready.guessed)
        linking = entity_linking(output.projected, part.gold, self.injected.injection.entities, total=True)
        if self.linking == "mean":
            linking = linking / ready.linked
        linked = (output.candidates[:, 0] == part.gold).sum() / ready.linked
        return {"loss": language + linking, "language": language, "linking": linking, "linked": linked}

    def _of_all(self, own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the sum of every process' scalars."""
        names = ("loss", "language", "linking", "linked")
        zero = torch.zeros((), device=self.device)
        values = torch.stack([own.get(name, zero).float() for name in names])
        every = self.ranks.gather(values[None], [np.array([rank]) for rank in range(self.ranks.size)])
        return dict(zip(names, every.sum(0), strict=True))

    def _make(self, number: int) -> _Ready:
        batch = self.draw(number)
        lengths = batch.attention_mask.sum(1)
        own = self.ranks.share(lengths)[self.ranks.rank]
        parts = [self._part(batch.some(np.sort(rows))) for rows in packed.within(own, lengths, self.tokens_at_once)]
        return _Ready(
            parts,
            max(1, int((batch.labels != NOT_MASKED).sum())),
            max(1, int((batch.gold >= 0).sum())),
            len(batch.mentions),
            max((part.packing.tokens for part in parts), default=0),
        )

    def _part(self, batch: MaskedSequences) -> _Part:
        packing = _packing(batch, self.device)
        labels = packing.lay_out(batch.labels[batch.attention_mask > 0])[: packing.tokens]
        places = (labels != NOT_MASKED).nonzero()[:, 0]
        mentions, gold = (torch.from_numpy(array).to(self.device) for array in (batch.mentions, batch.gold))
        return _Part(packing, mentions, gold, places, labels[places])


def _packing(batch: MaskedSequences | MentionBatch, device: torch.device) -> packed.Packing:
    real = batch.attention_mask > 0
    return packed.Packing(batch.input_ids[real], real.sum(1), device)


def linking_accuracy(
    injected: InjectedBert, data: LinkedMentions, rows: Int64, *, batch: int, bf16: bool = False
) -> dict[str, float]:
    """Return the share of the linked mentions of some sequences, unmasked, whose nearest entity is the gold one."""
    injected.eval()
    right = total = 0
    context: Any = torch.autocast(injected.device.type, torch.bfloat16) if bf16 else nullcontext()
    with torch.no_grad(), context:
        for some in _blocks(rows, batch):
            one = data.mentions.sequences.batch(some)
            spans = torch.from_numpy(one.mentions[:, :3].copy()).to(injected.device)
            nearest = injected.packed(_packing(one, injected.device), spans).candidates[:, 0].cpu().numpy()
            gold = data.gold[one.mentions[:, 3]]
            right, total = right + int((nearest == gold).sum()), total + int((gold >= 0).sum())
    return {"dev_linking_acc1": right / max(1, total)}


def _blocks(rows: Int64, size: int) -> Iterator[Int64]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
