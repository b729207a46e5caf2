from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.entity_linking import NO_ENTITY, NOT_MASKED, entity_linking, masked_language_model
from tests.reference import kge as reference
from tests.reference.multi_similarity import slopes


def batch(m: int, count: int, seed: int, *, scale: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    projected = scale * torch.randn(m, 4, generator=random, dtype=torch.float64)
    entities = scale * torch.randn(count, 4, generator=random, dtype=torch.float64)
    return projected, torch.randint(-1, count, (m,), generator=random), entities


def slope_of(loss, x: torch.Tensor) -> np.ndarray:
    leaf = x.detach().clone().requires_grad_()
    loss(leaf).backward()
    return leaf.grad.numpy()


@settings(max_examples=40, deadline=None)
@given(m=st.integers(0, 9), count=st.integers(1, 20), seed=st.integers(0, 10**6), block=st.sampled_from([1, 3, 20, 99]))
def test_value_and_slope_equal_the_printed_equation(m, count, seed, block) -> None:
    projected, gold, entities = batch(m, count, seed)
    rows = projected.numpy().copy()
    total = reference.linking(rows, gold.tolist(), entities.numpy())
    linked = int((gold >= 0).sum())
    assert entity_linking(projected, gold, entities, total=True, block=block).item() == pytest.approx(total, abs=1e-10)
    mean = entity_linking(projected, gold, entities, block=block)
    assert mean.item() == pytest.approx(total / max(1, linked), abs=1e-10)
    expected = slopes(lambda: reference.linking(rows, gold.tolist(), entities.numpy()), rows)
    slope = slope_of(lambda x: entity_linking(x, gold, entities, total=True, block=block), projected)
    np.testing.assert_allclose(slope, expected, atol=1e-7)
    assert (slope[gold.numpy() < 0] == 0).all()


@pytest.mark.parametrize("block", [2, 50])
def test_gradcheck_and_torchs_cross_entropy(block) -> None:
    projected, gold, entities = batch(6, 11, 3)
    gold = gold.clamp(min=0)
    leaf = projected.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: entity_linking(x, gold, entities, block=block), (leaf,))
    theirs = torch.nn.functional.cross_entropy(projected @ entities.T, gold)
    assert entity_linking(projected, gold, entities, block=block).item() == pytest.approx(theirs.item(), rel=1e-12)


def test_by_hand() -> None:
    entities = torch.eye(3, dtype=torch.float64)
    projected = torch.tensor([[math.log(2), 0.0, 0.0], [0.0, 0.0, math.log(6)]], dtype=torch.float64)
    gold = torch.tensor([0, 1])
    expected = math.log(2) + math.log(8)  # -log 2/4, -log 1/8
    assert entity_linking(projected, gold, entities, total=True).item() == pytest.approx(expected)
    # The entity furthest from the mention is as good a label as any: the sum is over all entities, not the nearest.
    assert entity_linking(projected[1:], gold[1:], entities).item() == pytest.approx(math.log(8))


@pytest.mark.parametrize("scale", [30.0, 1e-4])
def test_large_logits_neither_overflow_nor_vanish(scale) -> None:
    projected, gold, entities = batch(5, 30, 1, scale=scale)
    gold = gold.clamp(min=0)
    theirs = torch.nn.functional.cross_entropy(projected @ entities.T, gold).item()
    for block in (4, 30):
        assert entity_linking(projected, gold, entities, block=block).item() == pytest.approx(theirs, rel=1e-10)
        single = entity_linking(projected.float(), gold, entities.float(), block=block)
        assert single.dtype == torch.float32
        assert single.item() == pytest.approx(theirs, rel=1e-4)
        assert np.isfinite(slope_of(lambda x, b=block: entity_linking(x, gold, entities, block=b), projected)).all()


def test_nothing_to_link_gives_zero_with_a_gradient() -> None:
    projected, _, entities = batch(3, 4, 0)
    nothing = torch.full((3,), NO_ENTITY)
    leaf = projected.clone().requires_grad_()
    loss = entity_linking(leaf, nothing, entities)
    loss.backward()
    assert loss.item() == 0
    assert (leaf.grad == 0).all()
    assert entity_linking(projected[:0], nothing[:0], entities).item() == 0


def test_half_precision_entities_are_read_in_float32() -> None:
    projected, gold, entities = batch(6, 9, 2)
    half = entities.half()
    expected = entity_linking(projected, gold, half.double()).item()
    assert entity_linking(projected.float(), gold, half).item() == pytest.approx(expected, rel=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        loss = entity_linking(projected.bfloat16().float(), gold, half)
    assert loss.dtype == torch.float32
    assert loss.item() == entity_linking(projected.bfloat16().float(), gold, half).item()


def test_language() -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 5, 7, generator=random, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1, NOT_MASKED, 6, 0, NOT_MASKED], [NOT_MASKED] * 5])
    expected = reference.language(scores.detach().reshape(10, 7).numpy(), labels.reshape(10).tolist())
    assert masked_language_model(scores, labels).item() == pytest.approx(expected, rel=1e-12)
    rows = scores.detach().reshape(10, 7).numpy().copy()
    masked_language_model(scores, labels).backward()
    wanted = slopes(lambda: reference.language(rows, labels.reshape(10).tolist()), rows)
    np.testing.assert_allclose(scores.grad.reshape(10, 7).numpy(), wanted, atol=1e-8)
    nothing = masked_language_model(scores, torch.full((2, 5), NOT_MASKED))
    nothing.backward()
    assert nothing.item() == 0


def test_wrong_use_is_named() -> None:
    projected, gold, entities = batch(4, 6, 1)
    with pytest.raises(ValueError, match=r"got \[\(4, 4\), \(4,\), \(6, 3\)\]"):
        entity_linking(projected, gold, entities[:, :3])
    with pytest.raises(ValueError, match="E not 0"):
        entity_linking(projected, gold, entities[:0])
    with pytest.raises(ValueError, match=r"got \[\(4, 4\), \(3,\)"):
        entity_linking(projected, gold[:3], entities)
    with pytest.raises(ValueError, match=r"from -1 to 5, not \[6,"):
        entity_linking(projected, torch.tensor([6, 0, 0, 0]), entities)
    with pytest.raises(ValueError, match="not \\[-2,"):
        entity_linking(projected, torch.tensor([-2, 0, 0, 0]), entities)
    with pytest.raises(ValueError, match="frozen"):
        entity_linking(projected, gold, entities.clone().requires_grad_())
