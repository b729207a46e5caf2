"""Scores of triples: a model's queries against entities, in training and from saved vectors alike."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from alphita_lab.graph.models import GraphModel
from alphita_lab.graph.ranks import Int, Scores


def pair_scores(model: GraphModel, queries: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Return the score of each query (b, d) with its own entity (b, d): (b,)."""
    if model.COMPARED == "product":
        return (queries * entities).sum(dim=-1)
    return -torch.linalg.vector_norm(queries - entities, dim=-1)


def all_scores(model: GraphModel, queries: torch.Tensor, entities: torch.Tensor) -> torch.Tensor:
    """Return the score of each query (b, d) with every entity (n, d): (b, n)."""
    if model.COMPARED == "product":
        return queries @ entities.T
    return -torch.cdist(queries, entities, compute_mode="use_mm_for_euclid_dist")


class VectorScorer:
    """Scores by vectors of entities and relations: a `TripleScorer`."""

    def __init__(self, model: GraphModel, entities: NDArray[np.float32], relations: NDArray[np.float32]) -> None:
        self._model = model
        self._entities, self._relations = torch.from_numpy(entities), torch.from_numpy(relations)

    @torch.inference_mode()
    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return (b, n)."""
        queries = self._model.tail_queries(self._entities[heads], self._relations[relations])
        return np.asarray(all_scores(self._model, queries, self._entities))

    @torch.inference_mode()
    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return (b, n)."""
        queries = self._model.head_queries(self._relations[relations], self._entities[tails])
        return np.asarray(all_scores(self._model, queries, self._entities))
