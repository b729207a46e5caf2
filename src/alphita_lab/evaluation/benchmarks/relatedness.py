"""Relatedness of medical terms as people judge it: UMNSRS, MayoSRS, MiniMayoSRS, EHR-RelB, Bio-SimLex, Bio-SimVerb.

Spearman's correlation of a system's similarity with people's scores, set by set. By term: the two terms are compared as
the set writes them. By concept: their CUIs are compared, each as the mean of the unit vectors of its names in the
terminology; systems that only know concepts are always asked so. MiniMayoSRS has two scores a pair and counts as two
sets.

With a terminology, figures by term are also broken down by how many of a pair's two terms are names in it: what a
system learned from a terminology shows where both are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks._dictionary import terms_in
from alphita_lab.evaluation.benchmarks._pair_files import Layout, read_pairs
from alphita_lab.evaluation.scoring import pairs
from alphita_lab.evaluation.scoring.pairs import Pairs
from alphita_lab.evaluation.scoring.results import Result
from alphita_lab.evaluation.systems import ConceptSystem, System, VectorSystem

INFO, PUBLISHED = about(__name__)
UMNSRS = Layout(",", "Term1", "Term2", "Mean", ("CUI1", "CUI2"))
MINI = {score: Layout(",", "TERM1", "TERM2", score, ("CUI1", "CUI2")) for score in ("Physicians", "Coders")}
BIO_SIM = Layout("\t", 0, 1, 2)
# Set -> its file and where the file holds what.
SETS = {
    "UMNSRS similarity": ("UMNSRS_similarity.csv", UMNSRS),
    "UMNSRS relatedness": ("UMNSRS_relatedness.csv", UMNSRS),
    "MayoSRS": ("MayoSRS.csv", Layout(",", "TERM1", "TERM2", "Mean", ("CUI1", "CUI2"))),
    "MiniMayoSRS physicians": ("MiniMayoSRS.csv", MINI["Physicians"]),
    "MiniMayoSRS coders": ("MiniMayoSRS.csv", MINI["Coders"]),
    "EHR-RelB": ("EHR-RelB.tsv", Layout("\t", "snomed_label_1", "snomed_label_2", "mean_rating", ("CUI_1", "CUI_2"))),
    "Bio-SimLex": ("Bio-SimLex.txt", BIO_SIM),
    "Bio-SimVerb": ("Bio-SimVerb.txt", BIO_SIM),
}
# The column that tells a pair's set and how many of its terms the terminology has: "UMNSRS similarity, both".
COVERED = "terms in the terminology"
COVERAGE = ("none", "one", "both")
TRANSLATED = ("Term1", "Term2", "Translation1", "Translation2")


class Options(Config):
    """Terms or concepts, and in which language."""

    by: Literal["term", "concept"] = Field(
        "term", description="compare the terms of the set, or (needs a terminology) all names of their CUIs"
    )
    language: str | None = Field(None, description="with by=concept: only names in this language; all by default")
    translations: Path | None = Field(
        None,
        description="a CSV file with the columns Term1,Term2,Translation1,Translation2 (Amore Bondarenko et al. 2022 "
        "translated MayoSRS and UMNSRS); pairs without one are left out and counted",
    )


@dataclass(frozen=True)
class Data:
    """The sets that are there, the names of their concepts, and what a reader must know of them."""

    sets: list[Pairs]
    names: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def load(source: Source, options: Options) -> Data:
    """Read the sets whose files are there."""
    if options.by == "concept" and options.translations is not None:
        raise UsageError(
            "relatedness by concept compares names of the terminology, not translations: give one of the two"
        )
    sets: list[Pairs] = []
    notes: dict[str, Any] = {}
    for name, (file, layout) in SETS.items():
        path = source.file(file, optional=True)
        if path is None:
            notes[name] = f"not run: no {file}; where to get it: {INFO.where}"
            continue
        one, counts = read_pairs([path], name, layout)
        sets.append(one)
        notes |= counts.notes(name)
    if not sets:
        source.file(*dict.fromkeys(file for file, _ in SETS.values()))
    if options.translations is not None:
        sets = _translated(sets, options.translations, notes)
    if options.by == "term":
        if source.terminology is not None:
            sets = [_with_coverage(pair_set, source.terminology) for pair_set in sets]
        return Data(sets, notes=notes)
    names = _names(source.require_terminology(), sets, options.language)
    asked = {concept for pair_set in sets for pair in pair_set.concepts or () for concept in pair if concept}
    notes |= {"concepts of the sets": len(asked), "concepts of the sets in the terminology": len(names)}
    return Data(sets, names, notes)


def _with_coverage(one: Pairs, terminology: Terminology) -> Pairs:
    """Return the pairs with the column `COVERED`."""
    known = {term: terminology.find_key(clean(term)) is not None for term in dict.fromkeys((*one.left, *one.right))}
    covered = [f"{one.name}, {COVERAGE[known[a] + known[b]]}" for a, b in zip(one.left, one.right, strict=True)]
    return replace(one, columns={**one.columns, COVERED: covered})


def _translated(sets: list[Pairs], path: Path, notes: dict[str, Any]) -> list[Pairs]:
    """Return the sets in translation, without the pairs that have none; these are counted in `notes`."""
    lines = textio.held_rows(path, ",")
    header = lines[0][1] if lines else []
    places = textio.places(header, TRANSLATED, path, remedy=f"expected the columns {','.join(TRANSLATED)}")
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for number, row in lines[1:]:
        if len(row) <= max(places):
            raise InputError(f"a line of {len(row)} fields, for {len(header)} columns", file=path, line=number)
        first, second, one, other = (row[place] for place in places)
        if one and other:
            known[clean(first), clean(second)] = (one, other)
            known.setdefault((clean(second), clean(first)), (other, one))
    left: list[Pairs] = []
    for pairs_ in sets:
        translations = [known.get((clean(a), clean(b))) for a, b in zip(pairs_.left, pairs_.right, strict=True)]
        rows = [(row, pair) for row, pair in enumerate(translations) if pair is not None]
        notes[f"pairs of {pairs_.name} left out for want of a translation"] = len(translations) - len(rows)
        if rows:
            concepts = None if pairs_.concepts is None else [pairs_.concepts[row] for row, _ in rows]
            left.append(
                replace(
                    pairs_,
                    left=[pair[0] for _, pair in rows],
                    right=[pair[1] for _, pair in rows],
                    gold=[pairs_.gold[row] for row, _ in rows],
                    concepts=concepts,
                )
            )
    if not left:
        raise InputError("translates no pair of the sets that are there", file=path)
    return left


def _names(terminology: Terminology, sets: list[Pairs], language: str | None) -> dict[str, list[str]]:
    """Return the names of the sets' concepts that the terminology has; a CUI may stand there bare or after UMLS: ."""
    rows, offsets = terms_in(terminology, language)
    strings = terminology.terms.column("string")
    names: dict[str, list[str]] = {}
    for concept in dict.fromkeys(
        concept for pair_set in sets for pair in pair_set.concepts or () for concept in pair if concept
    ):
        for written in (f"UMLS:{concept}", concept):
            try:
                row = terminology.resolve(written)
            except InputError:
                continue
            strings_of = strings.take(rows[offsets[row] : offsets[row + 1]]).to_pylist()
            if strings_of:
                names[concept] = strings_of
            break
    return names


