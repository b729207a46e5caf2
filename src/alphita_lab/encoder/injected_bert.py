"""A BERT with entities injected after one of its layers: forward pass and folder.

A term by itself is a mention: all its tokens but the special ones.

The folder of such a model holds what any other does, with the injection's weights and the entities in
model.safetensors. Its model_type is its own, for whoever read the folder as a plain BERT would get other vectors:
`TermEncoder.load` opens it, other libraries refuse.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from alphita import textio
from alphita.encoder.layout import INJECTED
from alphita.encoder.term_tokenizer import Batch
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita_lab.encoder import flat_bert, packed
from alphita_lab.encoder.injection import BLOCK, Injection, Linked, check_mentions, greatest, term_mentions


class InjectedBert(torch.nn.Module):
    """A BERT with an `Injection` after one of its layers; takes what a transformers model takes, and mentions.

    Attributes:
        injection: the step between.
        layer: i, the layer after which it stands, from 1.
        outside: ids of tokens that belong to no mention where a term is its own: [CLS], [SEP], tags.
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
        else:
            check_mentions(mentions, input_ids, attention_mask)
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
        self, packing: packed.Packing, mentions: torch.Tensor | None = None, types: torch.Tensor | None = None
    ) -> Linked:
        """Return states and links of rows whose tokens lie end to end; what `forward` returns, without padding.

        Args:
            mentions: (m, 3) int64 rows [row, start, end), rows as they were given.
            types: (flat,) type of each place.
        """
        if mentions is None:
            mentions = packed_mentions(packing, self.outside)
        else:
            check_packed(mentions, packing)
        model: Any = self.model
        layers = list(model.encoder.layer)
        hidden = packed.embed(model.embeddings, packing, types=types, first=flat_bert.first_position(model))
        hidden = packed.through(layers[: self.layer], hidden, packing)
        # To the injection all rows are one.
        first = packing.first[mentions[:, 0]]
        places = torch.stack([torch.zeros_like(first), first + mentions[:, 1], first + mentions[:, 2]], 1)
        linked: Linked = self.injection(hidden[None], places)
        hidden = packed.through(layers[self.layer :], linked.last_hidden_state[0], packing)
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
        self.bert = flat_bert.FlatBert(injected.model, dtype)
        self.injection, self.layer, self.outside = injected.injection, injected.layer, injected.outside
        with torch.inference_mode():
            parts = self.injection.entities.float().split(BLOCK)
            self.entities = [flat_bert.Linear(part, part.new_zeros(len(part))) for part in parts]

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Return the last hidden state of every token, (tokens, hidden)."""
        hidden, layers = self.bert.embed(batch), self.bert.layers
        for layer in layers[: self.layer]:
            hidden = layer(hidden, batch.runs)
        # To the injection all rows are one.
        hidden = self.injection(hidden[None], self._mentions(batch), self._search).last_hidden_state[0]
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

    def _search(self, projected: torch.Tensor) -> torch.Tensor:
        if projected.device.type == "cpu":
            more = flat_bert.few_sizes(len(projected)) - len(projected)
            padded = torch.cat([projected, projected.new_zeros(more, projected.shape[1])])
        else:
            padded = projected
        return greatest((part(padded)[: len(projected)] for part in self.entities), self.injection.nearest)


def packs(model: torch.nn.Module) -> bool:
    """Tell whether `packed_states` computes what the forward pass of `model` does: of a BERT, injected or not."""
    return flat_bert.runs(model) or isinstance(model, InjectedBert)


def packed_states(
    model: torch.nn.Module,
    packing: packed.Packing,
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
    return packed.forward(model, packing, types=types)


def packed_mentions(
    packing: packed.Packing, outside: Sequence[int], inside: torch.Tensor | None = None
) -> torch.Tensor:
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


def check_packed(mentions: torch.Tensor, packing: packed.Packing) -> None:
    """Check that mentions (m, 3) lie within the rows of `packing`."""
    row, start, end = mentions.unbind(1)
    wrong = (row < 0) | (row >= len(packing.lengths)) | (start < 0) | (start >= end)
    wrong |= end > packing.lengths[row.clamp(0, len(packing.lengths) - 1)]
    if wrong.any():
        number = int(wrong.nonzero()[0])
        raise ValueError(f"mention {number}, {mentions[number].tolist()}, does not lie within the tokens of its row")


def check_layer(model: torch.nn.Module, layer: int) -> None:
    """Check that knowledge can be injected after layer `layer` of `model`."""
    if layer < 1:
        raise UsageError(f"layer must be 1 or more, the layer after which entities are added, not {layer}")
    if not flat_bert.supports(model):
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
