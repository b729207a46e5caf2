"""One contract over every backend, in both precisions: a new file in the registry is tested without a word here."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from faiss import read_index
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from alphita import registry
from alphita.answer.features import sums_of
from alphita.answer.filters import Restricted
from alphita.errors import InputError, UsageError
from alphita.index import backends, neighbours
from alphita.index.backends import FLAT_UP_TO, _rounded, choose, exact, faiss, ivf_pq
from alphita.index.backends._approximate import TooFewFound
from alphita.index.choice import Building
from alphita.index.lookup import VECTORS, How, lookup
from alphita.index.neighbours import nearest, unit
from alphita.index.segment import Segment
from alphita.index.store import Index, build
from tests.doubles import HashEncoder, SmallTerminology, small_terminology

BACKENDS = registry.names("alphita.index.backends")
APPROXIMATE = ["hnsw", "ivf_pq"]
DTYPES = [np.float32, np.float16]
WAYS = ["int8", "bf16", "faiss"]


def module_of(name: str):
    return registry.load("alphita.index.backends", name)


def search(name: str, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    return nearest(module_of(name).attach(vectors), vectors.shape, queries, k)


def brute_force(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    rows = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, rows, axis=1), rows


def random_units(n: int, dim: int, seed: int) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32))


def many(n: int = 6000, dim: int = 32) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors in clusters, as strings' vectors lie, and queries near some of them."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((n // 20, dim))
    vectors = unit((centres[rng.integers(0, len(centres), n)] + 0.4 * rng.standard_normal((n, dim))).astype(np.float32))
    noisy = vectors[rng.integers(0, n, 300)] + 0.05 * rng.standard_normal((300, dim))
    return vectors, unit(noisy.astype(np.float32))


def flat() -> tuple[np.ndarray, np.ndarray]:
    """Return the same in 128 numbers, of which a few directions hold most, as a model's do."""
    rng = np.random.default_rng(8)
    directions = np.linalg.qr(rng.standard_normal((128, 24)))[0].T
    vectors, asked = (some @ directions + 0.02 * rng.standard_normal((len(some), 128)) for some in many(dim=24))
    return unit(vectors.astype(np.float32)), unit(asked.astype(np.float32))


def mapped(vectors: np.ndarray, folder) -> np.ndarray:
    np.save(folder / "v.npy", vectors)
    return np.load(folder / "v.npy", mmap_mode="r")


@pytest.fixture
def vectors() -> np.ndarray:
    return random_units(700, 24, 1)


def test_the_backends_are_the_files_and_the_size_decides_between_them():
    assert BACKENDS == ["exact", "faiss", "hnsw", "ivf_pq"]
    assert choose(10) == choose(FLAT_UP_TO) == "faiss"
    assert choose(FLAT_UP_TO + 1) == choose(20_000_000) == "ivf_pq"
    with pytest.raises(UsageError, match=r"unknown backend 'fais'; did you mean 'faiss'\? choose from"):
        module_of("fais")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("queries", "k"), [(1, 1), (1, 150), (19, 5), (20, 1), (300, 5), (300, 150), (300, 10_000)])
def test_neighbours_are_those_of_brute_force(name, dtype, queries, k, vectors, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "ROWS_AT_ONCE", 256)  # several blocks, the last one smaller
    stored, asked = mapped(vectors.astype(dtype), tmp_path), random_units(queries, 24, 2)
    similarity, rows = search(name, stored, asked, k)
    expected, expected_rows = brute_force(stored, asked, k)
    assert similarity.shape == rows.shape == (queries, min(k, 700))
    assert (similarity.dtype, rows.dtype) == (np.float32, np.int64)
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > (0.999 if dtype is np.float32 else 0.99)  # the rest are ties