def evaluate(data: Data, system: System | ConceptSystem, options: Options) -> Result:
    """Score one system."""
    notes = dict(data.notes)
    if isinstance(system, ConceptSystem) and not isinstance(system, System):
        notes["compared"] = "by concept: the system knows no strings"
        known = _concept_vectors(data, system)
        similarity = [_by_concept(pair_set, known) for pair_set in data.sets]
    elif options.by == "term":
        rules = system.rules
        similarity = [
            system.similarity(clean_many(pair_set.left, rules), clean_many(pair_set.right, rules))
            for pair_set in data.sets
        ]
    elif isinstance(system, VectorSystem):
        known = _mean_vectors(data, system)
        similarity = [_by_concept(pair_set, known) for pair_set in data.sets]
    else:
        raise UsageError(
            f"relatedness by concept needs a system that has vectors, which {system.name} has not: by=term"
        )
    subsets = (COVERED,) if any(COVERED in pair_set.columns for pair_set in data.sets) else ()
    return pairs.result_of(data.sets, similarity, (pairs.SPEARMAN, pairs.PEARSON), subsets=subsets, notes=notes)


def _concept_vectors(data: Data, system: ConceptSystem) -> dict[str, NDArray[np.float32]]:
    ids = list(
        dict.fromkeys(concept for set_ in data.sets for pair in set_.concepts or () for concept in pair if concept)
    )
    return dict(zip(ids, system.encode_concepts(ids), strict=True))


def _mean_vectors(data: Data, system: VectorSystem) -> dict[str, NDArray[np.float32]]:
    strings = clean_many([name for names in data.names.values() for name in names], system.rules)
    offsets = np.cumsum([0, *(len(names) for names in data.names.values())])
    if not strings:
        return {}
    return dict(zip(data.names, pairs.mean_of_names(system.encode(strings), offsets), strict=True))


def _by_concept(one: Pairs, known: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the cosine of each pair of concepts; NaN where a concept has no vector."""
    similarity = np.full(len(one), np.nan, np.float32)
    for row, (left, right) in enumerate(one.concepts or ()):
        if left in known and right in known:
            similarity[row] = pairs.cosine(known[left], known[right])
    return similarity
