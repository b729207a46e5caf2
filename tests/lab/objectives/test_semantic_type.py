from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.semantic_type import SemanticTypeHead, semantic_type
from tests.reference import relational as reference
from tests.reference.multi_similarity import slopes

D, T = 4, 3


def drawn(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, SemanticTypeHead]:
    random = torch.Generator().manual_seed(seed)
    e = torch.randn(n, D, generator=random, dtype=torch.float64)
    types = torch.rand(n, T, generator=random) < 0.4
    torch.manual_seed(seed)
    return e, types, SemanticTypeHead(D, T).double()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 10_000))
def test_loss_is_the_papers_by_value_and_gradient(n: int, seed: int) -> None:
    e, types, head = drawn(n, seed)
    e.requires_grad_()
    loss = semantic_type(e, types, head)
    loss.backward()
    arrays = [value.detach().numpy().copy() for value in (e, head.linear.weight, head.linear.bias)]

    def value() -> float:
        return reference.semantic_type(arrays[0], types.numpy(), arrays[1], arrays[2])

    assert loss.item() == pytest.approx(value(), rel=1e-12, abs=1e-12)
    for tensor, array in zip((e, head.linear.weight, head.linear.bias), arrays, strict=True):
        np.testing.assert_allclose(tensor.grad, slopes(value, array), atol=1e-6)


def test_one_type_each_is_plain_cross_entropy() -> None:
    e, _, head = drawn(9, 3)
    label = torch.arange(9) % T
    types = torch.nn.functional.one_hot(label, T).bool()
    expected = torch.nn.functional.cross_entropy(head(e), label)
    assert semantic_type(e, types, head).item() == pytest.approx(expected.item())


def test_terms_without_a_type_do_not_count() -> None:
    e, types, head = drawn(5, 1)
    types[:] = torch.tensor([True, False, False])
    more = torch.cat([e, torch.randn(4, D, dtype=torch.float64)])
    blank = torch.cat([types, torch.zeros(4, T, dtype=torch.bool)])
    assert semantic_type(more, blank, head).item() == pytest.approx(semantic_type(e, types, head).item())
    none = semantic_type(e.requires_grad_(), torch.zeros(5, T, dtype=torch.bool), head)
    none.backward()
    assert none.item() == 0
    assert float(e.grad.abs().max()) == 0
    assert semantic_type(e[:0], types[:0], head).item() == 0


@given(st.integers(0, 1000))
def test_order_of_terms_and_of_types_does_not_matter(seed: int) -> None:
    e, types, head = drawn(6, seed)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    turned = SemanticTypeHead(D, T).double()
    columns = torch.tensor([2, 0, 1])
    turned.linear.weight.data = head.linear.weight.data[columns]
    turned.linear.bias.data = head.linear.bias.data[columns]
    again = semantic_type(e[order], types[order][:, columns], turned)
    assert again.item() == pytest.approx(semantic_type(e, types, head).item())


def test_finite_in_bf16() -> None:
    e, types, head = drawn(6, 0)
    small = (1e3 * e).bfloat16().requires_grad_()
    loss = semantic_type(small, types, head.float())
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)
    assert torch.isfinite(small.grad).all()


def test_there_must_be_a_type() -> None:
    with pytest.raises(ValueError, match="semantic type"):
        SemanticTypeHead(4, 0)
