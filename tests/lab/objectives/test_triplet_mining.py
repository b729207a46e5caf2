from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.triplet_mining import mined_term_term
from tests.reference import relational as reference
from tests.reference.multi_similarity import slopes

D = 4
GENTLE = {"alpha": 1.5, "beta": 4.0, "lam": 0.4}


def drawn(n: int, seed: int, concepts: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    return (torch.randn(n, D, generator=random, dtype=torch.float64), torch.randint(concepts, (n,), generator=random))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.7]))
def test_loss_is_the_papers_by_value_and_gradient(n: int, seed: int, margin: float) -> None:
    e, concept = drawn(n, seed)
    e.requires_grad_()
    loss = mined_term_term(e, concept, margin=margin, **GENTLE)
    loss.backward()
    array = e.detach().numpy().copy()

    def value() -> float:
        return reference.mined_term_term(array, concept.numpy(), margin=margin, **GENTLE)

    assert loss.item() == pytest.approx(value(), rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(e.grad, slopes(value, array, 1e-7), atol=1e-5)


@pytest.mark.parametrize(("alpha", "beta"), [(2.0, 50.0), (1.0, 60.0)])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pytorch_metric_learning(alpha: float, beta: float, seed: int) -> None:
    from pytorch_metric_learning.losses import MultiSimilarityLoss
    from pytorch_metric_learning.miners import TripletMarginMiner

    random = torch.Generator().manual_seed(seed)
    # Directions close together, so that the margin tells.
    e = (torch.ones(40, 16) + 0.4 * torch.randn(40, 16, generator=random)).requires_grad_()
    concept = torch.randint(12, (40,), generator=random)
    mined = TripletMarginMiner(margin=0.2, type_of_triplets="all")(e, concept)
    assert len(mined[0]) > 0
    theirs = MultiSimilarityLoss(alpha=alpha, beta=beta, base=0.5)(e, concept, mined)
    ours = mined_term_term(e, concept, alpha=alpha, beta=beta, lam=0.5, margin=0.2)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    expected, found = (torch.autograd.grad(loss, e)[0] for loss in (theirs, ours))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-3)


def test_mining_leaves_out_what_is_told_apart() -> None:
    """Two far concepts of two near terms each: no triplet is mined, and there is no loss."""
    e = torch.tensor([[1.0, 0.0], [1.0, 0.01], [-1.0, 0.0], [-1.0, 0.01]]).requires_grad_()
    loss = mined_term_term(e, torch.tensor([0, 0, 1, 1]))
    assert loss.item() == 0
    assert mined_term_term(e, torch.tensor([0, 1, 0, 1])).item() > 0.1


@given(st.integers(2, 8), st.integers(0, 1000), st.floats(0.1, 10))
def test_order_labels_and_length_do_not_matter(n: int, seed: int, scale: float) -> None:
    e, concept = drawn(n, seed)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    renamed = torch.tensor([9, 2, 5])[concept]
    loss = mined_term_term(e, concept, **GENTLE).item()
    assert mined_term_term(scale * e[order], renamed[order], **GENTLE).item() == pytest.approx(loss, abs=1e-9)


def test_finite_in_bf16_and_alone() -> None:
    e, concept = drawn(12, 0)
    small = e.bfloat16().requires_grad_()
    loss = mined_term_term(small, concept)
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(small.grad).all()
    assert mined_term_term(e[:1], concept[:1]).item() == 0
    assert mined_term_term(e[:3], torch.arange(3)).item() == 0  # no positives, so no triplets
