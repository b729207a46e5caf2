"""Term vectors with gradients: the encoder's forward pass as training runs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from alphita import machine
from alphita.encoder import packed

if TYPE_CHECKING:
    from alphita.encoder.encoder import TermEncoder


class TermForward:
    """Encodes token lists to vectors with gradients: without padding where the model is a plain BERT.

    Attributes:
        module: the trained torch module, in fp32; the same weights as the encoder's.
        device: where it runs.
    """

    def __init__(self, encoder: TermEncoder, *, precision: str = "auto", dropout: float | None = None) -> None:
        """Prepare an encoder for training.

        Args:
            encoder: loaded in fp32 with the torch runtime.
            precision: "fp32", "bf16" (autocast), or "auto": bf16 on a GPU or a processor with bf16 arithmetic.
            dropout: replaces the model's dropout probabilities; None keeps them.
        """
        self.encoder, self.module = encoder, encoder.module
        self.device = next(self.module.parameters()).device
        self.bf16 = precision == "bf16" or (precision == "auto" and (self.device.type == "cuda" or machine.fast_bf16()))
        self._pack = packed.supports(encoder.module.model) and encoder.pooling in ("mean", "cls")
        if dropout is not None:
            for part in self.module.modules():
                if isinstance(part, torch.nn.Dropout):
                    part.p = dropout

    def __call__(self, token_lists: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return (n, dim) float32 vectors, not normalised to length 1."""
        context: Any = torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext()
        with context:
            if not self._pack:
                vectors: torch.Tensor = self.module(*self.encoder.pad(token_lists))
                return vectors.float()
            packing = packed.Packing(token_lists, self.device)
            hidden = packed.forward(self.module.model, packing)
        pool = packed.mean_pool if self.encoder.pooling == "mean" else packed.cls_pool
        return pool(hidden.float(), packing)

    def tensor(self, array: Any) -> torch.Tensor:  # noqa: ANN401 - a NumPy array
        """Return a NumPy array as a tensor on the module's device."""
        return torch.from_numpy(array).to(self.device)
