"""Gradients by rows are those of whole tables, step after step."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from alphita_lab.graph import kge, models
from alphita_lab.graph.states import RowGradients

N, RELATIONS = 50, 3


@pytest.mark.parametrize("name", models.names())
def test_gradients_are_those_of_pytorchs_own_look_ups(name: str) -> None:
    """Rows come several times in a step, and others in the next; most come in none."""
    pytest.importorskip("pykeen")
    module = models.load(name)
    ours = kge.build(module, N, RELATIONS, module.Config(dim=8)).double()
    theirs = copy.deepcopy(ours)
    gradients = RowGradients(ours)
    rng = np.random.default_rng(2)
    for _ in range(3):
        triples = torch.from_numpy(np.stack([rng.integers(0, n, 7) for n in (20, RELATIONS - 1, 20)], axis=1))
        false = torch.from_numpy(rng.integers(0, 20, (2, 4)))
        for model in (ours, theirs):
            model.zero_grad(set_to_none=True)
            kge.loss_of(module, model, triples, false).backward()
        assert any(one.grad is not None and one.grad.is_sparse for one in ours.parameters())
        gradients.whole()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert one.grad is not None
            assert other.grad is not None
            assert not one.grad.is_sparse
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-12, atol=1e-14)


def test_tables_keep_their_gradients_apart() -> None:
    tables = torch.nn.ModuleList([torch.nn.Embedding(5, 2), torch.nn.Embedding(4, 2)])
    gradients = RowGradients(tables)
    for first, second in (([0, 0, 3], [1]), ([4], [1, 2])):
        tables.zero_grad(set_to_none=True)
        (tables[0](torch.tensor(first)).sum() + 2 * tables[1](torch.tensor(second)).sum()).backward()
        gradients.whole()
        expected = [np.bincount(first, minlength=5), 2 * np.bincount(second, minlength=4)]
        for table, counts in zip(tables, expected, strict=True):
            assert table.weight.grad is not None
            assert table.weight.grad[:, 0].tolist() == counts.tolist()
