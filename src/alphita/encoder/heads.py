"""Heads that stand beside an encoder: filled from what was saved with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from alphita.errors import InputError


def fill(head: torch.nn.Module, saved: Mapping[str, torch.Tensor], file: Path, name: str) -> None:
    """Give a head the weights that were saved for it; it keeps its own where there are none.

    Args:
        head: of the encoder's sizes.
        saved: its tensors by name, or nothing.
        file: where they were found.
        name: what the head is called, for messages.

    Raises:
        InputError: the tensors are of other sizes or names.
    """
    if not saved:
        return
    try:
        head.load_state_dict(saved)
    except RuntimeError as error:
        problem = str(error).strip().splitlines()[-1].strip()
        raise InputError(
            f"the {name} does not fit the encoder: {problem}",
            file=file,
            remedy="take the encoder that it was trained with, or remove it",
        ) from None
