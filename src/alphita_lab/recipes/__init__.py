"""Recipes: one file a system. Each module holds

- `CITATION`: the paper;
- `Config`: every setting with its section in the paper, or what the released code uses where the paper is silent;
- `train(terminology, encoder, out, config, split=None, **mode)`: data, objective, loop, save, in order; `mode` is
  `training.engine.runs.Mode`;
- perhaps `NEEDS_TERMINOLOGY = False`, where `train` may be given None for the terminology.

Recipes never import each other.
"""

from __future__ import annotations

from alphita.registry import Group

PLUGINS = Group("alphita.recipes", ("CITATION", "Config", "train"))
