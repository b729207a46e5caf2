"""Entity linking loss (the Italian system, equations 5 and 6; after KeBioLM, Yuan et al., BioNLP 2021).

    L_EL = sum_m -log( exp(h_m . e_m) / sum_{e_j in E} exp(h_m . e_j) )      (5)
    L    = L_MLM + L_EL                                                      (6)

h_m is a mention's vector projected to the graph's space, e_m the vector of the entity that it names and E all entities
of the graph, not the nearest alone: so it does not matter whether the gold entity is among those the linker found. The
vectors of E are frozen. Equation (5) sums over the mentions; its batches hold 6 to some hundreds of them against one
mean over the masked tokens in L_MLM, so that the mean over the mentions is the default here, and `total` the sum as
printed.

The (m, |E|) matrix of logits is never kept: blocks of entities add to a running log-sum-exp and to its slope, the mean
of the entities under the softmax.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional

from alphita_lab.objectives.multi_similarity import exact

BLOCK = 8192
"""Entities at once."""
NO_ENTITY = -1
"""Label of a mention whose concept the graph lacks."""
NOT_MASKED = -100
"""Label of a token that is not to be guessed."""


def entity_linking(
    projected: torch.Tensor, gold: torch.Tensor, entities: torch.Tensor, *, total: bool = False, block: int = BLOCK
) -> torch.Tensor:
    """Return L_EL: the mean over the mentions with a gold entity, 0 where there is none.

    Args:
        projected: (m, g) mentions in the graph's space.
        gold: (m,) int64, the row of each mention's entity, or NO_ENTITY: such a mention does not count.
        entities: (E, g) frozen vectors, E 1 or more, float32 or float16 (computed in the dtype of `projected`, float32
            at least).
        total: the sum of equation (5) instead.
        block: entities at once; the result does not depend on it.

    Returns:
        A scalar. It can be differentiated once.
    """
    with torch.autocast(projected.device.type, enabled=False):
        labelled = gold >= 0
        loss: torch.Tensor = _Linking.apply(exact(projected)[labelled], gold[labelled], entities, block)
        return loss if total else loss / labelled.sum().clamp(min=1)


class _Linking(torch.autograd.Function):
    """The sum of equation (5) and its slope in one pass over the entities."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        projected: torch.Tensor,
        gold: torch.Tensor,
        entities: torch.Tensor,
        block: int,
    ) -> torch.Tensor:
        m, g = projected.shape
        wanted = ctx.needs_input_grad[0]
        highest = projected.new_full((m, 1), -float("inf"))
        total, mean = projected.new_zeros(m, 1), projected.new_zeros(m, g if wanted else 0)
        for start in range(0, len(entities), block):
            part = entities[start : start + block].to(projected.dtype)
            logits = projected @ part.T
            above = torch.maximum(highest, logits.amax(1, keepdim=True))
            shrunk, weights = torch.exp(highest - above), torch.exp(logits - above)
            total = total * shrunk + weights.sum(1, keepdim=True)
            if wanted:
                mean = mean * shrunk + weights @ part
            highest = above
        named = entities[gold].to(projected.dtype)
        if wanted:
            ctx.save_for_backward(mean / total - named)
        return (highest + total.log()).sum() - (projected * named).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # noqa: ANN401
        (slope,) = ctx.saved_tensors
        return slope * upstream, None, None, None


def masked_language_model(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return L_MLM, the mean cross-entropy over the tokens to be guessed; 0 where there is none.

    Args:
        scores: (n, v) of each token over the vocabulary, or (rows, length, v).
        labels: (n,) or (rows, length) int64, the token that stood there, or NOT_MASKED.
    """
    with torch.autocast(scores.device.type, enabled=False):
        guessed = labels != NOT_MASKED
        loss = functional.cross_entropy(exact(scores[guessed]), labels[guessed], reduction="sum")
        return loss / guessed.sum().clamp(min=1)
