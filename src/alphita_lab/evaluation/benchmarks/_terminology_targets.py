"""Targets out of a terminology, or out of a file of UMLS names where there is none; and gold ids sought in them."""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from alphita import registry, textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.index.concepts import replacements
from alphita.terminology.languages import among
from alphita.terminology.reading import rows_of
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.benchmarks import Source
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.scoring.clustering import pair_f1, ratio_to_sum
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import System
from alphita_lab.training.sentences.scored_pairs import listed

# Where the file of UMLS names is looked for under --data, and its columns.
NAME_FILES = ("open_cui_names.tsv", "open_graph/open_cui_names.tsv", "../open_graph/open_cui_names.tsv")
NAME_COLUMNS = ("cui", "name")
UMLS = "UMLS:"
# First cells of the header that a file of names may have.
HEADERS = frozenset({"id", "cui", "concept", "concept_id", "code"})


class NameFilter(Config):
    """Which names of a terminology the mentions are ranked against."""

    languages: str = Field("", description="only names in these languages, e.g. en,es; all by default (terminology)")
    sources: str = Field(
        "",
        description="names of these sources only, e.g. SNOMEDCT,SCT*,MESH,MSH*,MEDDRA,MDR* (Yuan et al. 2020, 2022 for "
        "MANTRA); all by default (terminology)",
    )


class NameOptions(NameFilter):
    """Which names mentions of UMLS concepts are ranked against."""

    names: Literal["auto", "terminology", "file"] = Field(
        "auto",
        description="targets: the names of the terminology, or of the file open_cui_names.tsv (cui, name) under "
        "--data; auto: the terminology if it has UMLS ids, else the file if there is one, else the terminology, in "
        "which a CUI is found by cross-references",
    )


@dataclass(frozen=True)
class Dictionary:
    """Names, and of each gold id the live concepts that it stands for, how they were found, and semantic types."""

    targets: Targets
    found: dict[str, frozenset[str]]
    # "live", "alternative id", "replaced", "cross-reference", "retired" or "unknown"
    how: dict[str, str]
    types: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    def gold(self, ids: Iterable[str]) -> frozenset[str]:
        """Return the ids among the targets that any of these gold ids stands for; an id not found stays as it is."""
        return frozenset(answer for gold in ids for answer in (self.found[gold] or {gold}))

    def types_of(self, gold: Iterable[Iterable[str]]) -> list[str | None]:
        return [self.type_of(ids) for ids in gold]

    def type_of(self, ids: Iterable[str]) -> str | None:
        """Return the first semantic type of the first of these gold ids of which one is known."""
        return next((names[0] for names in map(self.types.get, ids) if names), None)


@dataclass(frozen=True)
class Data:
    """Queries with their targets; `sizes` counts the gold ids of each query where the gold is a set."""

    queries: Queries
    targets: Targets
    notes: dict[str, Any]
    subsets: tuple[str, ...] = ()
    sizes: Sequence[int] | None = None


def evaluate(data: Data, system: System, options: Config) -> Result:
    """Score one system: accuracy@1, 3 and 5, and the scores of sets where the gold is a set."""
    result = linking.evaluate(system, data.queries, data.targets, ks=(1, 3, 5), subsets=data.subsets)
    if data.sizes is not None:
        result = with_sets(result, data.sizes)
    result.notes |= data.notes
    return result


def umls_dictionary(source: Source, cuis: Iterable[str], options: NameOptions) -> Dictionary:
    """Return the names to rank against, for gold that is UMLS CUIs."""
    gold = list(dict.fromkeys(cuis))
    terminology = source.terminology
    wants_file = options.names == "file" or terminology is None
    if options.names == "auto" and terminology is not None:
        wants_file = not rows_of(terminology, [UMLS + cui for cui in gold]) and bool(
            source.data and source.files(*NAME_FILES, optional=True)
        )
    if wants_file and options.names != "terminology":
        refuse_filter(options)
        return _of_file(source, gold)
    return terminology_dictionary(source.require_terminology(), {cui: UMLS + cui for cui in gold}, options)


