"""Gradients of a step's modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def gradients_of(modules: Mapping[str, torch.nn.Module]) -> dict[str, torch.Tensor]:
    """Return copies of the gradients that there are, each by its module's name and its own."""
    return {
        f"{name}.{key}": value.grad.clone()
        for name, module in modules.items()
        for key, value in module.named_parameters()
        if value.grad is not None
    }


def stepped(
    steps: Any, modules: Mapping[str, torch.nn.Module], number: int, share: float = 1.0
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """Return the scalars and the gradients of one micro-batch by itself."""
    for module in modules.values():
        module.zero_grad()
    steps.start(number, number + 1)
    scalars = {name: float(value) for name, value in steps(number, share).items()}
    steps.stop()
    return scalars, gradients_of(modules)
