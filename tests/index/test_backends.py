"""One contract over every backend: a new file in the registry is tested without a word here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import UsageError
from alphita.index.backends import exact
from alphita.index.neighbours import nearest, unit

BACKENDS = registry.names("alphita.index.backends")


def search(name: str, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    backend = registry.load("alphita.index.backends", name).attach(vectors)
    return nearest(backend, vectors.shape, queries, k)


def brute_force(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    rows = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, rows, axis=1), rows


@pytest.fixture
def vectors() -> np.ndarray:
    return unit(np.random.default_rng(1).standard_normal((700, 24)).astype(np.float32))


def test_the_backends_are_the_files():
    assert BACKENDS == ["exact", "faiss"]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("queries", [1, 19, 20, 300])
@pytest.mark.parametrize("k", [1, 5, 150])
def test_neighbours_are_those_of_brute_force(name, vectors, queries, k):
    asked = unit(np.random.default_rng(2).standard_normal((queries, 24)).astype(np.float32))
    similarity, rows = search(name, vectors, asked, k)
    expected, expected_rows = brute_force(vectors, asked, k)
    assert similarity.shape == rows.shape == (queries, k)
    assert similarity.dtype == np.float32
    assert rows.dtype == np.int64
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > 0.999  # the rest are ties beyond float32


@pytest.mark.parametrize("name", BACKENDS)
def test_k_beyond_n_gives_every_row_once(name, vectors):
    similarity, rows = search(name, vectors[:7], vectors[:3], 50)
    assert similarity.shape == (3, 7)
    assert [sorted(line) for line in rows.tolist()] == [list(range(7))] * 3
    assert rows[:, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", BACKENDS)
def test_edges(name, vectors):
    assert search(name, vectors, vectors[:4], 0)[1].shape == (4, 0)
    assert search(name, vectors, vectors[:0], 3)[1].shape == (0, 3)
    similarity, rows = search(name, vectors[:1], vectors[:2], 5)
    assert rows.tolist() == [[0], [0]]
    assert similarity[0, 0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("name", BACKENDS)
def test_equals_come_by_row_number(name):
    vectors = np.tile(np.float32([[1, 0]]), (40, 1))
    _, rows = search(name, vectors, np.float32([[1, 0]] * 30), 40)
    assert (rows == np.arange(40)).all()


@pytest.mark.parametrize("name", BACKENDS)
def test_mapped_vectors_are_searched(name, vectors, tmp_path):
    np.save(tmp_path / "v.npy", vectors)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    assert search(name, mapped, vectors[10:40], 1)[1][:, 0].tolist() == list(range(10, 40))


@pytest.mark.parametrize("name", BACKENDS)
def test_wrong_dimension_is_said(name, vectors):
    with pytest.raises(UsageError, match=r"queries of shape \(2, 23\).*vectors of 24"):
        search(name, vectors, vectors[:2, :23], 1)
    with pytest.raises(UsageError, match="k must be 0 or more, not -1"):
        search(name, vectors, vectors[:2], -1)


def test_unknown_backend_names_the_nearest():
    with pytest.raises(UsageError, match=r"unknown backend 'fais'; did you mean 'faiss'\? choose from"):
        registry.load("alphita.index.backends", "fais")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_exact_is_brute_force_with_ties_by_row(data):
    # Whole numbers multiply without rounding, so equal means equal and even the ties must be the same.
    whole = st.integers(-2, 2)
    n, q, d = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    vectors = np.array(data.draw(st.lists(whole, min_size=n * d, max_size=n * d)), np.float32).reshape(n, d)
    queries = np.array(data.draw(st.lists(whole, min_size=q * d, max_size=q * d)), np.float32).reshape(q, d)
    k = data.draw(st.integers(1, n))
    before = exact.VECTOR_BLOCK, exact.QUERY_BLOCK
    exact.VECTOR_BLOCK, exact.QUERY_BLOCK = data.draw(st.integers(1, 9)), 2
    try:
        similarity, rows = search("exact", vectors, queries, k)
    finally:
        exact.VECTOR_BLOCK, exact.QUERY_BLOCK = before
    expected, expected_rows = brute_force(vectors, queries, k)
    assert (similarity == expected).all()
    assert (rows == expected_rows).all()


def test_faiss_multiplies_matrices_for_batches(vectors):
    import faiss

    search("faiss", vectors, vectors[:2], 1)
    assert faiss.cvar.distance_compute_blas_threshold == 20
