"""Case tables: the terms nearest to a few terms, in each language, to be read by eye.

As the case studies of Yuan et al. 2020 and 2022 show them: one system beside another, e.g. trained with and without
relations. Which of the terms found name the query's own concept is counted too; so few cases prove nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import Field

from alphita import textio
from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.languages import among
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean, clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)


class Options(Config):
    """Which terms, and how many neighbours."""

    queries: Path | None = Field(
        None, description="a text file with one query per line; by default random concept names"
    )
    number: int = Field(10, ge=1, description="number of random concepts, if you give no file of queries")
    languages: str | None = Field(
        None, description="languages to search, e.g. en,it,de; all of the terminology by default"
    )
    k: int = Field(5, ge=1, description="terms to show per language (Yuan et al. 2022 show 5)")
    seed: int = Field(0, ge=0, description="seed for the sample")


@dataclass(frozen=True)
class Data:
    """The queries with the concepts that they name, and the terms of each language with theirs."""

    queries: list[str]
    gold: list[frozenset[str]]
    terms: dict[str, list[tuple[str, str]]]


def load(source: Source, options: Options) -> Data:
    """Gather queries and terms."""
    terminology = source.require_terminology()
    terms = _terms_by_language(terminology)
    if options.languages is not None:
        wanted = [language.strip() for language in options.languages.split(",")]
        tags = {language: among(terms, [language]) for language in wanted}
        for language, found in tags.items():
            if not found:
                raise UsageError(f"the terminology has no terms in {language!r}; choose from {sorted(terms)}")
        terms = {language: [term for tag in found for term in terms[tag]] for language, found in tags.items()}
    queries = _drawn(terminology, options) if options.queries is None else _lines(options.queries)
    gold = [frozenset(terminology.concept_id(row) for row in terminology.search(query)) for query in queries]
    return Data(queries, gold, terms)


def _terms_by_language(terminology: Terminology) -> dict[str, list[tuple[str, str]]]:
    """Return (id, string) of each live concept's terms, by language."""
    live = ~np.asarray(terminology.retired)[terminology.term_concept]
    languages = terminology.terms.column("language").to_pylist()
    strings = terminology.terms.column("string")
    terms: dict[str, list[tuple[str, str]]] = {}
    for row in np.flatnonzero(live).tolist():
        nearest = (terminology.concept_id(terminology.term_concept[row]), strings[row].as_py())
        terms.setdefault(languages[row] or "und", []).append(nearest)
    return terms


def _drawn(terminology: Terminology, options: Options) -> list[str]:
    """Draw concepts among the `10 * number` live ones with the most languages, and return their names."""
    languages = terminology.terms.column("language").to_pylist()
    live = np.flatnonzero(~np.asarray(terminology.retired))
    offsets = terminology.concept_terms
    counts = np.array([len(set(languages[offsets[row] : offsets[row + 1]])) for row in live])
    most = live[np.argsort(-counts, kind="stable")[: 10 * options.number]]
    chosen = np.random.default_rng(options.seed).permutation(most)[: options.number]
    return [str(terminology.concept_names[int(row)].as_py()) for row in np.sort(chosen)]


def _lines(path: Path) -> list[str]:
    lines = [line.strip() for _, line in textio.lines(path)]
    queries = [line for line in lines if clean(line)]
    if not queries:
        raise InputError("holds no query", file=path, remedy="give one query a line")
    return queries


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Find the nearest terms of each language; a term equal to the query is not shown."""
    cleaned = clean_many(data.queries, system.rules)
    entries, tables = [], {}
    shown: dict[tuple[int, str], list[tuple[str, bool]]] = {}
    for language, terms in data.terms.items():
        strings = clean_many([string for _, string in terms], system.rules)
        first = {string: row for row, string in reversed(list(enumerate(strings)))}
        concepts: dict[str, set[str]] = {}
        for (concept, _), string in zip(terms, strings, strict=True):
            concepts.setdefault(string, set()).add(concept)
        distinct = list(concepts)
        _, rows = system.neighbours(cleaned, distinct, min(options.k + 1, len(distinct)))
        for number, query in enumerate(cleaned):
            found = [distinct[row] for row in rows[number].tolist() if row >= 0 and distinct[row] != query][: options.k]
            written = [terms[first[string]][1] for string in found]
            right = [bool(concepts[string] & data.gold[number]) for string in found]
            shown[number, language] = list(zip(written, right, strict=True))
            entries.append(
                {
                    "query": number,
                    "mention": data.queries[number],
                    "language": language,
                    "gold": ",".join(sorted(data.gold[number])),
                    "found": written,
                    "right": right,
                    "right@1": bool(right) and right[0],
                    f"right@{options.k}": any(right),
                }
            )
    for number, query in enumerate(data.queries):
        # A term of the query's own concept is marked by a star.
        cells = {
            language: [f"{string} *" if good else string for string, good in found]
            for (row, language), found in shown.items()
            if row == number
        }
        tables[query] = pl.DataFrame({tag: found + [""] * (options.k - len(found)) for tag, found in cells.items()})
    rows_frame = pl.DataFrame(entries, infer_schema_length=None)
    metrics = tuple(Metric(f"accuracy@{k}", (f"right@{k}",)) for k in dict.fromkeys((1, options.k)))
    unknown = sum(not gold for gold in data.gold)
    notes = {"queries": len(data.queries), "queries that the terminology does not have": unknown}
    return Result(rows_frame, metrics, ("language",), notes=notes, tables=tables)
