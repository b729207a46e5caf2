"""Multi-similarity loss with margins from a knowledge graph (the Italian system: equations 1 to 3, v1, v2 and v3).

    L = 1/m sum_i [ log(1 + sum_{k in P_i} exp(-alpha (S_ik - lambda_p))) / alpha
                  + log(1 + sum_{k in N_i} exp( beta (S_ik - lambda_n))) / beta ]

    v1 (1):  lambda_p = lambda_n = lambda, fixed: `multi_similarity.term_term`; lambda is not given, 0.5 is CODER's
    v2 (2):  lambda_p = 1, lambda_n = 0.5
    v3 (3):  lambda_p = |S_ik - S_kge_ik|, lambda_n = 1 - |S_ik - S_kge_ik|

S_ik is the cosine of two mentions' vectors and S_kge_ik that of their concepts' vectors in the graph; a complex vector
counts as its real and imaginary parts, end to end. P_i and N_i are mined from S as in `multi_similarity`. Two mentions
of one concept have S_kge = 1, so that v3 gives a positive pair the margin 1 - S and the exponent -alpha (2 S - 1).

Gradients flow through v3's margin, as equation (3) is printed: a positive pair's slope is twice that of v1, a negative
pair's twice where S > S_kge and 0 where S < S_kge, so that the loss leaves alone what the graph calls nearer. Detached,
every pair pulls or pushes with its share of the sum, as in v1.

A concept without a vector in the graph is not stated either: its negative pairs get v2's lambda_n.
"""

from __future__ import annotations

import torch

from alphita_lab.objectives.multi_similarity import multi_similarity, term_term, unit

LAMBDA_P, LAMBDA_N = 1.0, 0.5
INF = float("inf")

ms_v1 = term_term
"""Equation (1), one fixed margin lam: the MS loss as CODER has it."""


def ms_v2(
    e: torch.Tensor,
    concept: torch.Tensor,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    lambda_p: float = LAMBDA_P,
    lambda_n: float = LAMBDA_N,
    eps: float = 0.1,
    mining: bool = True,
) -> torch.Tensor:
    """Return equation (2), a margin for positive pairs and one for negative pairs.

    Args:
        e: (n, d) vectors of mentions, of any length but 0.
        concept: (n,) integers, the concept of each mention.
        alpha: see `multi_similarity`; so are beta, eps and mining.
        lambda_p: margin of positive pairs.
        lambda_n: margin of negative pairs.

    Returns:
        A scalar, the mean over the n mentions.
    """
    with torch.autocast(e.device.type, enabled=False):
        similarity, positive, negative = _pairs(e, concept)
        margin = torch.full_like(similarity, lambda_n).masked_fill(positive, lambda_p)
        return with_margins(similarity, margin, positive, negative, alpha=alpha, beta=beta, eps=eps, mining=mining)


def ms_v3(
    e: torch.Tensor,
    concept: torch.Tensor,
    graph: torch.Tensor,
    known: torch.Tensor | None = None,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    eps: float = 0.1,
    mining: bool = True,
    detach_margin: bool = False,
    lambda_n: float = LAMBDA_N,
) -> torch.Tensor:
    """Return equation (3), margins that follow the graph.

    Args:
        e: (n, d) vectors of mentions, of any length but 0.
        concept: (n,) integers, the concept of each mention.
        graph: (n, g) the graph's vector of each mention's concept, real or complex; no gradient goes there.
        known: (n,) bool, whether the graph has the concept; the other rows of `graph` are not read. None: it has all.
        alpha: see `multi_similarity`; so are beta, eps and mining.
        detach_margin: let no gradient through |S - S_kge|.
        lambda_n: margin of a negative pair of which the graph lacks one concept.

    Returns:
        A scalar, the mean over the n mentions.
    """
    with torch.autocast(e.device.type, enabled=False):
        similarity, positive, negative = _pairs(e, concept)
        if known is not None:
            graph = graph.masked_fill(~known[:, None], 0)
        far = ((similarity.detach() if detach_margin else similarity) - graph_similarity(graph, concept)).abs()
        margin = torch.where(positive, far, 1 - far)
        if known is not None:
            lacking = negative & ~(known[:, None] & known[None, :])
            margin = margin.masked_fill(lacking, lambda_n)
        return with_margins(similarity, margin, positive, negative, alpha=alpha, beta=beta, eps=eps, mining=mining)


def graph_similarity(graph: torch.Tensor, concept: torch.Tensor) -> torch.Tensor:
    """Return S_kge, (n, n): the cosines of the graph's vectors, exactly 1 for two mentions of one concept.

    Args:
        graph: (n, g) vectors, real or complex; a complex one counts as real and imaginary parts end to end.
        concept: (n,) integers.
    """
    with torch.no_grad():
        parts = torch.cat([graph.real, graph.imag], -1) if graph.is_complex() else graph
        vectors = unit(parts)
        return (vectors @ vectors.T).masked_fill(concept[:, None] == concept[None, :], 1.0)


def with_margins(
    similarity: torch.Tensor,
    margin: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    eps: float = 0.1,
    mining: bool = True,
) -> torch.Tensor:
    """Return the MS loss of pairs with a margin each; mining compares the similarities, whatever the margins.

    Args:
        similarity: (n, m) of each anchor to each other.
        margin: (n, m) lambda of each pair. If it has a gradient, that is followed.
        positive: (n, m) bool, the pairs of one meaning.
        negative: (n, m) bool, the pairs of different meanings.
        alpha: see `multi_similarity`; so are beta, eps and mining.

    Returns:
        A scalar, the mean over the n anchors.
    """
    if mining:
        positive, negative = mined(similarity.detach(), positive, negative, eps)
    # A pair is positive or negative, never both, so one matrix holds what either exponent is made of.
    return multi_similarity(similarity - margin, positive, negative, alpha=alpha, beta=beta, lam=0.0, mining=False)


def mined(
    similarity: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the pairs of P_i and N_i (see `multi_similarity`), two (n, m) bool masks.

    Args:
        similarity: (n, m) of each anchor to each other.
        positive: (n, m) bool.
        negative: (n, m) bool.
        eps: margin of the mining.
    """
    lowest_positive = similarity.masked_fill(~positive, INF).amin(1, keepdim=True)
    highest_negative = similarity.masked_fill(~negative, -INF).amax(1, keepdim=True)
    return positive & (similarity < highest_negative + eps), negative & (similarity > lowest_positive - eps)


def _pairs(e: torch.Tensor, concept: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the cosines of all pairs of mentions and which are positive and negative, each (n, n)."""
    vectors = unit(e)
    positive = concept[:, None] == concept[None, :]
    negative = ~positive
    return vectors @ vectors.T, positive.fill_diagonal_(False), negative
