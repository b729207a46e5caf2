"""A BERT forward pass without padding, for training on short terms.

Medical terms have about 8 tokens and batches hold some of 20 or more, so a padded batch is mostly padding. Here the
tokens of all rows lie end to end: embeddings, projections and feed-forward layers run on real tokens only, and the word
embedding's gradient is made once a step. Only the attention's small score matrices are padded. The result equals the
module's own forward (tests hold it to 1e-5); models that are neither BERT, RoBERTa nor ELECTRA use their own instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from alphita_lab.encoder.flat_bert import first_position

# Sizes are rounded up to multiples of these. oneDNN keeps what it prepared for each size it has met, and without
# rounding every batch brings new ones, and memory grows for hundreds of steps (docs/results/log.md).
TOKENS, ROWS, LENGTH = 128, 16, 4
# Rows of near lengths attend together; fewer than so many join the next longer ones. A GPU rather pads than starts many
# small kernels.
MIN_ROWS = {"cpu": 16, "cuda": 512}


class _Group:
    """Rows of near lengths, whose tokens lie together, and the padded grid in which they attend.

    Attributes:
        shape: rows and columns of the grid; both with some places without a token.
        slots: (tokens,) place of each token in the grid, row by row.
        blocked: (rows, 1, 1, columns) -inf where a row has no token, else 0.
    """

    def __init__(self, lengths: NDArray[np.int64], device: torch.device) -> None:
        self.tokens = int(lengths.sum())
        self.shape = (_up(len(lengths), ROWS), _up(int(lengths.max()), LENGTH))
        rows = np.repeat(np.arange(len(lengths)), lengths)
        self.slots = torch.from_numpy(rows * self.shape[1] + _positions(lengths)).to(device)
        blocked = np.zeros(self.shape, np.float32)
        # Rows without a term stay open: a softmax over nothing would be NaN.
        blocked[: len(lengths)][np.arange(self.shape[1]) >= lengths[:, None]] = -np.inf
        self.blocked = torch.from_numpy(blocked)[:, None, None, :].to(device)

    def pad(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return this group's `tokens` (n, d) in the grid, (rows, columns, d), zero where no token is."""
        grid = tokens.new_zeros(self.shape[0] * self.shape[1], tokens.shape[1])
        return grid.index_copy(0, self.slots, tokens).view(*self.shape, tokens.shape[1])

    def unpad(self, grid: torch.Tensor) -> torch.Tensor:
        """Return the tokens of `grid` (rows, columns, d) end to end, (tokens, d)."""
        return grid.reshape(-1, grid.shape[-1]).index_select(0, self.slots)


class Packing:
    """Where the tokens of a batch lie: end to end (flat), shortest rows first, with some places without a token at the
    end, so that few different sizes occur; what is computed there is never read.

    Attributes:
        tokens: number of real tokens.
        ids: (flat,) token ids, row after row, then zeros; flat is `tokens` rounded up.
        positions: (flat,) position of each token in its row.
        rows: (tokens,) the row of each token, as the rows were given.
        lengths: (n,) tokens a row, as the rows were given.
        first: (n,) index of each row's first token, as the rows were given.
        groups: the rows that attend together.
    """

    def __init__(
        self, ids: NDArray[np.integer[Any]], lengths: NDArray[np.int64], device: torch.device | str = "cpu"
    ) -> None:
        """Lay out n rows.

        Args:
            lengths: (n,) tokens a row, each 1 or more.
        """
        device = torch.device(device)
        order = np.argsort(lengths, kind="stable")
        starts = np.cumsum(lengths) - lengths
        ordered = lengths[order]
        positions = _positions(ordered)
        self.tokens = len(ids)
        self._given = np.repeat(starts[order], ordered) + positions
        self._spare, self._device = _up(self.tokens, TOKENS) - self.tokens, device
        self.ids = self.lay_out(ids)
        self.positions = torch.from_numpy(np.pad(positions, (0, self._spare))).to(device)
        self.rows = torch.from_numpy(np.repeat(order, ordered)).to(device)
        self.lengths = torch.from_numpy(lengths).to(device)
        first = np.empty_like(starts)
        first[order] = np.cumsum(ordered) - ordered
        self.first = torch.from_numpy(first).to(device)
        ends = _ends(ordered, MIN_ROWS.get(device.type, MIN_ROWS["cuda"]))
        self.groups = [_Group(ordered[row:end], device) for row, end in itertools.pairwise([0, *ends])]

    def lay_out(self, values: NDArray[np.integer[Any]]) -> torch.Tensor:
        """Return a whole number of each token, given as the ids were, where the tokens lie: (flat,) int64, then zeros.

        Args:
            values: (tokens,).
        """
        flat = values[self._given].astype(np.int64)
        return torch.from_numpy(np.pad(flat, (0, self._spare))).to(self._device)


def within(rows: NDArray[np.int64], lengths: NDArray[np.int64], budget: int) -> list[NDArray[np.int64]]:
    """Return rows in parts of at most `budget` tokens; a longer row is a part alone.

    Args:
        rows: (m,) which.
        lengths: (n,) tokens of each row there is.
    """
    parts: list[list[int]] = []
    left = 0
    for row in rows.tolist():
        length = int(lengths[row])
        if not parts or length > left:
            parts.append([])
            left = budget
        parts[-1].append(row)
        left -= length
    return [np.array(part, np.int64) for part in parts]


