"""A BERT forward pass without padding, for training on short terms.

Medical terms have about 8 tokens and batches hold some of 20 or more, so a padded batch is mostly padding. Here the
tokens of all rows lie end to end: embeddings, projections and feed-forward layers run on real tokens only, and the word
embedding's gradient is made once a step. Only the attention's small score matrices are padded. The result equals the
module's own forward (tests hold it to 1e-5); models that are not plain BERT use their own forward instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from transformers import BertModel


def supports(model: torch.nn.Module) -> bool:
    """Tell whether `forward` computes what `model`'s own forward does: plain BERT with absolute positions."""
    config = getattr(model, "config", None)
    return (
        type(model).__name__ == "BertModel"
        and getattr(config, "position_embedding_type", "absolute") in (None, "absolute")
        and not getattr(config, "is_decoder", False)
    )


# Sizes are rounded up to multiples of these. oneDNN keeps what it prepared for each size it has met, and without
# rounding every batch brings new ones, and memory grows for hundreds of steps (docs/log.md).
TOKENS, ROWS, LENGTH = 128, 16, 4


class Packing:
    """Where the tokens of a batch lie: end to end (flat), and in a padded grid for attention.

    Both have some places without a token at their end, so that few different sizes occur; what is computed there is
    never read.

    Attributes:
        tokens: number of real tokens.
        ids: (flat,) token ids, row after row, then zeros; flat is `tokens` rounded up.
        positions: (flat,) position of each token in its row.
        rows: (tokens,) row of each token.
        lengths: (n,) tokens a row.
        first: (n,) index of each row's first token.
        shape: rows and columns of the grid.
    """

    def __init__(self, token_lists: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> None:
        """Lay out `token_lists`, n non-empty rows of token ids."""
        lengths = torch.tensor([len(row) for row in token_lists], dtype=torch.long)
        self.tokens = int(lengths.sum())
        self.lengths = lengths.to(device)
        self.first = (torch.cumsum(lengths, 0) - lengths).to(device)
        self.shape = (_up(len(token_lists), ROWS), _up(int(lengths.max()), LENGTH))
        spare = _up(self.tokens, TOKENS) - self.tokens
        flat_ids = [token for row in token_lists for token in row]
        self.ids = torch.tensor(flat_ids + [0] * spare, dtype=torch.long, device=device)
        self.rows = torch.repeat_interleave(torch.arange(len(token_lists), device=device), self.lengths)
        positions = torch.arange(self.tokens, device=device) - self.first[self.rows]
        self.slots = self.rows * self.shape[1] + positions
        self.positions = functional.pad(positions, (0, spare))
        self.padding = torch.zeros(self.shape, dtype=torch.bool, device=device)
        columns = torch.arange(self.shape[1], device=device)[None, :]
        # Rows without a term stay open: a softmax over nothing would be NaN.
        self.padding[: len(token_lists)] = columns >= self.lengths[:, None]

    def pad(self, flat: torch.Tensor) -> torch.Tensor:
        """Return `flat` (flat, d) in the grid, (rows, columns, d), zero where no token is."""
        grid = flat.new_zeros(self.shape[0] * self.shape[1], flat.shape[1])
        return grid.index_copy(0, self.slots, flat[: self.tokens]).view(*self.shape, flat.shape[1])

    def unpad(self, grid: torch.Tensor) -> torch.Tensor:
        """Return the tokens of `grid` (rows, columns, d) end to end, (flat, d)."""
        tokens = grid.reshape(-1, grid.shape[-1]).index_select(0, self.slots)
        return functional.pad(tokens, (0, 0, 0, len(self.ids) - self.tokens))


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def forward(model: BertModel, packing: Packing) -> torch.Tensor:
    """Return the last hidden state of every place of `packing.ids`, (flat, hidden).

    Dropout follows the model's training mode and probabilities.
    """
    embeddings = model.embeddings
    hidden = (
        embeddings.word_embeddings(packing.ids)
        + embeddings.position_embeddings(packing.positions)
        + embeddings.token_type_embeddings.weight[0]
    )
    hidden = embeddings.dropout(embeddings.LayerNorm(hidden))
    blocked = torch.zeros(packing.shape[0], 1, 1, packing.shape[1], device=hidden.device)
    blocked.masked_fill_(packing.padding[:, None, None, :], float("-inf"))
    for layer in model.encoder.layer:
        hidden = _layer(layer, hidden, packing, blocked)
    return hidden


def _layer(layer: Any, hidden: torch.Tensor, packing: Packing, blocked: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
    attention, output = layer.attention.self, layer.attention.output
    heads = attention.num_attention_heads
    weight = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
    bias = torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
    mixed = packing.pad(functional.linear(hidden, weight, bias))
    # (n, longest, 3, heads, size) -> three of (n, heads, longest, size)
    query, key, value = mixed.view(*packing.shape, 3, heads, -1).permute(2, 0, 3, 1, 4)
    scores = torch.matmul(query, key.transpose(-1, -2)) * (query.shape[-1] ** -0.5)
    weights = torch.softmax(scores + blocked.to(scores.dtype), dim=-1)
    weights = functional.dropout(weights, attention.dropout.p, layer.training)
    context = torch.matmul(weights.to(value.dtype), value).transpose(1, 2).reshape(*packing.shape, -1)
    hidden = output.LayerNorm(output.dropout(output.dense(packing.unpad(context))) + hidden)
    wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
    return layer.output.LayerNorm(layer.output.dropout(layer.output.dense(wide)) + hidden)


def mean_pool(flat: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return the mean over each row's tokens of `flat` (flat, d), as (n, d)."""
    total = flat.new_zeros(len(packing.lengths), flat.shape[1]).index_add(0, packing.rows, flat[: packing.tokens])
    return total / packing.lengths[:, None]


def cls_pool(flat: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Return each row's first token ([CLS]) of `flat` (flat, d), as (n, d)."""
    return flat.index_select(0, packing.first)
