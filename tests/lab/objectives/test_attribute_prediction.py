from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.attribute_prediction import AttributeProjection, attribute_distance, attribute_prediction
from tests.reference import attribute_prediction as reference
from tests.reference.multi_similarity import slopes

D = 4


def drawn(pairs: int, seed: int, width: int = D) -> tuple[torch.Tensor, ...]:
    """Titles, values, the pair of each value, its sign, in float64; every pair has a value, not each a negative."""
    rng = np.random.default_rng(seed)
    pair, positive = [], []
    for number in range(pairs):
        values = int(rng.integers(1, 4))
        others = int(rng.integers(0, 2 * values + 1))
        pair += [number] * (values + others)
        positive += [True] * values + [False] * others
    order = rng.permutation(len(pair))
    return (
        torch.from_numpy(rng.normal(size=(pairs, D)) * 2),
        torch.from_numpy(rng.normal(size=(len(pair), D)) * 2),
        torch.tensor(pair)[order],
        torch.tensor(positive)[order],
    )


def loss_of(projection, title, value, pair, positive, margin) -> torch.Tensor:
    distance = attribute_distance(projection(title)[pair], projection(value))
    return attribute_prediction(distance, pair, positive, margin=margin)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.sampled_from([0.5, 2.0, 4.0]), st.sampled_from([3, D]))
def test_loss_is_the_papers_by_value_and_gradient(pairs: int, seed: int, margin: float, width: int) -> None:
    torch.manual_seed(seed)
    projection = AttributeProjection(D, width).double()
    title, value, pair, positive = drawn(pairs, seed)
    title.requires_grad_()
    value.requires_grad_()
    loss = loss_of(projection, title, value, pair, positive, margin)
    loss.backward()
    weight, bias = projection.dense.weight, projection.dense.bias
    tn, v, W, b = (tensor.detach().numpy().copy() for tensor in (title, value, weight, bias))

    def plain() -> float:
        return reference.l_pap(tn, v, pair.tolist(), positive.tolist(), W, b, margin)

    assert loss.item() == pytest.approx(plain(), rel=1e-12)
    for tensor, array in ((title, tn), (value, v), (weight, W), (bias, b)):
        np.testing.assert_allclose(tensor.grad, slopes(plain, array), atol=2e-5)


def test_known_values() -> None:
    """One pair with values at 1 and 7 and negatives at 3 and 9, gamma 4; a second with a value at 4 and no negative."""
    distance = torch.tensor([1.0, 3.0, 7.0, 9.0, 4.0], dtype=torch.float64)
    pair, positive = torch.tensor([0, 0, 0, 0, 1]), torch.tensor([True, False, True, False, True])
    sigma = torch.sigmoid(torch.tensor([3.0, -1.0, -3.0, 5.0, 0.0], dtype=torch.float64)).log()
    first = -(sigma[0] + sigma[2]) / 2 - (sigma[1] + sigma[3]) / 2
    expected = (first - sigma[4]) / 2
    assert attribute_prediction(distance, pair, positive).item() == pytest.approx(expected.item(), rel=1e-12)


def test_one_projection_serves_both_sides() -> None:
    torch.manual_seed(0)
    projection = AttributeProjection(D)
    one, other = torch.randn(2, 5, D)
    forth = attribute_distance(projection(one), projection(other))
    assert torch.equal(forth, attribute_distance(projection(other), projection(one)))
    assert torch.equal(attribute_distance(projection(one), projection(one)), torch.zeros(5))
    assert sum(p.numel() for p in projection.parameters()) == D * D + D


def test_equal_vectors_have_finite_gradients() -> None:
    torch.manual_seed(0)
    projection = AttributeProjection(D)
    e = torch.randn(3, D).requires_grad_()
    pair, positive = torch.tensor([0, 1, 2, 2]), torch.tensor([True, True, True, False])
    loss = loss_of(projection, e, e[torch.tensor([0, 1, 2, 2])], pair, positive, 4.0)
    loss.backward()
    assert torch.isfinite(e.grad).all()
    assert torch.isfinite(projection.dense.weight.grad).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_finite_whatever_the_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    projection = AttributeProjection(D)
    title, value, pair, positive = drawn(4, 0)
    title, value = ((1e4 * tensor).to(dtype).requires_grad_() for tensor in (title, value))
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(projection, title, value, pair, positive, 4.0)
    assert loss.dtype == torch.float32
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(title.grad).all()
    assert torch.isfinite(value.grad).all()


def test_impossible_input_is_refused() -> None:
    distance, pair, positive = torch.ones(3), torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool)
    with pytest.raises(ValueError, match="margin must be above 0"):
        attribute_prediction(distance, pair, positive, margin=0.0)
    with pytest.raises(ValueError, match="not empty"):
        attribute_prediction(distance[:0], pair[:0], positive[:0])
    with pytest.raises(ValueError, match="one shape"):
        attribute_prediction(distance, pair[:2], positive)
    with pytest.raises(ValueError, match="1 or more"):
        AttributeProjection(0)
