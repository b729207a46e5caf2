from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.encoder.term_tokenizer import by_token_budget
from alphita_lab.encoder import bert as flat_bert
from alphita_lab.encoder import bert as packed

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}


# ELECTRA with embeddings as wide as its layers, and narrower.
KINDS = {
    "bert": ("BertModel", {}),
    "roberta": ("RobertaModel", {}),
    "xlm": ("XLMRobertaModel", {}),
    "electra": ("ElectraModel", {"embedding_size": 24}),
    "projected": ("ElectraModel", {"embedding_size": 16}),
}


@pytest.fixture(scope="module", params=KINDS)
def bert(request) -> torch.nn.Module:
    import transformers

    torch.manual_seed(1)
    name, facts = KINDS[request.param]
    kind = getattr(transformers, name)
    return kind(kind.config_class(**SIZES, **facts, pad_token_id=0)).eval()


def packing_of(rows: list[list[int]]) -> packed.Packing:
    ids = np.array([token for row in rows for token in row])
    return packed.Packing(ids, np.array([len(row) for row in rows]))


rows_of_tokens = st.lists(st.lists(st.integers(1, 49), min_size=1, max_size=40), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(rows=rows_of_tokens)
def test_packed_forward_equals_the_models_own(bert, rows: list[list[int]]) -> None:
    packing = packing_of(rows)
    with torch.no_grad():
        flat = packed.forward(bert, packing)
        mean, first = packed.mean_pool(flat, packing), packed.cls_pool(flat, packing)
        for row, tokens in enumerate(rows):
            own = bert(torch.tensor([tokens])).last_hidden_state[0]
            torch.testing.assert_close(mean[row], own.mean(0), atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(first[row], own[0], atol=1e-5, rtol=1e-4)


def test_gradients_equal_the_models_own(bert) -> None:
    rows = [[3, 4, 5], [6] * 11, [7, 8], [9] * 30]
    target = torch.randn(len(rows), 24, generator=torch.Generator().manual_seed(0))

    def gradients(vectors: torch.Tensor) -> dict[str, torch.Tensor]:
        bert.zero_grad()
        (vectors * target).sum().backward()
        return {
            name: parameter.grad.clone() for name, parameter in bert.named_parameters() if parameter.grad is not None
        }

    packing = packing_of(rows)
    ours = gradients(packed.mean_pool(packed.forward(bert, packing), packing))
    own = gradients(torch.stack([bert(torch.tensor([row])).last_hidden_state[0].mean(0) for row in rows]))
    assert ours.keys() == own.keys()
    for name, gradient in own.items():
        torch.testing.assert_close(ours[name], gradient, atol=2e-5, rtol=1e-4, msg=name)


def test_other_tokens_in_the_same_places(bert) -> None:
    rows = [[3, 4, 5], [6] * 11, [7, 8]]
    packing, others = packing_of(rows), packing_of([[token + 9 for token in row] for row in rows])
    with torch.no_grad():
        flat = packed.forward(bert, packing, others.ids)
        assert torch.equal(flat, packed.forward(bert, others))
        assert not torch.allclose(flat, packed.forward(bert, packing))


def test_flat_forward_equals_the_models_own(bert) -> None:
    assert flat_bert.runs(bert)
    assert flat_bert.supports(bert) == (type(bert).__name__ != "ElectraModel")
    flat = flat_bert.FlatBert(bert, torch.float32)
    rows = [[3, 4, 5], [6] * 11, [7, 8, 9], [1, 2]]
    with torch.inference_mode():
        for numbers, batch in by_token_budget(rows, 1000):
            found = flat_bert.pool(flat(batch), batch.runs, mean=True)
            for number, vector in zip(numbers, found, strict=True):
                own = bert(torch.tensor([rows[number]])).last_hidden_state[0].mean(0)
                torch.testing.assert_close(vector, own, atol=1e-5, rtol=1e-4)


def test_parts_hold_each_row_once_within_the_budget() -> None:
    lengths = np.array([5, 3, 9, 30, 2, 2, 8])
    own = np.array([0, 1, 3, 4, 5, 6])
    for budget in (1, 8, 12, 1000):
        parts = packed.within(own, lengths, budget)
        assert np.concatenate(parts).tolist() == own.tolist()
        assert all(lengths[part].sum() <= budget or len(part) == 1 for part in parts)
        assert all(lengths[a].sum() + lengths[b[0]] > budget for a, b in itertools.pairwise(parts))
    assert packed.within(own[:0], lengths, 10) == []


def test_rows_of_near_lengths_attend_together() -> None:
    rows = [[1] * length for length in [3] * 20 + [20] * 2 + [9] * 40 + [4] * 5 + [18] * 15]
    groups = packing_of(rows).groups
    assert [(group.shape, group.tokens) for group in groups] == [((32, 4), 80), ((48, 12), 360), ((32, 20), 310)]
    few = packing_of([[1] * length for length in range(1, 11)]).groups
    assert [group.shape for group in few] == [(16, 12)]


@pytest.mark.parametrize("rows", [1, 17, 37, 100])
def test_attention_in_bf16_is_that_of_each_row(rows: int) -> None:
    heads, length, dim = 3, 7, 8
    mixed = torch.randn(rows * length, 3 * heads * dim, generator=torch.Generator().manual_seed(rows)).bfloat16()
    found = flat_bert._attend(mixed, rows, length, heads)
    assert found.shape == (rows * length, heads * dim)
    for row in range(rows):
        own = mixed[row * length : (row + 1) * length].double().view(length, 3, heads, dim).permute(1, 2, 0, 3)
        expected = (own[0] @ own[1].transpose(1, 2)).softmax(-1) @ own[2]
        expected = expected.transpose(0, 1).reshape(length, heads * dim)
        torch.testing.assert_close(found[row * length : (row + 1) * length].double(), expected, atol=0.05, rtol=0.05)


@settings(max_examples=40, deadline=None)
@given(
    share=st.floats(0, 0.95) | st.just(1.0),
    shape=st.lists(st.integers(1, 9), min_size=0, max_size=4),
    seed=st.integers(0, 99),
)
def test_what_is_dropped_is_zero_and_the_rest_as_much_larger(share: float, shape: list[int], seed: int) -> None:
    states = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) + 1
    states.requires_grad_()
    torch.manual_seed(seed)
    dropped = packed.dropped(states, share)
    assert dropped.shape == states.shape
    assert dropped.dtype == states.dtype
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], states[kept] / max(1 - share, 1e-9), atol=1e-4, rtol=1e-3)
    dropped.sum().backward()
    torch.testing.assert_close(states.grad, dropped.detach() / states.detach())
    torch.manual_seed(seed)
    assert torch.equal(packed.dropped(states, share), dropped)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_as_many_are_dropped_as_asked_for_wherever_they_stand(share: float) -> None:
    torch.manual_seed(0)
    zeros = (packed.dropped(torch.ones(500, 403), share) == 0).double()
    spread = (share * (1 - share)) ** 0.5
    assert abs(float(zeros.mean()) - share) <= 1e-5 + 4 * spread / zeros.numel() ** 0.5
    for axis in (0, 1):
        means = zeros.mean(axis)
        assert float((means - share).abs().max()) <= 1e-5 + 6 * spread / zeros.shape[axis] ** 0.5
    # Neighbours, whose bits are of one number, do not depend on each other.
    both = float((zeros[:, 1:] * zeros[:, :-1]).mean())
    assert abs(both - share**2) <= 1e-4 + 6 * spread / zeros.numel() ** 0.5


def test_dropout_follows_the_models_mode_and_shares(bert) -> None:
    packing = packing_of([[3, 4, 5], [6] * 11])
    torch.manual_seed(0)
    with torch.no_grad():
        still = packed.forward(bert, packing)
        bert.train()
        try:
            one, other = packed.forward(bert, packing), packed.forward(bert, packing)
        finally:
            bert.eval()
    assert not torch.allclose(one[: packing.tokens], other[: packing.tokens])
    assert not torch.allclose(one[: packing.tokens], still[: packing.tokens])
