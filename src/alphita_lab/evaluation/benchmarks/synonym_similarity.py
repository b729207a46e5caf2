"""Similarity of synonyms against that of other terms: how far apart an encoder holds the two.

Of random concepts an anchor and a synonym are drawn, and a term of another concept. The report draws both histograms;
the figure is the share of triplets in which the synonym is the more similar (ties count half): the area under the ROC
curve, estimated triplet by triplet. Random others are easy, so this says less than normalization does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import UsageError
from alphita.terminology.languages import speaks
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.scoring.results import Metric, Result
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
BINS = 40
Floats = NDArray[np.float64]


class Options(Config):
    """How many triplets."""

    number: int = Field(5000, ge=10, description="number of random concepts, with one triplet each")
    language: str | None = Field(None, description="only terms in this language; all by default")
    seed: int = Field(0, ge=0, description="seed for the samples")


@dataclass(frozen=True)
class Data:
    """Triplets of strings: anchor, its synonym, a term of another concept."""

    anchors: list[str]
    synonyms: list[str]
    others: list[str]


def load(source: Source, options: Options) -> Data:
    """Draw the triplets among the terms that train: exact synonyms of live concepts."""
    terminology = source.require_terminology()
    rows, offsets = terminology.training_terms()
    strings = terminology.terms.column("string").take(rows).to_pylist()
    concept = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    kept = np.ones(len(rows), bool)
    if options.language is not None:
        languages = terminology.terms.column("language").take(rows).to_pylist()
        kept = np.array([speaks(language, options.language) for language in languages])
    names: dict[int, list[str]] = {}
    for number in np.flatnonzero(kept).tolist():
        names.setdefault(int(concept[number]), []).append(strings[number])
    several = [concept_number for concept_number, synonyms in names.items() if len(set(clean_many(synonyms))) > 1]
    if len(several) < 10:
        raise UsageError(f"only {len(several)} concepts have two names or more; 10 are needed")
    rng = np.random.default_rng(options.seed)
    every = list(names)
    data = Data([], [], [])
    for place in rng.permutation(len(several))[: options.number].tolist():
        synonyms = list(dict(zip(clean_many(names[several[place]]), names[several[place]], strict=True)).values())
        anchor, synonym = rng.permutation(len(synonyms))[:2].tolist()
        other = several[place]
        while other == several[place]:
            other = every[int(rng.integers(len(every)))]
        data.anchors.append(synonyms[anchor])
        data.synonyms.append(synonyms[synonym])
        data.others.append(names[other][int(rng.integers(len(names[other])))])
    return data


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system; a triplet that it cannot represent whole has no figure."""
    anchors, synonyms, others = (
        clean_many(strings, system.rules) for strings in (data.anchors, data.synonyms, data.others)
    )
    near = system.similarity(anchors, synonyms).astype(np.float64)
    far = system.similarity(anchors, others).astype(np.float64)
    both = np.isfinite(near) & np.isfinite(far)
    nearer = np.where(both, (near > far) + 0.5 * (near == far), np.nan)
    rows = pl.DataFrame(
        {
            "anchor": data.anchors,
            "synonym": data.synonyms,
            "other": data.others,
            "similarity of synonym": near,
            "similarity of other": far,
            "nearer": nearer,
        }
    )
    metrics = (
        Metric("synonym nearer", ("nearer",)),
        Metric("similarity of synonyms", ("similarity of synonym",), fraction=False),
        Metric("similarity of others", ("similarity of other",), fraction=False, higher_is_better=False),
    )
    notes = {"triplets": len(rows), "triplets without an answer": int((~both).sum())}
    histogram = _histogram(near[both], far[both]) if both.any() else None
    return Result(rows, metrics, notes=notes, histograms={"similarity": histogram} if histogram else {})


def _histogram(near: Floats, far: Floats) -> tuple[list[float], dict[str, list[int]]]:
    low, high = min(0.0, float(np.min(near)), float(np.min(far))), max(1.0, float(np.max(near)), float(np.max(far)))
    edges = np.linspace(low, high, BINS + 1)
    counts = {"synonyms": np.histogram(near, edges)[0].tolist(), "others": np.histogram(far, edges)[0].tolist()}
    return edges.tolist(), counts
