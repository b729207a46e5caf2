"""The names that a run trains on, without what a split holds out.

run = Run("coder", Phase("", out, resume, force, dry_run), config, encoder)
names, held_out = begin(run, terminology, split)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.training.engine.run import CLEANED, Run
from alphita.training.engine.settings import NameTraining, language_weights
from alphita.training.terms.names import TrainingNames
from alphita.training.terms.triples import between_pairs

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology


def begin(run: Run, terminology: Terminology, split: Split | None) -> tuple[TrainingNames, NDArray[np.int32]]:
    """Make sure that the run may begin, and return its names and what must not train beside them.

    Returns:
        The names; and (p, 2) pairs of concepts whose triples must not train.

    Raises:
        InputError: no name in the languages asked for.
        UsageError: the model exists already, or there is unfinished work, and neither flag is given.
    """
    config = run.config
    run.begin(terminology=terminology.content_hash, split=split.hash if split else None, **CLEANED)
    names = TrainingNames(
        terminology,
        exclude=split.cleaned if split else frozenset(),
        dev=config.dev_synonyms,
        seed=config.seed,
        languages=language_weights(config.languages),
        noise=config.noise if isinstance(config, NameTraining) else 0.0,
    )
    held_out = np.empty((0, 2), np.int32) if split is None else split.triple_pairs(terminology)
    if split is not None:
        triples = int(between_pairs(np.asarray(terminology.triples), held_out).sum()) if len(held_out) else 0
        run.say(f"held out by the split: {len(split.cleaned):,} strings and {triples:,} triples")
    return names, held_out
