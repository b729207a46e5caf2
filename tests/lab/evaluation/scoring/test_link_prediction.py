"""Link prediction: ranks against plain Python and PyKEEN, the split, scorers, the benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphita.errors import AlphitaError, InputError, Rejects, UsageError
from alphita.terminology import splits
from alphita.terminology.loaders import obo
from alphita.terminology.store import Terminology, load_terminology, save
from alphita_lab.evaluation import run
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks import link_prediction as benchmark
from alphita_lab.evaluation.benchmarks.link_prediction import RelationFrequency, RelationOffset
from alphita_lab.evaluation.scoring.results import Result, figures_of
from alphita_lab.graph import triples as graph_triples
from alphita_lab.graph import triples as ranking
from alphita_lab.graph.triples import TripleScorer
from tests.reference.link_prediction import realistic_ranks
from tests.tiny import tiny_terminology


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
def test_ranks_equal_plain_python(
    graph: tuple[Table, np.ndarray, np.ndarray, int], filtered: bool, at_once: int
) -> None:
    scorer, test, known, n = graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "SCORES_AT_ONCE", at_once)
        found = ranking.ranks(scorer, test, n, known=known if filtered else None)
    everything = {tuple(row) for row in known.tolist()} if filtered else None
    slow = realistic_ranks(scorer.score, [tuple(row) for row in test.tolist()], n, everything)
    for side in ("tail", "head"):
        assert found[side].tolist() == slow[side]


def test_metrics_equal_pykeen() -> None:
    rank_based = pytest.importorskip("pykeen.evaluation.rank_based_evaluator")
    import torch

    rng = np.random.default_rng(3)
    n, m = 30, 40
    table = Table(rng.integers(0, 12, (n, 2, n)))
    known = np.unique(np.stack([rng.integers(0, k, 300) for k in (n, 2, n)], axis=1), axis=0)
    test = known[rng.permutation(len(known))[:m]]
    values = {
        (one.metric, one.subset): one.value for one in figures_of(result_of(ranking.ranks(table, test, n, known=known)))
    }
    evaluator = rank_based.RankBasedEvaluator(filtered=True)
    triples, everything = torch.from_numpy(test), torch.from_numpy(known)
    for target, scores in (
        ("tail", table.score_tails(test[:, 0], test[:, 1])),
        ("head", table.score_heads(test[:, 1], test[:, 2])),
    ):
        given_columns = [0, 1] if target == "tail" else [1, 2]
        column = 2 if target == "tail" else 0
        scores = torch.from_numpy(np.array(scores))
        true = scores[torch.arange(m), triples[:, column]][:, None]
        for row in range(m):
            same = (everything[:, given_columns] == triples[row, given_columns]).all(dim=1)
            others = everything[same, column]
            scores[row, others[others != triples[row, column]]] = float("nan")
        evaluator.process_scores_(triples, target, scores, true_scores=true)
    theirs = evaluator.finalize()
    for ours, name in (
        ("MRR", "inverse_harmonic_mean_rank"),
        ("MR", "arithmetic_mean_rank"),
        ("hits@1", "hits_at_1"),
        ("hits@3", "hits_at_3"),
        ("hits@10", "hits_at_10"),
    ):
        assert values[ours, "all"] == pytest.approx(theirs.get_metric(f"both.realistic.{name}"))
        assert values[ours, "side=head"] == pytest.approx(theirs.get_metric(f"head.realistic.{name}"))


def result_of(found: dict[str, np.ndarray]) -> Result:
    return Result(benchmark.rows_of(found), benchmark.METRICS, ("side",))


def test_one_score_for_all_is_the_middle_rank() -> None:
    test = np.array([[0, 0, 1]])
    found = ranking.ranks(Table(np.zeros((9, 1, 9))), test, 9)
    assert found["tail"].tolist() == found["head"].tolist() == [5.0]


@pytest.mark.parametrize(
    ("n", "error", "told"),
    [(4, ValueError, "the scorer gives"), (3, AlphitaError, "not numbers.*smaller learning_rate")],
)
def test_scores_that_cannot_be_ranked(n: int, error: type[Exception], told: str) -> None:
    table = Table(np.full((3, 1, 3), np.nan))
    with pytest.raises(error, match=told):
        ranking.ranks(table, np.array([[0, 0, 1]]), n)


@given(st.integers(2, 12), st.integers(1, 3), st.integers(0, 60), st.integers(0, 1000))
def test_split_leaves_all_in_training(n: int, relations: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    triples = np.unique(np.stack([rng.integers(0, k, count) for k in (n, relations, n)], axis=1), axis=0)
    train, test, validation = graph_triples.split(triples, test=0.2, validation=0.1, seed=seed)
    parts = [{tuple(row) for row in part.tolist()} for part in (train, test, validation)]
    assert sum(map(len, parts)) == len(triples)
    assert set.union(*parts) == {tuple(row) for row in triples.tolist()}
    seen = {entity for head, _, tail in parts[0] for entity in (head, tail)}
    labels = {relation for _, relation, _ in parts[0]}
    for head, relation, tail in parts[1] | parts[2]:
        assert {head, tail} <= seen
        assert relation in labels
    again = graph_triples.split(triples, test=0.2, validation=0.1, seed=seed)
    assert all(np.array_equal(a, b) for a, b in zip((train, test, validation), again, strict=True))
    assert len(test) <= round(0.2 * len(triples))


def test_the_only_triple_of_a_relation_stays_in_training() -> None:
    triples = np.array([[0, 1, 1], *([head, 0, tail] for head in range(4) for tail in range(4))])
    for seed in range(20):
        train, _, _ = graph_triples.split(triples, test=0.4, validation=0.2, seed=seed)
        assert 1 in train[:, 1]


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
def terminology(tmp_path_factory: pytest.TempPathFactory) -> Terminology:
    """Twelve concepts, each below the three before it."""
    folder = tmp_path_factory.mktemp("links")
    lines = ["format-version: 1.2", ""]
    for number in range(12):
        lines += ["[Term]", f"id: T:{number}", f"name: disorder number {number}"]
        lines += [f"is_a: T:{parent}" for parent in range(max(0, number - 3), number)] + [""]
    return imported(folder, lines)


def imported(folder: Path, lines: Sequence[str]) -> Terminology:
    (folder / "x.obo").write_text("\n".join(lines))
    with Rejects() as rejects:
        save(obo.load([folder / "x.obo"], obo.Options(), rejects), folder / "x.terminology", rejects=rejects)
    return load_terminology(folder / "x.terminology")


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


def test_bad_input(terminology: Terminology, tmp_path: Path) -> None:
    data = benchmark.load(source(terminology), benchmark.Options())
    with pytest.raises(UsageError, match="needs a system with vectors"):
        benchmark.evaluate(data, object(), benchmark.Options())
    with pytest.raises(UsageError, match="needs a terminology"):
        benchmark.load(source(None), benchmark.Options())
    with pytest.raises(UsageError, match="must leave triples"):
        benchmark.load(source(terminology), benchmark.Options(test=0.6, validation=0.4))
    with pytest.raises(InputError, match="none is left"):
        benchmark.load(source(terminology), benchmark.Options(rare=1000))
    with pytest.raises(InputError, match="none of 24 triples can be held out"):
        benchmark.load(source(tiny_terminology(tmp_path / "tiny.terminology")), benchmark.Options())


def test_a_sample_of_the_test_part_still_knows_the_rest(terminology: Terminology) -> None:
    data = benchmark.load(source(terminology), benchmark.Options(test=0.3, max_test=2))
    assert len(data.test) == 2
    assert len(data.known) == terminology.n_relations


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


def test_held_out_triples_leave_with_both_directions(two_ways: Terminology, tmp_path: Path) -> None:
    """A held-out triple's inverse is not in training, though the split names but the one direction."""
    split = splits.Split([], [], [], triples=[("T:9", "is_a", "T:8"), ("T:3", "part_of", "T:2")])
    split.save(tmp_path / "x.split")
    options = benchmark.Options(held_out=tmp_path / "x.split", rare=2, inverse=1.0, validation=0)
    data = benchmark.load(source(two_ways), options)
    assert data.notes["split, triples not of this terminology"] == 1
    held_out = frozenset(("T:2", "T:3"))
    pairs = [frozenset((data.entities[head], data.entities[tail])) for head, _, tail in data.train.tolist()]
    assert held_out not in pairs
    assert {frozenset((data.entities[head], data.entities[tail])) for head, _, tail in data.test.tolist()} == {held_out}


