"""Attribute ranking: a title with an attribute's name finds the value that was held out, among 100 of the attribute.

The triples of a terminology read as products (head: title, relation: attribute, tail: value); those that a saved split
holds out are asked about. Beside the true value stand 99 others of the same attribute, drawn evenly by a seed, none of
them joined to the title by a triple of any attribute, or by one that the split holds out; where `attributes` names
some, triples of others do not count, as they do not in training. A model that was trained with a projection for this
(`attribute_projection`, saved beside it) ranks by the distance of projected vectors, with title and attribute as one
text or as two whose vectors are added, as it was trained; other systems by their similarity of the text "title
attribute" and the value. Ranks are realistic: of equal ones the mean of the best and the worst place. Beside every
system stands what the frequency of a value with the attribute alone gives.

The task by which Liu, Jiang and Lyu 2022 pre-train (§3.2); they report no figures on it.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError
from alphita.index.neighbours import unit
from alphita.search import projection
from alphita.search.projection import Projection
from alphita.terminology.splits import Split
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import NotGiven, Source, about
from alphita_lab.evaluation.scoring.results import Figure, Metric, Result
from alphita_lab.evaluation.systems import System, VectorSystem
from alphita_lab.evaluation.systems.encoder import EncoderSystem
from alphita_lab.graph.triples import held_out_pairs
from alphita_lab.training.products.attribute_data import (
    NOT_THERE,
    ProductTable,
    Questions,
    Related,
    questions,
    read_products,
    values_of,
)

INFO, PUBLISHED = about(__name__)
METRICS = (Metric("accuracy@1", ("right",)), Metric("MRR", ("reciprocal_rank",)), Metric("hits@10", ("hits@10",)))

# Attributes by which figures are broken down: the most frequent ones.
SHOWN = 20
Floats = NDArray[np.floating[Any]]


class Options(Config):
    """What is asked, and how."""

    held_out: Path | None = Field(
        None, description="a saved split (X.split) whose held-out triples are the test set; required"
    )
    attributes: str = Field(
        "",
        description="relations that are attributes, joined by ','; triples of other relations do not count; empty: all",
    )
    candidates: int = Field(100, ge=2, description="number of ranked values, including the true one")
    max_test: int | None = Field(None, ge=1, description="test only a seeded sample of the held-out triples")
    seed: int = Field(0, ge=0, description="seed for the candidates and the sample")


@dataclass(frozen=True)
class Data:
    """What is asked; `often` (q, c): how many triples that are not held out have the candidate as a value."""

    table: ProductTable
    questions: Questions
    often: NDArray[np.int64]
    split: str
    notes: dict[str, Any] = field(default_factory=dict)


def load(source: Source, options: Options) -> Data:
    """Choose the held-out triples and their candidates."""
    terminology = source.require_terminology()
    if options.held_out is None:
        raise NotGiven(
            "attribute_ranking asks held-out triples; make a split and name it: "
            "alphita terminology split ... --triples 0.1; --set attribute_ranking.held_out=X.split"
        )
    split = Split.load(options.held_out)
    _, notes = held_out_pairs(terminology, split, options.held_out)
    table = read_products(terminology, attributes=options.attributes, split=split)
    held = table.held_out()
    known = [values for values, _ in values_of(table.triples, len(table.labels))]
    ranked = questions(table.triples[held], known, Related(table), seed=options.seed, candidates=options.candidates)
    several = ranked.candidates[:, 1] != NOT_THERE
    rows = np.flatnonzero(several)
    if not len(rows):
        raise InputError(
            "none of the split's held-out triples is of an attribute that has values to choose from",
            file=options.held_out,
            remedy="hold out a greater share, or name other attributes",
        )
    if options.max_test is not None and len(rows) > options.max_test:
        chosen = np.random.default_rng([options.seed, 1]).permutation(len(rows))[: options.max_test]
        rows = rows[np.sort(chosen)]
    ranked = Questions(ranked.triples[rows], ranked.candidates[rows])
    notes |= {f"triples, {name}": count for name, count in table.counts.items()}
    notes |= {
        "asked": len(ranked),
        "left out, for the attribute has no other value": int((~several).sum()),
        f"with fewer than {options.candidates} candidates": ranked.short,
    }
    train = values_of(table.triples[~held], len(table.labels))
    often = np.zeros(ranked.candidates.shape, np.int64)
    for row, attribute in enumerate(ranked.triples[:, 1].tolist()):
        values, counts = train[attribute]
        if len(values):
            places = np.minimum(np.searchsorted(values, ranked.candidates[row]), len(values) - 1)
            often[row] = np.where(values[places] == ranked.candidates[row], counts[places], 0)
    return Data(table, ranked, often, split.hash, notes)


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system; one row a held-out triple."""
    ranked, table = data.questions, data.table
    distances, ranked_by = _distances(data, system)
    ranks = ranked.ranks(distances)
    there = ranked.candidates != NOT_THERE
    known = np.where(there & ~np.isnan(distances), distances, np.inf)
    nearest = np.where(
        np.isfinite(known.min(axis=1)), ranked.candidates[np.arange(len(ranked)), known.argmin(axis=1)], NOT_THERE
    )
    titles, values = ([table.written[row] for row in ranked.triples[:, column].tolist()] for column in (0, 2))
    attributes = [table.labels[number] for number in ranked.triples[:, 1].tolist()]
    frequent = np.argsort(-np.bincount(table.triples[:, 1]), kind="stable")[:SHOWN]
    rows = pl.DataFrame(
        {
            "title": titles,
            "attribute": attributes,
            "value": values,
            "candidates": there.sum(axis=1),
            "nearest": [None if row == NOT_THERE else table.written[row] for row in nearest.tolist()],
            "rank": ranks,
            "reciprocal_rank": 1 / ranks,
            "right": ranks == 1,
            "hits@10": ranks <= 10,
            "shares_a_word": ["yes" if _share_a_word(table, *triple) else "no" for triple in ranked.triples.tolist()],
            "frequent_attribute": [
                table.labels[number] if number in frequent else None for number in ranked.triples[:, 1].tolist()
            ],
        }
    )
    plain = ranked.ranks(-data.often.astype(np.float64))
    measures = {"accuracy@1": plain == 1, "MRR": 1 / plain, "hits@10": plain <= 10}
    figures = [Figure(name, "value frequency alone", float(hits.mean()), len(hits)) for name, hits in measures.items()]
    trained = getattr(system, "facts", {}).get("trained")
    notes = data.notes | {
        "ranked by": ranked_by,
        "questions without an answer": int(np.isnan(distances[:, 0]).sum()),
        "trained with this split": "not known" if trained is None else trained.get("split") == data.split,
    }
    return Result(rows, METRICS, ("frequent_attribute", "shares_a_word"), figures, notes)


