"""Products of complex vectors whose real parts stand before the imaginary ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def times(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product number by number, (b, 2d), of two (b, 2d)."""
    import torch

    a, b = one.chunk(2, dim=-1)
    c, d = other.chunk(2, dim=-1)
    return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


def times_conjugate(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the product of `one` and the conjugate of `other`, (b, 2d)."""
    import torch

    a, b = one.chunk(2, dim=-1)
    c, d = other.chunk(2, dim=-1)
    return torch.cat([a * c + b * d, b * c - a * d], dim=-1)
