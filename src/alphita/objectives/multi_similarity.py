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
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

INF = float("inf")
# Exponentials are taken to base 2: on a processor torch's exp is MKL's, 20 times slower than its exp2 where most
# exponents are -inf, as they are after mining.
LOG2_E = math.log2(math.e)


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
    pair_times: torch.Tensor | None = None,
    anchor_times: torch.Tensor | None = None,
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
        pair_times: (n, m) or what broadcasts to it: how often each pair stands, 1 or more where it is positive or
            negative. None: once each.
        anchor_times: (n,) how often each anchor stands. None: once each.

    Returns:
        A scalar of the similarity's dtype, float32 at least. It can be differentiated once.

    Raises:
        ValueError: alpha or beta is not above 0, the shapes differ, or there is nothing to compare.
    """
    if alpha <= 0 or beta <= 0:
        raise ValueError(f"alpha and beta must be above 0, not {alpha} and {beta}")
    if not (similarity.dim() == 2 and similarity.shape == positive.shape == negative.shape and similarity.numel()):
        shapes = [tuple(tensor.shape) for tensor in (similarity, positive, negative)]
        raise ValueError(f"similarity, positive and negative must have one shape (n, m), not empty; got {shapes}")
    exact = similarity if similarity.dtype == torch.float64 else similarity.float()
    settings = _Settings(alpha, beta, lam, eps, mining)
    loss: torch.Tensor = _MultiSimilarity.apply(exact, positive, negative, pair_times, anchor_times, settings)
    return loss


class _MultiSimilarity(torch.autograd.Function):
    """The loss and its slope in one pass, in two (n, m) buffers."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        similarity: torch.Tensor,
        positive: torch.Tensor,
        negative: torch.Tensor,
        pair_times: torch.Tensor | None,
        anchor_times: torch.Tensor | None,
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
        pulled = _log_one_plus_sum_exp_(pull.sub_(lam).mul_(-alpha), pair_times)
        pushed = _log_one_plus_sum_exp_(push.sub_(lam).mul_(beta), pair_times)
        per_anchor = pulled / alpha + pushed / beta
        if anchor_times is None:
            share: torch.Tensor | float = 1.0 / len(similarity)
        else:
            weights = anchor_times.to(similarity.dtype)[:, None]
            share = weights / weights.sum()
        if ctx.needs_input_grad[0]:
            # alpha and beta cancel: d/dS of log(1 + sum exp(beta (S - lam))) / beta is the term's share of the sum.
            ctx.save_for_backward(push.sub_(pull).mul_(share))
        return (per_anchor * share).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return slope * upstream, None, None, None, None, None


def _log_one_plus_sum_exp_(exponent: torch.Tensor, times: torch.Tensor | None) -> torch.Tensor:
    """Return log(1 + sum_j times_ij exp(exponent_ij)), (n, 1), and turn `exponent` into its slope, in place.

    The greatest exponent is taken out first, so that nothing overflows; a row of -inf gives 0 and slope 0.
    """
    shift = exponent.amax(1, keepdim=True).clamp_min_(0)
    terms = exponent.sub_(shift).mul_(LOG2_E).exp2_()
    if times is not None:
        terms.mul_(times)
    total = terms.sum(1, keepdim=True)
    terms.div_(total + torch.exp(-shift))
    return shift + torch.log1p(total + torch.expm1(-shift))


def term_term(
    e: torch.Tensor,
    concept: torch.Tensor,
    *,
    times: torch.Tensor | None = None,
    alpha: float = 2.0,
    beta: float = 50.0,
    lam: float = 0.5,
    eps: float = 0.1,
    mining: bool = True,
) -> torch.Tensor:
    """Return L_MS over all pairs of terms in a batch: S_ij = cos(e_i, e_j), positive where the concepts are equal.

    A batch that repeats rows can be given in either of two ways, with the same loss and slopes: gathered, `e[place]`
    and `concept[place]`, or distinct, with `times`. The second needs (u, u) numbers for u distinct rows.

    Args:
        e: (n, d) term vectors, of any length but 0.
        concept: (n,) integers, the concept of each term.
        times: (n,) integers from 1, how often each row stands in the batch; its copies are positives of each other, of
            similarity 1. None: once each.
        alpha: see `multi_similarity`; so are the next four.

    Returns:
        A scalar, the mean over all anchors, which the paper's batch has 2k of.
    """
    with torch.autocast(e.device.type, enabled=False):
        vectors = unit(e)
        positive = concept[:, None] == concept[None, :]
        negative = ~positive
        pair_times = None
        if times is None:
            positive.fill_diagonal_(False)
        else:
            positive.diagonal().copy_(times > 1)
            pair_times = times.to(vectors.dtype).repeat(len(vectors), 1)
            pair_times.diagonal().sub_(1)
        return multi_similarity(
            vectors @ vectors.T,
            positive,
            negative,
            alpha=alpha,
            beta=beta,
            lam=lam,
            eps=eps,
            mining=mining,
            pair_times=pair_times,
            anchor_times=times,
        )


def unit(e: torch.Tensor) -> torch.Tensor:
    """Return the rows of `e` (n, d) at length 1, in float32 (float64 if given so)."""
    return functional.normalize(e if e.dtype == torch.float64 else e.float(), dim=-1)
