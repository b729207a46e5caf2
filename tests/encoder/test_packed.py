from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphita.encoder import packed

SIZES = {
    "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40,
    "max_position_embeddings": 48,
}  # fmt: skip


@pytest.fixture(scope="module", params=["BertModel", "RobertaModel", "XLMRobertaModel"])
def bert(request) -> torch.nn.Module:
    import transformers

    torch.manual_seed(1)
    kind = getattr(transformers, request.param)
    return kind(kind.config_class(**SIZES, pad_token_id=0)).eval()


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


def test_sizes_are_rounded_so_that_few_occur() -> None:
    packings = [packing_of([[1] * 9] * count) for count in range(33, 49)]
    assert {(len(packing.ids), *(group.shape for group in packing.groups)) for packing in packings} == {
        (384, (48, 12)), (512, (48, 12)),
    }  # fmt: skip


def test_rows_of_near_lengths_attend_together() -> None:
    rows = [[1] * length for length in [3] * 20 + [20] * 2 + [9] * 40 + [4] * 5 + [18] * 15]
    groups = packing_of(rows).groups
    assert [(group.shape, group.tokens) for group in groups] == [
        ((32, 4), 80), ((48, 12), 360), ((32, 20), 310),
    ]  # fmt: skip
    few = packing_of([[1] * length for length in range(1, 11)]).groups
    assert [group.shape for group in few] == [(16, 12)]
