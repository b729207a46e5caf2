"""Term vectors with gradients: the encoder's forward pass as training runs it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from alphita import machine
from alphita_lab.encoder import injected_bert, packed

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder

Rows = packed.Packing | tuple[torch.Tensor, torch.Tensor]
"""Rows of tokens laid out for the model: packed, or (input_ids, attention_mask) where it has its own forward."""


@contextmanager
def evaluating(*modules: torch.nn.Module) -> Iterator[None]:
    """Let modules run without dropout and gradients, and leave each in the mode that it was in."""
    modes = [(module, module.training) for module in modules]
    for module in modules:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.train(mode)


class TermForward:
    """Encodes rows of tokens to vectors with gradients: without padding where the model is a BERT, injected or not.

    Attributes:
        bf16: whether it computes in bf16 (autocast).
    """

    def __init__(self, encoder: TermEncoder, *, precision: str = "auto", dropout: float | None = None) -> None:
        machine.keep_freed_memory()
        self.encoder, self.module = encoder, encoder.module
        self.device = next(self.module.parameters()).device
        self.bf16 = precision == "bf16" or (precision == "auto" and (self.device.type == "cuda" or machine.fast_bf16()))
        self._pack = injected_bert.packs(encoder.module.model) and encoder.pooling in ("mean", "cls")
        if dropout is not None:
            for part in self.module.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = dropout

    def lay_out(self, ids: NDArray[np.integer[Any]], lengths: NDArray[np.int64]) -> Rows:
        """Return n rows as `run` takes them.

        Args:
            lengths: (n,) tokens a row, each 1 or more.
        """
        if self._pack:
            return packed.Packing(ids, lengths, self.device)
        return self.encoder.pad([row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])])

    def run(self, rows: Rows) -> torch.Tensor:
        """Return (n, dim) float32 vectors, not normalised to length 1."""
        context: Any = torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        with context:
            if not isinstance(rows, packed.Packing):
                vectors: torch.Tensor = self.module(*rows)
                return vectors.float()
            hidden = self.states(rows)
        pool = packed.mean_pool if self.encoder.pooling == "mean" else packed.cls_pool
        return pool(hidden.float(), rows)

    def states(self, rows: packed.Packing, mentions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the last state of every place, (flat, hidden); run within the autocast, where there is one."""
        return injected_bert.packed_states(self.module.model, rows, mentions=mentions)

    def __call__(self, token_lists: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return (n, dim) float32 vectors of lists of token ids, not normalised to length 1."""
        ids = np.fromiter((token for row in token_lists for token in row), np.int64)
        return self.run(self.lay_out(ids, np.array([len(row) for row in token_lists], np.int64)))

    def tensor(self, array: NDArray[Any]) -> torch.Tensor:
        """Return a NumPy array as a tensor on the module's device."""
        return torch.from_numpy(array).to(self.device)
