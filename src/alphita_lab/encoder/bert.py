"""BERT forward passes without padding: `FlatBert` for encoding, `Packing` and `forward` with gradients for training.

The tokens of all rows lie end to end. Tests hold both to the model's own forward pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from alphita.encoder.term_tokenizer import Batch

SUPPORTED = ("BertModel", "RobertaModel", "XLMRobertaModel", "CamembertModel")
FROM_ZERO = ("BertModel", "ElectraModel")


def supports(model: torch.nn.Module) -> bool:
    """Tell whether `model` is a plain BERT or RoBERTa, whose embeddings are as wide as its layers."""
    return type(model).__name__ in SUPPORTED and _plain(model)


def runs(model: torch.nn.Module) -> bool:
    """Tell whether `FlatBert` and `packed.forward` compute what `model`'s own forward does: ELECTRA's as well."""
    return type(model).__name__ in (*SUPPORTED, "ElectraModel") and _plain(model)


def first_position(model: Any) -> int:  # noqa: ANN401 - a transformers model
    """Return the position of a row's first token: RoBERTa's positions start behind the padding token's."""
    return 0 if type(model).__name__ in FROM_ZERO else int(model.config.pad_token_id) + 1


def _plain(model: torch.nn.Module) -> bool:
    config = getattr(model, "config", None)
    absolute = getattr(config, "position_embedding_type", "absolute") in (None, "absolute")
    return absolute and not getattr(config, "is_decoder", False)


def few_sizes(count: int) -> int:
    """Return the next of eight sizes between two powers of two, at most an eighth above `count`."""
    unit = 1 << max(0, count.bit_length() - 4)
    return -(-count // unit) * unit


class Linear:
    """x W^T + b, on a CPU by oneDNN with the matrix in its layout, where torch can."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, *, gelu: bool = False) -> None:
        self.weight, self.bias, self.gelu = weight, bias, gelu
        self.packed: torch.Tensor | None = None
        if weight.device.type == "cpu" and torch.backends.mkldnn.is_available():
            try:
                self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, 2048)
                self(weight.new_zeros(1, weight.shape[1]))
            except (AttributeError, RuntimeError):  # the operators are private: another torch may lack them
                self.packed = None
        if self.packed is not None:
            self.weight = weight[:0]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, out) of x (n, in)."""
        if self.packed is None:
            y = functional.linear(x, self.weight, self.bias)
            return functional.gelu(y) if self.gelu else y
        name, kind = ("gelu", "none") if self.gelu else ("none", "")
        result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, name, [], kind)
        return result


