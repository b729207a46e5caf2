"""The rows that a run trains on where names may have contexts, and their vectors: see `terms.names` for the names.

A vector is the mean over a mention's tokens, wherever the mention stands. The rows' own tags say where: the mention is
what stands between [M_s] and [M_e]. A row without tags, a name by itself, gets the mean over all its tokens, special
ones included, as the saved encoder gives it. So `TermSteps` runs rows of either kind as it runs names: each encoded
once, in parts where the memory asks for it, with exact gradients.

with tagged(encoder, "x.mentions", split, seed=0) as start:
    run = Run("kge_margin", phase, config, start.encoder)
    names, _ = begin(run, terminology, split)
    rows = start.rows(run, names, terminology, contexts=4, bare=True)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import drafts
from alphita.encoder import layout
from alphita.errors import InputError
from alphita_lab.encoder import packed
from alphita_lab.encoder.injected_bert import InjectedBert, packed_mentions
from alphita_lab.encoder.tags import with_tags
from alphita_lab.training.engine.forward import Rows, TermForward, evaluating
from alphita_lab.training.mentions.rows import MentionRows, mention_rows
from alphita_lab.training.mentions.store import Mentions, check_split

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.engine.tokens import TokenTable
    from alphita_lab.training.terms.names import TrainingNames

Int64 = NDArray[np.int64]


class MentionForward(TermForward):
    """Encodes rows of tokens to the vectors of the mentions in them.

    In an encoder with entities injected, the mention is where they are added.

    Attributes:
        tags: ids of [M_s] and [M_e]; None: no row has any.
    """

    # Tokens encoded at once where no gradient is needed.
    BUDGET: ClassVar[dict[str, int]] = {"cpu": 4096, "cuda": 65_536}

    def __init__(
        self,
        encoder: TermEncoder,
        tags: tuple[int, int] | None,
        *,
        precision: str = "auto",
        dropout: float | None = None,
    ) -> None:
        super().__init__(encoder, precision=precision, dropout=dropout)
        self.tags = tags

    def run(self, rows: Rows) -> torch.Tensor:
        """Return (n, dim) float32 vectors, not normalised to length 1."""
        if self.tags is None:
            return super().run(rows)
        context: Any = torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        mean = self.encoder.pooling == "mean"
        model: Any = self.module.model
        if isinstance(rows, packed.Packing):
            mentioned = _mentioned(rows, self.tags)
            injected = isinstance(model, InjectedBert)
            mentions = packed_mentions(rows, model.outside, mentioned) if injected else None
            with context:
                hidden = self.states(rows, mentions).float()
            return _mean(hidden, rows, mentioned) if mean else packed.cls_pool(hidden, rows)
        ids, mask = rows
        mentioned = within(ids, self.tags)
        mentioned = torch.where(mentioned.any(1, keepdim=True), mentioned, mask.bool())
        with context:
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return layout.mean(hidden, mentioned) if mean else layout.cls(hidden)

    def vectors(self, tokens: TokenTable, rows: Int64) -> NDArray[np.float32]:
        """Return the vectors of some rows, (m, dim) float32, without gradients and dropout.

        Args:
            rows: (m,) which.
        """
        vectors = np.empty((len(rows), self.encoder.dim), np.float32)
        lengths = (tokens.offsets[rows + 1] - tokens.offsets[rows]).astype(np.int64)
        order = np.argsort(lengths, kind="stable")
        budget = self.BUDGET.get(self.device.type, 16_384)
        with evaluating(self.module):
            for places in np.split(order, _cuts(lengths[order], budget)):
                ids, sizes = tokens.rows(rows[places])
                vectors[places] = self.run(self.lay_out(ids, sizes)).cpu().numpy()
        return vectors


def within(ids: torch.Tensor, tags: tuple[int, int]) -> torch.Tensor:
    """Return which tokens stand between [M_s] and [M_e], both left out."""
    start, end = ids == tags[0], ids == tags[1]
    return ((start.cumsum(-1) - end.cumsum(-1)) > 0) & ~start


def _mentioned(packing: packed.Packing, tags: tuple[int, int]) -> torch.Tensor:
    """Return which tokens belong to their row's mention, (tokens,) bool: all, in a row without tags."""
    # The tokens of a row lie together, and a row has both tags or none.
    mentioned = within(packing.ids[: packing.tokens], tags)
    tagged = torch.zeros_like(packing.lengths).index_add(0, packing.rows, mentioned.long()) > 0
    return mentioned | ~tagged[packing.rows]