@pytest.mark.parametrize("name", BACKENDS)
def test_edges(name, vectors, monkeypatch):
    similarity, rows = search(name, vectors[:7], vectors[:3], 50)
    assert [sorted(line) for line in rows.tolist()] == [list(range(7))] * 3
    assert rows[:, 0].tolist() == [0, 1, 2]
    assert search(name, vectors, vectors[:4], 0)[1].shape == (4, 0)
    assert search(name, vectors, vectors[:0], 3)[1].shape == (0, 3)
    similarity, rows = search(name, vectors[:1], vectors[:2], 5)
    assert rows.tolist() == [[0], [0]]
    assert similarity[0, 0] == pytest.approx(1.0, abs=1e-6)
    # Equals come by row number.
    alike = np.tile(np.float32([[1, 0]]), (40, 1))
    assert (search(name, alike, np.float32([[1, 0]] * 30), 40)[1] == np.arange(40)).all()
    with pytest.raises(UsageError, match=r"queries of shape \(2, 23\).*vectors of 24"):
        search(name, vectors, vectors[:2, :23], 1)
    with pytest.raises(UsageError, match="k must be 0 or more, not -1"):
        search(name, vectors, vectors[:2], -1)
    nothing_is_copied(monkeypatch)
    backend = module_of(name).attach(vectors)
    every = backend.only(np.ones(len(vectors), bool))
    same = nearest(every, vectors.shape, vectors[:9], 3)[1] == nearest(backend, vectors.shape, vectors[:9], 3)[1]
    assert same.all()
    assert nearest(backend.only(np.zeros(len(vectors), bool)), (0, 24), vectors[:9], 3)[1].shape == (9, 0)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_exact_is_brute_force_with_ties_by_row(data):
    # Whole numbers multiply without rounding, so equal means equal and even the ties must be the same.
    whole = st.integers(-2, 2)
    n, q, d = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    vectors = np.array(data.draw(st.lists(whole, min_size=n * d, max_size=n * d)), np.float32).reshape(n, d)
    queries = np.array(data.draw(st.lists(whole, min_size=q * d, max_size=q * d)), np.float32).reshape(q, d)
    k = data.draw(st.integers(1, n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "VECTOR_BLOCK", data.draw(st.integers(1, 9)))
        patch.setattr(exact, "QUERY_BLOCK", 2)
        similarity, rows = search("exact", vectors, queries, k)
    expected, expected_rows = brute_force(vectors, queries, k)
    assert (similarity == expected).all()
    assert (rows == expected_rows).all()


# By way of rounded copies.


@pytest.fixture(params=WAYS)
def products(request, monkeypatch):
    """What multiplies: torch, whole numbers where the processor can, or FAISS."""
    if request.param == "int8" and not _rounded.multiplies_rightly():
        pytest.skip("products of whole numbers overflow on this processor, so that torch is not asked for them")
    monkeypatch.setattr(_rounded, "by_torch", lambda _: request.param)
    return request.param


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("queries", "k"), [(1, 16), (19, 1), (19, 93), (300, 16), (300, 200)])
@pytest.mark.parametrize("those", [many, flat])
def test_queries_are_answered_exactly_by_way_of_whole_numbers(products, dtype, queries, k, those):
    vectors, asked = those()
    assert (_rounded.Rounded(vectors, products).turn is not None) == (those is flat)
    similarity, rows = search("faiss", vectors.astype(dtype), asked[:queries], k)
    expected, expected_rows = brute_force(vectors.astype(dtype), asked[:queries], k)
    np.testing.assert_allclose(similarity, expected, atol=2e-6)
    assert (rows == expected_rows).mean() > (0.999 if dtype is np.float32 else 0.99)


def test_where_the_memory_is_too_small_for_whole_numbers_all_are_compared(monkeypatch):
    vectors, asked = many()
    expected = search("faiss", vectors, asked, 5)

    def full(*_arguments, **_options):
        raise MemoryError

    monkeypatch.setattr(faiss, "Rounded", full)
    similarity, rows = search("faiss", vectors, asked, 5)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_allclose(similarity, expected[0], atol=1e-6)
    assert __import__("faiss").cvar.distance_compute_blas_threshold == 20