def _positions(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, ... length - 1 for each of `lengths`, end to end."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)


def _ends(ordered: NDArray[np.int64], least: int) -> list[int]:
    """Return where each group of rows ends, rows being ordered by length: one a width, none but the last too small."""
    widths = -(-ordered // LENGTH)
    ends: list[int] = []
    for end in [*np.flatnonzero(np.diff(widths)) + 1, len(ordered)]:
        if end - (ends[-1] if ends else 0) >= least or end == len(ordered):
            ends.append(int(end))
    return ends


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def forward(
    model: Any,  # noqa: ANN401 - a transformers model
    packing: Packing,
    ids: torch.Tensor | None = None,
    types: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the last hidden state of every place of `packing.ids`, (flat, hidden).

    Args:
        ids: (flat,) other tokens in the places of `packing.ids`.
        types: (flat,) type of each, 1 in the second text of a pair.
    """
    hidden = embed(model.embeddings, packing, ids, types, first=first_position(model))
    # ELECTRA's embeddings may be narrower than its layers.
    project = getattr(model, "embeddings_project", None)
    return through(model.encoder.layer, hidden if project is None else project(hidden), packing)


def embed(
    embeddings: Any,  # noqa: ANN401
    packing: Packing,
    ids: torch.Tensor | None = None,
    types: torch.Tensor | None = None,
    *,
    first: int,
) -> torch.Tensor:
    """Return the embedding of every place, (flat, e): of token, position and type, normalised.

    Args:
        ids: (flat,) other tokens in the places of `packing.ids`.
        types: (flat,) type of each.
    """
    hidden = (
        embeddings.word_embeddings(packing.ids if ids is None else ids)
        + embeddings.position_embeddings(packing.positions + first)
        + (embeddings.token_type_embeddings.weight[0] if types is None else embeddings.token_type_embeddings(types))
    )
    return _drop(embeddings.LayerNorm(hidden), embeddings.dropout)


def through(layers: Iterable[Any], hidden: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the states (flat, hidden) of every place behind a model's `layers`."""
    for layer in layers:
        hidden = _layer(layer, hidden, packing)
    return hidden


def _layer(layer: Any, hidden: torch.Tensor, packing: Packing) -> torch.Tensor:  # noqa: ANN401
    attention, output = layer.attention.self, layer.attention.output
    weight = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
    bias = torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
    mixed = functional.linear(hidden, weight, bias)
    # Split, not sliced: the gradient of a slice is as large as the whole.
    *parts, _ = mixed.split([*(group.tokens for group in packing.groups), len(packing.ids) - packing.tokens])
    contexts = [
        _attend(tokens, group, attention.num_attention_heads, attention.dropout)
        for tokens, group in zip(parts, packing.groups, strict=True)
    ]
    context = functional.pad(torch.cat(contexts), (0, 0, 0, len(packing.ids) - packing.tokens))
    hidden = output.LayerNorm(_drop(output.dense(context), output.dropout) + hidden)
    wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
    return layer.output.LayerNorm(_drop(layer.output.dense(wide), layer.output.dropout) + hidden)


def _attend(mixed: torch.Tensor, group: _Group, heads: int, dropout: torch.nn.Dropout) -> torch.Tensor:
    """Return the attention's context of one group's tokens, (tokens, hidden), from their (tokens, 3 hidden)."""
    # (rows, columns, 3, heads, size) -> three of (rows, heads, columns, size)
    query, key, value = group.pad(mixed).view(*group.shape, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = torch.matmul(query, key.transpose(-1, -2)) * (query.shape[-1] ** -0.5)
    weights = torch.softmax(scores + group.blocked.to(scores.dtype), dim=-1)
    weights = _drop(weights, dropout)
    context = torch.matmul(weights.to(value.dtype), value).transpose(1, 2)
    return group.unpad(context.reshape(*group.shape, -1))


def _drop(states: torch.Tensor, dropout: torch.nn.Dropout) -> torch.Tensor:
    return dropped(states, dropout.p) if dropout.training else states


def dropped(states: torch.Tensor, share: float) -> torch.Tensor:
    """Return the states with a share of them zero at random and the others larger by as much; same shape and type."""
    threshold = round(share * 2**16)
    if states.device.type != "cpu" or threshold in (0, 2**16):
        return functional.dropout(states, share)
    bits = torch.empty(-(-states.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    kept = bits.view(torch.int16)[: states.numel()].view(states.shape) >= threshold - 2**15
    return states * kept.to(states.dtype).mul_(2**16 / (2**16 - threshold))


def mean_pool(flat: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the mean over each row's tokens of `flat` (flat, d), as (n, d)."""
    total = flat.new_zeros(len(packing.lengths), flat.shape[1]).index_add(0, packing.rows, flat[: packing.tokens])
    return total / packing.lengths[:, None]


def cls_pool(flat: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return each row's first token ([CLS]) of `flat` (flat, d), as (n, d)."""
    return flat.index_select(0, packing.first)
