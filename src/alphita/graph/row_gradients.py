"""Gradients of tables of vectors as rows: a step takes some thousand vectors of many, and touches no others.

PyTorch's backward of a look-up writes a gradient as large as the whole table, and a step looks up five times, which
takes longer than all the rest of it. Here look-ups give rows, which are added up once, into a table that is kept from
step to step. What the optimiser sees is the same gradient.
"""

from __future__ import annotations

import torch


class RowGradients:
    """The gradients of a model's look-up tables."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Have the model's look-up tables give rows; `whole` is then due between backward and the optimiser's step."""
        tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
        for table in tables:
            table.sparse = True
        self._weights = [table.weight for table in tables]
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def whole(self) -> None:
        """Make the gradients of the last backward whole; they stand until the next call."""
        for number, weight in enumerate(self._weights):
            found = weight.grad
            if found is None or not found.is_sparse:
                continue
            found = found.coalesce()
            rows = found.indices()[0]
            if number in self._kept:
                gradient, before = self._kept[number]
                gradient.index_fill_(0, before, 0.0)
            else:
                gradient = torch.zeros_like(weight)
            weight.grad = gradient.index_copy_(0, rows, found.values())
            self._kept[number] = (gradient, rows)
