"""How an encoder becomes one with entities injected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita.encoder.encoder import TermEncoder
from alphita.encoder.injected_bert import InjectedBert, check_layer
from alphita.encoder.injection import NEAREST, Injection
from alphita.errors import InputError


def inject(
    encoder: TermEncoder,
    entities: torch.Tensor | NDArray[np.floating[Any]],
    *,
    layer: int,
    nearest: int = NEAREST,
    outside: Sequence[int] = (),
) -> InjectedBert:
    """Put an `Injection` into `encoder`, in place, and return its model, to be trained.

    Args:
        encoder: runs on torch.
        entities: (E, d) vectors of the graph. In float16 they take half the room, in memory and in the saved model;
            all others become float32, as they are when the model is loaded.
        layer: the layer after which entities are added, from 1.
        nearest: entities among which a mention is shared out.
        outside: ids of tokens that belong to no mention, beside those that the tokenizer puts round every term.

    Raises:
        InputError: the encoder is neither BERT nor RoBERTa, has no such layer or is injected already; or the vectors
            cannot be used.
        UsageError: `layer` or `nearest` is out of range.
    """
    module = encoder.module
    model: Any = module.model
    if isinstance(model, InjectedBert):
        raise InputError("the encoder has entities injected already", file=encoder.folder, remedy="give a plain one")
    check_layer(model, layer)
    vectors = torch.from_numpy(np.array(entities)) if isinstance(entities, np.ndarray) else entities
    if vectors.dtype != torch.float16:
        vectors = vectors.float()
    injection = Injection(vectors, model.config.hidden_size, nearest=nearest, eps=model.config.layer_norm_eps)
    injection.follow(model.encoder.layer[layer - 1].output.LayerNorm)
    special = sorted({*encoder.tokenize([""])[0], *outside})
    injected = InjectedBert(model, injection.to(model.device), layer=layer, outside=special)
    module.model = injected.train(module.training)
    return injected
