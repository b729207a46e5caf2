"""Averages of weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch


def copy_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return a copy of the module's weights."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def mix_in(module: torch.nn.Module, other: Mapping[str, torch.Tensor], share: float) -> None:
    """Replace each weight w by (1 - share) w + share other (WiSE-FT: Wortsman et al., CVPR 2022, eq. 1).

    Args:
        module: changed in place.
        other: weights of the same names and shapes.
        share: of the other weights, 0 to 1.
    """
    with torch.no_grad():
        for name, value in module.state_dict().items():
            if value.is_floating_point():
                value.mul_(1 - share).add_(other[name].to(value.device), alpha=share)
