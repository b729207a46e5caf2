"""TransE with corrupted tails (CODER's first version: Yuan, Zhao and Yu, arXiv:2011.02947v1, §3.2, task 2).

    L_TransE = max(0, m + |h + r - t| - |h + r - t'|),   | | the L2 norm; here averaged over the triples

h and t are term vectors as the encoder gives them, not scaled to length 1; r is a vector of its own for each relation;
t' is the vector of a corrupted tail. Only tails are corrupted, for encoding is what costs (§3.2).
"""

from __future__ import annotations

import torch


class RelationVectors(torch.nn.Module):
    """A vector r for each relation label.

    They start as independent standard normal numbers. The paper does not say; the released code does so. With it the
    first distances are near the square root of the dimension, 28 for 768: the very number that Yuan et al. (2022,
    appendix A.5) give as lambda of their TransE-like similarity.
    """

    def __init__(self, relations: int, dim: int) -> None:
        """Draw the start.

        Args:
            relations: number of relation labels, R, 1 or more.
            dim: length of a term vector, d.

        Raises:
            ValueError: a size below 1.
        """
        super().__init__()
        if min(relations, dim) < 1:
            raise ValueError(f"relations and dim must be 1 or more, not {relations} and {dim}")
        self.vectors = torch.nn.Parameter(torch.randn(relations, dim))

    def forward(self, relation: torch.Tensor) -> torch.Tensor:
        """Return the vectors of relation labels (k,), as (k, d)."""
        return torch.nn.functional.embedding(relation, self.vectors)


def transe_margin(
    head: torch.Tensor,
    relation: torch.Tensor,
    tail: torch.Tensor,
    corrupted: torch.Tensor,
    vectors: RelationVectors,
    *,
    margin: float = 1.0,
) -> torch.Tensor:
    """Return L_TransE, the mean over k triples.

    Args:
        head: (k, d) term vectors of the heads, k 1 or more.
        relation: (k,) relation labels.
        tail: (k, d) term vectors of the tails.
        corrupted: (k, d) term vectors of the corrupted tails.
        vectors: r of each relation.
        margin: m, by how much a corrupted tail should be further away, above 0.

    Returns:
        A scalar, float32 (float64 if given so).

    Raises:
        ValueError: the margin is not above 0, the shapes differ, or there is no triple.
    """
    if margin <= 0:
        raise ValueError(f"margin must be above 0, not {margin}")
    if not (len(head) and head.shape == tail.shape == corrupted.shape and len(relation) == len(head)):
        shapes = [tuple(tensor.shape) for tensor in (head, relation, tail, corrupted)]
        raise ValueError(f"head, tail and corrupted must have one shape (k, d), relation (k,), not empty; got {shapes}")
    with torch.autocast(head.device.type, enabled=False):
        moved = exact(head) + vectors(relation)
        near = torch.linalg.vector_norm(moved - exact(tail), dim=1)
        far = torch.linalg.vector_norm(moved - exact(corrupted), dim=1)
        return torch.relu(margin + near - far).mean()


def exact(e: torch.Tensor) -> torch.Tensor:
    """Return `e` in float32, or as it is in float64."""
    return e if e.dtype == torch.float64 else e.float()
