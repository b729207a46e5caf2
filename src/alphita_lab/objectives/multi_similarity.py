"""Multi-similarity (MS) loss with the mining of CODER (Yuan et al. 2022, §3.3; Wang et al., CVPR 2019).

For n anchors i and m others j with similarity S_ij, of which some pairs are positive and some negative:

    N_i = {j negative: S_ij > min over positive k of S_ik - eps}
    P_i = {j positive: S_ij < max over negative k of S_ik + eps}
    L = 1/n sum_i [ log(1 + sum_{j in P_i} exp(-alpha (S_ij - lam))) / alpha
                  + log(1 + sum_{j in N_i} exp( beta (S_ij - lam))) / beta ]

An anchor without any positive has no negative that is hard to tell from it: the minimum over nothing is +inf, so N_i is
empty; likewise the maximum over nothing is -inf and P_i is empty. The paper leaves this open; the loss's authors and
pytorch-metric-learning do the same. Such an anchor adds 0 but counts in n.

Both logarithms are masked log-sum-exps over the whole matrix: no list of pairs is made. Value and slope come from the
same exponentials, so that only the slope, one (n, m) matrix, is kept for the backward pass.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict, Unpack

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

INF = float("inf")
# Exponentials are taken to base 2: on a processor torch's exp is MKL's, 20 times slower than its exp2 where most
# exponents are -inf, as they are after mining.
LOG2_E = math.log2(math.e)


class Constants(TypedDict, total=False):
    """The constants of `multi_similarity`, for losses that hand them on."""

    alpha: float
    beta: float
    lam: float
    eps: float
    mining: bool


class _Settings(NamedTuple):
    alpha: float
    beta: float
    lam: float
    eps: float
    mining: bool


def multi_similarity(
    similarity: torch.Tensor,
    positive: torch.Tensor,
    negative: torch.Tensor,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    lam: float = 0.5,
    eps: float = 0.1,
    mining: bool = True,
) -> torch.Tensor:
    """Return the MS loss, averaged over all anchors.

    Args:
        similarity: (n, m) similarity of each anchor to each other; -1 to 1 for cosines, but any range is safe.
        positive: (n, m) bool, the pairs of one meaning.
        negative: (n, m) bool, the pairs of different meanings. A pair may be neither (an anchor with itself), not both.
        alpha: weight of positive pairs, above 0.
        beta: weight of negative pairs, above 0.
        lam: lambda, the similarity between near and far.
        eps: margin of the mining.
        mining: count only the pairs of P_i and N_i; otherwise all positive and negative ones.

    Returns:
        A scalar of the similarity's dtype, float32 at least. It can be differentiated once.
    """
    settings = _Settings(alpha, beta, lam, eps, mining)
    loss: torch.Tensor = _MultiSimilarity.apply(exact(similarity), positive, negative, settings)
    return loss


class _MultiSimilarity(torch.autograd.Function):
    """The loss and its slope in one pass, in two (n, m) buffers."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        similarity: torch.Tensor,
        positive: torch.Tensor,
        negative: torch.Tensor,
        settings: _Settings,
    ) -> torch.Tensor:
        alpha, beta, lam, eps, mining = settings
        pull = torch.where(positive, similarity, INF)
        push = torch.where(negative, similarity, -INF)
        if mining:
            lowest_positive = pull.amin(1, keepdim=True)
            highest_negative = push.amax(1, keepdim=True)
            pull.masked_fill_(pull >= highest_negative + eps, INF)
            push.masked_fill_(push <= lowest_positive - eps, -INF)
        pulled = _log_one_plus_sum_exp_(pull.sub_(lam).mul_(-alpha))
        pushed = _log_one_plus_sum_exp_(push.sub_(lam).mul_(beta))
        per_anchor = pulled / alpha + pushed / beta
        share = 1.0 / len(similarity)
        if ctx.needs_input_grad[0]:
            # alpha and beta cancel: d/dS of log(1 + sum exp(beta (S - lam))) / beta is the term's share of the sum.
            ctx.save_for_backward(push.sub_(pull).mul_(share))
        return (per_anchor * share).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return slope * upstream, None, None, None


def _log_one_plus_sum_exp_(exponent: torch.Tensor) -> torch.Tensor:
    """Return log(1 + sum_j exp(exponent_ij)), (n, 1), and turn `exponent` into its slope, in place.

    The greatest exponent is taken out first, so that nothing overflows; a row of -inf gives 0 and slope 0.
    """
    shift = exponent.amax(1, keepdim=True).clamp_min_(0)
    terms = exponent.sub_(shift).mul_(LOG2_E).exp2_()
    total = terms.sum(1, keepdim=True)
    terms.div_(total + torch.exp(-shift))
    return shift + torch.log1p(total + torch.expm1(-shift))


def term_term(e: torch.Tensor, concept: torch.Tensor, **constants: Unpack[Constants]) -> torch.Tensor:
    """Return L_MS over all pairs of terms in a batch: S_ij = cos(e_i, e_j), positive where the concepts are equal.

    Args:
        e: (n, d) term vectors, of any length but 0.
        concept: (n,) integers, the concept of each term.
        constants: alpha, beta, lam, eps and mining of `multi_similarity`.

    Returns:
        A scalar, the mean over all anchors, which the paper's batch has 2k of.
    """
    with torch.autocast(e.device.type, enabled=False):
        vectors = unit(e)
        positive = concept[:, None] == concept[None, :]
        negative = ~positive
        return multi_similarity(vectors @ vectors.T, positive.fill_diagonal_(False), negative, **constants)


def unit(e: torch.Tensor) -> torch.Tensor:
    """Return the rows of `e` (n, d) at length 1, in float32 (float64 if given so)."""
    return functional.normalize(exact(e), dim=-1)


def exact(e: torch.Tensor) -> torch.Tensor:
    """Return `e` in float32, or as it is in float64."""
    return e if e.dtype == torch.float64 else e.float()
