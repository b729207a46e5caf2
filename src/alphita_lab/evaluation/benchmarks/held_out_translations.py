"""Held-out translations: a terminology's names in one language, to be linked to their concepts by names in the others.

The split takes the exact names in the language out of the terminology; machine translations are queries only if asked
for. A name that is also a name in another language ("coma") is not held out, for it would be found by its spelling;
such names are counted. What remains as targets are the names in all other languages, or in one of them. A held-out name
that several concepts have in that language counts as right for any of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import Field

from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology.languages import among, speaks
from alphita.terminology.splits import Split, uniform
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import NotGiven, Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate
from alphita_lab.evaluation.benchmarks.held_out_synonyms import open_split, queries_of, split_notes

INFO, PUBLISHED = about(__name__)


class Options(Config):
    """Which language is held out, and what remains."""

    language: str = Field("", description="whose names are the queries, e.g. it; must be given")
    target_language: str = Field("", description="names to rank against, e.g. en; all other languages by default")
    machine: bool = Field(False, description="also use machine translations as queries")
    fraction: float = Field(1.0, gt=0, le=1, description="share of the concepts whose names are queries")
    seed: int = Field(42, ge=0, description="seed for the choice of concepts")
    split: Path | None = Field(
        None,
        description="a saved split (X.split) instead of a new one; its test part is scored, and all of it is held out",
    )


def load(source: Source, options: Options) -> Data:
    """Make or read the split, and gather queries and targets."""
    terminology = source.require_terminology()
    languages = set(filter(None, terminology.terms.column("language").combine_chunks().dictionary.to_pylist()))
    for name, tag in {"language": options.language, "target_language": options.target_language or None}.items():
        if tag is not None and not among(languages, [tag]):
            raise (UsageError if tag else NotGiven)(
                f"{name} is {tag!r}, and {terminology.path.name} has names in {', '.join(sorted(languages))}; "
                f"set it by --set {name}=..."
            )
    if speaks(options.target_language, options.language):
        raise UsageError(f"target_language {options.target_language!r} is of language={options.language!r}")
    split = open_split(terminology, options.split)
    if split is None:
        split = hold_out_translations(
            terminology, options.language, machine=options.machine, fraction=options.fraction, seed=options.seed
        )
    if not len(split.part("test")):
        raise UsageError(f"no name in {options.language!r} is held out: {split.facts}")
    targets, removed = names.names_of(
        terminology,
        languages=names.listed(options.target_language),
        not_languages=(options.language,),
        exclude=split.cleaned,
    )
    queries, notes = queries_of(terminology, split, targets)
    notes |= names.covered_notes(queries, targets, source.benchmark, options.split or terminology.path)
    notes |= split_notes(split, removed)
    notes |= {"language": options.language, "target language": options.target_language or "others"}
    return Data(queries, targets, notes)


def hold_out_translations(
    terminology: Terminology, language: str, *, machine: bool = False, fraction: float = 1.0, seed: int
) -> Split:
    """Hold out the exact names in one language of a share of the live concepts."""
    live = ~np.asarray(terminology.retired)[terminology.term_concept]
    tongue = names.has(terminology, "language", lambda tag: speaks(tag, language))
    wanted = (
        live
        & tongue
        & names.has(terminology, "scope", lambda scope: scope == "exact")
        & ~names.has(terminology, "type", lambda kind: kind == "obsolete")
        & (machine | names.has(terminology, "status", lambda status: status != "machine"))
    )
    nothing = terminology.find_key("")
    if nothing is not None:
        wanted &= np.asarray(terminology.term_key) != nothing
    rows = np.flatnonzero(wanted)
    pairs = terminology.term_concept[rows].astype(np.int64) * terminology.n_keys + terminology.term_key[rows]
    rows = rows[np.sort(np.unique(pairs, return_index=True)[1])]
    concepts, places = np.unique(terminology.term_concept[rows], return_inverse=True)
    ids = [terminology.concept_id(concept) for concept in concepts]
    drawn = np.array([uniform(seed, "concept", concept_id) < fraction for concept_id in ids], bool)[places]
    elsewhere = np.zeros(terminology.n_keys, bool)
    elsewhere[terminology.term_key[live & ~tongue]] = True
    same = elsewhere[terminology.term_key[rows]]
    kept = drawn & ~same
    facts = {
        "method": "hold_out_translations",
        "language": language,
        "machine": machine,
        "fraction": fraction,
        "seed": seed,
        "terminology_hash": terminology.content_hash,
        "held_out": int(kept.sum()),
        "dropped_as_equal_to_a_kept_term": int((drawn & same).sum()),
    }
    strings = names.strings_of(terminology, rows[kept])
    return Split(strings, [ids[place] for place in places[kept]], ["test"] * len(strings), facts)
