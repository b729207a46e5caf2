"""A BERT with entities of a knowledge graph injected after one of its layers (the Italian system, "KGE-injected").

After layer i, for each mention m of the sequence:

    h_m      = mean over the mention's tokens of their states
    h_m_proj = W h_m + b                                      to the graph's space
    a        = softmax over the n entities with the greatest h_m_proj . e_j
    e_m      = sum_j a_j e_j                                  (4)
    state   += W' e_m + b'                                    of every token of the mention

Then one layer norm and the layers after i. The method follows KeBioLM (Yuan et al., BioNLP 2021), with frozen e_j.
Its model_type is its own: whoever read the folder as a plain BERT would get other vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from alphita import textio
from alphita.encoder.layout import INJECTED
from alphita.encoder.term_tokenizer import Batch
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita_lab.encoder import bert

Search = Callable[[torch.Tensor], torch.Tensor]

NEAREST = 100
"""Entities among which a mention is shared out. The paper gives no number; KeBioLM's code has 100."""
BLOCK = 16_384
"""Entities compared at once."""
SPREAD = 0.02


class Linked(NamedTuple):
    """What the encoder says of a batch."""

    last_hidden_state: torch.Tensor  # (rows, length, hidden) states after the last layer
    projected: torch.Tensor  # (m, d) mentions in the graph's space, float32 at least: what the linking loss takes
    candidates: torch.Tensor  # (m, n) int64, the rows of the nearest entities, nearest first
    logits: torch.Tensor  # (m, n) their similarities, h_m_proj . e_j; a softmax turns them into the shares a


class Injection(torch.nn.Module):
    """The step between two layers: link mentions, add their entities, normalise."""

    entities: torch.Tensor  # (E, d) frozen: a buffer, no parameter

    def __init__(self, entities: torch.Tensor, hidden: int, *, nearest: int = NEAREST, eps: float = 1e-12) -> None:
        """Take `entities`: (E, d) float32 or float16, copied."""
        super().__init__()
        if entities.dim() != 2 or not entities.numel():
            raise InputError("entity vectors must be (entities, numbers), neither 0", value=tuple(entities.shape))
        if not torch.isfinite(entities).all():
            row = int((~torch.isfinite(entities).all(1)).nonzero()[0])
            raise InputError("an entity vector is not finite", field="row", value=row, remedy="train the graph again")
        if not 1 <= nearest <= len(entities):
            raise UsageError(f"nearest must be from 1 to {len(entities)}, the number of entities, not {nearest}")
        self.nearest = nearest  # n, the entities among which a mention is shared out
        self.register_buffer("entities", entities.detach().clone())
        self.down = torch.nn.Linear(hidden, entities.shape[1])
        self.up = torch.nn.Linear(entities.shape[1], hidden)
        self.norm = torch.nn.LayerNorm(hidden, eps=eps)
        for layer in (self.down, self.up):
            torch.nn.init.normal_(layer.weight, std=SPREAD)
            torch.nn.init.zeros_(layer.bias)

    def follow(self, norm: torch.nn.LayerNorm) -> None:
        """Start the layer norm so that it changes states that come from `norm` as little as it can."""
        with torch.no_grad():
            variance = norm.weight.square().mean() + norm.bias.var(correction=0)
            self.norm.weight.fill_(float(variance.sqrt()))
            self.norm.bias.fill_(float(norm.bias.mean()))

    def search(self, projected: torch.Tensor) -> torch.Tensor:
        """Return the rows of the entities nearest to mentions (m, d) in the graph's space, (m, n), nearest first."""
        return nearest_entities(projected, self.entities, self.nearest)

    def forward(self, hidden: torch.Tensor, mentions: torch.Tensor, search: Search | None = None) -> Linked:
        """Return the states with the entities added and normalised, and what was linked.

        Args:
            hidden: (rows, length, hidden) states after layer i.
            mentions: (m, 3) int64 rows [sequence, start, end), within `hidden`.
            search: (m, d) mentions in the graph's space -> (m, n) rows of the nearest entities, nearest first.
        """
        with torch.autocast(hidden.device.type, enabled=False):
            states = hidden if hidden.dtype == torch.float64 else hidden.float()
            flat = states.flatten(0, 1)
            places, owner = tokens_of(mentions, hidden.shape[1])
            sizes = (mentions[:, 2] - mentions[:, 1]).to(flat.dtype)
            sums = flat.new_zeros(len(mentions), flat.shape[1]).index_add(0, owner, flat[places])
            projected = _linear(self.down, sums / sizes[:, None])
            candidates = (search or self.search)(projected)
            chosen = self.entities[candidates].to(flat.dtype)
            logits = torch.einsum("md,mnd->mn", projected, chosen)
            combined = torch.einsum("mn,mnd->md", logits.softmax(1), chosen)
            flat = flat.index_add(0, places, _linear(self.up, combined)[owner])
            weight, bias = self.norm.weight.to(flat.dtype), self.norm.bias.to(flat.dtype)
            flat = functional.layer_norm(flat, self.norm.normalized_shape, weight, bias, self.norm.eps)
            return Linked(flat.view(hidden.shape).to(hidden.dtype), projected, candidates, logits)


