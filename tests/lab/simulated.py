"""Made-up vocabularies that have names in common with another one, and targets that are parts of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from alphita.index import external_names
from alphita.index.choice import OURS
from alphita.index.enrichment import Enrichment
from alphita.index.external_names import NameSources, prepared
from alphita.terminology.store import Terminology
from alphita_lab.simulated_targets import Made, Target, make
from tests.answer.synthetic import PARTS, VocabularyEncoder, synthetic_terminology
from tests.stanzas import Stanza, ontology

ENCODER = VocabularyEncoder()
HEADS = len(PARTS) + 1
FAR = [f"{one} {other} complaint" for one in ("zelbor", "gantim", "orvish", "pelcot") for other in PARTS]


def named(n: int, seed: int) -> list[list[str]]:
    """Return the names of each concept."""
    plain, found = synthetic_terminology(n, seed=seed), [[] for _ in range(n)]
    for concept, name in zip(plain.term_concept.tolist(), plain.terms.column("string").to_pylist(), strict=True):
        found[concept].append(name)
    return found


def vocabulary(folder: Path, n: int, seed: int) -> Terminology:
    """Return `n` concepts, each below a heading for its part of the body: T:0000002 and the following."""
    heads = [Stanza(1, ["any complaint"])]
    heads += [Stanza(row, [f"{part} trouble"], parents=[1]) for row, part in enumerate(PARTS, 2)]
    concepts = [
        Stanza(HEADS + 1 + row, names, parents=[2 + PARTS.index(names[0].split()[1])])
        for row, names in enumerate(named(n, seed))
    ]
    return ontology(folder, [*heads, *concepts])


def names_elsewhere() -> Enrichment:
    """Return, each for a third of the made-up things, another vocabulary's name and an everyday phrase; and its own."""
    rows = [("O", f"O:{row}", name) for row, name in enumerate(FAR, 5000)]
    for number, (first, *_) in enumerate(named(420, 0)):
        side, part, plain = first.split()
        if number % 3 == 0:
            rows += [("O", f"O:{number}", name) for name in (first, f"{plain} on {side} {part}")]
        if number % 3 == 1:
            rows += [(OURS, f"A:{number}", name) for name in (first, f"my {side} {part} has {plain}")]
    frame = pl.DataFrame(rows, ["source", "id", "name"], orient="row").with_columns(language=pl.lit("en"))
    equivalents = pl.DataFrame(schema={"id": pl.String, "other": pl.String})
    return Enrichment(NameSources(prepared(frame.select(external_names.COLUMNS)), equivalents, ""), None, "no")


def made(folder: Path, targets: dict[Target, tuple[int, int]]) -> list[Made]:
    """Return targets of vocabularies of these numbers of concepts and seeds."""
    given = names_elsewhere()
    return [
        make(target, vocabulary(folder / f"{row}.terminology", n, seed), ENCODER, given, folder)
        for row, (target, (n, seed)) in enumerate(targets.items())
    ]


def asked(one: Made, kind: str) -> list[str]:
    """Return what is asked of a target, of one kind."""
    return [one.asked.mentions[row] for row in np.flatnonzero(np.array(one.asked.kinds) == kind).tolist()]