def refuse_filter(options: NameFilter) -> None:
    """Raise UsageError if languages or sources are chosen where the names come from a file, which tells neither."""
    if options.languages or options.sources:
        raise UsageError("languages and sources choose among the names of a terminology; here names come from a file")


def _of_file(source: Source, gold: Sequence[str]) -> Dictionary:
    path = source.files(*NAME_FILES)[0]
    ids, names, empty = [], [], 0
    for _, (cui, name) in textio.columns(path, NAME_COLUMNS, "\t", quotes=None):
        if cui and name:
            ids.append(cui)
            names.append(name)
        else:
            empty += 1
    if not ids:
        raise InputError("holds no name", file=path)
    known = set(ids)
    found = {cui: frozenset([cui]) if cui in known else frozenset[str]() for cui in gold}
    how = {cui: "live" if cui in known else "unknown" for cui in gold}
    notes = {"targets": f"the names of {path.name}", **_counts(how)}
    return Dictionary(
        Targets(ids=ids, names=names), found, how, notes=notes | ({"names left out, empty": empty} if empty else {})
    )


def terminology_dictionary(terminology: Terminology, gold: dict[str, str], options: NameFilter) -> Dictionary:
    """Return the names of the live concepts, of all scopes."""
    targets, _ = names_of(terminology, languages=listed(options.languages), sources=listed(options.sources))
    return dictionary_of(terminology, targets, gold)


def dictionary_of(terminology: Terminology, targets: Targets, gold: dict[str, str]) -> Dictionary:
    """Return names that are chosen already, and the concepts that gold ids stand for; see `terminology_dictionary`."""
    rows = rows_of(terminology, gold.values())
    referring = _cross_references(terminology, {curie for curie in gold.values() if curie not in rows})
    stands_for = replacements(terminology)
    found: dict[str, frozenset[str]] = {}
    how: dict[str, str] = {}
    types: dict[str, list[str]] = {}
    for gold_id, curie in gold.items():
        concepts, how[gold_id] = _meant(terminology, stands_for, curie, rows.get(curie), referring.get(curie, ()))
        found[gold_id] = frozenset(map(terminology.concept_id, concepts))
        if names := sorted({name for row in concepts for name in terminology.semantic_types_of(row)}):
            types[gold_id] = names
    notes = {"targets": f"the names of {terminology.path.name}", **_counts(how)}
    return Dictionary(targets, found, how, types, notes)


def _meant(
    terminology: Terminology, stands_for: NDArray[np.int32], curie: str, row: int | None, referring: Sequence[int]
) -> tuple[Sequence[int], str]:
    """Return the rows of the live concepts that an id stands for, and how it was found."""
    if row is None:
        return referring, "cross-reference" if referring else "unknown"
    if terminology.retired[row]:
        live = int(stands_for[row])
        return ((live,), "replaced") if live >= 0 else ((), "retired")
    return (row,), "live" if terminology.concept_id(row) == curie else "alternative id"


def _cross_references(terminology: Terminology, curies: Collection[str]) -> dict[str, list[int]]:
    if not curies:
        return {}
    table = terminology.side_table("xrefs")
    objects = table.column("object").cast(pa.large_string())
    table = table.filter(pc.is_in(objects, value_set=pa.array(sorted(curies), pa.large_string())))
    found: dict[str, list[int]] = {}
    for row, curie in zip(table.column("concept").to_pylist(), table.column("object").to_pylist(), strict=True):
        if not terminology.retired[row] and row not in found.setdefault(curie, []):
            found[curie].append(row)
    return found


def _counts(how: dict[str, str]) -> dict[str, Any]:
    counts = Counter(how.values())
    return {"gold ids": len(how)} | {f"gold ids, {name}": counts[name] for name in sorted(counts)}


