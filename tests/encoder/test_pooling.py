from __future__ import annotations

import math

import pytest
import torch

from alphita.encoder import layout

HIDDEN = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]], [[5.0, 5.0], [7.0, 9.0], [9.0, 13.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


def test_mean_leaves_padding_out():
    assert layout.mean(HIDDEN, MASK).tolist() == [[2.0, 4.0], [7.0, 9.0]]


def test_mean_without_mask_takes_all():
    assert layout.mean(HIDDEN[1:], None).tolist() == [[7.0, 9.0]]


def test_mean_of_nothing_is_no_nan():
    assert layout.mean(HIDDEN, torch.zeros(2, 3)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_cls_is_the_first_token():
    assert layout.cls(HIDDEN).tolist() == [[1.0, 2.0], [5.0, 5.0]]


def test_legacy_coder_is_the_tanh_pooler():
    weight, bias = torch.tensor([[0.1, 0.2], [0.0, -0.1]]), torch.tensor([0.05, 0.0])
    expected = [[math.tanh(0.1 * x + 0.2 * y + 0.05), math.tanh(-0.1 * y)] for x, y in [(1.0, 2.0), (5.0, 5.0)]]
    torch.testing.assert_close(layout.legacy_coder(HIDDEN, weight, bias), torch.tensor(expected))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("Diabetes Mellitus NOS", "diabetes mellitus"),
        ("Beta-Thalassaemia (disorder)", "beta thalassaemia"),
        ("NOSology", "nosology"),
        ("", ""),
    ],
)
def test_legacy_names(name, read):
    assert layout.legacy_coder_name(name) == read
