from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.errors import UsageError
from alphita_lab.objectives.scored_pairs import OBJECTIVES, scored_pairs, triples
from tests.reference import info_nce as reference
from tests.reference.multi_similarity import slopes

REFERENCES = {"cosine": reference.cosine, "cosent": reference.cosent}


def batch(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores in fifths, so that some are equal."""
    random = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(n, 4, generator=random, dtype=torch.float64) for _ in range(2))
    return left, right, torch.randint(6, (n,), generator=random).double() / 5


def test_by_hand() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    right = torch.tensor([[3.0, 4.0], [0.0, 1.0]], dtype=torch.float64)
    score = torch.tensor([0.8, 0.5], dtype=torch.float64)
    # Similarities .6 and 1.
    assert scored_pairs(left, right, score).item() == pytest.approx((0.2**2 + 0.5**2) / 2, abs=1e-14)
    wrong = math.log(1 + math.exp((1 - 0.6) / 0.05))
    assert scored_pairs(left, right, score, objective="cosent").item() == pytest.approx(wrong, abs=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_value_equals_the_reference(objective, n, seed) -> None:
    left, right, score = batch(n, seed)
    expected = REFERENCES[objective](left.numpy(), right.numpy(), score.numpy())
    assert scored_pairs(left, right, score, objective=objective).item() == pytest.approx(expected, rel=1e-10, abs=1e-14)
    single = scored_pairs(left.float(), right.float(), score, objective=objective)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(3))
def test_slope_equals_the_reference(objective, seed) -> None:
    left, right, score = batch(6, seed)
    leaves = [one.clone().requires_grad_() for one in (left, right)]
    scored_pairs(*leaves, score, objective=objective).backward()
    rows = [one.numpy().copy() for one in (left, right)]
    for leaf, row in zip(leaves, rows, strict=True):
        expected = slopes(lambda: REFERENCES[objective](*rows, score.numpy()), row)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(leaf.grad.numpy(), expected, atol=1e-7)
    given = [one.clone().requires_grad_() for one in (left, right)]
    assert torch.autograd.gradcheck(lambda a, b: scored_pairs(a, b, score, objective=objective), given)


def test_cosent_is_about_order_alone() -> None:
    left, right, score = batch(8, 2)
    value = scored_pairs(left, right, score, objective="cosent").item()
    assert scored_pairs(left, right, score**3 / 2, objective="cosent").item() == value
    leaf = left.clone().requires_grad_()
    even = scored_pairs(leaf, right, torch.full((8,), 0.3), objective="cosent")
    even.backward()
    assert even.item() == 0.0
    assert not leaf.grad.any()


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 7), premises=st.integers(1, 7), seed=st.integers(0, 10**6), tau=st.sampled_from([0.05, 0.5]))
def test_triples_equal_the_reference(n, premises, seed, tau) -> None:
    first, second, _ = batch(n, seed)
    third, _, _ = batch(n, seed + 1)
    premise = torch.randint(premises, (n,), generator=torch.Generator().manual_seed(seed))
    value = triples(first, second, third, premise=premise, temperature=tau).item()
    given = [one.numpy() for one in (first, second, third)]
    assert value == pytest.approx(reference.triples(*given, premise.tolist(), tau), rel=1e-10, abs=1e-13)
    apart = triples(first, second, third, temperature=tau).item()
    assert apart == pytest.approx(reference.triples(*given, list(range(n)), tau), rel=1e-10, abs=1e-13)


def test_slope_of_triples_equals_the_reference() -> None:
    first, second, _ = batch(5, 0)
    third, _, _ = batch(5, 1)
    premise = torch.tensor([0, 0, 1, 2, 2])
    leaves = [one.clone().requires_grad_() for one in (first, second, third)]
    triples(*leaves, premise=premise, temperature=0.2).backward()
    rows = [one.numpy().copy() for one in (first, second, third)]
    for leaf, row in zip(leaves, rows, strict=True):
        expected = slopes(lambda: reference.triples(*rows, premise.tolist(), 0.2), row)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(leaf.grad.numpy(), expected, atol=1e-7)


def test_computes_in_float32_under_autocast() -> None:
    left, right, score = (one.float() for one in batch(16, 3))
    for objective in OBJECTIVES:
        plain = scored_pairs(left, right, score, objective=objective).item()
        with torch.autocast("cpu", torch.bfloat16):
            assert scored_pairs(left, right, score, objective=objective).item() == plain


def test_wrong_use_is_named() -> None:
    left, right, score = batch(3, 0)
    with pytest.raises(UsageError, match="unknown objective of scored pairs 'cosnt'; did you mean 'cosent'"):
        scored_pairs(left, right, score, objective="cosnt")
    with pytest.raises(ValueError, match=r"got \[\(3, 4\), \(2, 4\), \(3,\)\]"):
        scored_pairs(left, right[:2], score)
    with pytest.raises(ValueError, match="not empty"):
        scored_pairs(left[:0], right[:0], score[:0])
    with pytest.raises(ValueError, match="premises and contradicted must have one shape"):
        triples(left, right, left[:2])
