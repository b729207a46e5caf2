"""A BERT forward pass for encoding: no gradients, no padding, weights laid out once for the processor.

The tokens of all rows lie end to end, so embeddings, projections and feed-forward layers run on real tokens only; rows
of one length attend together, and no mask is needed. The query, key and value projections are one matrix. On a CPU,
oneDNN gets the matrices in its own layout: with bf16 that saves the reordering at each call, and in fp32 it is over
twice as fast as torch's default (MKL) on processors that are not Intel's. The result equals the model's own forward;
tests hold it to that.
"""

from __future__ import annotations

from typing import Any

import torch
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
