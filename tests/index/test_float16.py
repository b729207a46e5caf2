"""Vectors in half precision: half the file, the neighbours of float32, and all arithmetic in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.answer.features import sums_of
from alphita.errors import InputError
from alphita.index import float16
from alphita.index.backends import exact
from alphita.index.choice import Building
from alphita.index.lookup import VECTORS, How, Restricted, lookup
from alphita.index.neighbours import nearest, unit
from alphita.index.segment import Segment
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology, small_terminology
from tests.index.test_backends import BACKENDS, brute_force, many


def halved(n: int, dim: int, folder) -> np.ndarray:
    """Return vectors of length 1 in half precision, mapped."""
    vectors = unit(np.random.default_rng(1).standard_normal((n, dim)).astype(np.float32))
    np.save(folder / "v.npy", vectors.astype(np.float16))
    return np.load(folder / "v.npy", mmap_mode="r")


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(1, 400))
def test_an_inner_product_moves_by_no_more_than_is_said(seed, dim):
    random = np.random.default_rng(seed)
    query, vector = unit(random.standard_normal((2, dim)).astype(np.float32)).astype(np.float64)
    moved = abs(query @ vector - query @ vector.astype(np.float16).astype(np.float64))
    assert moved <= 1 / 2048 + 1e-6


def test_blocks_are_all_rows_once_as_float32():
    for dtype in (np.float16, np.float32):
        vectors = np.arange(22, dtype=dtype).reshape(11, 2)
        found = list(float16.blocks(vectors, 4))
        assert [start for start, _ in found] == [0, 4, 8]
        assert all(block.dtype == np.float32 for _, block in found)
        assert np.array_equal(np.concatenate([block for _, block in found]), vectors)
    full = np.ones((3, 2), np.float32)
    assert float16.full(full) is full
    assert next(float16.blocks(full, 9))[1].base is full  # not copied


def test_a_length_is_measured_in_float32():
    # In half precision the sum of squares would be 1.0e-5 off already, and 70,000 is no number at all.
    large = np.full((1, 4), 200, np.float16)
    assert np.array_equal(unit(large), np.full((1, 4), 0.5, np.float32))
    assert unit(large).dtype == np.float32


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("n", [700, 3000])
@pytest.mark.parametrize("queries", [1, 19, 300])
@pytest.mark.parametrize("k", [1, 150, 10_000])
def test_neighbours_are_those_of_brute_force(name, n, queries, k, tmp_path, monkeypatch):
    monkeypatch.setattr(float16, "ROWS_AT_ONCE", 1024)  # several blocks, the last one smaller
    vectors = halved(n, 24, tmp_path)
    asked = unit(np.random.default_rng(2).standard_normal((queries, 24)).astype(np.float32))
    backend = registry.load("alphita.index.backends", name).attach(vectors)
    similarity, rows = nearest(backend, vectors.shape, asked, k)
    expected, expected_rows = brute_force(vectors, asked, k)
    assert similarity.shape == rows.shape == (queries, min(k, n))
    assert similarity.dtype == np.float32
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > 0.99


@pytest.mark.parametrize("queries", [1, 30])
def test_few_and_many_queries_are_answered_from_thousands(queries, tmp_path):
    vectors, asked = many()
    vectors = vectors.astype(np.float16)
    backend = registry.load("alphita.index.backends", "faiss").attach(vectors)
    similarity, rows = nearest(backend, vectors.shape, asked[:queries], 16)
    expected, expected_rows = brute_force(vectors, asked[:queries], 16)
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > 0.99


def test_no_more_than_a_block_is_widened(tmp_path, monkeypatch):
    vectors = halved(40_000, 8, tmp_path)
    widened: list[int] = []
    monkeypatch.setattr(float16, "full", lambda some, full=float16.full: (widened.append(len(some)), full(some))[1])
    for name in ("exact", "faiss"):
        backend = registry.load("alphita.index.backends", name).attach(vectors)
        for queries in (2, 50):
            nearest(backend, vectors.shape, float16.full(vectors[:queries]), 3)
    assert max(widened) <= float16.ROWS_AT_ONCE < len(vectors)


@pytest.mark.parametrize("name", ["hnsw", "ivf_pq"])
def test_approximate_search_finds_what_is_nearest_in_float32(name, tmp_path):
    vectors, asked = many()
    np.save(tmp_path / "v.npy", vectors.astype(np.float16))
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    module = registry.load("alphita.index.backends", name)
    found = module.build(mapped, tmp_path, lambda: asked[:200])
    assert found["recall_at_1"] >= 0.99
    similarity, rows = nearest(module.attach(mapped, tmp_path, found), vectors.shape, asked, 10)
    _, expected_rows = brute_force(vectors, asked, 10)  # of the float32 vectors
    assert (rows[:, 0] == expected_rows[:, 0]).mean() >= 0.98
    products = np.einsum("qd,qkd->qk", asked.astype(np.float64), mapped[rows].astype(np.float64))
    np.testing.assert_allclose(similarity, products, atol=2e-6)  # whatever is found is scored on what is stored
    assert np.abs(similarity - np.einsum("qd,qkd->qk", asked, vectors[rows])).max() < 1 / 2048


def test_recall_against_float32_on_384_numbers():
    random = np.random.default_rng(5)
    centres = random.standard_normal((400, 384))
    vectors = unit((centres[random.integers(0, 400, 8000)] + 0.3 * random.standard_normal((8000, 384))).astype("f4"))
    asked = unit((vectors[random.integers(0, 8000, 1000)] + 0.03 * random.standard_normal((1000, 384))).astype("f4"))
    full_similarity, full_rows = nearest(exact.attach(vectors), vectors.shape, asked, 1)
    similarity, rows = nearest(exact.attach(vectors.astype(np.float16)), vectors.shape, asked, 1)
    assert (rows == full_rows).mean() >= 0.999
    assert np.abs(similarity - full_similarity).max() < 1e-4


@pytest.fixture
def indexes(tmp_path) -> tuple[Index, Index]:
    """The same strings in full and in half precision."""
    return tuple(
        build(small_terminology(), HashEncoder(), tmp_path / f"{name}.index", how=Building(half=name == "half"))
        for name in ("full", "half")
    )


def test_the_file_is_half_and_the_manifest_says_so(indexes):
    full, small = indexes
    assert (full.manifest["vectors"], small.manifest["vectors"]) == ("float32", "float16")
    assert (full.vectors.dtype, small.vectors.dtype) == (np.float32, np.float16)
    assert isinstance(small.vectors.base, np.memmap)
    assert full.content_hash != small.content_hash
    sizes = [one.manifest["files"]["segments/000/vectors.npy"]["size"] for one in indexes]
    assert sizes[0] - sizes[1] == 2 * full.vectors.size
    np.testing.assert_allclose(small.vectors.astype(np.float32), full.vectors, rtol=1 / 2048, atol=1e-7)
    similarity, rows = Index.open(small.path, verify=True).search(np.array(small.vectors), 2)
    assert rows[:, 0].tolist() == list(range(12))
    assert similarity.dtype == np.float32
    np.testing.assert_allclose(similarity[:, 0], 1.0, atol=1e-3)


def test_an_index_that_does_not_say_how_its_vectors_are_stored_opens(indexes):
    full = indexes[0]
    manifest = {name: value for name, value in full.manifest.items() if name != "vectors"}
    opened = Index(full.path, manifest, full.segment, "faiss")
    assert opened.search(np.array(opened.vectors[:2]), 1)[1][:, 0].tolist() == [0, 1]


def test_candidates_are_the_same(indexes):
    queries = ["heart atack", "cephalgia", "cold", "fitz"]
    full, small = (lookup(one, HashEncoder, queries, How(depth=12)) for one in indexes)
    assert np.array_equal(full.query, small.query)
    assert np.array_equal(full.string, small.string)
    assert small.cosine.dtype == small.vectors.dtype == np.float32
    np.testing.assert_allclose(small.cosine, full.cosine, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(small.vectors, axis=1), 1, atol=1e-6)


def test_the_nearest_candidates_are_the_same(indexes):
    # Of strings that share the last place any may be kept: sums of equal products differ in their last bit.
    queries = ["heart atack", "cephalgia", "cold", "fitz"]
    cosines = HashEncoder().encode(queries).astype(np.float64) @ indexes[0].vectors.astype(np.float64).T
    last = np.sort(cosines, axis=1)[:, -5]
    for one in indexes:
        found = lookup(one, HashEncoder, queries, How(depth=5, routes=VECTORS))
        assert np.bincount(found.query).tolist() == [5, 5, 5, 5]
        for query, row in enumerate(cosines):
            strings = set(found.string[found.query == query].tolist())
            assert set(np.flatnonzero(row > last[query] + 1e-3).tolist()) <= strings
            assert strings <= set(np.flatnonzero(row > last[query] - 1e-3).tolist())


def test_a_part_of_the_strings_is_searched_alone(indexes):
    allowed = np.arange(12) % 2 == 0
    asked = indexes[0].vectors[::2]
    found = [Restricted(one, allowed).search(asked, 1) for one in indexes]
    assert found[0][1][:, 0].tolist() == list(range(0, 12, 2))
    assert np.array_equal(found[0][1], found[1][1])
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-3)


def test_sums_of_hundreds_of_vectors_are_not_rounded(tmp_path):
    # Added up in half precision, numbers of one sign would lose a hundredth and more.
    rows = [("T:1", f"thing {number}", "exact") for number in range(900)]
    index = build(SmallTerminology(rows), HashEncoder(), tmp_path / "x.index", how=Building(half=True))
    expected = np.array(index.vectors, np.float64).sum(axis=0)
    np.testing.assert_allclose(sums_of(index)[0], expected, atol=1e-3)
    assert np.abs(expected).max() > 100


def test_vectors_of_another_kind_are_refused(indexes):
    path = indexes[0].path / "segments/000/vectors.npy"
    np.save(path, np.load(path).astype(np.float64))
    with pytest.raises(InputError, match="do not fit together"):
        Segment(path.parent)


def test_every_finite_number_is_widened_to_itself():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    assert len(every) == 2 * 31 * 2**10
    widened = float16.full(every.reshape(-1, 2))
    np.testing.assert_array_equal(widened.view(np.uint32), every.astype(np.float32).reshape(-1, 2).view(np.uint32))
    backwards = every[::-2].reshape(-1, 16).T
    np.testing.assert_array_equal(float16.full(backwards), backwards.astype(np.float32))
    assert float16.full(every[:0]).shape == (0,)
