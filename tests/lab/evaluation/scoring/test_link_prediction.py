"""Link prediction: ranks against plain Python and PyKEEN, the split, scorers, the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import AlphitaError, UsageError
from alphita.terminology import splits
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks import link_prediction as benchmark
from alphita_lab.evaluation.benchmarks.link_prediction import RelationFrequency, RelationOffset
from alphita_lab.evaluation.scoring.results import figures_of
from alphita_lab.graph import triples as ranking
from alphita_lab.graph.triples import TripleScorer
from tests.lab.evaluation.small_terminologies import imported, stanza
from tests.reference.link_prediction import realistic_ranks


class Table:
    """A scorer that knows the score of every triple."""

    def __init__(self, scores: np.ndarray) -> None:
        self.scores = scores.astype(np.float32)

    def score_tails(self, heads: np.ndarray, relations: np.ndarray) -> np.ndarray:
        return self.scores[heads, relations]

    def score_heads(self, relations: np.ndarray, tails: np.ndarray) -> np.ndarray:
        return self.scores[:, relations, tails].T

    def score(self, head: int, relation: int, tail: int) -> float:
        return float(self.scores[head, relation, tail])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Table, np.ndarray, np.ndarray, int]:
    n, relations, seed = draw(st.integers(2, 7)), draw(st.integers(1, 3)), draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    # Few values, so that ties are many; some entities unknown to the scorer.
    scores = rng.integers(0, 4, (n, relations, n)).astype(float)
    scores[rng.random(scores.shape) < 0.1] = -np.inf
    known = np.unique(np.stack([rng.integers(0, m, 20) for m in (n, relations, n)], axis=1), axis=0)
    return Table(scores), known[rng.permutation(len(known))[:5]], known, n


@given(graphs(), st.booleans(), st.sampled_from([1, 20, 10_000]))
def test_ranks_equal_plain_python(graph, filtered, at_once) -> None:
    scorer, test, known, n = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_AT_ONCE", at_once)
        found = ranking.ranks(scorer, test, n, known=known if filtered else None)
    everything = {tuple(row) for row in known.tolist()} if filtered else None
    slow = realistic_ranks(scorer.score, [tuple(row) for row in test.tolist()], n, everything)
    for side in ("tail", "head"):
        assert found[side].tolist() == slow[side]


@pytest.mark.parametrize(
    ("n", "error", "told"),
    [(4, ValueError, "the scorer gives"), (3, AlphitaError, "not numbers.*smaller learning_rate")],
)
def test_scores_that_cannot_be_ranked(n: int, error: type[Exception], told: str) -> None:
    table = Table(np.full((3, 1, 3), np.nan))
    with pytest.raises(error, match=told):
        ranking.ranks(table, np.array([[0, 0, 1]]), n)


def test_relation_frequency_counts() -> None:
    train = np.array([[0, 0, 1], [2, 0, 1], [0, 1, 2]])
    scorer = RelationFrequency(train, 3, 2)
    assert isinstance(scorer, TripleScorer)
    assert scorer.score_tails(np.array([0]), np.array([0])).tolist() == [[0, 2, 0]]
    assert scorer.score_heads(np.array([0, 1]), np.array([1, 1])).tolist() == [[1, 0, 1], [1, 0, 0]]


def test_relation_offset_is_minus_the_distance() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(6, 3)).astype(np.float32)
    vectors[5] = np.nan
    train = np.array([[0, 0, 1], [1, 0, 2], [3, 1, 4], [5, 0, 1]])
    scorer = RelationOffset(vectors, train, 3)
    assert isinstance(scorer, TripleScorer)
    offset = np.mean([vectors[1] - vectors[0], vectors[2] - vectors[1]], axis=0)
    tails = scorer.score_tails(np.array([3, 5]), np.array([0, 0]))
    for tail in range(5):
        expected = -np.inf if tail == 3 else -np.linalg.norm(vectors[3] + offset - vectors[tail])
        assert tails[0, tail] == pytest.approx(expected, abs=1e-4)
    assert tails[0, 5] == -np.inf
    assert (tails[1] == -np.inf).all()
    heads = scorer.score_heads(np.array([0, 2]), np.array([3, 3]))
    assert heads[0, 1] == pytest.approx(-np.linalg.norm(vectors[3] - offset - vectors[1]), abs=1e-4)
    assert heads[1, 1] == pytest.approx(-np.linalg.norm(vectors[3] - vectors[1]), abs=1e-4)


@pytest.fixture(scope="module")
def terminology(tmp_path_factory) -> Terminology:
    """Twelve concepts, each below the three before it."""
    lines: list[str] = []
    for number in range(12):
        parents = [f"is_a: T:{parent}" for parent in range(max(0, number - 3), number)]
        lines += stanza(f"T:{number}", f"disorder number {number}", *parents)
    return imported(tmp_path_factory.mktemp("links"), lines)


def source(terminology: Terminology | None) -> Source:
    return Source(None, terminology, "link_prediction", "somewhere")


class Concepts:
    """Random vectors of concepts, none of the last one."""

    name, facts = "concepts", {"kind": "test"}

    def encode_concepts(self, ids: Sequence[str]) -> np.ndarray:
        vectors = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
        vectors[-1] = np.nan
        return vectors


class Perfect:
    """A graph model that has seen the answers."""

    name, facts = "perfect", {"kind": "test"}

    def __init__(self, answers: np.ndarray) -> None:
        self.answers = answers

    def scorer(
        self, entities: Sequence[str], relations: Sequence[str], train: np.ndarray, validation: np.ndarray
    ) -> TripleScorer:
        scores = np.zeros((len(entities), len(relations), len(entities)))
        scores[tuple(self.answers.T)] = 1
        return Table(scores)


def test_benchmark_on_a_terminology(terminology: Terminology) -> None:
    options = benchmark.Options(test=0.2)
    data = benchmark.load(source(terminology), options)
    assert len(data.known) == terminology.n_relations == len(data.train) + len(data.test) + len(data.validation)
    result = benchmark.evaluate(data, Concepts(), options)
    assert len(result.rows) == 2 * len(data.test)
    assert result.notes["entities_without_a_vector"] == 1
    first = result.rows.row(0, named=True)
    head, relation, tail = data.test[0]
    assert (first["head"], first["tail"]) == (data.entities[head], data.entities[tail])
    assert first["relation"] == first["frequent_relation"] == data.relations[relation] == "is_a"
    subsets = {(one.metric, one.subset) for one in figures_of(result)}
    assert {("MRR", "all"), ("MRR", "side=head"), ("MR", "frequent_relation=is_a")} <= subsets
    # The baseline: each head's rank is that of the findings, its tail's that of the disorders.
    baseline = RelationFrequency(data.train, len(data.entities), 1)
    ranks = ranking.ranks(baseline, data.test, len(data.entities), known=data.known)
    value = next(one.value for one in result.figures if one.metric == "MR")
    assert value == pytest.approx(np.concatenate([ranks["tail"], ranks["head"]]).mean())


def test_a_graph_model_is_scored_by_itself(terminology: Terminology) -> None:
    options = benchmark.Options(test=0.2)
    data = benchmark.load(source(terminology), options)
    result = benchmark.evaluate(data, Perfect(data.known), options)
    assert result.rows["rank"].to_list() == [1.0] * len(result.rows)
    unfiltered = benchmark.evaluate(data, Perfect(data.known), options.model_copy(update={"filtered": False}))
    assert unfiltered.rows["rank"].max() > 1
    sampled = benchmark.load(source(terminology), benchmark.Options(test=0.3, max_test=2))
    assert (len(sampled.test), len(sampled.known)) == (2, terminology.n_relations)
    whole = benchmark.load(source(terminology), benchmark.Options(test=0.3)).test.tolist()
    places = [whole.index(row) for row in sampled.test.tolist()]
    assert places == sorted(places) != [0, 1]


def test_a_system_without_vectors_is_refused(terminology) -> None:
    data = benchmark.load(source(terminology), benchmark.Options())
    with pytest.raises(UsageError, match="needs a system with vectors"):
        benchmark.evaluate(data, object(), benchmark.Options())


def test_held_out_triples_are_the_test_part(terminology: Terminology, tmp_path: Path) -> None:
    split = splits.with_triples(splits.Split([], [], []), terminology, fraction=0.4, seed=3)
    assert len(split.triples) > 5
    split.save(tmp_path / "x.split")
    options = benchmark.Options(held_out=tmp_path / "x.split", validation=0.2)
    data = benchmark.load(source(terminology), options)
    test, train, validation = (
        {(data.entities[head], data.relations[relation], data.entities[tail]) for head, relation, tail in part}
        for part in (data.test.tolist(), data.train.tolist(), data.validation.tolist())
    )
    assert test == set(split.triples)
    assert len(validation) == round(0.2 * (terminology.n_relations - len(test)))
    assert len(test | train | validation) == terminology.n_relations == len(data.known)
    seen = {end for head, _, tail in train for end in (head, tail)}
    assert {end for head, _, tail in test for end in (head, tail)} <= seen
    notes = benchmark.evaluate(data, Concepts(), options).notes
    assert notes["split"] == split.hash
    assert notes["test part"] == "held-out triples of a saved split"
    assert notes["split, triples held out"] == notes["test"] == len(split.triples)
    assert notes["held_out_triples_of_something_unseen_left_out"] == 0
    assert "split" not in benchmark.load(source(terminology), benchmark.Options()).notes


def test_what_is_not_in_training_is_not_asked_about(two_ways: Terminology, tmp_path: Path) -> None:
    # T:5 has no triple beside the one that is held out.
    split = splits.Split([], [], [], triples=[("T:5", "part_of", "T:4"), ("T:2", "part_of", "T:1")])
    split.save(tmp_path / "x.split")
    options = benchmark.Options(held_out=tmp_path / "x.split", rare=2, validation=0)
    data = benchmark.load(source(two_ways), options)
    assert [(data.entities[head], data.entities[tail]) for head, _, tail in data.test.tolist()] == [("T:2", "T:1")]
    assert data.notes["held_out_triples_of_something_unseen_left_out"] == 1
    assert "T:5" not in data.entities


@pytest.fixture
def two_ways(tmp_path: Path) -> Terminology:
    """part_of and has_part turn each other round but once; rare has one triple; is_a has a loop."""
    lines = stanza("T:0", "whole", "relationship: rare T:3", "is_a: T:0")
    for number in range(1, 6):
        back = [f"relationship: has_part T:{number + 1}"] if number < 5 else []
        lines += stanza(f"T:{number}", f"part {number}", f"relationship: part_of T:{number - 1}", *back)
    return imported(tmp_path, lines)
