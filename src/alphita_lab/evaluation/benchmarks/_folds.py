"""Parts of a benchmark, each ranked against its own targets; and Cadec and PsyTAR, whose parts are folds.

A fold is three files, standard (the targets), train and test, of lines `id<TAB>string`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, benchmark
from alphita_lab.evaluation.scoring import linking
from alphita_lab.evaluation.scoring.linking import Queries, Targets
from alphita_lab.evaluation.scoring.results import Figure, Result, merge_notes
from alphita_lab.evaluation.systems import System

# Columns of queries.
FOLD = "fold"
DATASET = "dataset"


@dataclass(frozen=True)
class Part:
    """Mentions, and the names that they are ranked against."""

    queries: Queries
    targets: Targets


@dataclass(frozen=True)
class Parts:
    """All parts of a benchmark, one or more, and the notes of its reader."""

    parts: Sequence[Part]
    notes: Mapping[str, Any] = field(default_factory=dict)


def evaluate(system: System, data: Parts, *, ks: Sequence[int] = (1, 3, 5), subsets: Sequence[str] = ()) -> Result:
    """Score the mentions of each part against its own targets."""
    results = [linking.evaluate(system, part.queries, part.targets, ks=ks) for part in data.parts]
    rows = pl.concat([result.rows for result in results], how="diagonal").with_columns(query=pl.int_range(pl.len()))
    notes = merge_notes(*(result.notes for result in results))
    if all(part.targets == data.parts[0].targets for part in data.parts):
        notes |= {name: results[0].notes[name] for name in ("names", "concepts")}
    repeats = sum(part.queries.repeats() for part in data.parts)
    notes |= {"queries that repeat another": repeats} if repeats else {}
    varying = [name for name in ("covered", "seen") if name in rows and rows[name].drop_nulls().n_unique() > 1]
    figures = _means(data.parts, results, ks)
    return Result(rows, results[0].metrics, (*subsets, *varying), figures, {**notes, **data.notes})


def _means(parts: Sequence[Part], results: Sequence[Result], ks: Sequence[int]) -> list[Figure]:
    """Return the mean accuracy of the folds of each dataset that has some."""
    datasets: dict[str, list[pl.DataFrame]] = {}
    for part, result in zip(parts, results, strict=True):
        if FOLD in part.queries.columns:
            name = f", dataset={part.queries.columns[DATASET][0]}" if DATASET in part.queries.columns else ""
            datasets.setdefault(name, []).append(result.rows)
    figures = []
    for name, folds in datasets.items():
        for k in ks:
            by_fold = [float(rows[f"right@{k}"].cast(pl.Float64).to_numpy().mean()) for rows in folds]
            value = sum(by_fold) / len(by_fold)
            figures.append(Figure(f"accuracy@{k}", f"mean of folds{name}", value, sum(map(len, folds))))
    return figures


def seen(mentions: Iterable[Sequence[str]], trained: Iterable[str]) -> list[bool]:
    """Return of each mention whether all its parts, cleaned, are among the cleaned training strings."""
    known = set(clean_many(trained))
    return [known.issuperset(clean_many(parts)) for parts in mentions]


class Options(Config):
    """None: the protocol leaves nothing open."""


def _evaluate_folds(data: Parts, system: System, options: Options) -> Result:
    """Score one system on all folds; the papers print the mean of the folds."""
    return evaluate(system, data, ks=(1, 3), subsets=(FOLD,))


@benchmark(Options, _evaluate_folds)
def cadec(source: Source, options: Options) -> Parts:
    """Cadec: what patients write in a forum on drugs' effects, mapped to SNOMED CT; the five folds CODER is scored on.

    Zero shot: mentions are ranked against the names of the targets, one name a target.
    """
    return _read(source, ("CADEC_{fold}/{kind}.txt",), range(5))


@benchmark(Options, _evaluate_folds)
def psytar(source: Source, options: Options) -> Parts:
    """PsyTAR: what patients write of psychiatric drugs, mapped to SNOMED CT; the five folds that CODER is scored on.

    Zero shot: mentions are ranked against the names of the targets, one name a target. The published files hold quotes
    left by a spreadsheet; they are taken off and counted.
    """
    folder = "fold_{fold}/{kind}.txt"
    return _read(source, (folder, f"psytar_disjoint_folds/{folder}", "fold_{fold}.{kind}.txt"), range(1, 6))


def _read(source: Source, names: Sequence[str], numbers: Iterable[int]) -> Parts:
    parts = []
    quoted: set[str] = set()
    for number in numbers:
        (ids, strings), (_, trained), (gold, mentions) = (
            _read_pairs(source.files(*(name.format(fold=number, kind=kind) for name in names))[0], quoted)
            for kind in ("standard", "train", "test")
        )
        queries = Queries(
            [(mention,) for mention in mentions],
            [(frozenset([concept_id]),) for concept_id in gold],
            {FOLD: [number] * len(gold)},
            seen(((mention,) for mention in mentions), trained),
        )
        parts.append(Part(queries, Targets(ids=ids, names=strings)))
    return Parts(parts, {"distinct strings freed of quotes": len(quoted)} if quoted else {})


def _read_pairs(path: Path, quoted: set[str]) -> tuple[list[str], list[str]]:
    """Read lines of an id, a tab and a string; `quoted` gathers the lines with a spreadsheet's quotes."""
    ids, strings = [], []
    for number, line in textio.lines(path):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise InputError("not an id, a tab and a string", file=path, line=number, value=line)
        plain = textio.unquoted(cells[1])
        if plain != cells[1]:
            quoted.add(line)
        if not plain.strip():
            raise InputError("nothing between the quotes", file=path, line=number, value=line)
        ids.append(cells[0])
        strings.append(plain.strip())
    if not ids:
        raise InputError("holds no line", file=path)
    return ids, strings