def test_torch_is_loaded_for_many_queries_only(monkeypatch):
    vectors, asked = many()
    monkeypatch.setattr(_rounded, "by_torch", lambda _: "bf16")
    monkeypatch.setattr(faiss, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(faiss, "ASKED_BEFORE", 0)
    backend = faiss.attach(vectors)
    nearest(backend, vectors.shape, asked[:2], 16)
    assert [*backend._rounded] == ["faiss"]
    rows = nearest(backend, vectors.shape, asked, 16)[1]
    assert [*backend._rounded] == ["faiss", "bf16"]
    assert (rows == brute_force(vectors, asked, 16)[1]).mean() > 0.999


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_query_is_answered_alike_alone_and_among_others(products, dtype):
    vectors, asked = many()
    backend = faiss.attach(vectors.astype(dtype))
    together = nearest(backend, vectors.shape, asked[:19], 16)
    alone = [nearest(backend, vectors.shape, asked[place : place + 1], 16) for place in range(19)]
    for place in (0, 1):
        np.testing.assert_array_equal(together[place], np.concatenate([answer[place] for answer in alone]))


def test_whole_numbers_are_not_trusted_where_they_cannot_tell(products, monkeypatch):
    # All so near to each other that rounding hides the nearest: every one must be compared.
    rng = np.random.default_rng(4)
    vectors = unit((np.ones((5000, 16)) + 1e-4 * rng.standard_normal((5000, 16))).astype(np.float32))
    asked = unit(rng.standard_normal((3, 16)).astype(np.float32))
    np.testing.assert_allclose(search("faiss", vectors, asked, 3)[0], brute_force(vectors, asked, 3)[0], atol=1e-6)
    # Nor with nothing in them, or a query of nothing; others beside it are answered.
    assert (search("faiss", np.zeros_like(vectors), asked, 1)[0] == 0).all()
    asked[1] = 0
    others = many(dim=16)[0]
    np.testing.assert_allclose(search("faiss", others, asked, 1)[0], brute_force(others, asked, 1)[0], atol=1e-6)
    # They are given up where they never can tell.
    alike, backend, rounded = np.repeat(random_units(1, 16, 6), 6000, axis=0), None, []
    by_rounded = faiss.FaissBackend._by_rounded
    monkeypatch.setattr(
        faiss.FaissBackend,
        "_by_rounded",
        lambda self, *given: rounded.append(len(given[1])) or by_rounded(self, *given),
    )
    backend, asked = faiss.attach(alike), many(dim=16)[1]
    for start in range(0, 300, 10):
        nearest(backend, alike.shape, asked[start : start + 10], 3)
    assert faiss.MAX_IN_VAIN < sum(rounded) <= faiss.MAX_IN_VAIN + 10


def test_negative_products_are_found_behind_the_filling_of_the_last_group(products):
    # 5,001 is no multiple of a group: the rows that fill it up are zeros, nearer than any of these.
    vectors, asked = -np.abs(many(n=5001)[0]), np.abs(many()[1][:30])
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
    if is_flat := seed % 3 == 0:
        directions = np.linalg.qr(rng.standard_normal((96, 24)))[0].T
        vectors, asked = ((some @ directions).astype(np.float32) for some in (vectors, asked))
        asked += (0.3 * rng.standard_normal(asked.shape)).astype(np.float32)
    copy = _rounded.Rounded(vectors, way)
    assert (copy.turn is not None) == is_flat
    rounded, unit_product, off = copy.rounded(asked)
    whole = copy._round(copy.turned(vectors, copy.ratio) / copy.step)
    assert way == "bf16" or max(np.abs(whole).max(), np.abs(rounded).max()) <= 127
    products = rounded.astype(np.float64) @ whole.T.astype(np.float64) * unit_product[:, None]
    if way == "bf16":
        products *= 1 + _rounded.HALVED * rng.choice([-1, 1], products.shape)
    behind = asked.astype(np.float64) @ vectors.T.astype(np.float64) - products
    assert ((behind if is_flat else np.abs(behind)) <= off[:, None]).all()
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


# Approximate search.


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate_search_is_measured_and_opened_again(name, dtype, tmp_path):
    vectors, asked = many()
    stored, module = mapped(vectors.astype(dtype), tmp_path), module_of(name)
    with pytest.raises(UsageError, match=f"not built for {name}; build it again with --backend {name}"):
        module.attach(stored, tmp_path, None)
    settings = module.build(stored, tmp_path, lambda: asked[:200])
    assert settings["recall_at_1"] >= 0.99
    assert settings["probes"] == 200
    backend = module.attach(stored, tmp_path, settings)
    assert not isinstance(backend, exact.ExactBackend | faiss.FaissBackend)
    similarity, rows = nearest(backend, vectors.shape, asked, 10)
    expected, expected_rows = brute_force(vectors, asked, 10)  # of the float32 vectors
    assert (rows[:, 0] == expected_rows[:, 0]).mean() >= 0.98
    assert (rows == expected_rows).mean() > 0.9
    products = np.einsum("qd,qkd->qk", asked.astype(np.float64), stored[rows].astype(np.float64))
    np.testing.assert_allclose(similarity, products, atol=2e-6)  # whatever is found is scored on what is stored
    assert (similarity <= expected[:, :1] + 1 / 2048).all()
    every = nearest(backend, vectors.shape, asked[:2], len(vectors))[1]
    assert [sorted(line) for line in every.tolist()] == [list(range(len(vectors)))] * 2
    (tmp_path / module.FILE).write_bytes(b"nothing of the kind")
    with pytest.raises(InputError, match="build the index again"):
        module.attach(stored, tmp_path, None)


def test_a_wider_search_is_taken_only_where_it_is_needed_and_too_narrow_a_one_refused(tmp_path, monkeypatch):
    vectors, far = many()[0], random_units(300, 32, 9)
    monkeypatch.setattr(ivf_pq, "STEPS", [{"nprobe": lists, "scored_again": 1000} for lists in (1, 64, 128)])
    easy = ivf_pq.build(vectors, tmp_path, lambda: vectors[:100])
    assert (easy["nprobe"], easy["recall_at_1"]) == (1, 1.0)
    hard = ivf_pq.build(vectors, tmp_path, lambda: far)
    assert hard["nprobe"] > 1
    assert hard["recall_at_1"] >= 0.99
    monkeypatch.setattr(ivf_pq, "STEPS", [{"nprobe": 1, "scored_again": 1}])
    with pytest.raises(InputError, match=r"ivf_pq finds the nearest string for only \d.*% of 300.*--backend faiss"):
        ivf_pq.build(vectors, tmp_path, lambda: far)


def test_an_update_keeps_the_centroids_until_they_find_too_little(tmp_path, monkeypatch):
    def middles(index: Index) -> np.ndarray:
        inverted = read_index(str(index.segment.path / ivf_pq.FILE))
        assert inverted.ntotal == len(index)
        return inverted.quantizer.reconstruct_n(0, inverted.nlist)

    rows = [(f"T:{number}", f"finding {number}", "exact") for number in range(5100)]
    how, encoder = Building(backend="ivf_pq", letters=False), HashEncoder()
    old = build(SmallTerminology(rows[:5050]), encoder, tmp_path / "old.index", how)
    new = build(SmallTerminology(rows), encoder, tmp_path / "new.index", how, update=old)
    assert np.array_equal(middles(new), middles(old))
    assert new.manifest["search"]["recall_at_1"] >= 0.99
    other = build(SmallTerminology(rows), HashEncoder(seed=1), tmp_path / "other.index", how, update=old)
    assert not np.array_equal(middles(other), middles(old))
    enough = ivf_pq.approximate.calibrate
    refused = iter([True, False])
    monkeypatch.setattr(
        ivf_pq.approximate,
        "calibrate",
        lambda *given: (_ for _ in ()).throw(TooFewFound("too few")) if next(refused) else enough(*given),
    )
    anew = build(SmallTerminology(rows), encoder, tmp_path / "anew.index", how, update=old)
    assert not np.array_equal(middles(anew), middles(old))


# Among some rows.


def nothing_is_copied(monkeypatch) -> None:
    monkeypatch.setattr(faiss, "ROUNDED_UP_TO_BYTES", 0)
    monkeypatch.setattr(faiss, "COPIED_UP_TO_BYTES", 0)


def opened(name: str, vectors: np.ndarray, asked: np.ndarray, folder):
    return module_of(name).attach(vectors, folder, module_of(name).build(vectors, folder, lambda: asked))


@pytest.mark.parametrize("dtype", DTYPES)
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
    # A part of a few rows is found whole.
    three = np.isin(np.arange(len(vectors)), [5, 17, 4711])
    found = nearest(backend.only(three), (3, vectors.shape[1]), asked, 2)[1]
    assert (found == np.flatnonzero(three)[brute_force(vectors[three], asked, 2)[1]]).all()


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


# Half precision.


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), dim=st.integers(1, 400))
def test_in_half_precision_an_inner_product_moves_by_no_more_than_is_said(seed, dim):
    random = np.random.default_rng(seed)
    query, vector = unit(random.standard_normal((2, dim)).astype(np.float32)).astype(np.float64)
    moved = abs(query @ vector - query @ vector.astype(np.float16).astype(np.float64))
    assert moved <= 1 / 2048 + 1e-6


