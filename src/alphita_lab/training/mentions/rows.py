"""What trains on mentions reads: rows of tokens, each a mention of a name in its context, or the name by itself.

A row with a context has the tags [M_s] and [M_e] around its mention; a bare name has none. Names of several concepts do
not train, in context or bare: among the nearest to a mention they would be the first, and no text tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita_lab.training.engine.tokens import TokenTable, tokenize

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder
    from alphita.terminology.store import Terminology
    from alphita_lab.training.mentions.store import Mentions
    from alphita_lab.training.terms.names import TrainingNames

Int64 = NDArray[np.int64]
AT_ONCE = 4096
_CONTEXTS = 34


@dataclass(frozen=True)
class MentionRows:
    """n rows, those with a context first.

    Attributes:
        tokens: the token ids of each, special ones and tags included.
        names: (n,) the name that each mentions, by its number in `TrainingNames`.
        concepts: (n,) the concept of each, by its row in the terminology.
        name_concepts: (all names,) the concept of each name.
        left_out: why -> how many windows or names are no rows.
    """

    tokens: TokenTable
    names: Int64
    concepts: Int64
    name_concepts: Int64
    windows: int
    left_out: dict[str, int]

    def __len__(self) -> int:
        """Return the number of rows."""
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
    order = np.lexsort((luck, owners[kept]))
    ordered = owners[kept][order]
    begins = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else np.empty(0, np.int64)
    turn = np.arange(len(order)) - np.repeat(begins, np.diff(np.r_[begins, len(order)]))
    return np.sort(kept[order[turn < most]])


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
