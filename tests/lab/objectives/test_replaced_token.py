from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from alphita_lab.objectives.entity_linking import NOT_MASKED
from alphita_lab.objectives.replaced_token import area_under_curve, detection, drawn, guessing
from tests.reference import replaced_token as reference


def logits_of(shape: tuple[int, ...], seed: int, spread: float = 3.0) -> torch.Tensor:
    return spread * torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 6), st.integers(2, 7), st.integers(0, 5), st.integers(0, 99))
def test_guessing_has_the_value_and_slope_of_the_loop(p: int, v: int, spare: int, seed: int) -> None:
    logits = logits_of((p + spare, v), seed).requires_grad_()
    true = torch.from_numpy(np.random.default_rng(seed).integers(0, v, p + spare))
    true[p:] = NOT_MASKED
    loss = guessing(logits, true)
    loss.backward()
    value, slope = reference.guessing(logits.detach().numpy(), true.tolist())
    assert float(loss.detach()) == pytest.approx(value, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(logits.grad.numpy(), slope, atol=1e-10)


@given(st.integers(0, 12), st.integers(0, 99))
def test_detection_has_the_value_and_slope_of_the_loop(n: int, seed: int) -> None:
    logits = logits_of((n,), seed).requires_grad_()
    replaced = torch.from_numpy(np.random.default_rng(seed).random(n) < 0.3)
    loss = detection(logits, replaced)
    loss.backward()
    value, slope = reference.detection(logits.tolist(), replaced.tolist())
    assert float(loss.detach()) == pytest.approx(value, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(logits.grad.numpy(), slope, atol=1e-10)


def test_large_logits_stay_finite() -> None:
    far = torch.tensor([200.0, -200.0])
    assert float(detection(far, torch.tensor([True, False]))) == 0.0
    assert float(detection(far, torch.tensor([False, True]))) == pytest.approx(200.0)


def test_parts_add_up_to_the_whole() -> None:
    logits, true = logits_of((7, 5), 1), torch.tensor([0, 1, NOT_MASKED, 4, 2, 2, 0])
    whole = guessing(logits, true)
    parts = guessing(logits[:3], true[:3], masked=6) + guessing(logits[3:], true[3:], masked=6)
    torch.testing.assert_close(parts, whole)
    flat, replaced = logits_of((9,), 2), torch.arange(9) % 4 == 0
    parts = detection(flat[:2], replaced[:2], tokens=9) + detection(flat[2:], replaced[2:], tokens=9)
    torch.testing.assert_close(parts, detection(flat, replaced))


@given(st.integers(0, 30), st.integers(1, 9), st.integers(0, 99))
def test_a_lot_draws_the_token_of_the_loop(p: int, v: int, seed: int) -> None:
    logits = logits_of((p, v), seed, 2.0)
    lots = torch.from_numpy(1 - np.random.default_rng(seed).random(p))
    assert drawn(logits, lots).tolist() == reference.drawn(logits.tolist(), lots.tolist())


def test_even_lots_draw_each_token_as_often_as_it_is_likely() -> None:
    logits, n = logits_of((1, 8), 3).float(), 100_000
    lots = (torch.arange(n) + 0.5) / n
    counts = torch.bincount(drawn(logits.expand(n, 8), lots), minlength=8)
    expected = n * torch.softmax(logits[0], 0)
    assert float((counts - expected).abs().max()) < 2.0


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).expand(4, 5)
    assert drawn(logits, torch.tensor([2.0**-24, 0.5, 0.5 + 2.0**-20, 1.0])).tolist() == [1, 1, 3, 3]


def test_no_gradient_goes_through_the_drawing() -> None:
    logits = logits_of((3, 4), 0).requires_grad_()
    assert not drawn(logits, torch.rand(3)).requires_grad


def test_losses_are_exact_under_autocast() -> None:
    logits, true = logits_of((5, 30), 0).float(), torch.arange(5)
    flat, replaced = logits_of((12,), 1).float(), torch.arange(12) % 3 == 0
    with torch.autocast("cpu", torch.bfloat16):
        within = guessing(logits, true), detection(flat, replaced)
        tokens = drawn(logits, torch.linspace(0.1, 1, 5))
    assert within == (guessing(logits, true), detection(flat, replaced))
    assert torch.equal(tokens, drawn(logits, torch.linspace(0.1, 1, 5)))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=25))
def test_the_area_counts_pairs_in_order(tokens: list[tuple[int, bool]]) -> None:
    logits, replaced = [float(score) for score, _ in tokens], [there for _, there in tokens]
    found = area_under_curve(torch.tensor(logits), torch.tensor(replaced, dtype=torch.bool))
    assert found == pytest.approx(reference.area_under_curve(logits, replaced))
    if len(set(replaced)) == 2:
        assert found == pytest.approx(roc_auc_score(replaced, logits))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"logits \(p, v\) and true \(p,\): got \[\(3, 4\), \(2,\)\]"):
        guessing(torch.zeros(3, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises(ValueError, match=r"logits \(p, v\) and lots"):
        drawn(torch.zeros(3, 4), torch.zeros(4))
    with pytest.raises(ValueError, match=r"logits and replaced \(n,\): got"):
        detection(torch.zeros(3), torch.zeros(4, dtype=torch.bool))