def test_every_finite_number_is_widened_to_itself_block_by_block():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    assert len(every) == 2 * 31 * 2**10
    widened = neighbours.full(every.reshape(-1, 2))
    np.testing.assert_array_equal(widened.view(np.uint32), every.astype(np.float32).reshape(-1, 2).view(np.uint32))
    backwards = every[::-2].reshape(-1, 16).T
    np.testing.assert_array_equal(neighbours.full(backwards), backwards.astype(np.float32))
    assert neighbours.full(every[:0]).shape == (0,)
    for dtype in DTYPES:
        vectors = np.arange(22, dtype=dtype).reshape(11, 2)
        found = list(neighbours.blocks(vectors, 4))
        assert [start for start, _ in found] == [0, 4, 8]
        assert all(block.dtype == np.float32 for _, block in found)
        assert np.array_equal(np.concatenate([block for _, block in found]), vectors)
    whole = np.ones((3, 2), np.float32)
    assert neighbours.full(whole) is whole
    assert next(neighbours.blocks(whole, 9))[1].base is whole  # not copied
    # A length is measured in float32: in half precision the sum of squares would be 1.0e-5 off already, and 70,000 is
    # no number at all.
    large = unit(np.full((1, 4), 200, np.float16))
    assert large.dtype == np.float32
    assert np.array_equal(large, np.full((1, 4), 0.5, np.float32))


