"""Link prediction: the place of a triple's tail among all entities, given its head and relation, and of its head.

Ranks are realistic: the mean of the optimistic rank (equal scores stand behind) and the pessimistic one (before), so
that a scorer gains nothing by giving many entities one score. Filtered: other entities that make a known triple are no
competitors.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from alphita.errors import AlphitaError

SIDES = ("tail", "head")
# Scores held at once: 64 MiB of float32.
SCORES_AT_ONCE = 16_000_000

Int = NDArray[np.int64]
Scores = NDArray[np.float32]


@runtime_checkable
class TripleScorer(Protocol):
    """What tells how likely triples of numbered entities and relations are; greater is likelier."""

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        """Return the score of every entity as tail, (b, n_entities), of b heads and relations; -inf: not known."""
        ...

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        """Return the score of every entity as head, (b, n_entities), of b relations and tails; -inf: not known."""
        ...


def ranks(
    scorer: TripleScorer, test: Int, n_entities: int, *, known: Int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the realistic rank of each test triple's tail and head among all entities, 1 at best.

    Args:
        test: (m, 3) head, relation, tail.
    """
    by_side = {}
    block = max(1, SCORES_AT_ONCE // n_entities)
    for side in SIDES:
        given, wanted = (0, 2) if side == "tail" else (2, 0)
        answers = None if known is None else _Answers(known, given, wanted, n_entities)
        parts = []
        for start in range(0, len(test), block):
            batch = test[start : start + block]
            if side == "tail":
                scores = scorer.score_tails(batch[:, 0], batch[:, 1])
            else:
                scores = scorer.score_heads(batch[:, 1], batch[:, 2])
            if scores.shape != (len(batch), n_entities):
                raise ValueError(f"the scorer gives {scores.shape} scores for {(len(batch), n_entities)}")
            if np.isnan(scores).any():
                raise AlphitaError(
                    "the scorer gives scores that are not numbers, as a model that diverged does: train it with a "
                    "smaller learning_rate"
                )
            parts.append(_realistic(scores, batch[:, wanted], None if answers is None else answers.of(batch)))
        by_side[side] = np.concatenate(parts) if parts else np.empty(0)
    return by_side


def figures(found: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Return MRR, hits@k and MR (mean rank) over both sides of `ranks`; nothing where nothing was asked."""
    rank = np.concatenate([found[side] for side in SIDES])
    if not len(rank):
        return {}
    hits = {f"hits@{k}": float((rank <= k).mean()) for k in (1, 3, 10)}
    return {"MRR": float((1 / rank).mean()), **hits, "MR": float(rank.mean())}


def _realistic(scores: Scores, gold: Int, others: tuple[Int, Int] | None) -> NDArray[np.float64]:
    own = scores[np.arange(len(gold)), gold][:, None]
    before, equal = (scores > own), (scores == own)
    if others is not None:
        before[others], equal[others] = False, False
    equal[np.arange(len(gold)), gold] = True
    # Optimistic: 1 + before. Pessimistic: before + equal, the gold one among these.
    return 0.5 * (1 + 2.0 * before.sum(axis=1) + equal.sum(axis=1))


class _Answers:
    """The known answers to (given, relation), in CSR form."""

    def __init__(self, known: Int, given: int, wanted: int, n_entities: int) -> None:
        self._given, self._n = given, n_entities
        keys = known[:, 1].astype(np.int64) * n_entities + known[:, given]
        order = np.argsort(keys, kind="stable")
        self._keys, self._answers = keys[order], known[order, wanted]

    def of(self, batch: Int) -> tuple[Int, Int]:
        """Return (row in the batch, entity) of all known answers."""
        keys = batch[:, 1].astype(np.int64) * self._n + batch[:, self._given]
        start, end = np.searchsorted(self._keys, keys, "left"), np.searchsorted(self._keys, keys, "right")
        counts = end - start
        lines = np.repeat(np.arange(len(batch)), counts)
        places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(start, counts)
        return lines, self._answers[places]
