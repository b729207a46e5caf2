from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.kge_margin import graph_similarity, mined, ms_v1, ms_v2, ms_v3, with_margins
from alphita_lab.objectives.multi_similarity import multi_similarity, term_term
from tests.reference import kge as reference
from tests.reference.multi_similarity import slopes

PAPER = {"alpha": 2.0, "beta": 50.0, "eps": 0.1}
GENTLE = {"alpha": 3.0, "beta": 7.0, "eps": 0.25}


def batch(
    n: int, concepts: int, seed: int, *, imaginary: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mentions near their concept's centre, and for each concept a vector in the graph that has its own geometry."""
    random = torch.Generator().manual_seed(seed)
    concept = torch.randint(concepts, (n,), generator=random)
    centres = torch.randn(concepts, 5, generator=random, dtype=torch.float64)
    e = centres[concept] + torch.randn(n, 5, generator=random, dtype=torch.float64)
    graph = torch.randn(concepts, 3, generator=random, dtype=torch.complex128 if imaginary else torch.float64)
    return e, concept, graph[concept]


def slope_of(loss, e: torch.Tensor) -> np.ndarray:
    leaf = e.detach().clone().requires_grad_()
    loss(leaf).backward()
    return leaf.grad.numpy()


SETTINGS = st.sampled_from([PAPER, GENTLE])


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 12),
    concepts=st.integers(1, 7),
    seed=st.integers(0, 10**6),
    mining=st.booleans(),
    setting=SETTINGS,
    imaginary=st.booleans(),
)
def test_values_equal_the_printed_equations(n, concepts, seed, mining, setting, imaginary) -> None:
    e, concept, graph = batch(n, concepts, seed, imaginary=imaginary)
    rows, names, vectors = e.numpy(), concept.tolist(), graph.numpy()
    options = {**setting, "mining": mining}
    near = {"rel": 1e-9, "abs": 1e-13}
    assert ms_v1(e, concept, **options).item() == pytest.approx(reference.v1(rows, names, **options), **near)
    assert ms_v2(e, concept, **options).item() == pytest.approx(reference.v2(rows, names, **options), **near)
    expected = reference.v3(rows, names, vectors, **options)
    for detached in (True, False):
        value = ms_v3(e, concept, graph, detach_margin=detached, **options)
        assert value.item() == pytest.approx(expected, **near)
    known = torch.arange(n) % 3 != 0
    expected = reference.v3(rows, names, vectors, known.tolist(), **options)
    assert ms_v3(e, concept, graph, known, **options).item() == pytest.approx(expected, **near)


@pytest.mark.parametrize("mining", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_slopes_equal_the_printed_equations(mining, seed) -> None:
    e, concept, graph = batch(8, 3, seed)
    rows, names, vectors = e.numpy().copy(), concept.tolist(), graph.numpy()
    options = {**GENTLE, "mining": mining}
    known = torch.arange(8) % 4 != 1
    for fast, slow in [
        (lambda x: ms_v1(x, concept, **options), lambda: reference.v1(rows, names, **options)),
        (lambda x: ms_v2(x, concept, **options), lambda: reference.v2(rows, names, **options)),
        # Detached: the margins stay where they are while the similarities move.
        (
            lambda x: ms_v3(x, concept, graph, **options),
            lambda: reference.v3(rows, names, vectors, margins_of=e.numpy(), **options),
        ),
        (
            lambda x: ms_v3(x, concept, graph, detach_margin=False, **options),
            lambda: reference.v3(rows, names, vectors, **options),
        ),
        (
            lambda x: ms_v3(x, concept, graph, known, detach_margin=False, **options),
            lambda: reference.v3(rows, names, vectors, known.tolist(), **options),
        ),
    ]:
        expected = slopes(slow, rows)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(slope_of(fast, e), expected, atol=1e-8)


@pytest.mark.parametrize("mining", [False, True])
def test_gradcheck(mining) -> None:
    e, concept, graph = batch(7, 3, 5)
    e.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: ms_v2(x, concept, mining=mining), (e,))
    assert torch.autograd.gradcheck(lambda x: ms_v3(x, concept, graph, detach_margin=False, mining=mining), (e,))


