"""Rows of tokens, each a mention of a name in its context or the name by itself, and their vectors.

The mention lies between the tags [M_s] and [M_e]; a name by itself has none. Names of several concepts do not train.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import drafts
from alphita.encoder import layout
from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita_lab.encoder import bert
from alphita_lab.encoder.injected_bert import InjectedBert, packed_mentions
from alphita_lab.encoder.vocabulary import with_tags
from alphita_lab.training.engine.forward import Rows, TermForward, TokenTable, evaluating, tokenize
from alphita_lab.training.mentions.building import rank_in_group
from alphita_lab.training.mentions.store import Mentions, check_split

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology
    from alphita_lab.training.engine.run import Run
    from alphita_lab.training.terms.names import TrainingNames

Int64 = NDArray[np.int64]
AT_ONCE = 4096
_CONTEXTS = 34


@dataclass(frozen=True)
class MentionRows:
    """n rows, those with a context first."""

    tokens: TokenTable  # the token ids of each, special ones and tags included
    names: Int64  # (n,) the name that each mentions, by its number in `TrainingNames`
    concepts: Int64  # (n,) the concept of each, by its row in the terminology
    name_concepts: Int64  # (all names,) the concept of each name
    windows: int
    left_out: dict[str, int]  # why -> how many windows or names are no rows

    def __len__(self) -> int:
        return len(self.names)

    def describe(self) -> str:
        """Return a line on how many they are."""
        bare = len(self) - self.windows
        return f"mentions: {self.windows:,} in context, {bare:,} names by themselves"


def mention_rows(
    names: TrainingNames,
    encoder: TermEncoder,
    terminology: Terminology,
    mentions: Mentions | None = None,
    *,
    tags: tuple[int, int] | None = None,
    contexts: int = 4,
    bare: bool = True,
    seed: int = 0,
) -> MentionRows:
    """Collect the rows."""
    numbers = names.string_numbers()
    name_concepts = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
    homonym = np.bincount(numbers)[numbers] > 1
    left_out = {"names of several concepts": int(homonym.sum())}
    tables: list[TokenTable] = []
    tokens_of_rows: list[Int64] = []
    if mentions is not None and contexts > 0:
        assert tags is not None, "windows need tags"
        owners, reasons = _owners(names, homonym, name_concepts, terminology, mentions)
        chosen = _some(owners, contexts, seed)
        if not len(chosen):
            raise InputError(
                f"none of its {len(owners):,} windows is of a name that trains: {reasons}",
                file=mentions.path,
                remedy="make it of this terminology: alphita mentions CORPUS -t X.terminology",
            )
        left_out |= reasons
        tables.append(_tokens_of_windows(mentions, chosen, tags))
        tokens_of_rows.append(owners[chosen])
    windows = sum(map(len, tokens_of_rows))
    if bare or not windows:
        alone = np.flatnonzero(~homonym)
        table = tokenize(encoder, [names.strings[name] for name in alone.tolist()])
        tables.append(table)
        tokens_of_rows.append(alone)
    owner = np.concatenate(tokens_of_rows)
    concepts = name_concepts[owner]
    if np.bincount(concepts, minlength=1).max() < 2:
        raise InputError(
            "no concept has two names or contexts to train on, so there are no positives",
            file=terminology.path,
            remedy="import the terminology with its synonyms, or give contexts: alphita mentions, --set mentions=...",
        )
    return MentionRows(_joined(tables), owner, concepts, name_concepts, windows, left_out)


def _owners(
    names: TrainingNames, homonym: NDArray[np.bool_], name_concepts: Int64, terminology: Terminology, mentions: Mentions
) -> tuple[Int64, dict[str, int]]:
    """Return the name that each window mentions, -1 where it does not train, and why how many do not."""
    number = {
        (string, concept): name
        for name, (string, concept) in enumerate(zip(names.strings, name_concepts.tolist(), strict=True))
    }
    strings = clean_many(mentions.strings.to_pylist())
    rows = mentions.rows_in(terminology)[mentions.form_concept].tolist()
    of_form = np.array([number.get(key, -1) for key in zip(strings, rows, strict=True)], np.int64)
    several = np.diff(mentions.form_offsets) > 1
    several |= homonym[of_form] & (of_form >= 0)
    dev = np.isin(np.array(strings, dtype=object).astype(str), np.array(names.dev_strings, dtype=str))
    forms = mentions.windows.forms
    # The windows in which a dev synonym stands anywhere.
    offsets = mentions.windows.mention_offsets
    near_dev = np.zeros(len(forms), bool)
    if dev.any():
        met = np.concatenate([[0], np.cumsum(dev[np.asarray(mentions.windows.mentions[:, 2])])])
        near_dev = met[offsets[1:]] > met[offsets[:-1]]
    untrained = (of_form < 0) & ~several
    reasons = {
        "windows of names of several concepts": int(several[forms].sum()),
        "windows of names that do not train": int(untrained[forms].sum()),
        "windows with a dev synonym": int((near_dev & ~several[forms] & ~untrained[forms]).sum()),
    }
    of_window = np.where(several | untrained, -1, of_form)[forms]
    return np.where(near_dev, -1, of_window), reasons


def _some(owners: Int64, most: int, seed: int) -> Int64:
    """Return at most `most` windows of each name, ascending; none of those of no name."""
    kept = np.flatnonzero(owners >= 0)
    luck = np.random.default_rng([seed, _CONTEXTS]).random(len(kept))
    return kept[rank_in_group(owners[kept], luck) < most]


def _tokens_of_windows(mentions: Mentions, rows: Int64, tags: tuple[int, int]) -> TokenTable:
    ids, lengths = [], []
    for start in range(0, len(rows), AT_ONCE):
        batch = mentions.windows.batch(rows[start : start + AT_ONCE], tags=tags)
        ids.append(batch.input_ids[batch.attention_mask.astype(bool)].astype(np.int32))
        lengths.append(batch.attention_mask.sum(1))
    offsets = np.cumsum(np.concatenate([np.zeros(1, np.int64), *lengths]))
    return TokenTable(np.concatenate([*ids, np.empty(0, np.int32)]), offsets)


def _joined(tables: Sequence[TokenTable]) -> TokenTable:
    if len(tables) == 1:
        return tables[0]
    before = np.cumsum([0, *(len(table.ids) for table in tables)])
    offsets = [table.offsets[1:] + start for table, start in zip(tables, before, strict=False)]
    ids = np.concatenate([np.asarray(table.ids) for table in tables])
    return TokenTable(ids, np.concatenate([np.zeros(1, np.int64), *offsets]))


class MentionForward(TermForward):
    """Encodes rows of tokens to the vectors of the mentions in them.

    In an encoder with entities injected, the mention is where they are added.
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
        self.tags = tags  # ids of [M_s] and [M_e]; None: no row has any

    def run(self, rows: Rows) -> torch.Tensor:
        """Return (n, dim) float32 vectors, not normalised to length 1."""
        if self.tags is None:
            return super().run(rows)
        mean = self.encoder.pooling == "mean"
        model: Any = self.module.model
        if isinstance(rows, bert.Packing):
            mentioned = _mentioned(rows, self.tags)
            injected = isinstance(model, InjectedBert)
            mentions = packed_mentions(rows, model.outside, mentioned) if injected else None
            with self.arithmetic():
                hidden = self.states(rows, mentions).float()
            return _mean(hidden, rows, mentioned) if mean else bert.cls_pool(hidden, rows)
        ids, mask = rows
        mentioned = within(ids, self.tags)
        mentioned = torch.where(mentioned.any(1, keepdim=True), mentioned, mask.bool())
        with self.arithmetic():
            hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        return layout.mean(hidden, mentioned) if mean else layout.cls(hidden)

    def vectors(self, tokens: TokenTable, rows: Int64) -> NDArray[np.float32]:
        """Return the vectors of some rows, (m, dim) float32, without gradients and dropout; rows: (m,) which."""
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


def _mentioned(packing: bert.Packing, tags: tuple[int, int]) -> torch.Tensor:
    """Return which tokens belong to their row's mention, (tokens,) bool: all, in a row without tags."""
    # The tokens of a row lie together, and a row has both tags or none.
    mentioned = within(packing.ids[: packing.tokens], tags)
    tagged = torch.zeros_like(packing.lengths).index_add(0, packing.rows, mentioned.long()) > 0
    return mentioned | ~tagged[packing.rows]


def _mean(flat: torch.Tensor, packing: bert.Packing, mentioned: torch.Tensor) -> torch.Tensor:
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
    """An encoder that knows the tags around a mention in its context."""

    encoder: str
    tags: tuple[int, int] | None = None  # ids of [M_s] and [M_e] in it; None where no row has a context
    mentions: Mentions | None = None  # the contexts; None: names train without

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
