"""OMOP exact matching: names of source vocabularies, to be mapped to OMOP standard concepts.

A table of source_term, target_concept_id, target_concept_name and predicate (exactMatch, broadMatch), and where the
annotators saw a second target the same with _b. Either target is right. Targets are the names of a terminology with
OMOP ids; without one, the target names of the file itself, which is a far shorter list and an easier task.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from alphita import textio
from alphita.errors import InputError
from alphita.terminology.reading import rows_of
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks import _terminology_targets as names
from alphita_lab.evaluation.benchmarks._terminology_targets import Data
from alphita_lab.evaluation.benchmarks._terminology_targets import evaluate as evaluate
from alphita_lab.evaluation.scoring.linking import Queries, Targets

INFO, PUBLISHED = about(__name__)
PREDICATES = ("exactMatch", "broadMatch")
COLUMNS = (
    "source_term",
    "target_concept_id",
    "target_concept_name",
    "predicate",
    "target_concept_id_b",
    "target_concept_name_b",
    "predicate_b",
)
NOTHING = ("", "NA")


class Options(names.NameFilter):
    """Which names the terms are ranked against."""

    names: Literal["auto", "terminology", "file"] = Field(
        "auto",
        description="targets: the names of the terminology, or the target names of the file itself; auto: the "
        "terminology if it has any of the target ids, else the file's",
    )


def load(source: Source, options: Options) -> Data:
    """Read the pairs."""
    path = source.files("exact_matching_gs.csv")[0]
    terms: list[str] = []
    gold: list[tuple[str, ...]] = []
    predicates: list[str] = []
    own: dict[tuple[str, str], None] = {}
    without_target = 0
    for number, fields in textio.columns(path, COLUMNS, ","):
        term, *both = fields
        if not term:
            raise InputError("is empty", file=path, line=number, field="source_term")
        matches = [_match(both[place : place + 3], path, number) for place in (0, 3)]
        targets_of = {one: predicate for one, _, predicate in filter(None, matches)}
        if not targets_of:
            without_target += 1
            continue
        own |= dict.fromkeys((one, name) for one, name, _ in filter(None, matches))
        terms.append(term)
        gold.append(tuple(targets_of))
        predicates.append(next(iter(targets_of.values())))
    if not terms:
        raise InputError("holds no pair", file=path)
    curies = {omop_id: f"OMOP:{omop_id}" for ids in gold for omop_id in ids}
    terminology = source.terminology if options.names == "auto" else None
    if terminology is not None and not rows_of(terminology, curies.values()):
        terminology = None
    if options.names == "terminology":
        terminology = source.require_terminology()
    notes: dict[str, Any] = {"terms left out, without a target": without_target} if without_target else {}
    if terminology is None:
        names.refuse_filter(options)
        targets = Targets([one for one, _ in own], [name for _, name in own])
        answers = [frozenset(ids) for ids in gold]
        notes |= {"targets": "the target names of the file itself", "gold ids": len(curies)}
    else:
        dictionary = names.terminology_dictionary(terminology, curies, options)
        targets, notes = dictionary.targets, dictionary.notes | notes
        answers = [dictionary.gold(ids) for ids in gold]
    queries = Queries([(term,) for term in terms], [(ids,) for ids in answers], {"predicate": predicates})
    return Data(queries, targets, notes | names.repeated(queries), ("predicate",))


def _match(fields: Sequence[str], path: Path, line: int) -> tuple[str, str, str] | None:
    """Return id, name and predicate of one of the two targets; None where it is blank or NA."""
    one, name, predicate = fields
    if one in NOTHING:
        return None
    if textio.whole_number(one) is None or not name:
        raise InputError("has no number or no name for the target", file=path, line=line, value=f"{one} {name}".strip())
    if predicate not in PREDICATES:
        raise InputError(
            "is no predicate of this set",
            file=path,
            line=line,
            field="predicate",
            value=predicate,
            remedy=f"one of {', '.join(PREDICATES)}",
        )
    return one, name, predicate
