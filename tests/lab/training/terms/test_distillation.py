from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from alphita import artefact
from alphita.errors import InputError
from alphita_lab.training.terms import distillation
from alphita_lab.training.terms.distillation import ProjectionHead, TargetBatches, make, mean_vectors, read, targets
from tests.doubles import HashEncoder
from tests.reference import distillation as reference


def vectors(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names and texts around a direction that all share, of unlike spread along the axes, and who has a text."""
    rng = np.random.default_rng(seed)
    spread = np.linspace(2, 0.3, d)
    names = rng.normal(size=(n, d)) * spread + 3
    texts = names + rng.normal(size=(n, d)) * spread / 2
    return names * rng.uniform(0.1, 9, (n, 1)), texts * rng.uniform(0.1, 9, (n, 1)), rng.random(n) < 0.7


def same_up_to_sign(a: np.ndarray, b: np.ndarray, tolerance: float) -> None:
    """Columns are equal or opposite."""
    signs = np.sign((a * b).sum(0))
    np.testing.assert_allclose(a, b * signs, atol=tolerance)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(9, 60), dim=st.integers(1, 8), block=st.integers(1, 70))
def test_scikit_learns_pca_agrees(seed: int, n: int, dim: int, block: int) -> None:
    names, texts, has = vectors(n, 8, seed)
    made = targets(names, texts, has, dim=dim, block=block)
    z = np.array(reference.mixed(names, texts, has))
    oracle = PCA(dim, svd_solver="full").fit(z)
    np.testing.assert_allclose(made.mean, oracle.mean_, atol=1e-12)
    np.testing.assert_allclose(made.explained, oracle.explained_variance_ratio_, atol=1e-10)
    # The same subspace, whatever the single directions where two variances lie close.
    np.testing.assert_allclose(made.components @ made.components.T, np.eye(dim), atol=1e-10)
    scores = oracle.transform(z)
    gaps = np.diff(oracle.explained_variance_ratio_)
    if dim == 8 or (gaps < -1e-3).all():
        ours, theirs = made.values.astype(np.float64), scores
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-4)
    if (gaps < -1e-2).all():
        same_up_to_sign(made.values[:, :-1], scores[:, :-1], 1e-5)
    assert made.values.dtype == np.float32


def test_blocks_decide_nothing_and_signs_are_fixed() -> None:
    names, texts, has = vectors(40, 6, 5)
    whole, parts = (targets(names, texts, has, dim=6, block=block) for block in (100, 7))
    np.testing.assert_allclose(whole.values, parts.values, atol=1e-6)
    np.testing.assert_allclose(whole.components, parts.components, atol=1e-9)
    furthest = np.abs(whole.components).argmax(1)
    assert (whole.components[np.arange(6), furthest] > 0).all()
    again = targets(names, texts, has, dim=6)
    assert np.array_equal(again.values, whole.values)


def test_a_concept_without_text_is_its_name_alone() -> None:
    """And what stands in its row of the texts is not read."""
    names, texts, has = vectors(20, 4, 2)
    made = targets(names, texts, has, dim=4)
    texts[~has] = np.nan
    assert np.array_equal(targets(names, texts, has, dim=4).values, made.values)
    row = int(np.flatnonzero(~has)[0])
    name = names[row] / np.linalg.norm(names[row])
    np.testing.assert_allclose(made.values[row], (name - made.mean) @ made.components.T, atol=1e-6)
    none = targets(names, texts, np.zeros(20, bool), dim=4)
    assert np.array_equal(none.values, targets(names, names, dim=4).values)


def test_memory_maps_are_read_in_blocks(tmp_path) -> None:
    """Far below what the whole of one table takes in float64."""
    n, d = 60_000, 32
    for name in ("names", "texts"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(n, d)).astype(np.float32))
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("names", "texts")]
    tracemalloc.start()
    targets(*mapped, dim=4, block=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n * 4 + n + 8 * 10**6 < 8 * n * d


@pytest.mark.parametrize(("value", "table"), [(0.0, 0), (np.nan, 0), (np.inf, 1), (0.0, 1)])
def test_a_bad_vector_is_named(value: float, table: int) -> None:
    tables = vectors(20, 4, 0)[:2]
    tables[table][13] = value
    with pytest.raises(InputError, match=f"a {('name', 'text')[table]} is 0 or not finite .*'concept 13'"):
        targets(*tables, dim=2, block=5)


def test_too_few_and_equal_concepts_are_refused() -> None:
    names, texts, _ = vectors(4, 4, 0)
    with pytest.raises(InputError, match="4 concepts are too few for targets of 4 numbers"):
        targets(names, texts, dim=4)
    with pytest.raises(InputError, match="all concepts are equal"):
        targets(np.ones((9, 3)), np.ones((9, 3)), dim=2)


def test_the_head_is_linear_and_follows_from_its_seed() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    head, same, other = (ProjectionHead(6, 3, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(head.weight, same.weight)
    assert torch.equal(head.bias, same.bias)
    assert not torch.equal(head.weight, other.weight)
    e = torch.randn(4, 6)
    expected = e.numpy().astype(np.float64) @ head.weight.detach().numpy().T + head.bias.detach().numpy()
    np.testing.assert_allclose(head(e).detach().numpy(), expected, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(e.bfloat16()).dtype == torch.float32
    large = ProjectionHead(400, 300, seed=0).weight.detach()
    assert large.abs().max() <= 1 / 20
    assert large.std().item() == pytest.approx(1 / 20 / 3**0.5, rel=0.01)
    assert ProjectionHead(7, seed=0).weight.shape == (64, 7)


def test_a_head_that_starts_from_the_targets_meets_them_for_the_teachers_vectors() -> None:
    names, texts, has = vectors(40, 6, 3)
    made = targets(names, texts, has, dim=4)
    head = ProjectionHead(6, 4, seed=0)
    head.start_from(made)
    z = torch.from_numpy(np.array(reference.mixed(names, texts, has), np.float32))
    np.testing.assert_allclose(head(z).detach().numpy(), made.values, atol=1e-6)
    assert head.weight.dtype == torch.float32
    assert head.weight.requires_grad
    assert head.bias.requires_grad
    with pytest.raises(InputError, match=r"the teacher's vectors have 6 numbers, the student's 7.*set head=random"):
        ProjectionHead(7, 4, seed=0).start_from(made)


NAMES = (["heart pain", "pain of the heart", "fever", "a cold", "leg"], np.array([0, 0, 1, 2, 3]))
TEXTS = (["harm of what pumps", "too warm", "warmth", "runny nose"], np.array([0, 1, 1, 2]))
FACTS = {"terminology": "t"}


class Loud(HashEncoder):
    """An encoder whose vectors have lengths of their own, as those of models that do not normalise."""

    def encode(self, strings):
        return super().encode(strings) * np.array([[1 + len(string)] for string in strings], np.float32)


@pytest.mark.parametrize("at_once", [65_536, 2, 1])
def test_means_are_of_vectors_at_length_1(tmp_path: Path, monkeypatch, at_once: int) -> None:
    monkeypatch.setattr(distillation, "AT_ONCE", at_once)
    found = mean_vectors(Loud(16), *TEXTS, 4, tmp_path / "x.npy")
    single = {text: HashEncoder(16).encode([text])[0] for text in TEXTS[0]}
    expected = [single[TEXTS[0][0]], (single[TEXTS[0][1]] + single[TEXTS[0][2]]) / 2, single[TEXTS[0][3]], np.zeros(16)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_targets_are_the_references(tmp_path: Path) -> None:
    """PCA of the means of name and text at length 1; the concept without a text has its name alone."""
    encoder = Loud(8)
    make(tmp_path / "targets", encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    names = mean_vectors(encoder, *NAMES, 4, tmp_path / "n.npy")
    texts = mean_vectors(encoder, *TEXTS, 4, tmp_path / "t.npy")
    z = reference.mixed(names, texts, [True, True, True, False])
    mean, covariance = reference.covariance(z)
    _, vectors = reference.leading(covariance, 2)
    expected = (np.array(z) - mean) @ vectors.T
    found = read(tmp_path / "targets")
    np.testing.assert_allclose(np.abs(found.values), np.abs(expected), atol=1e-4)
    assert found.components.shape == (2, 8)
    manifest = artefact.verify(tmp_path / "targets", "targets")
    assert sorted(manifest["files"]) == ["components.npy", "explained.npy", "mean.npy", "values.npy"]


def test_they_are_made_once_and_others_are_refused(tmp_path: Path) -> None:
    folder, encoder = tmp_path / "targets", HashEncoder(8)
    make(folder, encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    before, encoded = artefact.hash_file(folder / "values.npy"), len(encoder.encoded)
    make(folder, encoder, NAMES, TEXTS, 4, dim=2, facts=FACTS)
    assert len(encoder.encoded) == encoded
    assert artefact.hash_file(folder / "values.npy") == before
    for teacher, dim, facts in ((HashEncoder(8, 1), 2, FACTS), (encoder, 3, FACTS), (encoder, 2, {"terminology": "u"})):
        with pytest.raises(InputError, match="of another teacher, terminology or config"):
            make(folder, teacher, NAMES, TEXTS, 4, dim=dim, facts=facts)


def test_batches_hold_every_string_once_an_epoch_with_its_concepts_target() -> None:
    owners, values = np.array([0, 0, 1, 2, 0, 2]), np.arange(6, dtype=np.float32).reshape(3, 2)
    batches = TargetBatches(owners, values, batch=4, seed=7)
    seen: list[int] = []
    for number in range(3):
        batch = batches.batch(number)
        rows = batch.terms[batch.arrays["place"]]
        np.testing.assert_array_equal(batch.arrays["target"], values[owners[rows]])
        assert batch.rows == len(rows) == 4
        assert len(set(batch.terms.tolist())) == len(batch.terms)
        seen += rows.tolist()
    assert sorted(seen[:6]) == sorted(seen[6:]) == [0, 1, 2, 3, 4, 5]
    again = TargetBatches(owners, values, batch=4, seed=7).batch(2)
    np.testing.assert_array_equal(again.terms, batch.terms)
