"""The TransE-like term-relation-term similarity of CODER's ablation (Yuan et al. 2022, §5.1, appendix A.5).

    S_rel_ij = -|e_i + r_i - e_j|,   1 <= i <= k heads, k + 1 <= j <= 2k tails
    L_MS_rel = the MS loss of S_rel and tau_rel, averaged over the k heads, as in `term_relation_term`

alpha 0.2, beta 5, eps 0.1. The appendix prints lambda as 28. The similarity is minus a distance that starts near 28,
and with lambda = +28 every negative pair would enter as exp(5 (-28 - 28)) = exp(-280), without any gradient; -28, minus
the mean distance at the start, puts the threshold where the similarities are, as 0.5 is for cosines.
"""

from __future__ import annotations

from typing import Unpack

import torch

from alphita_lab.objectives.multi_similarity import Constants, multi_similarity
from alphita_lab.objectives.transe import RelationVectors, exact

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
