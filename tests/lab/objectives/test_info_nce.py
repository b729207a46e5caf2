from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita_lab.objectives.info_nce import info_nce
from tests.reference import info_nce as reference
from tests.reference.multi_similarity import slopes

SEEDS = st.integers(0, 10**6)


def batch(n: int, d: int, concepts: int, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    concept = torch.randint(concepts, (n,), generator=random)
    names, texts = (torch.randn(n, d, generator=random, dtype=torch.float64) for _ in range(2))
    return names, texts, concept


def loss_of(*given, **settings) -> torch.Tensor:
    return info_nce(*given, **settings)["loss"]


def test_two_concepts_by_hand() -> None:
    names = torch.eye(2, dtype=torch.float64)
    # cos: 1 to the first name's own text and .6 to the other; the second's own .8 and 0.
    texts = torch.tensor([[2.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    expected = (math.log(1 + math.exp((0.6 - 1) / 0.5)) + math.log(1 + math.exp((0 - 0.8) / 0.5))) / 2
    value = loss_of(names, texts, torch.tensor([7, 9]), temperature=0.5)
    assert value.item() == pytest.approx(expected, abs=1e-14)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 9),
    h=st.integers(0, 4),
    concepts=st.integers(1, 6),
    seed=SEEDS,
    symmetric=st.booleans(),
    tau=st.sampled_from([0.05, 0.3, 1.0]),
    masked=st.booleans(),
)
def test_value_equals_the_reference(n, h, concepts, seed, symmetric, tau, masked) -> None:
    names, texts, concept = batch(n, 5, concepts, seed)
    extra = torch.randn(h, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    takes = torch.rand(n, h, generator=torch.Generator().manual_seed(seed)) < 0.5 if masked else None
    expected = reference.info_nce(
        names.numpy(),
        texts.numpy(),
        concept.tolist(),
        tau,
        symmetric,
        extra.numpy(),
        None if takes is None else takes.tolist(),
    )
    given = {"temperature": tau, "symmetric": symmetric, "extra": extra, "extra_negative": takes}
    assert loss_of(names, texts, concept, **given).item() == pytest.approx(expected, rel=1e-10, abs=1e-13)
    given["extra"] = extra.float()
    single = loss_of(names.float(), texts.float(), concept, **given)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_slope_equals_the_reference(symmetric, seed) -> None:
    names, texts, concept = batch(6, 4, 3, seed)
    extra, _, _ = batch(3, 4, 1, seed + 100)
    takes = torch.rand(6, 3, generator=torch.Generator().manual_seed(seed)) < 0.6
    leaves = [one.clone().requires_grad_() for one in (names, texts, extra)]
    loss_of(
        *leaves[:2], concept, temperature=0.2, symmetric=symmetric, extra=leaves[2], extra_negative=takes
    ).backward()
    rows = [one.numpy().copy() for one in (names, texts, extra)]

    def value() -> float:
        return reference.info_nce(*rows[:2], concept.tolist(), 0.2, symmetric, rows[2], takes.tolist())

    for leaf, row in zip(leaves, rows, strict=True):
        expected = slopes(value, row)
        assert np.abs(expected).max() > 1e-3
        np.testing.assert_allclose(leaf.grad.numpy(), expected, atol=1e-7)


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradcheck(symmetric) -> None:
    names, texts, concept = batch(5, 4, 3, 8)
    extra, _, _ = batch(2, 4, 1, 9)
    given = [one.requires_grad_() for one in (names, texts, extra)]
    assert torch.autograd.gradcheck(
        lambda a, b, e: loss_of(a, b, concept, temperature=0.1, symmetric=symmetric, extra=e), given
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_texts_of_the_same_concept_do_not_push(symmetric) -> None:
    names, texts, _ = batch(6, 5, 1, 4)
    assert loss_of(names, texts, torch.zeros(6, dtype=torch.int64), symmetric=symmetric).item() == 0.0
    # Rows 0 and 1 are of one concept: were they of two, each would push the other's text away.
    together = loss_of(names, texts, torch.tensor([0, 0, 1, 2, 3, 4]), symmetric=symmetric)
    assert together.item() < loss_of(names, texts, torch.arange(6), symmetric=symmetric).item()


def test_sentence_transformers_definition_without_repeats() -> None:
    """With all concepts different it is the cross-entropy of each name's row, scaled by 1 / temperature."""
    names, texts, _ = batch(7, 5, 1, 3)
    similarity = torch.nn.functional.cosine_similarity(names[:, None], texts[None], dim=-1)
    expected = torch.nn.functional.cross_entropy(similarity * 20, torch.arange(7))
    assert loss_of(names, texts, torch.arange(7)).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_extremes_stay_finite(symmetric) -> None:
    """Identical, opposite and zero vectors at a temperature where exp(1 / tau) overflows float32."""
    ones = torch.ones(6, 4)
    zero = ones.clone()
    zero[2] = 0
    for names, texts in ((ones, ones), (ones, -ones), (-ones, ones), (zero, ones), (ones, zero)):
        for concept in (torch.arange(6), torch.arange(6) % 2):
            leaf = names.clone().requires_grad_()
            loss = loss_of(leaf, texts, concept, temperature=0.002, symmetric=symmetric)
            loss.backward()
            assert math.isfinite(loss.item())
            assert torch.isfinite(leaf.grad).all()


def test_no_extra_that_a_name_may_take_changes_nothing() -> None:
    names, texts, concept = batch(5, 4, 3, 0)
    extra, _, _ = batch(3, 4, 1, 1)
    plain = loss_of(names, texts, concept).item()
    none = torch.zeros(5, 3, dtype=torch.bool)
    assert loss_of(names, texts, concept, extra=extra, extra_negative=none).item() == plain
    assert loss_of(names, texts, concept, extra=extra[:0]).item() == plain
    assert loss_of(names, texts, concept, extra=extra).item() > plain


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_order_length_and_names_of_concepts_do_not_matter(seed) -> None:
    names, texts, concept = batch(8, 5, 4, seed)
    random = torch.Generator().manual_seed(seed)
    order = torch.randperm(8, generator=random)
    lengths = torch.rand(8, 1, generator=random, dtype=torch.float64) + 0.1
    other = loss_of((names * lengths)[order], (texts / lengths)[order], 7 - concept[order]).item()
    assert other == pytest.approx(loss_of(names, texts, concept).item(), rel=1e-10, abs=1e-13)


def test_computes_in_float32_under_autocast() -> None:
    names, texts, concept = batch(16, 8, 5, 3)
    plain = loss_of(names.float(), texts.float(), concept)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss_of(names.float(), texts.float(), concept).item() == plain.item()
    low = names.bfloat16().requires_grad_()
    loss = loss_of(low, texts.bfloat16(), concept)
    assert loss.dtype == torch.float32
    loss.backward()
    assert low.grad.dtype == torch.bfloat16


def test_wrong_use_is_named() -> None:
    names, texts, concept = batch(3, 4, 2, 0)
    with pytest.raises(ValueError, match="temperature must be above 0, not 0"):
        info_nce(names, texts, concept, temperature=0)
    with pytest.raises(ValueError, match=r"got \[\(3, 4\), \(2, 4\), \(3,\)\]"):
        info_nce(names, texts[:2], concept)
    with pytest.raises(ValueError, match="not empty"):
        info_nce(names[:0], texts[:0], concept[:0])
    with pytest.raises(ValueError, match=r"the shape \(h, 4\), its mask \(3, h\)"):
        info_nce(names, texts, concept, extra=names, extra_negative=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="without extra"):
        info_nce(names, texts, concept, extra_negative=torch.ones(3, 3, dtype=torch.bool))
