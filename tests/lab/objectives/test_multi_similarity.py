from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_metric_learning.losses import MultiSimilarityLoss
from pytorch_metric_learning.miners import MultiSimilarityMiner

from alphita_lab.objectives.multi_similarity import multi_similarity, term_term
from tests.reference import multi_similarity as reference

PAPER = {"alpha": 2.0, "beta": 50.0, "lam": 0.5, "eps": 0.1}
GENTLE = {"alpha": 3.0, "beta": 7.0, "lam": 0.3, "eps": 0.25}


def batch(n: int, d: int, concepts: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of one concept lie near each other, and concepts near enough for mining to find some pairs and not all."""
    random = torch.Generator().manual_seed(seed)
    concept = torch.randint(concepts, (n,), generator=random)
    centres = torch.randn(concepts, d, generator=random, dtype=torch.float64)
    e = centres[concept] + torch.randn(n, d, generator=random, dtype=torch.float64)
    return e, concept


def value_and_slope(loss, *tensors: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    value = loss(*leaves)
    value.backward()
    return value.item(), [leaf.grad for leaf in leaves]


@pytest.mark.parametrize(("concept", "expected"), [([4, 4], math.log(2) / 2), ([4, 9], math.log(2) / 50)])
def test_two_unit_vectors_at_60_degrees(concept, expected) -> None:
    e = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2]], dtype=torch.float64)
    assert term_term(e, torch.tensor(concept), mining=False).item() == pytest.approx(expected, abs=1e-12)


def test_mining_by_hand() -> None:
    # Positives .9 and .6; negatives .55 (above .6 - .1: mined) and .4 (not). P: both below .55 + .1? Only .6 is.
    similarity = torch.tensor([[0.9, 0.6, 0.55, 0.4]], dtype=torch.float64)
    positive = torch.tensor([[True, True, False, False]])
    expected = math.log1p(math.exp(-2 * 0.1)) / 2 + math.log1p(math.exp(50 * 0.05)) / 50
    assert multi_similarity(similarity, positive, ~positive).item() == pytest.approx(expected, abs=1e-14)
    # A pair that is neither does not count, however near.
    neither = torch.tensor([[False, False, False, True]])
    value = multi_similarity(similarity, positive, neither, mining=False).item()
    pulled = math.log1p(math.exp(-2 * 0.4) + math.exp(-2 * 0.1)) / 2
    assert value == pytest.approx(pulled + math.log1p(math.exp(-50 * 0.1)) / 50, abs=1e-14)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 14),
    concepts=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    mining=st.booleans(),
    setting=st.sampled_from([PAPER, GENTLE]),
)
def test_value_equals_the_reference(n, concepts, seed, mining, setting) -> None:
    e, concept = batch(n, 5, concepts, seed)
    expected = reference.term_term(e.numpy(), concept.tolist(), mining=mining, **setting)
    assert term_term(e, concept, mining=mining, **setting).item() == pytest.approx(expected, rel=1e-10, abs=1e-14)
    single = term_term(e.float(), concept, mining=False, **setting)
    assert single.dtype == torch.float32
    unmined = reference.term_term(e.numpy(), concept.tolist(), mining=False, **setting)
    assert single.item() == pytest.approx(unmined, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("mining", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_slope_equals_the_reference(mining, seed) -> None:
    e, concept = batch(8, 4, 3, seed)
    _, (slope,) = value_and_slope(lambda x: term_term(x, concept, mining=mining, **GENTLE), e)
    rows = e.numpy().copy()
    expected = reference.slopes(lambda: reference.term_term(rows, concept.tolist(), mining=mining, **GENTLE), rows)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(slope.numpy(), expected, atol=1e-8)


@pytest.mark.parametrize("mining", [False, True])
def test_gradcheck(mining) -> None:
    e, concept = batch(7, 4, 3, 5)
    e.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: term_term(x, concept, mining=mining), (e,))
    assert torch.autograd.gradcheck(lambda x: term_term(x, concept, mining=mining, **GENTLE), (e,))


@pytest.mark.parametrize("mining", [False, True])
@pytest.mark.parametrize(("n", "concepts"), [(16, 12), (24, 6), (48, 30), (9, 1)])
def test_pytorch_metric_learning_agrees(mining, n, concepts) -> None:
    """It averages over all anchors too, and mines nothing for an anchor without positives or without negatives.

    One difference, not met here: it gives 0 when its miner leaves no more than one pair of each kind in a whole batch.
    """
    oracle, miner = MultiSimilarityLoss(alpha=2, beta=50, base=0.5), MultiSimilarityMiner(epsilon=0.1)
    for seed in range(3):
        e, concept = batch(n, 6, concepts, seed)
        theirs, (their_slope,) = value_and_slope(lambda x, c=concept: oracle(x, c, miner(x, c) if mining else None), e)
        ours, (slope,) = value_and_slope(lambda x, c=concept: term_term(x, c, mining=mining), e)
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-15)
        torch.testing.assert_close(slope, their_slope, rtol=1e-9, atol=1e-13)


def test_anchors_with_nothing_mined_add_zero_and_count() -> None:
    e, concept = batch(10, 5, 3, 1)
    alone = torch.arange(100, 110)
    assert term_term(e, alone).item() == 0.0
    assert term_term(e, torch.zeros(10, dtype=torch.int64)).item() == 0.0
    assert term_term(e[:1], concept[:1]).item() == 0.0
    # Five lone rows at right angles to all others: no row's mined sets change, but the mean is over 15 anchors.
    e = e.abs()
    wide = torch.zeros(15, 10, dtype=torch.float64)
    wide[:10, :5], wide[10:, 5:] = e, torch.eye(5, dtype=torch.float64)
    together = term_term(wide, torch.cat([concept, alone[:5]])).item()
    apart = term_term(e, concept).item()
    assert apart > 0
    assert together == pytest.approx(apart * 10 / 15, rel=1e-12)


@pytest.mark.parametrize("mining", [False, True])
def test_slopes_stay_finite(mining) -> None:
    identical = torch.ones(6, 4)
    far = torch.cat([identical, -identical])
    for e, concept in [
        (identical, torch.tensor([0, 0, 0, 1, 1, 1])),
        (identical, torch.arange(6)),
        (identical, torch.zeros(6, dtype=torch.int64)),
        (far, torch.arange(12) % 2),
    ]:
        value, (slope,) = value_and_slope(lambda x, c=concept: term_term(x, c, mining=mining), e)
        assert math.isfinite(value)
        assert torch.isfinite(slope).all()
    e, concept = batch(1024, 8, 200, 0)
    value, (slope,) = value_and_slope(lambda x: term_term(x, concept, mining=mining), e.float())
    assert value > 0
    assert torch.isfinite(slope).all()
    assert slope.abs().max() > 0


@pytest.mark.parametrize("shift", [-28.0, 0.0, 500.0])
def test_unbounded_similarities_neither_overflow_nor_vanish(shift) -> None:
    similarity = torch.tensor([[30.0, -40.0, 20.0], [1.0, 2.0, 3.0]]) + shift
    positive = torch.tensor([[True, False, False], [False, True, False]])
    value, (slope,) = value_and_slope(
        lambda x: multi_similarity(x, positive, ~positive, lam=shift, mining=False), similarity
    )
    # log(1 + exp(1000)) / 50 is 20; the second anchor gives 2.96 and, by its positive, a little.
    assert value == pytest.approx((20 + 3 + math.log1p(math.exp(-4)) / 2) / 2, rel=1e-5)
    assert slope[0, 2].item() == pytest.approx(0.5)
    assert torch.isfinite(slope).all()


@pytest.mark.parametrize("mining", [False, True])
def test_computes_in_float32_under_autocast(mining) -> None:
    e, concept = batch(32, 16, 8, 3)
    plain = value_and_slope(lambda x: term_term(x, concept, mining=mining), e.float())
    leaf = e.float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss = term_term(leaf, concept, mining=mining)
    loss.backward()
    assert loss.item() == plain[0]
    assert torch.equal(leaf.grad, plain[1][0])
    low = e.bfloat16().requires_grad_()
    loss = term_term(low, concept, mining=mining)
    assert loss.dtype == torch.float32
    loss.backward()
    assert low.grad.dtype == torch.bfloat16


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), mining=st.booleans())
def test_order_length_and_names_of_concepts_do_not_matter(seed, mining) -> None:
    e, concept = batch(12, 5, 4, seed)
    value = term_term(e, concept, mining=mining, **GENTLE).item()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    lengths = torch.rand(12, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    other = term_term((e * lengths)[order], 7 - concept[order], mining=mining, **GENTLE).item()
    assert other == pytest.approx(value, rel=1e-10, abs=1e-14)


def test_no_gradient_needed_none_kept() -> None:
    e, concept = batch(8, 4, 2, 0)
    with torch.no_grad():
        assert term_term(e, concept).grad_fn is None
    mask = torch.ones(2, 2, dtype=torch.bool)
    similarity = torch.eye(2, requires_grad=True)
    before = similarity.detach().clone()
    multi_similarity(similarity, mask, ~mask).backward()
    assert torch.equal(similarity.detach(), before)
    assert mask.all()


def test_wrong_use_is_named() -> None:
    mask = torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(ValueError, match="alpha and beta must be above 0, not 0 and 50"):
        multi_similarity(torch.zeros(2, 3), mask, ~mask, alpha=0, beta=50)
    with pytest.raises(ValueError, match=r"one shape .* got \[\(2, 3\), \(2, 3\), \(3, 2\)\]"):
        multi_similarity(torch.zeros(2, 3), mask, mask.T)
    with pytest.raises(ValueError, match="not empty"):
        term_term(torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64))
