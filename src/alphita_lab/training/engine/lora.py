"""LoRA by peft: adapters on all linear layers of an encoder, which are folded into its weights at the end.

Hu et al., ICLR 2022: W becomes W + (alpha / r) B A, where A (r, in) and B (out, r) alone are trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from alphita.errors import InputError, require

# Of the adapters' rank: the customary scale.
ALPHA = 2


def adapt(module: torch.nn.Module, rank: int) -> None:
    """Put adapters of a rank into the transformer of a `TermModule`, in place; nothing else is trained then.

    Raises:
        MissingExtra: peft is not installed.
    """
    peft = require("peft", "lora")
    model: Any = module.model
    linear = [
        name
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Linear) and not name.startswith("pooler")
    ]
    if not linear:
        raise InputError("has no linear layers to adapt", value=type(model).__name__, remedy="set lora_rank=0")
    config = peft.LoraConfig(r=rank, lora_alpha=ALPHA * rank, lora_dropout=0.0, target_modules=linear)
    peft.inject_adapter_in_model(config, model)


def adapters(module: torch.nn.Module) -> dict[str, Any]:
    """Return the adapted layers of a module by name; none where peft was never loaded."""
    return {name: part for name, part in module.named_modules() if hasattr(part, "lora_A") and hasattr(part, "merge")}


@contextmanager
def merged(module: torch.nn.Module) -> Iterator[None]:
    """Let the layers' own weights hold what the adapters add; afterwards they are, bit for bit, what they were."""
    layers = adapters(module).values()
    kept = [layer.get_base_layer().weight.detach().clone() for layer in layers]
    for layer in layers:
        layer.merge()
    try:
        yield
    finally:
        for layer, weight in zip(layers, kept, strict=True):
            layer.unmerge()
            layer.get_base_layer().weight.data.copy_(weight)


def fold(module: torch.nn.Module) -> None:
    """Put plain layers in the adapters' places, with weights that hold what these added."""
    for name, layer in adapters(module).items():
        layer.merge()
        parent, _, own = name.rpartition(".")
        setattr(module.get_submodule(parent), own, layer.get_base_layer())
