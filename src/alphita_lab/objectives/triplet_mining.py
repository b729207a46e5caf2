"""SapBERT's loss: mined triplets in front of the MS loss (Liu et al., NAACL 2021, §2, eq. 1 and 2).

    T = {(a, p, n): d(a, n) - d(a, p) <= margin},   d the Euclidean distance of vectors of length 1
    P_a = {p: (a, p, n) in T for some n},   N_a = {n: (a, p, n) in T for some p}
    L = 1/n sum_a [ log(1 + sum_{p in P_a} exp(-alpha (S_ap - lam))) / alpha
                  + log(1 + sum_{n in N_a} exp( beta (S_an - lam))) / beta ],   S the cosine

The text writes d as |f(a) - f(p)|_2 of the encoder's vectors; the released code's miner scales them to length 1 first.
A pair counts once, in however many triplets it stands. A positive p is in some triplet if and only if it is, with the
margin, no nearer than the nearest negative, and a negative if it is no further than the furthest positive: two masks
over all pairs, and no list of triplets.
"""

from __future__ import annotations

import torch

from alphita_lab.objectives.multi_similarity import multi_similarity, unit

INF = float("inf")


def mined_pairs(
    similarity: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pairs that stand in a mined triplet, two (n, m) bool masks: positives and negatives.

    Args:
        similarity: (n, m) cosines.
        positive: (n, m) bool.
        negative: (n, m) bool.
        margin: in Euclidean distance between vectors of length 1.
    """
    distance = (2 - 2 * similarity).clamp_min(0).sqrt()
    nearest_negative = distance.masked_fill(~negative, INF).amin(1, keepdim=True)
    furthest_positive = distance.masked_fill(~positive, -INF).amax(1, keepdim=True)
    return (positive & (nearest_negative - distance <= margin), negative & (distance - furthest_positive <= margin))


def mined_term_term(
    e: torch.Tensor,
    concept: torch.Tensor,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    lam: float = 0.5,
    margin: float = 0.2,
) -> torch.Tensor:
    """Return the MS loss over the mined pairs of a batch of terms.

    Args:
        e: (n, d) term vectors, of any length but 0.
        concept: (n,) integers, the concept of each term.
        alpha: weight of positive pairs, above 0.
        beta: weight of negative pairs, above 0.
        lam: lambda, the similarity between near and far.
        margin: of the triplet mining.

    Returns:
        A scalar, the mean over the n terms.
    """
    with torch.autocast(e.device.type, enabled=False):
        vectors = unit(e)
        similarity = vectors @ vectors.T
        positive = concept[:, None] == concept[None, :]
        negative = ~positive
        positive.fill_diagonal_(False)
        with torch.no_grad():
            positive, negative = mined_pairs(similarity, positive, negative, margin)
        return multi_similarity(similarity, positive, negative, alpha=alpha, beta=beta, lam=lam, mining=False)
