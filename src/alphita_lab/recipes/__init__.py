"""Recipes: one file a system. Each module holds

- `CITATION`: the paper;
- `Config`: every setting with its section in the paper, or what the released code uses where the paper is silent;
- `train(terminology, encoder, out, config, *, split, resume, force, dry_run)`: data, objective, loop, save, in order.

Recipes never import each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from alphita.registry import Group

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

PLUGINS = Group("alphita.recipes", ("CITATION", "Config", "train"))


class Recipe(Protocol):
    """What a recipe module offers."""

    CITATION: str

    def train(
        self,
        terminology: Terminology,
        encoder: str,
        out: Path,
        config: Any,  # noqa: ANN401 - the module's own Config
        *,
        split: Split | None = None,
        resume: bool = False,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, float]:
        """Train `encoder` on `terminology`, save the model to `out` and return its last figures."""