def names_of(
    terminology: Terminology,
    *,
    languages: Collection[str] = (),
    not_languages: Collection[str] = (),
    sources: Collection[str] = (),
    exclude: Collection[str] = frozenset(),
) -> tuple[Targets, int]:
    """Return the terms of the live concepts, and how many were left out because their string is in `exclude`."""
    kept = ~np.asarray(terminology.retired)[terminology.term_concept]
    if languages or not_languages:
        kept &= has(
            terminology,
            "language",
            lambda tag: (not languages or bool(among([tag], languages))) and not among([tag], not_languages),
        )
    if sources:
        kept &= has(
            terminology, "source", lambda source: any(fnmatch.fnmatchcase(source, wanted) for wanted in sources)
        )
    keys = [terminology.find_key(string) for string in {"", *exclude}]
    left_out = np.isin(terminology.term_key, [key for key in keys if key is not None])
    removed = int((kept & left_out).sum())
    rows = np.flatnonzero(kept & ~left_out)
    if not len(rows):
        chosen = {"languages": languages, "not languages": not_languages, "sources": sources}
        selection = "; ".join(f"{name}: {', '.join(sorted(values))}" for name, values in chosen.items() if values)
        raise UsageError(f"no name of {terminology.path.name} is left to rank against ({selection or 'none is live'})")
    ids = terminology.concept_ids.take(pa.array(terminology.term_concept[rows]))
    return Targets(ids=ids.to_pylist(), names=strings_of(terminology, rows)), removed


def terms_in(terminology: Terminology, language: str | None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the terms' rows, concept by concept, the preferred ones first, and where each concept's begin."""
    if language is None:
        return terminology.training_terms()
    known = {tag for tag in terminology.terms.column("language").unique().to_pylist() if tag is not None}
    if not among(known, [language]):
        raise UsageError(registry.unknown("language of the terminology", language, sorted(known)))
    return terminology.training_terms(languages=[language])


def read_names(path: Path) -> tuple[list[str], list[str]]:
    """Read ids and names: `id<TAB>name` a line, perhaps gzipped, perhaps with a header (id, cui, concept, code)."""
    ids, names = [], []
    for number, row in textio.rows(path, "\t"):
        if number == 1 and row[0].lower() in HEADERS:
            continue
        if len(row) != 2 or not all(row):
            raise InputError("not an id, a tab and a name", file=path, line=number, value="\t".join(row))
        ids.append(row[0])
        names.append(row[1])
    if not names:
        raise InputError("holds no name", file=path)
    return ids, names


def has(terminology: Terminology, column: str, wanted: Callable[[str], bool]) -> NDArray[np.bool_]:
    """Return which terms have a wanted value in a column of few values: language, source, status or scope."""
    values = terminology.terms.column(column).combine_chunks()
    chosen = np.array([*(value is not None and wanted(value) for value in values.dictionary.to_pylist()), False])
    places = values.indices.fill_null(len(chosen) - 1)
    return np.asarray(chosen[places.to_numpy(zero_copy_only=False)])


def strings_of(terminology: Terminology, rows: NDArray[Any]) -> list[str]:
    return list(terminology.terms.column("string").take(pa.array(rows)).to_pylist())


def repeated(queries: Queries) -> dict[str, int]:
    return counted({"queries that repeat another": queries.repeats()})


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not 0, for notes."""
    return {what: count for what, count in counts.items() if count}


def with_sets(result: Result, sizes: Sequence[int]) -> Result:
    """Add the scores of sets: a query's gold is a set of ids, and its answer is the first concept."""
    right = result.rows["right@1"].cast(pl.Int64)
    answered = (result.rows["predicted"].list.len() > 0).cast(pl.Int64)
    rows = result.rows.with_columns(tp=right, fp=answered - right, fn=pl.Series(list(sizes), dtype=pl.Int64) - right)
    metrics = (Metric("set F1", ("tp", "fp", "fn"), pair_f1), Metric("one-line score", ("tp", "fn"), ratio_to_sum))
    notes = result.notes | {"gold ids over all queries": sum(sizes)}
    return Result(rows, (*metrics, *result.metrics), result.subsets, result.figures, notes)