def _linear(layer: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
    """Return `layer` of `x`, in the precision of `x` and not of the weights."""
    return functional.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))


def tokens_of(mentions: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the tokens of all mentions, (t,) places in the flat batch, and the mention of each, (t,).

    Args:
        mentions: (m, 3) int64 rows [sequence, start, end).
    """
    row, start, end = mentions.unbind(1)
    sizes = end - start
    owner = torch.repeat_interleave(torch.arange(len(mentions), device=mentions.device), sizes)
    within = torch.arange(len(owner), device=mentions.device) - (sizes.cumsum(0) - sizes)[owner]
    return (row * length + start)[owner] + within, owner


def nearest_entities(queries: torch.Tensor, entities: torch.Tensor, n: int, *, block: int = BLOCK) -> torch.Tensor:
    """Return the rows of the `n` entities with the greatest inner products, (m, n) int64, greatest first: exact.

    queries: (m, d); entities: (E, d), E at least `n`.
    """
    with torch.no_grad():
        parts = (entities[first : first + block] for first in range(0, len(entities), block))
        return greatest((queries @ part.to(queries.dtype).T for part in parts), n)


def greatest(blocks: Iterable[torch.Tensor], n: int) -> torch.Tensor:
    """Return the columns of the `n` greatest numbers of each row, (m, n) int64, greatest first.

    Args:
        blocks: (m, b) each: matrices side by side, of `n` columns at least together.
    """
    best = columns = torch.empty(0)
    first = 0
    for block in blocks:
        if first == 0:
            best, columns = block.topk(min(n, block.shape[1]), 1)
        elif best.shape[1] < n:
            found, place = block.topk(min(n, block.shape[1]), 1)
            best, columns = _merged(best, columns, found, place + first, n)
        else:
            # Few are above the least that is kept, and to find these is quicker than to sort.
            row, place = (block > best[:, -1:]).nonzero(as_tuple=True)
            counts = torch.bincount(row, minlength=len(block))
            width = int(counts.max()) if len(row) else 0
            if width:
                within = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
                found = block.new_full((len(block), width), -torch.inf)
                places = torch.zeros_like(found, dtype=torch.int64)
                found[row, within], places[row, within] = block[row, place], place + first
                best, columns = _merged(best, columns, found, places, n)
        first += block.shape[1]
    return columns


def _merged(
    best: torch.Tensor, columns: torch.Tensor, found: torch.Tensor, places: torch.Tensor, n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `n` greatest of two sets of numbers a row, and their columns."""
    best, order = torch.cat([best, found], 1).topk(min(n, best.shape[1] + found.shape[1]), 1)
    return best, torch.cat([columns, places], 1).gather(1, order)


def term_mentions(input_ids: torch.Tensor, attention_mask: torch.Tensor | None, outside: Sequence[int]) -> torch.Tensor:
    """Return the mentions of rows that are terms by themselves, (m, 3): from the first ordinary token to the last.

    input_ids: (rows, length) token ids; attention_mask: (rows, length), or None where nothing is padded.
    """
    ordinary = ~torch.isin(input_ids, torch.tensor(outside, dtype=input_ids.dtype, device=input_ids.device))
    if attention_mask is not None:
        ordinary &= attention_mask.bool()
    row = ordinary.any(1).nonzero()[:, 0]
    number = ordinary[row].to(torch.int64)
    start, behind = number.argmax(1), number.flip(1).argmax(1)
    return torch.stack([row, start, input_ids.shape[1] - behind], 1)


class InjectedBert(torch.nn.Module):
    """A BERT with an `Injection` after one of its layers; takes what a transformers model takes, and mentions.

    `injection`: the step between; `layer`: i, the layer after which it stands, from 1; `outside`: ids of tokens that
    belong to no mention where a term is its own: [CLS], [SEP], tags.
    """

    def __init__(self, model: torch.nn.Module, injection: Injection, *, layer: int, outside: Sequence[int]) -> None:
        super().__init__()
        self.model, self.injection, self.layer, self.outside = model, injection, layer, tuple(outside)
        check_layer(model, layer)
        self.model.pooler = None  # type: ignore[assignment]

    @property
    def config(self) -> Any:  # noqa: ANN401 - a transformers config
        """The config of the BERT inside."""
        return self.model.config

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.injection.entities.device

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        mentions: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
    ) -> Linked:
        """Return states and links.

        Args:
            input_ids: (rows, length) token ids.
            attention_mask: (rows, length), 1 at tokens and 0 at padding.
            mentions: (m, 3) int64 rows [sequence, start, end).
            token_type_ids: (rows, length) of the parts of a pair.
        """
        from transformers.masking_utils import create_bidirectional_mask

        if mentions is None:
            mentions = term_mentions(input_ids, attention_mask, self.outside)
        model: Any = self.model
        hidden = model.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)
        mask = create_bidirectional_mask(config=model.config, inputs_embeds=hidden, attention_mask=attention_mask)
        layers = list(model.encoder.layer)
        for layer in layers[: self.layer]:
            hidden = layer(hidden, mask)
        linked: Linked = self.injection(hidden, mentions)
        hidden = linked.last_hidden_state
        for layer in layers[self.layer :]:
            hidden = layer(hidden, mask)
        return linked._replace(last_hidden_state=hidden)

    def packed(
        self, packing: bert.Packing, mentions: torch.Tensor | None = None, types: torch.Tensor | None = None
    ) -> Linked:
        """Return states and links of rows whose tokens lie end to end; what `forward` returns, without padding.

        mentions: (m, 3) int64 rows [row, start, end), rows as they were given; types: (flat,) type of each place.
        """
        if mentions is None:
            mentions = packed_mentions(packing, self.outside)
        model: Any = self.model
        layers = list(model.encoder.layer)
        hidden = bert.embed(model.embeddings, packing, types=types, first=bert.first_position(model))
        hidden = bert.through(layers[: self.layer], hidden, packing)
        # To the injection all rows are one.
        first = packing.first[mentions[:, 0]]
        places = torch.stack([torch.zeros_like(first), first + mentions[:, 1], first + mentions[:, 2]], 1)
        linked: Linked = self.injection(hidden[None], places)
        hidden = bert.through(layers[self.layer :], linked.last_hidden_state[0], packing)
        return linked._replace(last_hidden_state=hidden)

    def save_pretrained(self, folder: Path | str) -> None:
        """Write config.json and model.safetensors, entities included."""
        from safetensors.torch import save_file

        config = self.config.to_dict()
        entities = self.injection.entities
        config |= {
            "architectures": [type(self).__name__],
            "model_type": INJECTED + self.config.model_type,
            "kge_injection": {
                "layer": self.layer,
                "nearest": self.injection.nearest,
                "outside": list(self.outside),
                "entities": list(entities.shape),
                "eps": self.injection.norm.eps,
                "half": entities.dtype == torch.float16,
            },
        }
        text = json.dumps(config, indent=1, sort_keys=True, default=str) + "\n"
        (Path(folder) / "config.json").write_text(text, encoding="utf-8")
        state = {name: value.detach().cpu().contiguous() for name, value in self.state_dict().items()}
        save_file(state, Path(folder) / "model.safetensors", metadata={"format": "pt"})


