from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.kept_nearness import kept_nearness
from tests.reference.multi_similarity import slopes


def reference(v, b) -> float:
    """1/k^2 sum_ij (cos(v_i, v_j) - cos(b_i, b_j))^2."""

    def cos(x, y) -> float:
        return float(x @ y / np.sqrt((x @ x) * (y @ y)))

    k = len(v)
    return sum((cos(v[i], v[j]) - cos(b[i], b[j])) ** 2 for i in range(k) for j in range(k)) / k**2


def rows(k: int, d: int, seed: int) -> torch.Tensor:
    return torch.randn(k, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=30, deadline=None)
@given(k=st.integers(1, 6), d=st.integers(1, 5), e=st.integers(1, 5), seed=st.integers(0, 10**6))
def test_value_and_slope_equal_the_reference(k, d, e, seed) -> None:
    base = rows(k, e, seed + 1)
    leaf = rows(k, d, seed).requires_grad_()
    loss = kept_nearness(leaf, base)
    loss.backward()
    values = leaf.detach().numpy().copy()
    assert loss.item() == pytest.approx(reference(values, base.numpy()), rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(leaf.grad.numpy(), slopes(lambda: reference(values, base.numpy()), values), atol=1e-6)


def test_what_stays_as_near_costs_nothing() -> None:
    vectors = rows(5, 4, 0)
    turned = vectors @ torch.linalg.qr(rows(4, 4, 1))[0]
    assert kept_nearness(3 * turned, vectors).item() == pytest.approx(0, abs=1e-28)


@pytest.mark.parametrize(("k", "m"), [(3, 4), (0, 0)])
def test_wrong_use_is_named(k, m) -> None:
    with pytest.raises(ValueError, match="k 1 or more"):
        kept_nearness(torch.ones(k, 2), torch.ones(m, 2))
