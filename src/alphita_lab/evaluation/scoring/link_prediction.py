"""Link prediction: scorers that are no graph model, and the rows and metrics of ranks (`alphita_lab.graph.ranks`)."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita_lab.evaluation.scoring.results import Metric
from alphita_lab.graph.triples import SIDES, Int, Scores

KS = (1, 3, 10)


class RelationFrequency:
    """The scorer to beat: how often an entity is tail (or head) of the relation in the training triples."""

    def __init__(self, train: Int, n_entities: int, n_relations: int) -> None:
        """Count.

        Args:
            train: (t, 3) head, relation, tail.
        """
        self._counts = {}
        for side, column in (("head", 0), ("tail", 2)):
            counts = np.zeros((n_relations, n_entities), np.float32)
            np.add.at(counts, (train[:, 1], train[:, column]), 1)
            self._counts[side] = counts

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return how often each entity is a tail of the relation."""
        return self._counts["tail"][relations]

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return how often each entity is a head of the relation."""
        return self._counts["head"][relations]


class RelationOffset:
    """Scores vectors as TransE would: a relation is the mean of (tail - head) over its training triples.

    Nothing but that mean is fitted, so that it tells what lies in the vectors already. The score is minus the distance
    of head + relation to tail. Entities without a vector get -inf, and so does the given entity itself: it would nearly
    always be the nearest, and is never the answer.
    """

    def __init__(self, vectors: NDArray[np.float32], train: Int, n_relations: int) -> None:
        """Fit the offsets.

        Args:
            vectors: (n_entities, d).
            train: (t, 3).
        """
        self._known = np.asarray(np.isfinite(vectors).all(axis=1))
        self._vectors = np.where(self._known[:, None], vectors, 0.0).astype(np.float32)
        self._squares = (self._vectors**2).sum(axis=1)
        usable = train[self._known[train[:, 0]] & self._known[train[:, 2]]]
        self._offsets = np.zeros((n_relations, vectors.shape[1]), np.float32)
        for relation in range(n_relations):
            rows = usable[usable[:, 1] == relation]
            if len(rows):
                self._offsets[relation] = self._vectors[rows[:, 2]].mean(axis=0) - self._vectors[rows[:, 0]].mean(
                    axis=0
                )

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return minus the distance to head + relation."""
        return self._near(self._vectors[heads] + self._offsets[relations], heads)

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return minus the distance to tail - relation."""
        return self._near(self._vectors[tails] - self._offsets[relations], tails)

    def _near(self, points: NDArray[np.float32], given: Int) -> Scores:
        squares = (points**2).sum(axis=1)[:, None] + self._squares - 2 * points @ self._vectors.T
        scores: Scores = -np.sqrt(np.maximum(squares, 0))
        scores[:, ~self._known] = -np.inf
        scores[~self._known[given]] = -np.inf
        scores[np.arange(len(given)), given] = -np.inf
        return scores


def rows_of(found: dict[str, NDArray[np.float64]]) -> pl.DataFrame:
    """Return one row a triple and side, tails first: triple, side, rank, reciprocal_rank, hits@k."""
    rank = np.concatenate([found[side] for side in SIDES])
    rows = pl.DataFrame(
        {
            "triple": np.concatenate([np.arange(len(found[side])) for side in SIDES]),
            "side": np.repeat(SIDES, [len(found[side]) for side in SIDES]),
            "rank": rank,
            "reciprocal_rank": 1 / rank,
        }
    )
    return rows.with_columns((pl.col("rank") <= k).alias(f"hits@{k}") for k in KS)


def metrics() -> tuple[Metric, ...]:
    """Return MRR, hits@k and MR (mean rank), over the rows of `rows_of`."""
    hits = tuple(Metric(f"hits@{k}", (f"hits@{k}",)) for k in KS)
    return (Metric("MRR", ("reciprocal_rank",)), *hits, Metric("MR", ("rank",), higher_is_better=False, fraction=False))
