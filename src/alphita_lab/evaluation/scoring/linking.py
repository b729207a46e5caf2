"""Scoring of normalization: mentions ranked against the names of the target concepts.

The same for every benchmark and system: names and mentions are cleaned by its rules, a concept takes the place of its
best name, and accuracy is counted over concepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita.terminology.text import clean, clean_many
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import Answer, ConceptRanker, System

# Strings asked for first for each concept wanted; more where they name too few concepts.
STRINGS_PER_CONCEPT = 5
# Queries ranked at once: similarities of a block fit the memory whatever the dictionary.
QUERIES_AT_ONCE = 4096
# Answers kept of each query, for the error analysis.
SHOWN = 5
# Types of columns that may hold nothing but nulls or empty lists, so that parts of a benchmark can be put together.
SCHEMA: Mapping[str, Any] = {
    "mention": pl.String,
    "gold": pl.String,
    "gold_name": pl.String,
    "overlap": pl.Float64,
    "predicted": pl.List(pl.String),
    "matched": pl.List(pl.String),
}


@dataclass(frozen=True, kw_only=True)
class Targets:
    """The names that mentions are ranked against, (n,) as written, each with the id of its concept."""

    ids: Sequence[str]
    names: Sequence[str]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.names) or not self.ids:
            raise ValueError(f"needs as many ids as names, and at least one: {len(self.ids)} and {len(self.names)}")


@dataclass(frozen=True)
class Queries:
    """The mentions and their gold concepts.

    A query has one part or, for a composite mention ("breast and ovarian cancer"), several; it is right only if every
    part is.

    Attributes:
        parts: (n,) the part strings of each query.
        gold: (n,) for each part the ids any of which is right; an empty set: nothing in the data is right.
        columns: further columns of n values, told in the report: "language", "fold", "semantic_type", ...
        seen: (n,) whether the mention's cleaned string was among those that systems may have trained on (the training
            mentions of the benchmark); None where there are none.
        contexts: (n,) the text that each mention stands in, for systems that read it; None where there is none.
    """

    parts: Sequence[tuple[str, ...]]
    gold: Sequence[tuple[frozenset[str], ...]]
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seen: Sequence[bool] | None = None
    contexts: Sequence[str | None] | None = None

    def __post_init__(self) -> None:
        if self.contexts is not None and len(self.contexts) != len(self.parts):
            raise ValueError(f"{len(self.contexts)} contexts for {len(self.parts)} queries")
        if len(self.parts) != len(self.gold):
            raise ValueError(f"{len(self.parts)} queries, {len(self.gold)} gold answers")
        for number, (parts, gold) in enumerate(zip(self.parts, self.gold, strict=True)):
            if not parts or len(parts) != len(gold):
                raise ValueError(f"query {number} has {len(parts)} parts and {len(gold)} gold answers")
        seen = {} if self.seen is None else {"seen": self.seen}
        for name, values in {**self.columns, **seen}.items():
            if len(values) != len(self.parts):
                raise ValueError(f"column {name!r} has {len(values)} values for {len(self.parts)} queries")

    def __len__(self) -> int:
        return len(self.parts)

    def repeats(self) -> int:
        """Return how many queries have the mention and gold of one before."""
        return len(self) - len(set(zip(self.parts, self.gold, strict=True)))


def simple(mentions: Sequence[str], gold: Sequence[str], **columns: Sequence[Any]) -> Queries:
    """Return queries of one part and one gold id each."""
    return Queries([(mention,) for mention in mentions], [(frozenset([concept_id]),) for concept_id in gold], columns)


def rank(
    system: System, queries: Sequence[str], targets: Targets, k: int, contexts: Sequence[str | None] | None = None
) -> Ranking:
    """Rank concepts for each query: exactly the k best, each by its best name."""
    strings, ids, string_concepts, offsets = _strings_of(targets, system.rules)
    if isinstance(system, ConceptRanker):
        answers = system.rank_concepts(queries, targets.ids, targets.names, k, contexts)
        return Ranking(ids, strings, *_numbers(answers, strings, ids, system.rules, k), string_concepts, offsets)
    cleaned = clean_many(queries, system.rules)
    row_of = {string: row for row, string in enumerate(dict.fromkeys(cleaned))}
    distinct = list(row_of)
    similarity = np.zeros((len(distinct), k), np.float32)
    concepts = np.full((len(distinct), k), -1, np.int64)
    matched = np.full((len(distinct), k), -1, np.int64)
    for start in range(0, len(distinct), QUERIES_AT_ONCE):
        rows = np.arange(start, min(start + QUERIES_AT_ONCE, len(distinct)))
        wanted = min(STRINGS_PER_CONCEPT * k, len(strings))
        while len(rows):
            near, near_rows = system.neighbours([distinct[row] for row in rows], strings, wanted)
            block = _concepts(near, near_rows, string_concepts, offsets, len(ids), k)
            done = (block[1][:, -1] >= 0) | (near_rows[:, -1] < 0) | (wanted == len(strings))
            similarity[rows[done]], concepts[rows[done]], matched[rows[done]] = (part[done] for part in block)
            rows, wanted = rows[~done], min(4 * wanted, len(strings))
    places = np.array([row_of[string] for string in cleaned], np.int64)
    return Ranking(ids, strings, similarity[places], concepts[places], matched[places], string_concepts, offsets)


def _numbers(
    answers: Sequence[Sequence[Answer]], strings: Sequence[str], ids: Sequence[str], rules: Sequence[str], k: int
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Turn a concept ranker's answers into similarity, concepts and matched strings, (q, k) each."""
    concept_of = {key: number for number, key in enumerate(ids)}
    string_of = {key: number for number, key in enumerate(strings)}
    similarity = np.zeros((len(answers), k), np.float32)
    concepts, matched = (np.full((len(answers), k), -1, np.int64) for _ in range(2))
    for row, found in enumerate(answers):
        for place, answer in enumerate(found[:k]):
            similarity[row, place] = answer.similarity
            concepts[row, place] = concept_of[answer.concept_id]
            matched[row, place] = string_of[clean(answer.name, rules)]
    return similarity, concepts, matched