class LayerNorm:
    """Layer normalisation with its weights in one precision."""

    def __init__(self, norm: Any, dtype: torch.dtype) -> None:  # noqa: ANN401 - torch.nn.LayerNorm
        self.weight, self.bias, self.eps = norm.weight.to(dtype), norm.bias.to(dtype), norm.eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return (n, d) of x (n, d)."""
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class FlatBert:
    """A BERT (or RoBERTa, or ELECTRA) with its weights laid out for encoding in one precision."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:  # noqa: ANN401 - a transformers model
        config, embeddings = model.config, model.embeddings
        self.heads: int = config.num_attention_heads
        first = first_position(model)
        with torch.inference_mode():
            positions = embeddings.position_embeddings.weight[first:] + embeddings.token_type_embeddings.weight[0]
            self.words, self.positions = embeddings.word_embeddings.weight.to(dtype), positions.to(dtype)
            self.norm = LayerNorm(embeddings.LayerNorm, dtype)
            # ELECTRA's embeddings may be narrower than its layers.
            project = getattr(model, "embeddings_project", None)
            self.project = None if project is None else Linear(project.weight.to(dtype), project.bias.to(dtype))
            self.layers = [_Layer(layer, self.heads, dtype) for layer in model.encoder.layer]

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the last hidden state of every token, (tokens, hidden)."""
        hidden = self.embed(batch)
        for layer in self.layers:
            hidden = layer(hidden, batch.runs)
        return hidden[: len(batch.ids)]

    def embed(self, batch: Batch) -> torch.Tensor:
        """Return the states before the first layer, (tokens, hidden), on a CPU with rows behind that fill the size."""
        device = self.words.device
        tokens = len(batch.ids)
        places = torch.cat([torch.arange(length, device=device).repeat(rows) for rows, length in batch.runs])
        hidden = self.words[torch.from_numpy(batch.ids).to(device)] + self.positions[places]
        if device.type == "cpu" and (more := few_sizes(tokens) - tokens):
            hidden = torch.cat([hidden, hidden.new_zeros(more, hidden.shape[1])])
        hidden = self.norm(hidden)
        if self.project is not None:
            hidden = self.project(hidden)
        return hidden


class _Layer:
    def __init__(self, layer: Any, heads: int, dtype: torch.dtype) -> None:  # noqa: ANN401
        attention, after = layer.attention.self, layer.attention.output
        parts = (attention.query, attention.key, attention.value)
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        # The softmax's scale goes into the query's projection.
        size = weight.shape[0] // 3
        scale = torch.ones(3 * size, device=weight.device)
        scale[:size] = (size // heads) ** -0.5
        self.heads = heads
        self.mix = Linear((weight * scale[:, None]).to(dtype), (bias * scale).to(dtype))
        self.out = Linear(after.dense.weight.to(dtype), after.dense.bias.to(dtype))
        self.out_norm = LayerNorm(after.LayerNorm, dtype)
        self.activation = layer.intermediate.intermediate_act_fn
        gelu = type(self.activation).__name__ == "GELUActivation"
        wide, narrow = layer.intermediate.dense, layer.output.dense
        self.wide = Linear(wide.weight.to(dtype), wide.bias.to(dtype), gelu=gelu)
        self.narrow = Linear(narrow.weight.to(dtype), narrow.bias.to(dtype))
        self.norm = LayerNorm(layer.output.LayerNorm, dtype)

    def __call__(self, hidden: torch.Tensor, runs: list[tuple[int, int]]) -> torch.Tensor:
        mixed = self.mix(hidden)
        context = torch.empty_like(hidden)
        start = 0
        for rows, length in runs:
            stop = start + rows * length
            context[start:stop] = _attend(mixed[start:stop], rows, length, self.heads)
            start = stop
        # Behind the rows lies what fills the size up; what memory held before could be infinite.
        context[start:] = 0
        hidden = self.out_norm(self.out(context).add_(hidden))
        wide = self.wide(hidden)
        if not self.wide.gelu:
            wide = self.activation(wide)
        return self.norm(self.narrow(wide).add_(hidden))


def _attend(mixed: torch.Tensor, rows: int, length: int, heads: int) -> torch.Tensor:
    """Return (rows * length, d) attention outputs of projections (rows * length, 3 d), the queries already scaled."""
    parts = mixed.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
    if mixed.device.type == "cpu" and mixed.dtype == torch.bfloat16:
        # torch's fused attention takes 2 to 4 times as long in bf16 on rows as short as terms.
        padded = few_sizes(rows)
        copied = parts.new_empty(3, padded, *parts.shape[2:])
        copied[:, :rows], copied[:, rows:] = parts, 0
        query, key, value = copied.view(3, padded * heads, length, -1)
        context = torch.bmm(torch.bmm(query, key.transpose(1, 2)).softmax(-1), value)
        context = context.view(padded, heads, length, -1)[:rows]
    else:
        context = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], scale=1.0)
    return context.transpose(1, 2).reshape(rows * length, -1)


def pool(hidden: torch.Tensor, runs: list[tuple[int, int]], *, mean: bool) -> torch.Tensor:
    """Return (rows, d) float32: each row's mean, or its first token, of `hidden` (tokens, d)."""
    parts, start = [], 0
    for rows, length in runs:
        states = hidden[start : start + rows * length].view(rows, length, -1)
        parts.append(states.float().mean(1) if mean else states[:, 0].float())
        start += rows * length
    return torch.cat(parts)


