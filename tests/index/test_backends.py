"""One contract over every backend: a new file in the registry is tested without a word here."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.index.backends import FLAT_UP_TO, IndexBackend, _rounded, choose, exact, faiss, ivf_pq
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
    assert BACKENDS == ["exact", "faiss", "hnsw", "ivf_pq"]


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


def many(n: int = 6000, dim: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors in clusters, as strings' vectors lie, and queries near some of them."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((n // 20, dim))
    vectors = unit((centres[rng.integers(0, len(centres), n)] + 0.4 * rng.standard_normal((n, dim))).astype(np.float32))
    noisy = vectors[rng.integers(0, n, 300)] + 0.05 * rng.standard_normal((300, dim))
    return vectors, unit(noisy.astype(np.float32))


WAYS = ["int8", "bf16", "faiss"]


@pytest.fixture(params=WAYS)
def products(request, monkeypatch):
    """What multiplies: torch, whole numbers where the processor can, or FAISS."""
    if request.param == "int8" and not _rounded.multiplies_rightly():
        pytest.skip("products of whole numbers overflow on this processor, so that torch is not asked for them")
    monkeypatch.setattr(_rounded, "by_torch", lambda _: request.param)
    return request.param


def test_where_the_memory_is_too_small_for_whole_numbers_all_are_compared(monkeypatch):
    vectors, asked = many()
    expected = search("faiss", vectors, asked, 5)

    def full(*_arguments, **_options):
        raise MemoryError

    monkeypatch.setattr(faiss, "Rounded", full)
    similarity, rows = search("faiss", vectors, asked, 5)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(similarity, expected[0], atol=1e-6)


@pytest.mark.parametrize("queries", [1, 19, 300])
@pytest.mark.parametrize("k", [1, 16, 93, 200])
def test_queries_are_answered_exactly_by_way_of_whole_numbers(products, queries, k):
    vectors, asked = many()
    similarity, rows = search("faiss", vectors, asked[:queries], k)
    expected, expected_rows = brute_force(vectors, asked[:queries], k)
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > 0.999


def test_torch_is_loaded_for_many_queries_only(monkeypatch):
    vectors, asked = many()
    monkeypatch.setattr(_rounded, "by_torch", lambda _: "bf16")
    monkeypatch.setattr(faiss, "sys", SimpleNamespace(modules={}))
    backend = faiss.attach(vectors)
    nearest(backend, vectors.shape, asked[:2], 16)
    assert [*backend._rounded] == ["faiss"]
    rows = nearest(backend, vectors.shape, asked, 16)[1]
    assert [*backend._rounded] == ["faiss", "bf16"]
    assert (rows == brute_force(vectors, asked, 16)[1]).mean() > 0.999


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_query_is_answered_alike_alone_and_among_others(products, dtype):
    vectors, asked = many()
    backend = faiss.attach(vectors.astype(dtype))
    together = nearest(backend, vectors.shape, asked[:19], 16)
    alone = [nearest(backend, vectors.shape, asked[place : place + 1], 16) for place in range(19)]
    for place in (0, 1):
        np.testing.assert_array_equal(together[place], np.concatenate([one[place] for one in alone]))


def test_whole_numbers_are_not_trusted_where_they_cannot_tell(products):
    # All so near to each other that rounding hides the nearest: every one must be compared.
    rng = np.random.default_rng(4)
    vectors = unit((np.ones((5000, 16)) + 1e-4 * rng.standard_normal((5000, 16))).astype(np.float32))
    asked = unit(rng.standard_normal((3, 16)).astype(np.float32))
    similarity, _ = search("faiss", vectors, asked, 3)
    np.testing.assert_allclose(similarity, brute_force(vectors, asked, 3)[0], atol=1e-6)
    # Nor with nothing in them, or a query of nothing; others beside it are answered.
    assert (search("faiss", np.zeros_like(vectors), asked, 1)[0] == 0).all()
    asked[1] = 0
    similarity, _ = search("faiss", many(dim=16)[0], asked, 1)
    np.testing.assert_allclose(similarity, brute_force(many(dim=16)[0], asked, 1)[0], atol=1e-6)


def test_whole_numbers_are_given_up_where_they_never_can_tell(products, monkeypatch):
    vectors = np.repeat(unit(np.random.default_rng(6).standard_normal((1, 16)).astype(np.float32)), 6000, axis=0)
    asked = many(dim=16)[1]
    backend = faiss.attach(vectors)
    rounded = []
    search_by_rounded = faiss.FaissBackend._by_rounded
    monkeypatch.setattr(
        faiss.FaissBackend,
        "_by_rounded",
        lambda self, *given: rounded.append(len(given[1])) or search_by_rounded(self, *given),
    )
    for start in range(0, 300, 10):
        nearest(backend, vectors.shape, asked[start : start + 10], 3)
    assert faiss.MAX_IN_VAIN < sum(rounded) <= faiss.MAX_IN_VAIN + 10


def test_negative_products_are_found_behind_the_filling_of_the_last_group(products):
    # 5,001 is no multiple of a group: the rows that fill it up are zeros, nearer than any of these.
    vectors = -np.abs(many(n=5001)[0])
    asked = np.abs(many()[1][:30])
    similarity, rows = search("faiss", vectors, asked, 5)
    np.testing.assert_allclose(similarity, brute_force(vectors, asked, 5)[0], atol=2e-6)
    assert rows.max() < 5001


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-3, 1.0, 50.0]), st.sampled_from([1.0, 100.0]), st.sampled_from(WAYS))
def test_what_rounding_can_change_is_bounded(seed, scale, outlier, way):
    rng = np.random.default_rng(seed)
    vectors = (scale * rng.standard_normal((40, 24))).astype(np.float32)
    vectors[:, seed % 24] *= np.float32(outlier)
    asked = rng.standard_normal((3, 24)).astype(np.float32)
    made = _rounded.Rounded(vectors, way)
    rounded, unit_product, off = made.rounded(asked)
    whole = made._round(vectors / made.step)
    assert way == "bf16" or max(np.abs(whole).max(), np.abs(rounded).max()) <= 127
    products = rounded.astype(np.float64) @ whole.T.astype(np.float64) * unit_product[:, None]
    if way == "bf16":
        products *= 1 + _rounded.HALVED * rng.choice([-1, 1], products.shape)
    assert (np.abs(products - asked.astype(np.float64) @ vectors.T.astype(np.float64)) <= off[:, None]).all()
    # And the bound is of use: a few percent of what a product can be.
    lengths = np.linalg.norm(asked, axis=1) * np.linalg.norm(vectors, axis=1).max()
    assert (off <= 0.04 * lengths).all()


def test_hardly_a_query_is_compared_with_all_vectors(products, monkeypatch):
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((600, 384))
    spread = 0.7 * rng.standard_normal((12_000, 384))
    vectors = unit((centres[rng.integers(0, 600, 12_000)] + spread).astype(np.float32))
    asked = unit((vectors[:200] + 0.03 * rng.standard_normal((200, 384))).astype(np.float32))
    compared = []
    monkeypatch.setattr(
        faiss, "_compare", lambda queries, *_: compared.append(len(queries)) or brute_force(queries, vectors, 16)
    )
    backend = faiss.attach(vectors)
    for start in range(0, 200, 10):
        nearest(backend, vectors.shape, asked[start : start + 10], 16)
    assert sum(compared) <= 10


@pytest.mark.parametrize("name", ["hnsw", "ivf_pq"])
def test_approximate_search_is_measured_and_opened_again(name, tmp_path):
    vectors, asked = many()
    np.save(tmp_path / "v.npy", vectors)
    mapped = np.load(tmp_path / "v.npy", mmap_mode="r")
    module = registry.load("alphita.index.backends", name)
    settings = module.build(mapped, tmp_path, lambda: asked[:200])
    assert settings["recall_at_1"] >= 0.99
    assert settings["probes"] == 200
    backend = module.attach(mapped, tmp_path, settings)
    assert not isinstance(backend, exact.ExactBackend | faiss.FaissBackend)
    similarity, rows = nearest(backend, vectors.shape, asked, 10)
    expected, expected_rows = brute_force(vectors, asked, 10)
    assert (rows[:, 0] == expected_rows[:, 0]).mean() >= 0.98
    assert (rows == expected_rows).mean() > 0.9
    products = np.einsum("qd,qkd->qk", asked.astype(np.float64), vectors[rows].astype(np.float64))
    np.testing.assert_allclose(similarity, products, atol=2e-6)  # whatever is found is scored exactly
    assert (similarity <= expected[:, :1] + 2e-6).all()
    every = nearest(backend, vectors.shape, asked[:2], len(vectors))[1]
    assert [sorted(line) for line in every.tolist()] == [list(range(len(vectors)))] * 2


def test_an_approximate_search_that_misses_too_much_is_refused(tmp_path, monkeypatch):
    vectors = many()[0]
    monkeypatch.setattr(ivf_pq, "STEPS", [{"nprobe": 1, "scored_again": 1}])
    with pytest.raises(InputError, match=r"ivf_pq finds the nearest string for only \d.*% of 300.*--backend faiss"):
        ivf_pq.build(vectors, tmp_path, lambda: unit(np.random.default_rng(9).standard_normal((300, 32))))


def test_a_wider_search_is_taken_only_where_it_is_needed(tmp_path, monkeypatch):
    vectors = many()[0]
    monkeypatch.setattr(ivf_pq, "STEPS", [{"nprobe": lists, "scored_again": 1000} for lists in (1, 64, 128)])
    easy = ivf_pq.build(vectors, tmp_path, lambda: vectors[:100])
    assert (easy["nprobe"], easy["recall_at_1"]) == (1, 1.0)
    hard = ivf_pq.build(vectors, tmp_path, lambda: unit(np.random.default_rng(9).standard_normal((300, 32))))
    assert hard["nprobe"] > 1
    assert hard["recall_at_1"] >= 0.99


@pytest.mark.parametrize("name", ["hnsw", "ivf_pq"])
def test_what_was_not_prepared_or_is_damaged_is_said(name, tmp_path):
    module = registry.load("alphita.index.backends", name)
    vectors, _ = many()
    with pytest.raises(UsageError, match=f"not built for {name}; build it again with --backend {name}"):
        module.attach(vectors, tmp_path, None)
    (tmp_path / module.FILE).write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="build the index again"):
        module.attach(vectors, tmp_path, None)


def test_the_size_decides():
    assert choose(10) == choose(FLAT_UP_TO) == "faiss"
    assert choose(FLAT_UP_TO + 1) == choose(20_000_000) == "ivf_pq"


def test_faiss_multiplies_matrices_for_batches(vectors):
    import faiss as library

    search("faiss", vectors, vectors[:2], 1)
    assert library.cvar.distance_compute_blas_threshold == 20


def opened(name: str, vectors: np.ndarray, asked: np.ndarray, folder) -> IndexBackend:
    module = registry.load("alphita.index.backends", name)
    return module.attach(vectors, folder, module.build(vectors, folder, lambda: asked))


def nothing_is_copied(monkeypatch) -> None:
    monkeypatch.setattr(faiss, "ROUNDED_UP_TO_BYTES", 0)
    monkeypatch.setattr(faiss, "COPIED_UP_TO_BYTES", 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "where they lie"])
@pytest.mark.parametrize("name", BACKENDS)
def test_only_what_is_allowed_is_found(name, copied, dtype, tmp_path, monkeypatch):
    whole, asked = many()
    vectors = whole.astype(dtype)
    backend = opened(name, vectors, asked, tmp_path)
    if not copied:
        nothing_is_copied(monkeypatch)
    allowed = np.random.default_rng(4).random(len(vectors)) < 0.4
    rows = np.flatnonzero(allowed)
    few = backend.only(allowed)
    for k in (1, 5, 400):  # so many that all are compared
        found, places = nearest(few, (len(rows), vectors.shape[1]), asked, k)
        expected, nearest_rows = brute_force(vectors[rows].astype(np.float32), asked, k)
        assert allowed[places].all()
        assert all(len(set(line)) == k for line in places.tolist())
        missed = (found < expected - 1e-5).any(axis=1).mean()
        assert missed <= (0.02 if name == "ivf_pq" and not copied and k < 400 else 0)
        assert (places == rows[nearest_rows]).mean() > 0.97
    again = few.only(~allowed | (np.arange(len(vectors)) % 2 == 0))
    assert set(nearest(again, (int((allowed[::2]).sum()), vectors.shape[1]), asked, 9)[1].ravel() % 2) == {0}


@pytest.mark.parametrize("name", BACKENDS)
def test_all_allowed_is_a_search_of_all_and_none_allowed_finds_nothing(name, vectors, monkeypatch):
    nothing_is_copied(monkeypatch)
    backend = registry.load("alphita.index.backends", name).attach(vectors)
    every = backend.only(np.ones(len(vectors), bool))
    assert (
        nearest(every, vectors.shape, vectors[:9], 3)[1] == nearest(backend, vectors.shape, vectors[:9], 3)[1]
    ).all()
    assert nearest(backend.only(np.zeros(len(vectors), bool)), (0, 24), vectors[:9], 3)[1].shape == (9, 0)


def test_a_small_part_is_not_missed_wherever_it_lies(tmp_path, monkeypatch):
    # The nearest of a part lie farther away than the nearest of all: in the lists that a search of all looks through,
    # there are few or none.
    vectors, asked = many(40_000)
    backend = opened("ivf_pq", vectors, asked, tmp_path)
    nothing_is_copied(monkeypatch)
    scattered = np.random.default_rng(5).random(len(vectors)) < 0.1
    heap = vectors @ vectors[0] > np.quantile(vectors @ vectors[0], 0.9)
    for allowed, recall in ((scattered, 0.99), (heap, 0.97)):
        part = backend.only(allowed)
        assert type(part) is type(backend)
        rows = np.flatnonzero(allowed)
        found = nearest(part, (len(rows), vectors.shape[1]), asked, 1)[0]
        assert (found >= brute_force(vectors[rows], asked, 1)[0] - 1e-5).mean() >= recall


def test_a_part_of_a_few_rows_is_found_whole(tmp_path, monkeypatch):
    vectors, asked = many(8000)
    nothing_is_copied(monkeypatch)
    for name in ("hnsw", "ivf_pq"):
        (tmp_path / name).mkdir()
        backend = opened(name, vectors, asked, tmp_path / name)
        allowed = np.zeros(len(vectors), bool)
        allowed[[5, 17, 4711]] = True
        found = nearest(backend.only(allowed), (3, vectors.shape[1]), asked, 2)[1]
        assert (found == np.flatnonzero(allowed)[brute_force(vectors[allowed], asked, 2)[1]]).all()
