from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.regression import regression
from tests.reference.multi_similarity import slopes


def reference(o, t) -> float:
    """1/(n k) sum_i sum_m (o_im - t_im)^2."""
    n, k = len(o), len(o[0])
    return sum((float(o[i][m]) - float(t[i][m])) ** 2 for i in range(n) for m in range(k)) / (n * k)


def pair(n: int, k: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, k, generator=random, dtype=torch.float64) for _ in range(2))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 6), k=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_value_and_slope_equal_the_reference(n, k, seed) -> None:
    outputs, targets = pair(n, k, seed)
    leaf = outputs.clone().requires_grad_()
    loss = regression(leaf, targets)
    loss.backward()
    rows = outputs.numpy().copy()
    assert loss.item() == pytest.approx(reference(rows, targets), rel=1e-12)
    np.testing.assert_allclose(leaf.grad.numpy(), slopes(lambda: reference(rows, targets), rows), atol=1e-7)


def test_gradcheck_through_a_linear_head() -> None:
    e, targets = pair(5, 4, 1)
    weight, bias = pair(4, 4, 2)[0].requires_grad_(), torch.zeros(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda x, w, b: regression(torch.nn.functional.linear(x, w, b), targets), (e.requires_grad_(), weight, bias)
    )


def test_targets_get_no_gradient_and_low_precision_is_lifted() -> None:
    outputs, targets = (one.bfloat16().requires_grad_() for one in pair(3, 4, 0))
    loss = regression(outputs, targets)
    assert loss.dtype == torch.float32
    loss.backward()
    assert targets.grad is None
    assert outputs.grad.dtype == torch.bfloat16
    assert loss.item() == pytest.approx(reference(outputs.detach().float(), targets.detach().float()), rel=1e-6)


def test_wrong_use_is_named() -> None:
    outputs, targets = pair(3, 4, 0)
    with pytest.raises(ValueError, match=r"one shape \(n, k\), not empty; got \[\(3, 4\), \(3, 2\)\]"):
        regression(outputs, targets[:, :2])
    with pytest.raises(ValueError, match="not empty"):
        regression(outputs[:0], targets[:0])
