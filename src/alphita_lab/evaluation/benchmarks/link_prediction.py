"""Link prediction on a terminology's triples: hits@1/3/10, mean rank (MR) and mean reciprocal rank (MRR).

Filtered; both sides, tails and heads; realistic ranks. Triples are split 90/6/4 so that entities and relations of the
test part are seen in training; rare relations, and those that only turn another one round, are left out first, as in
Amore Bondarenko et al. 2022. With a saved split (`held_out`) its held-out triples are the test part instead: a model
trained with that split has not seen them. A graph model is scored by itself (`LinkSystem`). Vectors of terms or
concepts are scored as they are: each relation is the mean difference of tails and heads in the training part, and tails
are sought around head + relation. Beside every system stands what the frequency of an entity with the relation alone
gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result, scored
from alphita_lab.evaluation.systems import ConceptSystem, VectorSystem
from alphita_lab.graph.triples import SIDES, Int, Scores, TripleScorer, divide, ranks

INFO, PUBLISHED = about(__name__)

# Relations by which figures are broken down: the most frequent ones.
SHOWN = 20
KS = (1, 3, 10)
METRICS = (
    Metric("MRR", ("reciprocal_rank",)),
    *(Metric(f"hits@{k}", (f"hits@{k}",)) for k in KS),
    Metric("MR", ("rank",), higher_is_better=False, fraction=False),
)


class Options(Config):
    """How triples are chosen and split."""

    held_out: Path | None = Field(
        None, description="a saved split (X.split) whose held-out triples are the test part, instead of a new one"
    )
    test: float = Field(0.06, gt=0, lt=1, description="share of the triples to score (Amore Bondarenko et al. 2022)")
    validation: float = Field(0.04, ge=0, lt=1, description="share of the triples kept for a graph model's choices")
    rare: int = Field(10, ge=1, description="minimum triples of a relation")
    inverse: float = Field(
        0.8, gt=0, le=1, description="leave out a relation if another one has this share of its triples in reverse"
    )
    filtered: bool = Field(True, description="do not count other true answers as errors")
    max_test: int | None = Field(None, ge=1, description="score only a seeded sample of the test part")
    seed: int = Field(0, ge=0, description="seed for the split and the sample")


@dataclass(frozen=True)
class Data:
    """Triples (t, 3) of numbered heads, relations and tails; `known` also holds those that are not sampled."""

    entities: list[str]
    names: list[str]
    relations: list[str]
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    validation: NDArray[np.int64]
    known: NDArray[np.int64]
    notes: dict[str, Any] = field(default_factory=dict)


@runtime_checkable
class LinkSystem(Protocol):
    """A graph model as a system: it learns from the training triples, or knows these entities already."""

    name: str
    facts: dict[str, Any]

    def scorer(
        self, entities: Sequence[str], relations: Sequence[str], train: NDArray[np.int64], validation: NDArray[np.int64]
    ) -> TripleScorer:
        """Return a scorer over the entities and relations, by their places in these lists."""
        ...


def load(source: Source, options: Options) -> Data:
    """Choose and split the triples."""
    terminology = source.require_terminology()
    division = divide(
        terminology,
        rare=options.rare,
        inverse=options.inverse,
        test=options.test,
        validation=options.validation,
        seed=options.seed,
        held_out=Split.load(options.held_out) if options.held_out else None,
        split_path=options.held_out,
    )
    test = division.test
    if options.max_test is not None and len(test) > options.max_test:
        chosen = np.random.default_rng([options.seed, 1]).permutation(len(test))[: options.max_test]
        test = test[np.sort(chosen)]
    names = [str(terminology.concept_names[int(row)].as_py()) for row in division.concepts]
    return Data(
        division.entities,
        names,
        division.relations,
        division.train,
        test,
        division.validation,
        division.known,
        division.notes,
    )


def evaluate(data: Data, system: object, options: Options) -> Result:
    """Score one system; one row a triple and side."""
    n, known = len(data.entities), data.known if options.filtered else None
    scorer, without = _scorer(data, system)
    ranks_of = ranks(scorer, data.test, n, known=known)
    rows = _described(data, rows_of(ranks_of))
    baseline = RelationFrequency(data.train, n, len(data.relations))
    plain = rows_of(ranks(baseline, data.test, n, known=known))
    figures = [
        Figure(metric.name, "relation frequency alone", metric.statistic(scored(metric, plain)), len(plain))
        for metric in METRICS
    ]
    notes: dict[str, Any] = {
        "entities": n,
        "relations": len(data.relations),
        "train": len(data.train),
        "validation": len(data.validation),
        "test": len(data.test),
        "filtered": options.filtered,
        "entities_without_a_vector": without,
        **data.notes,
    }
    return Result(rows, METRICS, ("side", "frequent_relation"), figures, notes)


def _described(data: Data, rows: pl.DataFrame) -> pl.DataFrame:
    triples = data.test[rows["triple"].to_numpy()]
    frequent = np.argsort(-np.bincount(data.train[:, 1]), kind="stable")[:SHOWN]
    return rows.with_columns(
        head=pl.Series([data.entities[row] for row in triples[:, 0]]),
        relation=pl.Series([data.relations[row] for row in triples[:, 1]]),
        tail=pl.Series([data.entities[row] for row in triples[:, 2]]),
    ).with_columns(
        frequent_relation=pl.when(pl.col("relation").is_in([data.relations[row] for row in frequent])).then("relation")
    )


def _scorer(data: Data, system: object) -> tuple[TripleScorer, int]:
    """Return the scorer of a system, and how many entities it has no vector for."""
    if isinstance(system, LinkSystem):
        return system.scorer(data.entities, data.relations, data.train, data.validation), 0
    if isinstance(system, VectorSystem):
        vectors = system.encode(clean_many(data.names, system.rules)).copy()
        # A concept without a term bears its id as a name.
        vectors[[name == entity for name, entity in zip(data.names, data.entities, strict=True)]] = np.nan
    elif isinstance(system, ConceptSystem):
        vectors = system.encode_concepts(data.entities)
    else:
        raise UsageError(
            "link_prediction needs a system with vectors of terms or of concepts, or a graph model; "
            f"{getattr(system, 'name', system)} has neither"
        )
    without = int((~np.isfinite(vectors).all(axis=1)).sum())
    return RelationOffset(vectors, data.train, len(data.relations)), without


class RelationFrequency:
    """The scorer to beat: how often an entity is tail (or head) of the relation in the training triples."""

    def __init__(self, train: Int, n_entities: int, n_relations: int) -> None:
        self._counts = {}
        for side, column in (("head", 0), ("tail", 2)):
            counts = np.zeros((n_relations, n_entities), np.float32)
            np.add.at(counts, (train[:, 1], train[:, column]), 1)
            self._counts[side] = counts

    def score_tails(self, heads: Int, relations: Int) -> Scores:
        return self._counts["tail"][relations]

    def score_heads(self, relations: Int, tails: Int) -> Scores:
        return self._counts["head"][relations]


class RelationOffset:
    """Scores vectors as TransE would: a relation is the mean of (tail - head) over its training triples.

    Nothing but that mean is fitted, so that it tells what lies in the vectors already. The score is minus the distance
    of head + relation to tail. Entities without a vector get -inf, and so does the given entity itself: it would nearly
    always be the nearest, and is never the answer.
    """

    def __init__(self, vectors: NDArray[np.float32], train: Int, n_relations: int) -> None:
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
        return self._near(self._vectors[heads] + self._offsets[relations], heads)

    def score_heads(self, relations: Int, tails: Int) -> Scores:
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
