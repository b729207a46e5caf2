"""Semantic type classification (CODER's first version: Yuan, Zhao and Yu, arXiv:2011.02947v1, §5, "STY").

    y_hat_i = softmax(W e_i + b),   L_sty = - sum_i y_i log y_hat_i; here the mean over the terms that have a type

A concept may have several types, of which the paper does not speak (its released code keeps one): y_i is then shared
evenly over them. Terms of concepts without a type do not count.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from alphita_lab.objectives.multi_similarity import exact


class SemanticTypeHead(torch.nn.Module):
    """W and b: a linear layer from term vectors to semantic types."""

    def __init__(self, dim: int, types: int) -> None:
        """Start as torch's linear layers do.

        Args:
            dim: length of a term vector, d.
            types: number of semantic types, T, 1 or more.
        """
        super().__init__()
        self.linear = torch.nn.Linear(dim, types)

    def forward(self, e: torch.Tensor) -> torch.Tensor:
        """Return W e + b of the vectors `e` (n, d), as (n, T)."""
        logits: torch.Tensor = self.linear(e)
        return logits


def semantic_type(e: torch.Tensor, types: torch.Tensor, head: SemanticTypeHead) -> torch.Tensor:
    """Return L_sty.

    Args:
        e: (n, d) term vectors.
        types: (n, T) bool, the types of each term's concept; a row may be empty.
        head: W and b.

    Returns:
        A scalar, the mean over the terms with a type; 0 if there is none.
    """
    with torch.autocast(e.device.type, enabled=False):
        log_share = functional.log_softmax(head(exact(e)), dim=1)
        counts = types.sum(1)
        # Each type's part of y_i, and of the mean; nothing for terms without a type.
        weights = types.to(log_share.dtype) / counts.clamp_min(1)[:, None] / (counts > 0).sum().clamp_min(1)
        return -(weights * log_share).sum()