def test_no_more_than_a_block_is_widened(tmp_path, monkeypatch):
    vectors = mapped(random_units(40_000, 8, 1).astype(np.float16), tmp_path)
    widened: list[int] = []
    monkeypatch.setattr(
        neighbours, "full", lambda some, full=neighbours.full: (widened.append(len(some)), full(some))[1]
    )
    for name in ("exact", "faiss"):
        for queries in (2, 50):
            search(name, vectors, neighbours.full(vectors[:queries]), 3)
    assert max(widened) <= neighbours.ROWS_AT_ONCE < len(vectors)


def test_recall_against_float32_on_384_numbers():
    random = np.random.default_rng(5)
    centres = random.standard_normal((400, 384))
    vectors = unit((centres[random.integers(0, 400, 8000)] + 0.3 * random.standard_normal((8000, 384))).astype("f4"))
    asked = unit((vectors[random.integers(0, 8000, 1000)] + 0.03 * random.standard_normal((1000, 384))).astype("f4"))
    full_similarity, full_rows = search("exact", vectors, asked, 1)
    similarity, rows = search("exact", vectors.astype(np.float16), asked, 1)
    assert (rows == full_rows).mean() >= 0.999
    assert np.abs(similarity - full_similarity).max() < 1e-4


@pytest.fixture(scope="module")
def indexes(tmp_path_factory) -> tuple[Index, Index]:
    """The same strings in full and in half precision."""
    folder = tmp_path_factory.mktemp("half")
    return tuple(
        build(small_terminology(), HashEncoder(), folder / f"{name}.index", how=Building(half=name == "half"))
        for name in ("full", "half")
    )


def test_the_file_is_half_and_the_manifest_says_so(indexes):
    full, small = indexes
    assert (full.manifest["vectors"], small.manifest["vectors"]) == ("float32", "float16")
    assert (full.vectors.dtype, small.vectors.dtype) == (np.float32, np.float16)
    assert isinstance(small.vectors.base, np.memmap)
    assert full.content_hash != small.content_hash
    sizes = [index.manifest["files"]["segments/000/vectors.npy"]["size"] for index in indexes]
    assert sizes[0] - sizes[1] == 2 * full.vectors.size
    np.testing.assert_allclose(small.vectors.astype(np.float32), full.vectors, rtol=1 / 2048, atol=1e-7)
    similarity, rows = Index.open(small.path, verify=True).search(np.array(small.vectors), 2)
    assert rows[:, 0].tolist() == list(range(12))
    np.testing.assert_allclose(similarity[:, 0], 1.0, atol=1e-3)
    # An index of an earlier version does not say how its vectors are stored.
    manifest = {name: value for name, value in full.manifest.items() if name != "vectors"}
    opened = Index(full.path, manifest, full.segment, "faiss")
    assert opened.search(np.array(opened.vectors[:2]), 1)[1][:, 0].tolist() == [0, 1]


