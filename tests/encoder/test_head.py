from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from alphita.encoder.head import FILE, ROWS_AT_ONCE, Head, gelu, gelu_slope
from alphita.errors import InputError
from tests.reference import head as reference
from tests.reference.multi_similarity import slopes


def made(hidden: int, dim: int, seed: int = 0, scale: float = 1.0) -> Head:
    random = np.random.default_rng(seed)
    shapes = {"w1": (hidden, dim), "b1": (hidden,), "w2": (dim, hidden), "b2": (dim,)}
    return Head(**{name: (scale * random.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()})


def vectors(n: int, dim: int, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((n, dim))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(0, 6), hidden=st.integers(1, 9), dim=st.integers(1, 7), seed=st.integers(0, 10**6))
def test_equals_the_reference(n, hidden, dim, seed):
    head, x = made(hidden, dim, seed), vectors(n, dim, seed)
    found = head(x)
    assert found.dtype == np.float32
    assert found.shape == (n, dim)
    for row, mapped in zip(x, found, strict=True):
        expected = reference.y(row, head.w1, head.b1, head.w2, head.b2)
        np.testing.assert_allclose(mapped, expected, atol=2e-5)


def test_gelu_and_its_slope_equal_the_reference():
    u = np.linspace(-6, 6, 101)
    value, tanh = gelu(u)
    np.testing.assert_allclose(value, [reference.gelu(one) for one in u], atol=1e-12)
    expected = slopes(lambda: sum(reference.gelu(one) for one in u), u)
    np.testing.assert_allclose(gelu_slope(u, tanh), expected, atol=1e-7)


def test_a_row_is_the_same_alone_and_among_others():
    head, x = made(1024, 384, scale=0.05), vectors(2 * ROWS_AT_ONCE + 3, 384)
    together = head(x)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    for row in (0, 1, ROWS_AT_ONCE - 1, ROWS_AT_ONCE, len(x) - 1):
        np.testing.assert_allclose(head(x[row : row + 1])[0], together[row], atol=1e-6)
    np.testing.assert_allclose(head(x[5:40]), together[5:40], atol=1e-6)
    kept = x.copy()
    head(x)
    assert np.array_equal(x, kept)


def test_comes_back_from_its_file(tmp_path):
    head = made(8, 5)
    # Without second weights it changes nothing.
    still = dataclasses.replace(head, w2=np.zeros_like(head.w2), b2=np.zeros_like(head.b2))
    np.testing.assert_allclose(still(vectors(4, 5)), vectors(4, 5), atol=1e-7)
    head.save(tmp_path)
    again = Head.load(tmp_path)
    assert again.content_hash == head.content_hash
    assert again.dim == 5
    assert np.array_equal(again(vectors(4, 5)), head(vectors(4, 5)))
    assert made(8, 5, seed=1).content_hash != head.content_hash
    other = dataclasses.replace(head, w1=head.w1.T.copy().T)
    assert other.content_hash == head.content_hash


def weights(**changed: np.ndarray) -> dict[str, np.ndarray]:
    return {**dataclasses.asdict(made(8, 5)), **changed}


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (weights(w2=np.zeros((4, 8), np.float32)), "must have the shapes"),
        (weights(b1=np.zeros(9, np.float32)), "must have the shapes"),
        (weights(w1=np.zeros(8, np.float32)), "must have the shapes"),
        (weights(b2=np.full(5, np.nan, np.float32)), "b2 has a number that is not finite"),
        (weights(b2=np.zeros(5)), "b2 must be float32, not float64"),
        (weights(b3=np.zeros(5, np.float32)), "it holds"),
        ({"w1": np.zeros((8, 5), np.float32)}, "it holds"),
    ],
)
def test_a_file_of_other_weights_is_refused(tmp_path, tensors, said):
    save_file(tensors, tmp_path / FILE)
    with pytest.raises(InputError, match=f"{FILE}: damaged head: .*{said}.*; build the index again"):
        Head.load(tmp_path)


def test_a_damaged_or_missing_file_and_vectors_of_another_encoder_are_refused(tmp_path):
    for wrong in (vectors(3, 4), np.zeros(5, np.float32)):
        with pytest.raises(ValueError, match=r"the head takes vectors of 5 numbers, \(n, 5\), not"):
            made(8, 5)(wrong)
    with pytest.raises(InputError, match=f"{FILE}.*build the index again"):
        Head.load(tmp_path)
    made(8, 5).save(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    for part in (b"", whole[:7], whole[:60], whole[:-4], whole + b"more"):
        (tmp_path / FILE).write_bytes(part)
        with pytest.raises(InputError, match=f"{FILE}: damaged head.*build the index again"):
            Head.load(tmp_path)