class FlatInjectedBert:
    """An `InjectedBert` laid out for encoding terms, each a mention by itself; see `flat_bert`."""

    def __init__(self, injected: InjectedBert, dtype: torch.dtype) -> None:
        self.bert = bert.FlatBert(injected.model, dtype)
        self.injection, self.layer, self.outside = injected.injection, injected.layer, injected.outside
        with torch.inference_mode():
            parts = self.injection.entities.float().split(BLOCK)
            self.entities = [bert.Linear(part, part.new_zeros(len(part))) for part in parts]

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the last hidden state of every token, (tokens, hidden)."""
        hidden, layers = self.bert.embed(batch), self.bert.layers
        for layer in layers[: self.layer]:
            hidden = layer(hidden, batch.runs)
        # To the injection all rows are one.
        hidden = self.injection(hidden[None], self._mentions(batch), self._nearest).last_hidden_state[0]
        for layer in layers[self.layer :]:
            hidden = layer(hidden, batch.runs)
        return hidden[: len(batch.ids)]

    def _mentions(self, batch: Batch) -> torch.Tensor:
        found, first = [], 0
        ids = torch.from_numpy(batch.ids).to(self.injection.entities.device)
        for rows, length in batch.runs:
            behind = first + rows * length
            mentions = term_mentions(ids[first:behind].view(rows, length), None, self.outside)
            start = first + mentions[:, 0] * length
            found.append(torch.stack([torch.zeros_like(start), start + mentions[:, 1], start + mentions[:, 2]], 1))
            first = behind
        return torch.cat(found)

    def _nearest(self, projected: torch.Tensor) -> torch.Tensor:
        more = bert.few_sizes(len(projected)) - len(projected) if projected.device.type == "cpu" else 0
        padded = torch.cat([projected, projected.new_zeros(more, projected.shape[1])])
        return greatest((part(padded)[: len(projected)] for part in self.entities), self.injection.nearest)


def packs(model: torch.nn.Module) -> bool:
    """Tell whether `packed_states` computes what the forward pass of `model` does: of a BERT, injected or not."""
    return bert.runs(model) or isinstance(model, InjectedBert)


def packed_states(
    model: torch.nn.Module,
    packing: bert.Packing,
    *,
    mentions: torch.Tensor | None = None,
    types: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the last state of every place of `packing.ids`, (flat, hidden), of a model that `packs`.

    Args:
        types: (flat,) type of each place.
    """
    if isinstance(model, InjectedBert):
        return model.packed(packing, mentions, types).last_hidden_state
    return bert.forward(model, packing, types=types)