def _distances(data: Data, system: System) -> tuple[Floats, str]:
    """Return the distance of each candidate, (q, c), NaN where the system has none; and what it is."""
    ranked = data.questions
    strings = clean_many(data.table.written, system.rules)
    names = clean_many(data.table.names, system.rules)
    if isinstance(system, EncoderSystem) and (f := projection.read(system.encoder)) is not None:
        return _projected(ranked, system, f, strings, names), "distance of projected vectors"
    titles = [f"{strings[title]} {names[name]}" for title, name, _ in ranked.triples.tolist()]
    there = ranked.candidates != NOT_THERE
    values = ranked.candidates[there]
    similarity = np.full(there.shape, np.nan, np.float32)
    if isinstance(system, VectorSystem):
        heads = system.encode(titles)
        distinct, place = np.unique(values, return_inverse=True)
        tails = system.encode([strings[value] for value in distinct.tolist()])
        heads, tails = (unit(vectors) for vectors in (heads, tails))
        columns_of_row = np.split(place, np.cumsum(there.sum(axis=1))[:-1])
        similarity[there] = np.concatenate(
            [tails[rows] @ head for rows, head in zip(columns_of_row, heads, strict=True)]
        )
    else:
        left = [titles[row] for row in np.nonzero(there)[0].tolist()]
        right = [strings[value] for value in values.tolist()]
        similarity[there] = system.similarity(left, right)
    return -similarity, "similarity of title with attribute, and value"


def _projected(ranked: Questions, system: EncoderSystem, f: Projection, strings: list[str], names: list[str]) -> Floats:
    """Return d(t, n, v) by the projection f that was trained with a model, (q, c); inf where there is no candidate."""
    if system.encoder.precision != "int8" and importlib.util.find_spec("torch") is not None:
        return _as_in_training(ranked, system, strings, names)
    # On ONNX, as `alphita search build` does.
    encoder = projection.unscaled(system.encoder)
    titles = [strings[title] for title in ranked.triples[:, 0].tolist()]
    attributes = [names[name] for name in ranked.triples[:, 1].tolist()]
    heads = encoder.encode([f"{title} {name}" for title, name in zip(titles, attributes, strict=True)])
    there = ranked.candidates != NOT_THERE
    values, place = np.unique(ranked.candidates[there], return_inverse=True)
    left, right = f(heads), f(encoder.encode([strings[value] for value in values.tolist()]))
    distances_found = np.full(there.shape, np.inf, np.float32)
    columns_of_row = np.split(place, np.cumsum(there.sum(axis=1))[:-1])
    for row, columns in enumerate(columns_of_row):
        distances_found[row, there[row]] = np.linalg.norm(left[row] - right[columns], axis=1)
    return distances_found


def _as_in_training(ranked: Questions, system: EncoderSystem, strings: list[str], names: list[str]) -> Floats:
    """Return the same by torch, with the forward pass of training: in bf16 it rounds less than `encode`."""
    from alphita_lab.training.engine.forward import TermForward
    from alphita_lab.training.products import attribute_steps

    f = attribute_steps.load_projection(system.encoder.folder, system.encoder.dim)
    assert f is not None, "it was read before"
    forward = TermForward(system.encoder, precision=system.encoder.precision)
    return attribute_steps.distances(forward, f.to(forward.device), ranked, strings, names)


def _share_a_word(table: ProductTable, title: int, _attribute: int, value: int) -> bool:
    return not set(table.strings[title].split()).isdisjoint(table.strings[value].split())