def test_what_is_not_in_training_is_not_asked_about(two_ways: Terminology, tmp_path: Path) -> None:
    # T:5 has no triple beside the one that is held out.
    split = splits.Split([], [], [], triples=[("T:5", "part_of", "T:4"), ("T:2", "part_of", "T:1")])
    split.save(tmp_path / "x.split")
    options = benchmark.Options(held_out=tmp_path / "x.split", rare=2, validation=0)
    data = benchmark.load(source(two_ways), options)
    assert [(data.entities[head], data.entities[tail]) for head, _, tail in data.test.tolist()] == [("T:2", "T:1")]
    assert data.notes["held_out_triples_of_something_unseen_left_out"] == 1
    assert "T:5" not in data.entities


def test_splits_that_hold_out_nothing_of_use(terminology: Terminology, tmp_path: Path) -> None:
    splits.Split(["a"], ["T:1"], ["test"]).save(tmp_path / "strings.split")
    with pytest.raises(InputError, match="holds no triples out"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "strings.split"))
    splits.Split([], [], [], triples=[("X:1", "is_a", "X:2")]).save(tmp_path / "other.split")
    with pytest.raises(InputError, match="no held-out triple of this split"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "other.split"))
    splits.Split([], [], [], triples=[("T:0", "is_a", "T:11")]).save(tmp_path / "none.split")
    with pytest.raises(InputError, match="none of 30 triples is held out"):
        benchmark.load(source(terminology), benchmark.Options(held_out=tmp_path / "none.split"))


