"""How much memory training takes, and what to do when there is no more."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from alphita import machine

MIN_TOKENS = 64
MAX_TOKENS = 65_536
# Of the free memory: the rest is for weights, gradients, moments, the loss and other programs.
SHARE = 0.4
# Arrays kept for the backward pass, in widths of the hidden and of the feed-forward layer, per token and layer.
HIDDEN_ARRAYS, WIDE_ARRAYS = 16, 3
BYTES = 4
# Weight, gradient and AdamW's two moments.
STATE_ARRAYS = 4


class InParts(Protocol):
    """Micro-steps that encode a batch in parts of at most so many tokens; each part has dropout's draws of its own."""

    tokens_at_once: int


def tokens_that_fit(module: torch.nn.Module, device: torch.device) -> int:
    """Return a guess at how many tokens can be encoded at once with gradients."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else machine.memory()
    return int(min(MAX_TOKENS, max(MIN_TOKENS, SHARE * free / token_bytes(module))))


def token_bytes(module: torch.nn.Module) -> int:
    """Return a guess at the bytes that one token holds between forward and backward pass."""
    config: Any = getattr(getattr(module, "model", module), "config", None)
    hidden = int(getattr(config, "hidden_size", 768))
    wide = int(getattr(config, "intermediate_size", 4 * hidden))
    layers = int(getattr(config, "num_hidden_layers", 12))
    return layers * (HIDDEN_ARRAYS * hidden + WIDE_ARRAYS * wide) * BYTES


def state_bytes(modules: list[torch.nn.Module]) -> int:
    """Return the bytes of trained weights, their gradients and AdamW's moments."""
    numbers = sum(p.numel() for module in modules for p in module.parameters() if p.requires_grad)
    return numbers * BYTES * STATE_ARRAYS


def is_exhausted(error: BaseException) -> bool:
    """Tell whether an error says that there is no memory left, on a GPU or a processor."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def release(module: torch.nn.Module) -> None:
    """Drop gradients and give cached memory back."""
    module.zero_grad(set_to_none=True)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
