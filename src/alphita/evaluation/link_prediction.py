"""Link prediction: the place of a triple's tail among all entities, given its head and relation, and of its head.

Ranks are realistic: the mean of the optimistic rank (equal scores stand behind) and the pessimistic one (before), so
that a scorer gains nothing by giving many entities one score. Filtered: other entities that make a known triple are no
competitors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.evaluation.results import Metric
from alphita.terminology.store import Terminology

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


class RelationFrequency:
    """The scorer to beat: how often an entity is tail (or head) of the relation in the training triples."""

    def __init__(self, train: Int, n_entities: int, n_relations: int) -> None:
        """Count.

        Args:
            train: (t, 3) head, relation, tail.
            n_entities: entities there are.
            n_relations: relations there are.
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
            vectors: (n_entities, d); a row of NaN is an entity without a vector.
            train: (t, 3).
            n_relations: relations there are; one without a usable triple gets the offset 0.
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


def ranks(
    scorer: TripleScorer, test: Int, n_entities: int, *, known: Int | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return the realistic rank of each test triple's tail and head among all entities, 1 at best.

    Args:
        scorer: what scores.
        test: (m, 3) head, relation, tail.
        n_entities: entities there are.
        known: triples (all of train, validation and test) whose other answers are no competitors; None: unfiltered.

    Returns:
        "tail" and "head", (m,) each.

    Raises:
        ValueError: the scores are of another shape, or NaN.
    """
    found = {}
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
                raise ValueError("the scorer gives scores that are not numbers")
            parts.append(_realistic(scores, batch[:, wanted], None if answers is None else answers.of(batch)))
        found[side] = np.concatenate(parts) if parts else np.empty(0)
    return found


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


def rows_of(found: dict[str, NDArray[np.float64]], ks: Sequence[int] = (1, 3, 10)) -> pl.DataFrame:
    """Return one row a triple and side, tails first: triple, side, rank, reciprocal_rank, hits@k."""
    rank = np.concatenate([found[side] for side in SIDES])
    rows = pl.DataFrame({
        "triple": np.concatenate([np.arange(len(found[side])) for side in SIDES]),
        "side": np.repeat(SIDES, [len(found[side]) for side in SIDES]),
        "rank": rank, "reciprocal_rank": 1 / rank,
    })  # fmt: skip
    return rows.with_columns((pl.col("rank") <= k).alias(f"hits@{k}") for k in ks)


def metrics(ks: Sequence[int] = (1, 3, 10)) -> tuple[Metric, ...]:
    """Return MRR, hits@k and MR (mean rank), over the rows of `rows_of`."""
    hits = tuple(Metric(f"hits@{k}", (f"hits@{k}",)) for k in ks)
    return (Metric("MRR", ("reciprocal_rank",)), *hits, Metric("MR", ("rank",), higher_is_better=False, fraction=False))


def split(triples: Int, *, test: float, validation: float, seed: int) -> tuple[Int, Int, Int]:
    """Split triples into (train, test, validation) so that all entities and relations are seen in training.

    Triples are drawn in a seeded order; one that is the last of its head, of its tail or of its relation in the
    training part stays there. The parts may so be smaller than asked.

    Args:
        triples: (t, 3).
        test: share of the triples, 0 to 1.
        validation: share of the triples, 0 to 1.
        seed: of the order.
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    entity_left = np.bincount(np.concatenate([triples[:, 0], triples[:, 2]])) if len(triples) else np.empty(0, np.int64)
    relation_left = np.bincount(triples[:, 1]) if len(triples) else np.empty(0, np.int64)
    sizes = {"test": round(test * len(triples)), "validation": round(validation * len(triples))}
    out: list[int] = []
    for row in order.tolist():
        if len(out) == sum(sizes.values()):
            break
        head, relation, tail = triples[row].tolist()
        needed = 2 if head == tail else 1
        if min(entity_left[head], entity_left[tail]) > needed and relation_left[relation] > 1:
            entity_left[head] -= 1
            entity_left[tail] -= 1
            relation_left[relation] -= 1
            out.append(row)
    held = np.array(out, np.int64)
    # Where fewer could be taken than asked, both parts shrink alike.
    cut = round(len(held) * sizes["test"] / max(1, sum(sizes.values())))
    kept = np.ones(len(triples), bool)
    kept[held] = False
    return triples[kept], triples[np.sort(held[:cut])], triples[np.sort(held[cut:])]


def usable_triples(terminology: Terminology, *, rare: int, inverse: float) -> tuple[Int, dict[str, Any]]:
    """Return the triples (t, 3) of live concepts, no self-loops, without rare and inverse relations.

    Of two relations that turn each other round the one with the lesser number of triples goes; of equals the later.

    Args:
        terminology: where they come from.
        rare: triples that a relation must have.
        inverse: share of a relation's triples that another one has turned round.

    Returns:
        The triples, rows and relations as the terminology numbers them, and what was left out: how many rare relations,
        and the inverse ones.
    """
    triples = np.unique(np.asarray(terminology.triples, np.int64), axis=0)
    live = ~terminology.retired[triples[:, 0]] & ~terminology.retired[triples[:, 2]]
    triples = triples[live & (triples[:, 0] != triples[:, 2])]
    labels, few, turned_round = terminology.relation_labels, 0, []
    pairs: dict[int, Int] = {}
    counts = np.bincount(triples[:, 1], minlength=len(labels))
    for relation in np.lexsort((np.arange(len(labels)), -counts)).tolist():
        rows = triples[triples[:, 1] == relation]
        if not len(rows):
            continue
        if len(rows) < rare:
            few += 1
            continue
        turned = rows[:, 2] * terminology.n_concepts + rows[:, 0]
        other = next((one for one, keys in pairs.items() if np.isin(turned, keys).mean() >= inverse), None)
        if other is not None:
            turned_round.append(f"{labels[relation]} (turns {labels[other]} round)")
            continue
        pairs[relation] = rows[:, 0] * terminology.n_concepts + rows[:, 2]
    facts = {"rare_relations_left_out": few, "inverse_relations_left_out": turned_round}
    return triples[np.isin(triples[:, 1], list(pairs))], facts