def _strings_of(
    targets: Targets, rules: Sequence[str]
) -> tuple[list[str], list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct cleaned names, the distinct ids, and which ids each name has, in CSR form."""
    cleaned = clean_many(targets.names, rules)
    strings = {string: row for row, string in enumerate(dict.fromkeys(cleaned))}
    ids = {concept_id: row for row, concept_id in enumerate(dict.fromkeys(targets.ids))}
    pairs = dict.fromkeys(
        (strings[string], ids[concept_id]) for string, concept_id in zip(cleaned, targets.ids, strict=True)
    )
    table = np.array(list(pairs), np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    offsets = np.searchsorted(table[:, 0], np.arange(len(strings) + 1))
    return list(strings), list(ids), table[:, 1], offsets.astype(np.int64)


def _concepts(
    similarity: NDArray[np.float32],
    rows: NDArray[np.int64],
    string_concepts: NDArray[np.int64],
    offsets: NDArray[np.int64],
    n_concepts: int,
    k: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Turn nearest strings (q, c) into nearest concepts (q, k), each by its best string."""
    query, column = np.nonzero(rows >= 0)
    string = rows[query, column]
    counts = offsets[string + 1] - offsets[string]
    pair = np.repeat(np.arange(len(string)), counts)
    inside = np.arange(len(pair)) - np.repeat(np.cumsum(counts) - counts, counts)
    concept = string_concepts[offsets[string[pair]] + inside]
    _, first = np.unique(query[pair] * n_concepts + concept, return_index=True)
    first.sort()
    pair, concept = pair[first], concept[first]
    line = query[pair]
    place = np.arange(len(line)) - np.searchsorted(line, line)
    kept = place < k
    line, place, pair, concept = line[kept], place[kept], pair[kept], concept[kept]
    best = np.zeros((len(rows), k), np.float32)
    concepts = np.full((len(rows), k), -1, np.int64)
    matched = np.full((len(rows), k), -1, np.int64)
    best[line, place] = similarity[query[pair], column[pair]]
    concepts[line, place] = concept
    matched[line, place] = string[pair]
    return best, concepts, matched


@dataclass(frozen=True)
class Ranking:
    """Concepts ranked for queries: numbers in `ids`, and in `strings` of the name found, (q, k), or -1.

    `string_concepts` holds the concepts of all strings, each from its place in `offsets` (len(strings) + 1,).
    """

    ids: list[str]
    strings: list[str]
    similarity: NDArray[np.float32]
    concepts: NDArray[np.int64]
    matched: NDArray[np.int64]
    string_concepts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def sharing_first(self, query: int) -> list[str]:
        """Return the ids of all concepts that have the name of the query's first place."""
        string = int(self.matched[query, 0])
        if string < 0:
            return []
        return [self.ids[row] for row in self.string_concepts[self.offsets[string] : self.offsets[string + 1]]]


def evaluate(
    system: System, queries: Queries, targets: Targets, *, ks: Sequence[int] = (1, 3, 5), subsets: Sequence[str] = ()
) -> Result:
    """Score a system on normalization."""
    flat = [part for parts in queries.parts for part in parts]
    gold = [answers for parts in queries.gold for answers in parts]
    owner = np.repeat(np.arange(len(queries)), [len(parts) for parts in queries.parts])
    contexts = None if queries.contexts is None else [queries.contexts[row] for row in owner.tolist()]
    ranking = rank(system, flat, targets, max(ks), contexts)
    known = frozenset(ranking.ids)
    numbers = {concept_id: number for number, concept_id in enumerate(ranking.ids)}
    right = np.array(
        [
            [bool(wanted & {ranking.ids[row] for row in line[:k] if row >= 0}) for k in ks]
            for line, wanted in zip(ranking.concepts.tolist(), gold, strict=True)
        ],
        bool,
    ).reshape(len(flat), len(ks))
    shared = np.array([bool(wanted & set(ranking.sharing_first(row))) for row, wanted in enumerate(gold)], bool)
    covered = np.array([bool(wanted & known) for wanted in gold], bool)
    first_part = np.searchsorted(owner, np.arange(len(queries)))
    names = _names_of(ranking)
    cleaned = clean_many([flat[row] for row in first_part], system.rules)
    nearest = [
        _nearest_name(mention, [names[numbers[concept]] for concept in sorted(gold[row]) if concept in numbers])
        for mention, row in zip(cleaned, first_part, strict=True)
    ]
    shown = ranking.concepts[first_part, :SHOWN]
    columns: dict[str, Any] = {
        "query": np.arange(len(queries)),
        "mention": [" | ".join(parts) for parts in queries.parts],
        "gold": [" | ".join(",".join(sorted(answers)) for answers in parts) for parts in queries.gold],
        "gold_name": [name for name, _ in nearest],
        "overlap": [overlap for _, overlap in nearest],
        "predicted": [[ranking.ids[row] for row in line if row >= 0] for line in shown.tolist()],
        "matched": [
            [ranking.strings[row] for row in line if row >= 0] for line in ranking.matched[first_part, :SHOWN].tolist()
        ],
        "similarity": ranking.similarity[first_part, 0],
        "covered": _all(covered, owner, len(queries)),
        **{f"right@{k}": _all(right[:, place], owner, len(queries)) for place, k in enumerate(ks)},
        "shared@1": _all(shared, owner, len(queries)),
        **dict(queries.columns),
    }
    if queries.seen is not None:
        columns["seen"] = list(queries.seen)
    rows = pl.DataFrame(columns, schema_overrides=SCHEMA)
    metrics = tuple(Metric(f"accuracy@{k}", (f"right@{k}",)) for k in ks)
    metrics += (Metric("accuracy@1 (any concept of the name)", ("shared@1",)),)
    varying = [name for name in ("covered", "seen") if name in columns and rows[name].n_unique() > 1]
    notes = {
        "queries": len(queries),
        "composite": sum(len(parts) > 1 for parts in queries.parts),
        "names": len(targets.names),
        "concepts": len(ranking.ids),
        "covered": int(rows["covered"].sum()),
        "without_answer": int((ranking.concepts[first_part, 0] < 0).sum()),
    }
    return Result(rows, metrics, (*subsets, *varying), notes=notes)


def _all(values: NDArray[np.bool_], owner: NDArray[np.int64], n: int) -> NDArray[np.bool_]:
    wrong: NDArray[np.bool_] = np.bincount(owner[~values], minlength=n) == 0
    return wrong


def _names_of(ranking: Ranking) -> list[list[str]]:
    names: list[list[str]] = [[] for _ in ranking.ids]
    for string, (start, end) in enumerate(zip(ranking.offsets[:-1], ranking.offsets[1:], strict=True)):
        for concept in ranking.string_concepts[start:end]:
            names[concept].append(ranking.strings[string])
    return names


def _nearest_name(mention: str, names: Sequence[Sequence[str]]) -> tuple[str | None, float | None]:
    """Return the name with the greatest Jaccard index of character 3-grams, and the index; None where there is none."""
    grams = _grams(mention)
    best: tuple[str | None, float | None] = (None, None)
    for name in (name for names_of_one in names for name in names_of_one):
        other = _grams(name)
        overlap = len(grams & other) / max(1, len(grams | other))
        if best[1] is None or overlap > best[1]:
            best = (name, overlap)
    return best


def _grams(string: str) -> frozenset[str]:
    padded = f" {string} "
    return frozenset(padded[start : start + 3] for start in range(len(padded) - 2))