@pytest.mark.parametrize("trained_with", [None, "another", "this"])
def test_a_model_trained_with_another_split_is_told_of(
    trained_with: str | None, terminology: Terminology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = splits.with_triples(splits.Split([], [], []), terminology, fraction=0.4, seed=3)
    split.save(tmp_path / "x.split")
    system = Concepts()
    split_hash = split.hash if trained_with == "this" else trained_with
    monkeypatch.setattr(system, "facts", {"trained": {"recipe": "coder", "terminology": "t", "split": split_hash}})
    monkeypatch.setattr(run, "load_system", lambda _: system)
    settings = [f"link_prediction.held_out={tmp_path / 'x.split'}"]
    report = run.run(
        run.EvaluationPlan(["link_prediction"], ["mine"], terminology=terminology, settings=settings),
        tmp_path / "report",
    )
    notes = report["benchmarks"][0]["systems"][0]["notes"]
    assert notes["split"] == split.hash
    if trained_with == "this":
        assert "caution" not in notes
    else:
        assert "may have been trained on" in notes["caution"]


@pytest.fixture
def two_ways(tmp_path: Path) -> Terminology:
    """part_of and has_part turn each other round but once; rare has one triple; is_a has a loop."""
    lines = ["format-version: 1.2", "", "[Term]", "id: T:0", "name: whole", "relationship: rare T:3", "is_a: T:0", ""]
    for number in range(1, 6):
        lines += ["[Term]", f"id: T:{number}", f"name: part {number}", f"relationship: part_of T:{number - 1}"]
        lines += [f"relationship: has_part T:{number + 1}"] if number < 5 else []
        lines.append("")
    return imported(tmp_path, lines)


def test_rare_and_inverse_relations_are_left_out(two_ways: Terminology) -> None:
    triples, facts = graph_triples.usable_triples(two_ways, rare=2, inverse=0.8)
    assert {two_ways.relation_labels[label] for label in triples[:, 1]} == {"part_of"}
    assert facts["inverse_relations_left_out"] == ["has_part (turns part_of round)"]
    assert facts["rare_relations_left_out"] == 1
    triples, facts = graph_triples.usable_triples(two_ways, rare=1, inverse=1.0)
    assert facts["inverse_relations_left_out"] == ["has_part (turns part_of round)"]
    assert (triples[:, 0] != triples[:, 2]).all()