def packed_mentions(packing: bert.Packing, outside: Sequence[int], inside: torch.Tensor | None = None) -> torch.Tensor:
    """Return the mentions of rows that are terms by themselves, (m, 3) rows [row, start, end); see `term_mentions`.

    Args:
        inside: (tokens,) bool, the tokens that may belong to a mention.
    """
    ids = packing.ids[: packing.tokens]
    ordinary = ~torch.isin(ids, torch.tensor(outside, dtype=ids.dtype, device=ids.device))
    if inside is not None:
        ordinary &= inside
    places = ordinary.nonzero()[:, 0]
    rows = packing.rows[places]
    start = packing.first.new_full(packing.first.shape, packing.tokens).scatter_reduce(0, rows, places, "amin")
    last = packing.first.new_full(packing.first.shape, -1).scatter_reduce(0, rows, places, "amax")
    row = (last >= 0).nonzero()[:, 0]
    first = packing.first[row]
    return torch.stack([row, start[row] - first, last[row] + 1 - first], 1)


def check_layer(model: torch.nn.Module, layer: int) -> None:
    """Check that knowledge can be injected after layer `layer` of `model`."""
    if layer < 1:
        raise UsageError(f"layer must be 1 or more, the layer after which entities are added, not {layer}")
    if not bert.supports(model):
        kind = type(model).__name__
        raise InputError("entities can be injected into BERT and RoBERTa encoders only", value=kind)
    layers = len(model.encoder.layer)  # type: ignore[union-attr, arg-type]
    if layer > layers:
        raise InputError("the encoder has no such layer", field="layer", value=layer, remedy=f"give one up to {layers}")


def load(folder: Path) -> InjectedBert:
    """Return the model that `InjectedBert.save_pretrained` wrote into `folder`."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    transformers = require("transformers", "train")
    file, weights = folder / "config.json", folder / "model.safetensors"
    remedy = "train the model again, or fetch it again"
    try:
        facts = textio.json_file(file)
        own = facts.pop("kge_injection")
        config = transformers.AutoConfig.for_model(facts.pop("model_type").removeprefix(INJECTED), **facts)
        model = transformers.AutoModel.from_config(config, add_pooling_layer=False)
        vectors = torch.zeros(own["entities"], dtype=torch.float16 if own["half"] else torch.float32)
        injection = Injection(vectors, config.hidden_size, nearest=own["nearest"], eps=own["eps"])
        injected = InjectedBert(model.float(), injection, layer=own["layer"], outside=own["outside"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, AlphitaError, RuntimeError) as error:
        raise InputError(f"is not the config of an injected model: {error!r:.200}", file=file, remedy=remedy) from error
    try:
        injected.load_state_dict(load_file(weights))
    except (OSError, SafetensorError, RuntimeError) as error:
        problem = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"the weights cannot be loaded: {problem}", file=weights, remedy=remedy) from error
    return injected