def test_candidates_are_the_same(indexes):
    queries = ["heart atack", "cephalgia", "cold", "fitz"]
    full, small = (lookup(index, HashEncoder, queries, How(depth=12)) for index in indexes)
    assert np.array_equal(full.query, small.query)
    assert np.array_equal(full.string, small.string)
    assert small.cosine.dtype == small.vectors.dtype == np.float32
    np.testing.assert_allclose(small.cosine, full.cosine, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(small.vectors, axis=1), 1, atol=1e-6)
    # Of strings that share the last place any may be kept: sums of equal products differ in their last bit.
    cosines = HashEncoder().encode(queries).astype(np.float64) @ indexes[0].vectors.astype(np.float64).T
    last = np.sort(cosines, axis=1)[:, -5]
    for index in indexes:
        found = lookup(index, HashEncoder, queries, How(depth=5, routes=VECTORS))
        assert np.bincount(found.query).tolist() == [5, 5, 5, 5]
        for query, row in enumerate(cosines):
            strings = set(found.string[found.query == query].tolist())
            assert set(np.flatnonzero(row > last[query] + 1e-3).tolist()) <= strings
            assert strings <= set(np.flatnonzero(row > last[query] - 1e-3).tolist())
    allowed = np.arange(12) % 2 == 0
    parts = [Restricted(index, allowed).search(indexes[0].vectors[::2], 1) for index in indexes]
    assert parts[0][1][:, 0].tolist() == parts[1][1][:, 0].tolist() == list(range(0, 12, 2))
    np.testing.assert_allclose(parts[0][0], parts[1][0], atol=1e-3)


def test_sums_of_hundreds_of_vectors_are_not_rounded(tmp_path):
    # Added up in half precision, numbers of one sign would lose a hundredth and more.
    rows = [("T:1", f"thing {number}", "exact") for number in range(900)]
    index = build(SmallTerminology(rows), HashEncoder(), tmp_path / "x.index", how=Building(half=True))
    expected = np.array(index.vectors, np.float64).sum(axis=0)
    np.testing.assert_allclose(sums_of(index)[0], expected, atol=1e-3)
    assert np.abs(expected).max() > 100
    path = index.path / "segments/000/vectors.npy"
    np.save(path, np.load(path).astype(np.float64))
    with pytest.raises(InputError, match="do not fit together"):
        Segment(path.parent)


# Strings that an approximate search is measured with.


@given(st.lists(st.text(max_size=20), max_size=10))
def test_a_string_is_changed_by_a_word_or_two_letters_and_always_the_same_way(strings):
    varied = backends.vary(strings)
    assert varied == backends.vary(strings)
    assert backends.vary(strings[::-1]) == varied[::-1]
    for before, after in zip(strings, varied, strict=True):
        words = sorted(before.split())
        by_words = len(words) > 2 and not set(after.split()) - set(words) and len(after.split()) >= len(words) - 1
        # Two exchanges of letters that overlap count as more than one step each.
        assert by_words or OSA.distance(before, after) <= 4


def test_probes_are_drawn_by_the_seed_and_most_are_other_strings():
    assert backends.rows(5, "a") == [0, 1, 2, 3, 4]
    drawn = backends.rows(100_000, "a")
    assert len(drawn) == len(set(drawn)) == backends.PROBES
    assert drawn == backends.rows(100_000, "a") != backends.rows(100_000, "b")
    assert max(drawn) > 90_000
    strings = [f"disorder of the {organ} of type {n}" for organ in ("kidney", "eye", "heart") for n in range(30)]
    assert sum(before != after for before, after in zip(strings, backends.probes(strings, "a"), strict=True)) > 80
