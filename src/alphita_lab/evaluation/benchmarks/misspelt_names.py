"""Misspelt names: a terminology's names with slips of the typist, to be linked to their concepts by all names.

One exact name of each drawn concept gets one slip or more: a letter dropped, doubled, mistyped, put in, or swapped with
the next, in a word of four letters or more, never its first. A string that is then a name of its own is drawn again,
and left out if it stays one. All names of the live concepts are targets, the ones as written among them, so that
accuracy@1 is the share of misspellings that are corrected to the right concept. The slips are the same for every
system. (Amore Bondarenko et al. 2022, §3.1, say that their extended encoder gains 5 points in the precision of spelling
correction, which they measured elsewhere, by the context of words in records; this is without context.)
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from alphita.calibrate.noise import slip
from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology.languages import speaks
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._dictionary import terms_in
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate
from alphita_lab.evaluation.scoring.linking import Queries

INFO, PUBLISHED = about(__name__)
# Draws for one name, after which it is left out.
TRIES = 4


class Options(Config):
    """Which names are misspelt, and how much."""

    language: str = Field("", description="language of all names, both queries and targets, e.g. it; all by default")
    number: int = Field(2000, ge=1, description="number of random concepts, with one name each")
    slips: int = Field(1, ge=1, description="misspellings per name")
    seed: int = Field(42, ge=0, description="seed for the sample and the misspellings")


def load(source: Source, options: Options) -> Data:
    """Draw the names and misspell them."""
    terminology = source.require_terminology()
    rows, offsets = terms_in(terminology, options.language or None)
    chance = random.Random(options.seed)
    named = np.flatnonzero(np.diff(offsets)).tolist()
    drawn = sorted(chance.sample(named, min(options.number, len(named))))
    chosen = np.array([rows[chance.randrange(offsets[concept], offsets[concept + 1])] for concept in drawn], np.int64)
    written = [clean(name) for name in names.strings_of(terminology, chosen)]
    misspelt = [_misspelt(name, terminology, options.slips, chance) for name in written]
    kept = [place for place, string in enumerate(misspelt) if string]
    if not kept:
        raise UsageError(f"no name of {terminology.path.name} can be misspelt; it needs words of four letters or more")
    targets, _ = names.names_of(terminology, languages=names.listed(options.language))
    tongue = names.has(terminology, "language", lambda tag: not options.language or speaks(tag, options.language))
    queries = Queries(
        [(misspelt[place],) for place in kept],
        [(_named(terminology, chosen[place], tongue),) for place in kept],
        {"written": [written[place] for place in kept]},
    )
    notes = {
        "targets": f"the names of {terminology.path.name}",
        "language": options.language or "all",
        "slips": options.slips,
        "seed": options.seed,
        "names drawn": len(drawn),
        "names left out": len(drawn) - len(kept),
    }
    return Data(queries, targets, notes)


def _misspelt(name: str, terminology: Terminology, slips: int, chance: random.Random) -> str:
    """Return the name with some slips; "" where none of the tries gives a string that is no name."""
    for _ in range(TRIES):
        string = name
        for _ in range(slips):
            string = slip(string, chance)
        if string != name and terminology.find_key(string) is None:
            return string
    return ""


def _named(terminology: Terminology, term: int, tongue: NDArray[np.bool_]) -> frozenset[str]:
    """Return the ids of all live concepts that have the same name, in the languages that are asked for."""
    terms = terminology.terms_of_key(int(terminology.term_key[term]))
    concepts = terminology.term_concept[terms[tongue[terms]]]
    return frozenset(
        terminology.concept_id(concept) for concept in concepts.tolist() if not terminology.retired[concept]
    )