@pytest.mark.parametrize("mining", [False, True])
def test_v1_is_the_loss_of_terms_and_v2_with_equal_margins_is_v1(mining) -> None:
    e, concept, _ = batch(20, 6, 1)
    expected = term_term(e, concept, lam=0.3, mining=mining)
    slope = slope_of(lambda x: term_term(x, concept, lam=0.3, mining=mining), e)
    for loss in (
        lambda x: ms_v1(x, concept, lam=0.3, mining=mining),
        lambda x: ms_v2(x, concept, lambda_p=0.3, lambda_n=0.3, mining=mining),
    ):
        assert loss(e).item() == pytest.approx(expected.item(), rel=1e-12)
        np.testing.assert_allclose(slope_of(loss, e), slope, rtol=1e-9, atol=1e-14)


def test_positives_have_the_margin_one_minus_s() -> None:
    """S_kge is 1 for one concept, so -alpha (S - (1 - S)): at 60 degrees S is .5 and the exponent 0."""
    e = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(3) / 2]], dtype=torch.float64)
    one, graph = torch.tensor([4, 4]), torch.tensor([[0.1 + 2j, -3j], [0.1 + 2j, -3j]])
    assert graph_similarity(graph, one).tolist() == [[1, 1], [1, 1]]
    assert ms_v3(e, one, graph, mining=False).item() == pytest.approx(math.log(2) / 2, abs=1e-12)
    wide = torch.tensor([[1.0, 0.0], [0.8, 0.6]], dtype=torch.float64)
    assert ms_v3(wide, one, graph, mining=False).item() == pytest.approx(math.log1p(math.exp(-2 * 0.6)) / 2, abs=1e-12)
    # So it is whatever the graph says of that concept, and where it says nothing.
    expected = ms_v2(wide, one, lambda_p=1 - 0.8, mining=False).item()
    for vectors in (torch.randn(2, 3), torch.full((2, 3), math.nan), torch.zeros(2, 3)):
        for known in (None, torch.tensor([False, True])):
            assert ms_v3(wide, one, vectors, known, mining=False).item() == pytest.approx(expected, abs=1e-12)


def test_negatives_by_hand() -> None:
    """S = .6 and S_kge = .8: lambda_n = 1 - .2. Detached, the slope is the pair's share; else 0, for S < S_kge."""
    e = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    two, graph = torch.tensor([1, 2]), torch.tensor([[1.0, 0.0], [0.8, 0.6]], dtype=torch.float64)
    expected = math.log1p(math.exp(50 * (0.6 - 0.8))) / 50
    assert ms_v3(e, two, graph, mining=False).item() == pytest.approx(expected, abs=1e-15)
    assert np.abs(slope_of(lambda x: ms_v3(x, two, graph, mining=False), e)).max() > 1e-6
    flat = slope_of(lambda x: ms_v3(x, two, graph, mining=False, detach_margin=False), e)
    assert np.abs(flat).max() < 1e-15
    apart = torch.eye(2, dtype=torch.float64)  # S_kge = 0, S > S_kge
    away = slope_of(lambda x: ms_v3(x, two, apart, mining=False), e)
    doubled = slope_of(lambda x: ms_v3(x, two, apart, mining=False, detach_margin=False), e)
    assert np.abs(away).max() > 1e-12
    np.testing.assert_allclose(doubled, 2 * away, rtol=1e-9)


def test_the_similarity_of_complex_vectors_is_that_of_their_parts() -> None:
    _, concept, graph = batch(9, 9, 3)
    parts = torch.cat([graph.real, graph.imag], 1)
    similarity = graph_similarity(graph, concept)
    torch.testing.assert_close(similarity, graph_similarity(parts, concept))
    hermitian = (graph @ graph.conj().T).real / (graph.abs() ** 2).sum(1).sqrt()[:, None]
    torch.testing.assert_close(similarity, hermitian / (graph.abs() ** 2).sum(1).sqrt()[None, :])
    assert not similarity.requires_grad


