"""Vectors made for the bench of large indexes, and a small run of it."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from alphita.errors import UsageError

sys.path.append(str(Path(__file__).parents[2] / "bench"))
made = importlib.import_module("large_vectors")
bench = importlib.import_module("large_index")


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return made.LikeTerms(20_000).block(0, 20_000)


def test_a_vector_follows_from_its_row_alone(vectors):
    same = made.LikeTerms(20_000)
    assert np.array_equal(same.block(700, 900), vectors[700:900])
    assert same.block(19_990, 99_999).shape == (10, made.DIM)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    other = made.LikeTerms(20_000, seed=1).block(0, 100)
    assert np.abs(np.einsum("nd,nd->n", other, vectors[:100])).mean() < 0.3


def test_every_place_of_the_clusters_is_taken_once():
    some = made.LikeTerms(6400)
    places = np.arange(6400) * some._step % 6400
    assert np.array_equal(np.sort(places), np.arange(6400))


def test_they_lie_as_terms_do(vectors):
    # The figures are those in the module's docstring; of fewer vectors the nearest are a little farther.
    asked = vectors[::40]
    cosine = -np.sort(-(asked @ vectors.T), axis=1)
    for place, low, high in ((1, 0.80, 0.95), (10, 0.65, 0.80), (100, 0.45, 0.60), (1000, 0.30, 0.42)):
        assert low < np.median(cosine[:, place]) < high
    assert 0.3 < np.linalg.norm(vectors.mean(axis=0)) < 0.45
    variance = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    assert 0.3 < variance[:16].sum() / variance.sum() < 0.55  # HPO: 0.37


def test_queries_are_noisy_copies(vectors):
    rows, queries = made.LikeTerms(20_000).queries(500, seed=1)
    cosine = np.einsum("qd,qd->q", queries, vectors[rows])
    assert 0.72 < np.median(cosine) < 0.87
    assert cosine.min() > 0.05
    assert not np.array_equal(rows, made.LikeTerms(20_000).queries(500, seed=2)[0])


@pytest.mark.parametrize("full", [False, True])
def test_a_small_run(tmp_path, full):
    given = SimpleNamespace(n=6000, full=full, backend="ivf_pq", queries=200, threads=1, seed=0)
    found = {step: bench.run_step(step, given, tmp_path) for step in bench.STEPS}
    assert found["write"]["vectors_bytes"] == 128 + 6000 * made.DIM * (4 if full else 2)
    assert found["build"]["settings"]["recall_at_1"] >= 0.99
    assert found["build"]["index_bytes"] == (tmp_path / "ivf_pq.faiss").stat().st_size
    assert found["search"]["recall_at_1"] >= 0.97
    assert found["search"]["recall_at_1"] >= found["search"]["same_row"] > 0.95
    # A naive search finds the same.
    stored = np.load(tmp_path / "vectors.npy").astype(np.float64)
    queries = made.LikeTerms(6000).queries(200, bench.COUNTED)[1]
    assert (np.load(tmp_path / "exact.npz")["rows"] == (queries @ stored.T).argmax(axis=1)).mean() > 0.99
    for figures in found.values():
        assert figures["peak_bytes"] >= figures["peak_own_bytes"] > 0
        assert figures["seconds"] > 0
        assert json.loads(json.dumps(figures)) == figures


def test_a_folder_of_another_run_is_refused(tmp_path):
    (tmp_path / "asked.json").write_text(json.dumps({"n": 5}))
    with pytest.raises(UsageError, match="holds the files of another run"):
        bench.measure(SimpleNamespace(n=6), tmp_path)
