"""Holding out whole concepts: none of their names, in any language, is trained on.

This is what cross-lingual training is tested with: where an English name of a concept has trained, its translation is
no surprise. The result is an ordinary split, so that `--split` keeps its strings out of whatever trains.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.terminology.splits import Split, uniform
from alphita.terminology.store import Terminology

PART = "test"


def hold_out_concepts(terminology: Terminology, *, fraction: float, seed: int) -> Split:
    """Hold out about `fraction` of the live, named concepts, each with all of its names."""
    if not 0 <= fraction <= 1:
        raise UsageError(f"a fraction must lie between 0 and 1, not {fraction:g}")
    train, offsets = terminology.training_terms()
    named = np.flatnonzero(np.diff(offsets) > 0)
    chosen = np.zeros(terminology.n_concepts, bool)
    for row in named.tolist():
        chosen[row] = uniform(seed, "whole concept", terminology.concept_id(row)) < fraction
    rows = np.flatnonzero(chosen[terminology.term_concept])
    pairs = terminology.term_concept[rows].astype(np.int64) * terminology.n_keys + terminology.term_key[rows]
    _, first = np.unique(pairs, return_index=True)
    rows = rows[np.sort(first)]
    held = np.zeros(terminology.n_keys, bool)
    held[terminology.term_key[rows]] = True
    others = ~chosen[terminology.term_concept[train]]
    lost = others & held[terminology.term_key[train]]
    left = np.unique(terminology.term_concept[train[others & ~lost]])
    touched = np.unique(terminology.term_concept[train[lost]])
    facts = {
        "method": "hold_out_concepts",
        "fraction": fraction,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "concepts": len(named),
        "held_out_concepts": int(chosen.sum()),
        "held_out": len(rows),
        "other_concepts_that_lose_a_name": len(touched),
        "other_concepts_left_without_a_name": len(np.setdiff1d(touched, left)),
    }
    strings = terminology.terms.column("string").take(rows).to_pylist()
    ids = [terminology.concept_id(row) for row in terminology.term_concept[rows].tolist()]
    return Split(strings, ids, [PART] * len(rows), facts)


def names_of(terminology: Terminology, curies: Iterable[str]) -> NDArray[np.int64]:
    """Return the term rows of all names, in any language, of some concepts."""
    from alphita.terminology.reading import rows_of

    wanted = np.zeros(terminology.n_concepts, bool)
    wanted[list(rows_of(terminology, curies).values())] = True
    return np.flatnonzero(wanted[terminology.term_concept])