def test_unknown_concepts_get_the_fixed_margin_whatever_their_rows_hold() -> None:
    e, concept, graph = batch(12, 6, 4)
    known = concept % 2 == 0
    value = ms_v3(e, concept, graph, known).item()
    for filler in (0.0, math.nan, math.inf, 7.0):
        other = torch.where(known[:, None], graph, torch.tensor(filler, dtype=graph.dtype))
        leaf = e.clone().requires_grad_()
        loss = ms_v3(leaf, concept, other, known)
        loss.backward()
        assert loss.item() == pytest.approx(value, rel=1e-12)
        assert torch.isfinite(leaf.grad).all()
    nothing = torch.zeros(12, dtype=torch.bool)
    negatives_only = torch.arange(12)
    expected = ms_v2(e, negatives_only, mining=False).item()
    assert ms_v3(e, negatives_only, graph, nothing, mining=False).item() == pytest.approx(expected, rel=1e-12)
    moved = ms_v3(e, negatives_only, graph, nothing, mining=False, lambda_n=0.2).item()
    assert moved == pytest.approx(ms_v2(e, negatives_only, mining=False, lambda_n=0.2).item(), rel=1e-12)


def test_mining_looks_at_similarities_not_at_margins() -> None:
    similarity = torch.tensor([[0.9, 0.6, 0.55, 0.4]], dtype=torch.float64)
    positive = torch.tensor([[True, True, False, False]])
    kept, pushed = mined(similarity, positive, ~positive, 0.1)
    assert kept.tolist() == [[False, True, False, False]]
    assert pushed.tolist() == [[False, False, True, False]]
    margin = torch.tensor([[0.0, 0.3, 0.7, -9.0]], dtype=torch.float64)
    expected = math.log1p(math.exp(-2 * 0.3)) / 2 + math.log1p(math.exp(50 * -0.15)) / 50
    assert with_margins(similarity, margin, positive, ~positive).item() == pytest.approx(expected, abs=1e-14)
    fixed = with_margins(similarity, torch.full_like(margin, 0.5), positive, ~positive).item()
    assert fixed == pytest.approx(multi_similarity(similarity, positive, ~positive).item(), abs=1e-14)


def test_slopes_stay_finite_where_all_rows_are_equal() -> None:
    e, graph = torch.ones(6, 4), torch.ones(6, 3)
    for concept in (torch.zeros(6, dtype=torch.int64), torch.arange(6), torch.tensor([0, 0, 0, 1, 1, 1])):
        for detached in (True, False):
            leaf = e.clone().requires_grad_()
            loss = ms_v3(leaf, concept, graph, detach_margin=detached)
            loss.backward()
            assert math.isfinite(loss.item())
            assert torch.isfinite(leaf.grad).all()


def test_computes_in_float32_under_autocast() -> None:
    e, concept, graph = batch(16, 5, 2)
    graph = torch.cat([graph.real, graph.imag], 1).float()
    for loss in (lambda x: ms_v2(x, concept), lambda x: ms_v3(x, concept, graph)):
        expected = loss(e.float())
        assert expected.dtype == torch.float32
        with torch.autocast("cpu", torch.bfloat16):
            assert loss(e.float()).item() == expected.item()


def test_no_gradient_reaches_the_graph() -> None:
    e, concept, graph = batch(6, 3, 0, imaginary=False)
    leaf, frozen = e.clone().requires_grad_(), graph.clone().requires_grad_()
    ms_v3(leaf, concept, frozen, detach_margin=False).backward()
    assert frozen.grad is None
    assert leaf.grad.abs().max() > 0


def test_wrong_use_is_named() -> None:
    e, concept, graph = batch(6, 3, 0)
    with pytest.raises(ValueError, match=r"the same n; got \[\(6, 5\), \(4, 3\)\]"):
        ms_v3(e, concept, graph[:4])
    with pytest.raises(ValueError, match=r"got \[\(6, 5\), \(6, 3\), \(5,\)\]"):
        ms_v3(e, concept, graph, torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match="alpha and beta must be above 0"):
        ms_v2(e, concept, alpha=0)
