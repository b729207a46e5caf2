"""Sentences judged by people: pairs with a score, and triples of a premise, what follows and what contradicts it.

For n pairs with similarity s_i = cos(left_i, right_i) and people's score y_i, 0 to 1:

    cosine   L = 1/n sum_i (s_i - y_i)^2                                   (Reimers and Gurevych, EMNLP 2019, §3)
    cosent   L = log(1 + sum_{i, j: y_i > y_j} exp((s_j - s_i) / tau))     (J. Su, CoSENT, 2022)

The first asks for the score itself, the second for the order of the batch's pairs only. BioLORD-2023 adapts its base to
STS sets "in a multi-task setup" and does not state the loss.

For n triples, InfoNCE (`info_nce`) of premises against what follows, with all n contradictions as further negatives.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from alphita_lab.objectives.info_nce import info_nce
from alphita_lab.objectives.multi_similarity import unit


def scored_pairs(
    left: torch.Tensor, right: torch.Tensor, score: torch.Tensor, *, objective: str = "cosine"
) -> torch.Tensor:
    """Return the loss of a batch of scored pairs.

    Args:
        left: (n, d) vectors, of any length but 0, n 1 or more.
        right: (n, d) vectors.
        score: (n,) people's scores, 0 to 1.
        objective: "cosine" or "cosent".

    Returns:
        A scalar.
    """
    with torch.autocast(left.device.type, enabled=False):
        similarity = (unit(left) * unit(right)).sum(1)
        return OBJECTIVES[objective](similarity, score.to(similarity.dtype))


def cosine(similarity: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
    """Return the mean squared difference of similarities (n,) and scores (n,)."""
    return functional.mse_loss(similarity, score)


def cosent(similarity: torch.Tensor, score: torch.Tensor, temperature: float = 0.05) -> torch.Tensor:
    """Return the CoSENT loss of similarities (n,) and scores (n,); 0 where all scores are equal.

    Args:
        similarity: (n,) cosines.
        score: (n,) scores.
        temperature: tau; 0.05 as in CoSENT's own code (there a factor of 20).
    """
    # Row i, column j: how much nearer pair j is than pair i, where people put i above j.
    excess = (similarity[None, :] - similarity[:, None]) / temperature
    wrong = excess[score[:, None] > score[None, :]]
    return torch.logsumexp(torch.cat([wrong.new_zeros(1), wrong]), 0)


def triples(
    premises: torch.Tensor,
    entailed: torch.Tensor,
    contradicted: torch.Tensor,
    *,
    premise: torch.Tensor | None = None,
    temperature: float = 0.05,
) -> torch.Tensor:
    """Return InfoNCE of premises against what follows from them, what contradicts any premise being negative too.

    Args:
        premises: (n, d) vectors, of any length but 0, n 1 or more.
        entailed: (n, d) vectors of what follows from each.
        contradicted: (n, d) vectors of what contradicts each.
        premise: (n,) integers, equal where the premise is: what follows from it elsewhere in the batch is then no
            negative. None: all differ.
        temperature: above 0; see `info_nce`.

    Returns:
        A scalar, the mean over the triples.
    """
    if premise is None:
        premise = torch.arange(len(premises), device=premises.device)
    return info_nce(premises, entailed, premise, temperature=temperature, extra=contradicted)["loss"]


OBJECTIVES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {"cosine": cosine, "cosent": cosent}
