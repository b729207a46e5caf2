from __future__ import annotations

import builtins

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import MissingExtra
from alphita.evaluation.baselines import rank_concepts, tfidf_neighbours
from tests.reference import metrics as reference

TERMS = ["seizure", "epileptic seizure", "headache", "head ache", "type 2 diabetes", "diabetes type 2", "x"]


def test_neighbours_equal_the_reference() -> None:
    queries = ["seizures", "hedache", "diabetes", "x", "y", ""]
    similarity, rows = tfidf_neighbours(queries, TERMS, 4, threads=1)
    assert similarity.dtype == np.float32
    assert rows.dtype == np.int64
    for query, values, found in zip(queries, similarity, rows, strict=True):
        expected = np.array(reference.tfidf_cosines(query, TERMS))
        best = [row for row in np.argsort(-expected, kind="stable")[:4].tolist() if expected[row] > 0]
        assert found[: len(best)].tolist() == best
        np.testing.assert_allclose(values[: len(best)], expected[best], atol=1e-6)
        assert (found[len(best) :] == -1).all()
        assert (values[len(best) :] == 0).all()
    assert rows[:2, 0].tolist() == [0, 2]
    assert rows[3].tolist() == [6, -1, -1, -1]


def test_neighbours_of_nothing() -> None:
    similarity, rows = tfidf_neighbours([], TERMS, 3)
    assert similarity.shape == rows.shape == (0, 3)
    assert (tfidf_neighbours(["a"], ["", " "], 2)[1] == -1).all()
    with pytest.raises(ValueError, match="not 0 terms and k=3"):
        tfidf_neighbours(["a"], [], 3)
    with pytest.raises(ValueError, match="k=0"):
        tfidf_neighbours(["a"], TERMS, 0)


def test_blocks_of_queries_join(monkeypatch) -> None:
    queries = [*TERMS, "epilepsy"]
    whole = tfidf_neighbours(queries, TERMS, 3, threads=1)
    monkeypatch.setattr("alphita.evaluation.baselines.QUERIES_AT_ONCE", 3)
    parts = tfidf_neighbours(queries, TERMS, 3, threads=2)
    assert np.array_equal(whole[0], parts[0])
    assert np.array_equal(whole[1], parts[1])


def test_missing_extra_says_what_to_install(monkeypatch) -> None:
    genuine = builtins.__import__

    def without(name, *rest, **more):
        if name.split(".")[0] == "sparse_dot_topn":
            raise ModuleNotFoundError(name=name)
        return genuine(name, *rest, **more)

    monkeypatch.delitem(__import__("sys").modules, "sparse_dot_topn", raising=False)
    monkeypatch.setattr("importlib.import_module", lambda name: without(name, fromlist=["x"]))
    with pytest.raises(MissingExtra, match=r"pip install 'alphita\[train\]'"):
        tfidf_neighbours(["a"], TERMS, 1)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), queries=st.integers(0, 4), found=st.integers(1, 9), k=st.integers(1, 5),
    concepts=st.integers(1, 5),
)  # fmt: skip
def test_concepts_by_their_best_term(seed, queries, found, k, concepts) -> None:
    rng = np.random.default_rng(seed)
    term_concept = rng.integers(0, concepts, 12).astype(np.int32)
    similarity = -np.sort(-rng.random((queries, found)), axis=1).astype(np.float32)
    rows = np.stack([rng.permutation(12)[:found] for _ in range(queries)]) if queries else np.empty((0, found), int)
    rows[rng.random(rows.shape) < 0.2] = -1
    best, ranked = rank_concepts(similarity, rows, term_concept, k)
    assert best.shape == ranked.shape == (queries, k)
    for query in range(queries):
        expected = reference.best_concepts(similarity[query], rows[query], term_concept.tolist(), k)
        assert ranked[query].tolist() == [concept for _, concept in expected] + [-1] * (k - len(expected))
        assert best[query].tolist() == [value for value, _ in expected] + [0.0] * (k - len(expected))
