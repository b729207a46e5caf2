"""`alphita.train`: training in one call, and what else the laboratory gives the product by entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alphita import config, registry
from alphita.errors import UsageError, require

RECIPES = "alphita_lab.recipes"


def train(
    recipe: str,
    terminology: Path | str | None,
    out: Path | str,
    *,
    encoder: str = "minilm",
    split: Path | str | None = None,
    resume: bool = False,
    force: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Path:
    """Train an encoder on a terminology's own synonyms and relations; needs `pip install 'alphita[train]'`.

        >>> alphita.train("coder", "hpo", "my-model", steps=800)

    `alphita train --list` lists the recipes, and `alphita train RECIPE --help` the settings of one.

    Args:
        recipe: the name of a recipe.
        terminology: the terminology to learn from: anything that `alphita.load` takes, except an index; or None.
        out: the model folder to create.
        encoder: the encoder to start from: `minilm`, `alphita-en-fp16` (in a clone), a folder or a hub name.
        split: a split whose held-out strings are excluded from training.
        resume: continue an unfinished run.
        force: replace an existing model.
        **settings: the settings of the recipe.

    Returns:
        The model's folder: `alphita index SOURCE --model FOLDER` uses it.

    Raises:
        UsageError: an unknown recipe or setting.
        MissingExtra: torch is not installed.
    """
    from alphita.index.sources import terminology_of
    from alphita.terminology.splits import Split
    from alphita.terminology.store import load_terminology

    require("torch", "train")
    chosen = registry.load(RECIPES, recipe)
    resolved = config.resolve(chosen.Config, base=settings)
    given = Split.load(Path(split)) if split is not None else None
    if terminology is None and getattr(chosen, "NEEDS_TERMINOLOGY", True):
        raise UsageError(f"the recipe {recipe} learns from a terminology: give one")
    terms = load_terminology(terminology_of(terminology)) if terminology is not None else None
    chosen.train(terms, encoder, Path(out), resolved, split=given, resume=resume, force=force)
    from alphita_lab import model_card

    model_card.write(Path(out), encoder, terms)
    return Path(out)
