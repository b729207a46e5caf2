from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.multi_similarity import multi_similarity
from alphita_lab.objectives.transe import RelationVectors, transe_margin
from alphita_lab.objectives.transe_similarity import transe_similarity
from tests.reference import relational as reference
from tests.reference.multi_similarity import slopes

R, D = 3, 4
GENTLE = {"alpha": 0.7, "beta": 1.3, "lam": -2.5, "eps": 0.4}


def drawn(k: int, seed: int) -> tuple[list[torch.Tensor], torch.Tensor, torch.Tensor, RelationVectors]:
    """Heads, tails and corrupted tails in float64; relations, tail concepts, vectors."""
    random = torch.Generator().manual_seed(seed)
    ends = [torch.randn(k, D, generator=random, dtype=torch.float64) for _ in range(3)]
    torch.manual_seed(seed)
    relation = torch.randint(R, (k,), generator=random)
    return ends, relation, torch.randint(3, (k,), generator=random), RelationVectors(R, D).double()


def plain(vectors: RelationVectors) -> np.ndarray:
    return vectors.vectors.detach().numpy().copy()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(0, 10_000), st.sampled_from([0.1, 1.0, 6.0]))
def test_margin_loss_is_the_papers_by_value_and_gradient(k: int, seed: int, margin: float) -> None:
    ends, relation, _, vectors = drawn(k, seed)
    for end in ends:
        end.requires_grad_()
    loss = transe_margin(ends[0], relation, ends[1], ends[2], vectors, margin=margin)
    loss.backward()
    h, t, corrupted = (end.detach().numpy().copy() for end in ends)
    matrix = plain(vectors)

    def value() -> float:
        return reference.transe_margin(h, relation.numpy(), t, corrupted, matrix, margin)

    assert loss.item() == pytest.approx(value(), rel=1e-12, abs=1e-12)
    for end, array in zip(ends, (h, t, corrupted), strict=True):
        np.testing.assert_allclose(end.grad, slopes(value, array), atol=2e-5)
    np.testing.assert_allclose(vectors.vectors.grad, slopes(value, matrix), atol=2e-5)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000), st.booleans())
def test_similarity_loss_is_the_papers_by_value_and_gradient(k: int, seed: int, mining: bool) -> None:
    ends, relation, concept, vectors = drawn(k, seed)
    head, tail = ends[0].requires_grad_(), ends[1].requires_grad_()
    loss = transe_similarity(head, relation, tail, concept, vectors, mining=mining, **GENTLE)
    loss.backward()
    h, t, matrix = head.detach().numpy().copy(), tail.detach().numpy().copy(), plain(vectors)

    def value() -> float:
        return reference.transe_similarity(h, relation.numpy(), t, concept.numpy(), matrix, mining=mining, **GENTLE)

    assert loss.item() == pytest.approx(value(), rel=1e-10)
    np.testing.assert_allclose(head.grad, slopes(value, h), atol=2e-5)
    np.testing.assert_allclose(tail.grad, slopes(value, t), atol=2e-5)
    np.testing.assert_allclose(vectors.vectors.grad, slopes(value, matrix), atol=2e-5)


@given(st.integers(2, 8), st.integers(0, 1000))
def test_order_and_labels_do_not_matter(k: int, seed: int) -> None:
    (head, tail, corrupted), relation, concept, vectors = drawn(k, seed)
    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    renamed = torch.tensor([7, 1, 4])[concept]
    margin = transe_margin(head, relation, tail, corrupted, vectors)
    assert transe_margin(head[order], relation[order], tail[order], corrupted[order], vectors).item() == pytest.approx(
        margin.item()
    )
    loss = transe_similarity(head, relation, tail, concept, vectors, **GENTLE)
    again = transe_similarity(head[order], relation[order], tail[order], renamed[order], vectors, **GENTLE)
    assert again.item() == pytest.approx(loss.item())


def test_the_printed_sign_of_lambda_gives_negatives_no_gradient() -> None:
    """Appendix A.5 prints lambda = 28; with it no negative pair is ever pushed away, with -28 every near one is."""
    torch.manual_seed(0)
    vectors = RelationVectors(2, 768)
    # Terms so near each other that the distance comes from r.
    head, tail = 0.3 * torch.randn(16, 768), 0.3 * torch.randn(16, 768)
    distance = torch.cdist(head + vectors(torch.randint(2, (16,))), tail).detach()
    assert 26 < float(distance.mean()) < 31
    same = torch.eye(16, dtype=torch.bool)

    def pushed(lam: float) -> float:
        similarity = (-distance).requires_grad_()
        multi_similarity(similarity, same, ~same, alpha=0.2, beta=5.0, lam=lam, eps=0.1, mining=False).backward()
        return float(similarity.grad[~same].max())

    assert pushed(28.0) < 1e-30
    assert pushed(-28.0) > 1e-5


def test_zero_distance_has_a_finite_gradient() -> None:
    vectors = RelationVectors(1, D)
    with torch.no_grad():
        vectors.vectors.zero_()
    e = torch.randn(3, D).requires_grad_()
    relation = torch.zeros(3, dtype=torch.long)
    transe_margin(e, relation, e, e, vectors).backward()
    transe_similarity(e, relation, e, torch.arange(3), vectors).backward()
    assert e.grad is not None
    assert torch.isfinite(e.grad).all()
    assert torch.isfinite(vectors.vectors.grad).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_finite_whatever_the_precision(dtype: torch.dtype) -> None:
    (head, tail, corrupted), relation, concept, vectors = drawn(6, 1)
    vectors = vectors.float()
    ends = [(1e3 * end).to(dtype).requires_grad_() for end in (head, tail, corrupted)]
    loss = transe_margin(ends[0], relation, ends[1], ends[2], vectors)
    loss = loss + transe_similarity(ends[0], relation, ends[1], concept, vectors)
    assert loss.dtype == torch.float32
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(end.grad).all() for end in ends if end.grad is not None)


def test_impossible_input_is_refused() -> None:
    (head, tail, corrupted), relation, _, vectors = drawn(3, 0)
    with pytest.raises(ValueError, match="margin must be above 0"):
        transe_margin(head, relation, tail, corrupted, vectors, margin=0.0)
    with pytest.raises(ValueError, match="not empty"):
        transe_margin(head[:0], relation[:0], tail[:0], corrupted[:0], vectors)
    with pytest.raises(ValueError, match="one shape"):
        transe_margin(head, relation, tail[:2], corrupted, vectors)
    with pytest.raises(ValueError, match="1 or more"):
        RelationVectors(0, 4)


def test_relation_vectors_start_standard_normal() -> None:
    torch.manual_seed(0)
    values = RelationVectors(50, 400).vectors.detach()
    assert abs(float(values.mean())) < 0.02
    assert float(values.std()) == pytest.approx(1.0, abs=0.02)
