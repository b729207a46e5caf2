"""Clustering pairs and clusters: against plain Python and scikit-learn."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.benchmarks._clusters import clustering_pairs, clusters
from alphita_lab.evaluation.scoring import clustering
from alphita_lab.evaluation.scoring.results import figures_of, scored
from alphita_lab.evaluation.systems import VectorSystem
from tests.lab.evaluation.hash_systems import Hashes
from tests.reference import clustering as reference


class Vectors:
    """A system over strings that are row numbers."""

    name, rules = "vectors", ()

    def __init__(self, vectors: np.ndarray) -> None:
        self.facts, self.vectors = {}, vectors.astype(np.float32)

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        return self.vectors[[int(string) for string in strings]]

    def neighbours(self, queries: Sequence[str], terms: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        cosine = np.array(
            [
                [reference.cosine(self.vectors[int(q)].tolist(), self.vectors[int(t)].tolist()) for t in terms]
                for q in queries
            ],
            np.float32,
        )
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(cosine, order, 1), order

    def similarity(self, left: Sequence[str], right: Sequence[str]) -> np.ndarray:
        return np.array([reference.cosine(a, b) for a, b in zip(self.encode(left), self.encode(right), strict=True)])


class Lexical:
    """The same without vectors."""

    def __init__(self, system: Vectors) -> None:
        self.name, self.facts, self.rules = "lexical", {}, ()
        self.neighbours, self.similarity = system.neighbours, system.similarity


def as_dict(pairs: clustering.Pairs) -> dict[tuple[int, int], float]:
    keys = zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)
    return dict(zip(keys, pairs.similarity.tolist(), strict=True))


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, list[set[str]]]:
    n = draw(st.integers(2, 12))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    # Few distinct directions, so that similarities are often equal.
    vectors = rng.integers(-2, 3, (n, 3)).astype(np.float64)
    if draw(st.booleans()):
        vectors[rng.integers(n)] = np.nan
    concepts = [{str(one) for one in rng.integers(0, 5, rng.integers(1, 3))} for _ in range(n)]
    return vectors, concepts


def terms(concepts: Sequence[set[str]]) -> clustering.Terms:
    rows = [(one, f"{number}") for number, some in enumerate(concepts) for one in sorted(some)]
    return clustering.terms_of([one for one, _ in rows], [name for _, name in rows])


@given(cases(), st.sampled_from([-0.5, 0.0, 0.5]))
def test_range_search_finds_the_pairs_of_a_double_loop(case: tuple[np.ndarray, list[set[str]]], floor: float) -> None:
    vectors, _ = case
    n = len(vectors)
    expected = {
        (i, j): reference.cosine(vectors[i].tolist(), vectors[j].tolist())
        for i, j in itertools.combinations(range(n), 2)
    }
    zero = ~np.nan_to_num(vectors).any(axis=1) | np.isnan(vectors).any(axis=1)
    expected = {pair: value for pair, value in expected.items() if not zero[list(pair)].any()}
    found = as_dict(clustering.pairs_above(vectors.astype(np.float32), floor, max_pairs=1000))
    # A similarity that equals the floor but for rounding may be found or not.
    assert {pair for pair, value in expected.items() if value > floor + 1e-6} <= set(found)
    assert set(found) <= {pair for pair, value in expected.items() if value > floor - 1e-6}
    assert all(abs(found[pair] - expected[pair]) < 1e-5 for pair in found)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    whole = as_dict(clustering.pairs_above(vectors, 0.3, max_pairs=10_000))
    monkeypatch.setattr(clustering, "BLOCK", 7)
    monkeypatch.setattr(clustering, "NEIGHBOURS", 100)
    parts = as_dict(clustering.pairs_above(vectors, 0.3, max_pairs=10_000))
    lexical = Lexical(Vectors(vectors))
    monkeypatch.setattr(clustering, "NEIGHBOURS_AT_FIRST", 2)
    asked = as_dict(clustering.pairs_by_neighbours(lexical, [str(i) for i in range(50)], 0.3, max_pairs=10_000))
    for other in (parts, asked):
        assert other.keys() == whole.keys()
        assert all(abs(other[pair] - value) < 1e-6 for pair, value in whole.items())


@pytest.mark.parametrize("most", [1, 7, 100])
def test_the_floor_rises_to_keep_few_pairs_and_all_above_it_are_kept(most, monkeypatch) -> None:
    monkeypatch.setattr(clustering, "BLOCK", 8)
    vectors = np.random.default_rng(1).integers(-2, 3, (40, 3)).astype(np.float32)
    whole = as_dict(clustering.pairs_above(vectors, -0.9, max_pairs=100_000))
    for kept in (
        clustering.pairs_above(vectors, -0.9, max_pairs=most),
        clustering.pairs_by_neighbours(Lexical(Vectors(vectors)), [str(i) for i in range(40)], -0.9, max_pairs=most),
    ):
        assert kept.raised
        assert len(kept.left) <= most
        above = {pair for pair, value in whole.items() if value > kept.floor + 1e-6}
        assert above <= set(as_dict(kept)) <= {pair for pair, value in whole.items() if value > kept.floor - 1e-6}


def test_exactly_so_many_pairs_are_kept_where_none_are_equal() -> None:
    vectors = np.random.default_rng(5).normal(size=(30, 6)).astype(np.float32)
    whole = sorted(as_dict(clustering.pairs_above(vectors, -1, max_pairs=1000)).values())
    kept = clustering.pairs_above(vectors, -1, max_pairs=10)
    assert sorted(kept.similarity.tolist()) == whole[-10:]
    assert kept.floor == whole[-11]


def test_where_similarity_depends_on_the_direction_the_greater_counts() -> None:
    similarity = np.array([[1, 0.4, 0.3], [1, 0.6, 0], [1, 0.2, 0]], np.float32)
    near = np.array([[0, 1, 2], [1, 0, -1], [2, 0, -1]])
    found = as_dict(clustering.pairs_of_neighbours(similarity, near))
    assert found == {(0, 1): pytest.approx(0.6), (0, 2): pytest.approx(0.3)}


@given(cases())
def test_sweep_counts_and_best_theta_equal_plain_python(case: tuple[np.ndarray, list[set[str]]]) -> None:
    vectors, concepts = case
    n, some = len(vectors), terms(concepts)
    gold = clustering.gold_pairs(some)
    expected_gold = reference.synonyms(concepts)
    assert {(key // n, key % n) for key in gold.tolist()} == expected_gold
    pairs = clustering.pairs_above(vectors.astype(np.float32), -0.5, max_pairs=1000)
    right, known = clustering.are_gold(pairs, gold, n), as_dict(pairs)
    swept = clustering.sweep(pairs.similarity, right, len(gold), pairs.floor)
    thetas = [*np.linspace(-0.5, 1.0, 13), *known.values()]
    predicted, hits = swept.at(np.array(thetas))
    for place, theta in enumerate(thetas):
        tp, fp, fn, tn = reference.counts(known, expected_gold, n, theta)
        assert (tp, fp) == (hits[place], predicted[place] - hits[place])
        of_terms = clustering.term_counts(pairs, right, gold, n, theta)
        assert [int(column.sum()) // 2 for column in of_terms] == [tp, fp, fn, tn]
    if known:
        table = np.stack(clustering.term_counts(pairs, right, gold, n, swept.best()), axis=1)[:, :3].astype(float)
        best = reference.best_f1(known, expected_gold, n)
        assert clustering.pair_f1(table) == pytest.approx(best) or (best == 0 and not table[:, 0].any())
        assert max(swept.curves()["theta F1"][1]) <= best + 1e-12
    else:
        assert np.isnan(swept.best())
        assert swept.curves() == {}


@given(cases(), st.integers(0, 1000))
def test_clusters_equal_plain_python_and_scikit_learn(case: tuple[np.ndarray, list[set[str]]], seed: int) -> None:
    _, concepts = case
    n, rng = len(concepts), np.random.default_rng(seed)
    links = [(int(i), int(j)) for i, j in rng.integers(0, n, (rng.integers(0, n), 2))]
    left, right = np.array([i for i, _ in links], np.int64), np.array([j for _, j in links], np.int64)
    found = clustering.components(left, right, n)
    slow = reference.components(links, n)
    assert sk.adjusted_rand_score(found, slow) == 1
    some = terms(concepts)
    precision, recall = clustering.b_cubed(found, clustering.gold_pairs(some))
    slow_precision, slow_recall = reference.b_cubed(slow, reference.synonyms(concepts))
    np.testing.assert_allclose(precision, slow_precision)
    np.testing.assert_allclose(recall, slow_recall)


def source(terminology: Terminology | None = None, data: Path | None = None) -> Source:
    return Source(data, terminology, "clustering_pairs", "somewhere")


def test_benchmark_on_a_terminology(terminology: Terminology) -> None:
    options = clustering_pairs.Options(floor=0.2)
    data = clustering_pairs.load(source(terminology), options)
    system = Hashes()
    assert isinstance(system, VectorSystem)
    result = clustering_pairs.evaluate(data, system, options)
    n = len(data.terms)
    assert len(result.rows) == n == terminology.n_terms
    assert result.notes["pairs"] == n * (n - 1) // 2
    assert result.notes["synonym_pairs"] == 24 * 3 + 8
    below = result.notes["synonym_pairs_at_or_below_floor"]
    theta = next(one.value for one in result.figures if one.metric == "theta")
    # Against a double loop over the same vectors.
    vectors = system.encode([term.lower() for term in data.terms.strings]).tolist()
    known = {(i, j): reference.cosine(vectors[i], vectors[j]) for i, j in itertools.combinations(range(n), 2)}
    gold = reference.synonyms([{concept} for concept in result.rows["concept"]])
    assert below == sum(known[pair] <= 0.2 for pair in gold)
    tp, fp, fn, tn = reference.counts(known, gold, n, theta)
    values = {(one.metric, one.subset): one.value for one in figures_of(result)}
    assert values["F1", "all"] == pytest.approx(reference.f1(tp, fp, fn))
    assert values["precision", "all"] == pytest.approx(tp / (tp + fp))
    assert values["recall", "all"] == pytest.approx(tp / (tp + fn))
    assert values["accuracy", "all"] == pytest.approx((tp + tn) / (n * (n - 1) / 2))
    assert max(result.curves["theta F1"][1]) <= values["F1", "all"] + 1e-9


@pytest.mark.parametrize(("tuning", "seed"), [(0.2, 0), (0.3, 1), (0.5, 2), (0.5, 3), (0.7, 4), (0.8, 5)])
def test_the_tuned_theta_is_chosen_on_other_concepts(terminology: Terminology, tuning: float, seed: int) -> None:
    options = clustering_pairs.Options(floor=0.2, tuning=tuning, seed=seed)
    data = clustering_pairs.load(source(terminology), options)
    result = clustering_pairs.evaluate(data, Hashes(), options)
    rows = result.rows
    parts = rows.group_by("concept").agg(pl.col("part").n_unique())["part"]
    assert parts.to_list() == [1] * len(parts)
    chosen = (rows["part"] == "tuning").to_numpy()
    assert 0 < chosen.sum() < len(rows)
    metric = next(one for one in result.metrics if one.name == "F1, tuned theta")
    assert len(scored(metric, rows)) == (~chosen).sum()
    # By a loop over thetas: the best F1 over the tuning terms' own pairs.
    n = len(rows)
    strings = [term.lower() for term in data.terms.strings]
    pairs = clustering.pairs_above(Hashes().encode(strings), 0.2, max_pairs=10**6)
    right = clustering.are_gold(pairs, data.gold, n)

    def f1(theta: float) -> float:
        tp, fp, fn, _ = (column[chosen].sum() for column in clustering.term_counts(pairs, right, data.gold, n, theta))
        return 2 * tp / (2 * tp + fp + fn)

    theta = next(one.value for one in result.figures if one.metric == "theta, tuned")
    assert f1(theta) == pytest.approx(max(f1(value - 1e-6) for value in pairs.similarity.tolist()))


def test_a_string_of_two_concepts_is_a_synonym_of_both(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("id\tname\nA\tcold\nA\tCommon cold\nB\tCOLD\nB\tcopd\nC\t...\n")
    options = clustering_pairs.Options(names="names.tsv")
    data = clustering_pairs.load(source(data=tmp_path), options)
    assert data.terms.strings == ["cold", "Common cold", "copd"]
    assert data.gold.tolist() == [1, 2]
    assert (data.terms.shared, data.terms.dropped) == (1, 1)
    result = clustering_pairs.evaluate(data, Hashes(), options)
    assert result.notes["strings_of_several_concepts"] == 1
    assert result.notes["names_empty_after_cleaning"] == 1


def test_names_may_be_gzipped_and_sampled(tmp_path: Path) -> None:
    lines = "".join(f"C{number}\tname {number}\nC{number}\tother {number}\n" for number in range(20))
    (tmp_path / "names.tsv.gz").write_bytes(gzip.compress(lines.encode()))
    options = clustering_pairs.Options(names="names.tsv", max_concepts=5)
    data = clustering_pairs.load(source(data=tmp_path), options)
    assert len(data.terms) == 10
    again = clustering_pairs.load(source(data=tmp_path), options)
    assert again.terms.strings == data.terms.strings
    other = clustering_pairs.load(source(data=tmp_path), options.model_copy(update={"seed": 1}))
    assert other.terms.strings != data.terms.strings


def test_a_file_of_names_is_taken_by_its_path_and_its_name_literally(tmp_path: Path, terminology) -> None:
    for name in ("names[1].tsv", "names1.tsv"):
        (tmp_path / name).write_text(f"A\tin {name}\nA\tother\n")
    for called, data in (("names[1].tsv", tmp_path), (str(tmp_path / "names[1].tsv"), None)):
        found = source(data=data)
        read = clustering_pairs.load(found, clustering_pairs.Options(names=called))
        assert read.terms.strings == ["in names[1].tsv", "other"]
        assert found.read == [tmp_path / "names[1].tsv"]
    with pytest.raises(InputError, match=r"absent.tsv: no such file"):
        clustering_pairs.load(source(), clustering_pairs.Options(names=str(tmp_path / "absent.tsv")))
    assert len(clustering_pairs.load(source(terminology), clustering_pairs.Options(names="")).terms) > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A\tone\nB\n", "not an id, a tab and a name"),
        ("A\tone\n\ttwo\n", "not an id, a tab and a name"),
        ("A\tone\nA\t \n", "not an id, a tab and a name"),
        ("id\tname\n", "holds no name"),
        ("A\tone\nB\ttwo\n", "no concept has two terms"),
        ("A\tone\nA\tONE\n", "no concept has two terms"),
        (b"A\t\xff\n", "not UTF-8"),
    ],
)
def test_bad_names(tmp_path: Path, text: str | bytes, problem: str) -> None:
    (tmp_path / "names.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=problem):
        clustering_pairs.load(source(data=tmp_path), clustering_pairs.Options(names="names.tsv"))


def test_missing_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a terminology"):
        clustering_pairs.load(source(), clustering_pairs.Options())
    with pytest.raises(InputError, match="somewhere"):
        clustering_pairs.load(source(data=tmp_path), clustering_pairs.Options(names="names.tsv"))
    with pytest.raises(UsageError, match="does not tell languages"):
        clustering_pairs.load(source(data=tmp_path), clustering_pairs.Options(names="names.tsv", languages="it"))


def test_strings_without_a_vector_are_counted_and_found_nowhere(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("A\t0\nA\t1\nB\t2\nB\t3\n")
    options = clustering_pairs.Options(names="names.tsv")
    data = clustering_pairs.load(source(data=tmp_path), options)
    vectors = np.array([[1.0, 0], [np.nan, 0], [0, 1], [0, 1]])
    result = clustering_pairs.evaluate(data, Vectors(vectors), options)
    assert result.notes["terms_without_a_vector"] == 1
    assert result.rows["tp"].to_list() == [0, 0, 1, 1]
    assert result.rows["fn"].to_list() == [1, 1, 0, 0]
    nothing = clustering_pairs.evaluate(data, Vectors(np.full((4, 2), np.nan)), options)
    assert nothing.notes["warning"].startswith("no pair")
    assert {one.metric: one.value for one in figures_of(nothing)}["theta"] is None
    assert nothing.rows["tp"].sum() == 0


def test_clusters_on_a_terminology(terminology: Terminology) -> None:
    options = clusters.Options(neighbours=5, theta=0.6)
    data = clusters.load(source(terminology), options)
    system = Hashes()
    result = clusters.evaluate(data, system, options)
    n = len(data.terms)
    strings = [term.lower() for term in data.terms.strings]
    similarity, near = system.neighbours(strings, strings, 5)
    known = {
        (min(i, j), max(i, j)): value
        for i in range(n)
        for j, value in zip(near[i].tolist(), similarity[i].tolist(), strict=True)
        if i != j
    }
    gold = reference.synonyms([{concept} for concept in result.rows["concept"]])
    labels = reference.components([pair for pair, value in known.items() if value > 0.6], n)
    precision, recall = reference.b_cubed(labels, gold)
    values = {one.metric: one.value for one in figures_of(result)}
    assert values["B-cubed precision"] == pytest.approx(np.mean(precision))
    assert values["B-cubed recall"] == pytest.approx(np.mean(recall))
    assert values["F1 of near pairs"] == pytest.approx(reference.best_f1(known, gold, n))
    assert values["adjusted Rand index"] == pytest.approx(sk.adjusted_rand_score(data.terms.first_concept, labels))
    assert result.notes["clusters"] == len(set(labels))


def test_short_strings_join_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "names.tsv").write_text("A\tflu\nA\tflux\nA\tflut\n")
    options = clusters.Options(names="names.tsv", theta=-1)
    data = clusters.load(source(data=tmp_path), options)
    result = clusters.evaluate(data, Hashes(), options)
    assert result.notes["terms_too_short_to_join"] == 1
    assert result.rows["cluster"].n_unique() == 2


def test_theta_published_is_the_one_of_best_f1() -> None:
    """The published F1 follows from the published precision and recall, within rounding."""
    rows = {(one.system, one.metric): one.value for one in clustering_pairs.PUBLISHED}
    for system in {one.system for one in clustering_pairs.PUBLISHED}:
        precision, recall = rows[system, "precision"], rows[system, "recall"]
        assert rows[system, "F1"] == pytest.approx(2 * precision * recall / (precision + recall), abs=5e-4)
