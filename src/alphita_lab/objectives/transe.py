"""TransE with corrupted tails (CODER's first version: Yuan, Zhao and Yu, arXiv:2011.02947v1, §3.2, task 2).

    L_TransE = max(0, m + |h + r - t| - |h + r - t'|),   | | the L2 norm; here averaged over the triples

h and t are term vectors as the encoder gives them, not scaled to length 1; r is a vector of its own for each relation;
t' is the vector of a corrupted tail. Only tails are corrupted, for encoding is what costs (§3.2).

And the TransE-like term-relation-term similarity of CODER's ablation (Yuan et al. 2022, §5.1, appendix A.5).

    S_rel_ij = -|e_i + r_i - e_j|,   1 <= i <= k heads, k + 1 <= j <= 2k tails
    L_MS_rel = the MS loss of S_rel and tau_rel, averaged over the k heads, as in `term_relation_term`

alpha 0.2, beta 5, eps 0.1. The appendix prints lambda as 28. The similarity is minus a distance that starts near 28,
and with lambda = +28 every negative pair would enter as exp(5 (-28 - 28)) = exp(-280), without any gradient; -28, minus
the mean distance at the start, puts the threshold where the similarities are, as 0.5 is for cosines.
"""

from __future__ import annotations

from typing import Unpack

import torch

from alphita_lab.objectives.multi_similarity import Constants, exact, multi_similarity


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
        """
        super().__init__()
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
    """
    with torch.autocast(head.device.type, enabled=False):
        moved = exact(head) + vectors(relation)
        near = torch.linalg.vector_norm(moved - exact(tail), dim=1)
        far = torch.linalg.vector_norm(moved - exact(corrupted), dim=1)
        return torch.relu(margin + near - far).mean()


PAPERS: Constants = {"alpha": 0.2, "beta": 5.0, "lam": -28.0, "eps": 0.1}


def transe_similarity(
    head: torch.Tensor,
    relation: torch.Tensor,
    tail: torch.Tensor,
    tail_concept: torch.Tensor,
    vectors: RelationVectors,
    **constants: Unpack[Constants],
) -> torch.Tensor:
    """Return L_MS_rel of k triples by the TransE-like similarity; row i of heads and tails is triple i.

    Args:
        head: (k, d) vectors of the head terms.
        relation: (k,) integers, relation labels.
        tail: (k, d) vectors of the tail terms.
        tail_concept: (k,) integers, the concept of each tail.
        vectors: r of each relation.
        constants: of `multi_similarity`, by default `PAPERS`. lambda is a similarity, so below 0.

    Returns:
        A scalar, the mean over the heads.
    """
    with torch.autocast(head.device.type, enabled=False):
        # Differences, not products: near points would lose their digits, and their gradients.
        distance = torch.cdist(
            exact(head) + vectors(relation), exact(tail), compute_mode="donot_use_mm_for_euclid_dist"
        )
        positive = tail_concept[:, None] == tail_concept[None, :]
        used: Constants = {**PAPERS, **constants}
        return multi_similarity(-distance, positive, ~positive, **used)
