"""Held-out synonyms: names taken out of a terminology, to be linked to the concepts they were taken from.

The split is `alphita.terminology.splits.hold_out_synonyms`: one exact synonym of a share of the concepts that have
several, chosen by a seeded hash; or a split that was saved, such as the one that a model was trained without. The
targets are all other names of the live concepts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.reading import rows_of
from alphita.terminology.splits import Split, hold_out_synonyms
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate
from alphita_lab.evaluation.scoring.linking import Queries, Targets

INFO, PUBLISHED = about(__name__)


class Options(Config):
    """How names are held out."""

    split: Path | None = Field(
        None,
        description="a saved split (X.split) instead of a new one; its test part is scored, and all of it is held out",
    )
    fraction: float = Field(0.3, gt=0, le=1, description="share of the concepts with several names, of a new split")
    seed: int = Field(42, ge=0, description="seed of a new split")


def load(source: Source, options: Options) -> Data:
    """Make or read the split, and gather queries and targets."""
    terminology = source.require_terminology()
    split = open_split(terminology, options.split)
    if split is None:
        split = hold_out_synonyms(terminology, fraction=options.fraction, seed=options.seed)
    if not len(split.part("test")):
        raise UsageError("nothing is held out: too few concepts have several exact names; raise the fraction")
    targets, removed = names.names_of(terminology, exclude=split.cleaned)
    queries, notes = queries_of(terminology, split, targets)
    notes |= names.covered_notes(queries, targets, source.benchmark, options.split or terminology.path)
    return Data(queries, targets, notes | split_notes(split, removed))


def open_split(terminology: Terminology, path: Path | None) -> Split | None:
    """Return the saved split at `path`; None if there is no path."""
    if path is None:
        return None
    split = Split.load(path)
    if len(split) and not rows_of(terminology, split.concept_ids):
        raise InputError(
            f"no concept of this split is in {terminology.path.name}",
            file=path,
            value=split.concept_ids[0],
            remedy="give the terminology that it was made of",
        )
    return split


def queries_of(terminology: Terminology, split: Split, targets: Targets) -> tuple[Queries, dict[str, Any]]:
    """Return a query for each string of the test part; a string held out of several concepts is one query."""
    test = split.part("test")
    gold: dict[str, dict[str, None]] = {}
    for string, one in zip(test.strings, test.concept_ids, strict=True):
        gold.setdefault(string, {})[one] = None
    dictionary = names.dictionary_of(terminology, targets, {concept_id: concept_id for concept_id in test.concept_ids})
    queries = Queries(
        [(string,) for string in gold],
        [(dictionary.gold(ids),) for ids in gold.values()],
        {"semantic_type": [dictionary.type_of(ids) for ids in gold.values()]},
    )
    return queries, dictionary.notes


def split_notes(split: Split, removed: int) -> dict[str, Any]:
    """Return how the split was made, its hash, and how many names were taken out of the targets."""
    return {
        "names taken out of the targets": removed,
        "split": split.hash,
        **{f"split, {name.replace('_', ' ')}": value for name, value in split.facts.items()},
    }