# Sizes are rounded up to multiples of these. oneDNN keeps what it prepared for each size it has met, and without
# rounding every batch brings new ones, and memory grows for hundreds of steps (docs/results/log.md).
TOKENS, ROWS, LENGTH = 128, 16, 4
# Rows of near lengths attend together; fewer than so many join the next longer ones. A GPU rather pads than starts many
# small kernels.
MIN_ROWS = {"cpu": 16, "cuda": 512}


class _Group:
    """Rows of near lengths, whose tokens lie together, and the padded grid in which they attend."""

    def __init__(self, lengths: NDArray[np.int64], device: torch.device) -> None:
        self.tokens = int(lengths.sum())
        self.shape = (_up(len(lengths), ROWS), _up(int(lengths.max()), LENGTH))  # rows and columns of the grid
        rows = np.repeat(np.arange(len(lengths)), lengths)
        # (tokens,) place of each token in the grid, row by row.
        self.slots = torch.from_numpy(rows * self.shape[1] + _positions(lengths)).to(device)
        blocked = np.zeros(self.shape, np.float32)
        # Rows without a term stay open: a softmax over nothing would be NaN.
        blocked[: len(lengths)][np.arange(self.shape[1]) >= lengths[:, None]] = -np.inf
        # (rows, 1, 1, columns) -inf where a row has no token, else 0.
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
    """

    def __init__(
        self, ids: NDArray[np.integer[Any]], lengths: NDArray[np.int64], device: torch.device | str = "cpu"
    ) -> None:
        """Take `lengths`: (n,) tokens a row, each 1 or more."""
        device = torch.device(device)
        order = np.argsort(lengths, kind="stable")
        starts = np.cumsum(lengths) - lengths
        ordered = lengths[order]
        positions = _positions(ordered)
        self.tokens = len(ids)  # number of real tokens
        self._given = np.repeat(starts[order], ordered) + positions
        self._spare, self._device = _up(self.tokens, TOKENS) - self.tokens, device
        self.ids = self.lay_out(ids)  # (flat,) token ids, row after row, then zeros; flat is `tokens` rounded up
        # (flat,) position of each token in its row.
        self.positions = torch.from_numpy(np.pad(positions, (0, self._spare))).to(device)
        # (tokens,) the row of each token, as the rows were given.
        self.rows = torch.from_numpy(np.repeat(order, ordered)).to(device)
        self.lengths = torch.from_numpy(lengths).to(device)  # (n,) tokens a row, as the rows were given
        first = np.empty_like(starts)
        first[order] = np.cumsum(ordered) - ordered
        self.first = torch.from_numpy(first).to(device)  # (n,) index of each row's first token, as the rows were given
        ends = _ends(ordered, MIN_ROWS.get(device.type, MIN_ROWS["cuda"]))
        # The rows that attend together.
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

    rows: (m,) which; lengths: (n,) tokens of each row there is.
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

    ids: (flat,) other tokens in the places of `packing.ids`; types: (flat,) type of each.
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
        hidden = _through_layer(layer, hidden, packing)
    return hidden


def _through_layer(layer: Any, hidden: torch.Tensor, packing: Packing) -> torch.Tensor:  # noqa: ANN401
    attention, output = layer.attention.self, layer.attention.output
    weight = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight])
    bias = torch.cat([attention.query.bias, attention.key.bias, attention.value.bias])
    mixed = functional.linear(hidden, weight, bias)
    # Split, not sliced: the gradient of a slice is as large as the whole.
    *parts, _ = mixed.split([*(group.tokens for group in packing.groups), len(packing.ids) - packing.tokens])
    contexts = [
        _attend_group(tokens, group, attention.num_attention_heads, attention.dropout)
        for tokens, group in zip(parts, packing.groups, strict=True)
    ]
    context = functional.pad(torch.cat(contexts), (0, 0, 0, len(packing.ids) - packing.tokens))
    hidden = output.LayerNorm(_drop(output.dense(context), output.dropout) + hidden)
    wide = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(hidden))
    return layer.output.LayerNorm(_drop(layer.output.dense(wide), layer.output.dropout) + hidden)


def _attend_group(mixed: torch.Tensor, group: _Group, heads: int, dropout: torch.nn.Dropout) -> torch.Tensor:
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
