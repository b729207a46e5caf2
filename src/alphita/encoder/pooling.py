"""From token states to a term vector, as pure functions; one function a choice of `pooling`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

LEGACY_LENGTH = 32
"""Tokens to which the published CODER code pads every name (Yuan et al. 2020, §4.1)."""


def cls(hidden: torch.Tensor) -> torch.Tensor:
    """Return the first token's state, h_[CLS] (Yuan et al. 2022, §3.2).

    Args:
        hidden: (n, length, d) last hidden states.

    Returns:
        (n, d).
    """
    return hidden[:, 0]


def mean(hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Return the mean over the real tokens (Yuan et al. 2022, §3.2).

    Args:
        hidden: (n, length, d) last hidden states.
        mask: (n, length), 1 at tokens and 0 at padding; None where nothing is padded.

    Returns:
        (n, d).
    """
    if mask is None:
        return hidden.mean(1)
    weights = mask.to(hidden.dtype).unsqueeze(-1)
    return (hidden * weights).sum(1) / weights.sum(1).clamp(min=1)


def legacy_coder(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return BERT's pooler output, tanh(W h_[CLS] + b): the term vector of the code released with Yuan et al. 2020.

    Args:
        hidden: (n, 32, d) last hidden states.
        weight: (d, d) of the pooler.
        bias: (d,) of the pooler.

    Returns:
        (n, d).
    """
    return (hidden[:, 0] @ weight.T + bias).tanh()


def legacy_coder_name(name: str) -> str:
    """Return a name as the code of Yuan et al. 2020 reads it: lower case, no " nos ", no "(...)", "-" as a space."""
    text = f" {name.lower()} ".replace(" nos ", " ")
    return " ".join(re.sub(r"\(.*?\)", "", text).replace("-", " ").split())