def _mean(flat: torch.Tensor, packing: packed.Packing, mentioned: torch.Tensor) -> torch.Tensor:
    """Return (n, d): the mean over each row's tokens that are `mentioned` (tokens,), of `flat` (flat, d)."""
    share = mentioned.to(flat.dtype)
    counts = share.new_zeros(len(packing.lengths)).index_add(0, packing.rows, share)
    total = flat.new_zeros(len(packing.lengths), flat.shape[1])
    return total.index_add(0, packing.rows, flat[: packing.tokens] * share[:, None]) / counts[:, None]


def _cuts(lengths: Int64, budget: int) -> list[int]:
    """Return where to cut rows, shortest first, so that the tokens of each piece, padded, stay within `budget`."""
    cuts, start = [], 0
    for place, length in enumerate(lengths.tolist()):
        if place > start and (place - start + 1) * length > budget:
            cuts.append(place)
            start = place
    return cuts


@dataclass(frozen=True)
class MentionStart:
    """An encoder that knows the tags around a mention in its context.

    Attributes:
        tags: ids of [M_s] and [M_e] in it; None where no row has a context.
        mentions: the contexts; None: names train without.
    """

    encoder: str
    tags: tuple[int, int] | None = None
    mentions: Mentions | None = None

    def rows(
        self, run: Run, names: TrainingNames, terminology: Terminology, *, contexts: int, bare: bool
    ) -> tuple[MentionRows, MentionForward]:
        """Return what trains, and what gives the vector of a row's mention, with gradients."""
        config = run.config
        run.forward = forward = MentionForward(
            run.encoder, self.tags, precision=config.precision, dropout=config.dropout
        )
        rows = mention_rows(
            names,
            run.encoder,
            terminology,
            self.mentions,
            tags=self.tags,
            contexts=contexts,
            bare=bare,
            seed=config.seed,
        )
        if self.mentions is not None:
            run.facts["mentions"] = self.mentions.content_hash
            _check_length(rows, run.encoder, self.mentions)
        for reason, count in rows.left_out.items():
            if count:
                run.say(f"left out: {count:,} {reason}")
        return rows, forward


@contextmanager
def tagged(encoder: str, mentions: str, split: Split | None, *, seed: int) -> Iterator[MentionStart]:
    """Open mentions and give the encoder their tags, in a folder that is there until the end."""
    if not mentions:
        yield MentionStart(encoder)
        return
    opened = Mentions.load(mentions)
    check_split(opened, split)
    with drafts.scratch() as folder:
        start = with_tags(encoder, folder, seed=seed)
        if opened.manifest["tokenizer_hash"] not in start.tokenizer_hashes:
            raise InputError(
                "its tokens are of another tokenizer than the encoder's",
                file=mentions,
                remedy=f"make it again with this encoder: alphita mentions CORPUS --encoder {encoder}",
            )
        yield MentionStart(start.encoder, start.ids, opened)


def _check_length(rows: MentionRows, encoder: TermEncoder, mentions: Mentions) -> None:
    longest = int((rows.tokens.offsets[1:] - rows.tokens.offsets[:-1]).max())
    if layout.read(encoder.folder, max_length=longest)[1].max_length < longest:
        raise InputError(
            f"its longest window has {longest} tokens, more than the encoder has positions for",
            file=mentions.path,
            remedy="make it again with a smaller --window",
        )
