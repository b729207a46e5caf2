"""Clusters of terms against concepts, as CODER++ (Zeng et al. 2022) makes and scores them.

Two measures of the released code's two programs. Pairs: each term and its 30 nearest (itself among them) are the only
pairs that can be predicted, F1 at the best theta; all other synonym pairs are missed. Clusters: such pairs above theta
0.8 are joined into connected components, strings of three characters or less left alone; precision and recall of each
term's cluster are B-cubed. Deviations: the released program gives no score to its clusters and cuts those of over 50
terms by spectral clustering, which is not done here; it skips each term's first neighbour, which need not be the term
itself, where here the term itself is skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from pydantic import Field

from alphita.config import Config
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks.clustering_pairs import Data, load_terms
from alphita_lab.evaluation.scoring import clustering
from alphita_lab.evaluation.scoring.results import ALL, Figure, Metric, Result
from alphita_lab.evaluation.scoring.similar_pairs import pairs_of_neighbours
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)
METRICS = (
    Metric("B-cubed F1", ("cluster_precision", "cluster_recall"), clustering.harmonic),
    Metric("B-cubed precision", ("cluster_precision",)),
    Metric("B-cubed recall", ("cluster_recall",)),
    Metric("F1 of near pairs", ("tp", "fp", "fn"), clustering.pair_f1),
    Metric("precision of near pairs", ("tp", "fp"), clustering.ratio_to_sum),
    Metric("recall of near pairs", ("tp", "fn"), clustering.ratio_to_sum),
    Metric("accuracy of near pairs", ("tp", "fp", "fn", "tn"), clustering.pair_accuracy),
)


class Options(Config):
    """How clusters are made."""

    names: str | None = Field(
        None, description="a file under --data, one id<TAB>name per line (can be gzipped), instead of a terminology"
    )
    languages: str | None = Field(None, description="BCP-47 tags, e.g. it or en+fr; all by default")
    max_concepts: int | None = Field(None, ge=2, description="use a seeded sample of this many concepts")
    neighbours: int = Field(30, ge=2, description="number of nearest terms, including the term itself (CODER++: 30)")
    theta: float = Field(0.8, ge=-1, le=1, description="similarity above which pairs are joined (CODER++: 0.8)")
    shortest: int = Field(4, ge=1, description="minimum characters of a term to cluster (CODER++: 4)")
    seed: int = Field(0, ge=0, description="seed for the sample")


def load(source: Source, options: Options) -> Data:
    """Read the names and find the pairs of synonyms; see `clustering_pairs`."""
    return load_terms(source, options.names, options.languages, options.max_concepts, options.seed)


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system; one row a term."""
    terms, gold, n = data.terms, data.gold, len(data.terms)
    strings = clean_many(terms.strings, system.rules)
    pairs = pairs_of_neighbours(*system.neighbours(strings, strings, min(options.neighbours, n)))
    right = clustering.are_gold(pairs, gold, n)
    swept = clustering.sweep(pairs.similarity, right, len(gold), pairs.floor)
    counts = clustering.term_counts(pairs, right, gold, n, swept.best())
    long = np.array([len(string) >= options.shortest for string in strings])
    joined = (pairs.similarity > options.theta) & long[pairs.left] & long[pairs.right]
    clusters = clustering.components(pairs.left[joined], pairs.right[joined], n)
    precision, recall = clustering.b_cubed(clusters, gold)
    rows = pl.DataFrame(
        {
            "term": terms.strings,
            "concept": [terms.concepts[column] for column in terms.first_concept],
            "cluster": clusters,
            "cluster_precision": precision,
            "cluster_recall": recall,
            **dict(zip(("tp", "fp", "fn", "tn"), counts, strict=True)),
        }
    )
    sizes = np.bincount(clusters)
    notes: dict[str, Any] = {
        "terms": n,
        "concepts": len(terms.concepts),
        "strings_of_several_concepts": terms.shared,
        "names_empty_after_cleaning": terms.dropped,
        "synonym_pairs": len(gold),
        "synonym_pairs_among_neighbours": int(right.sum()),
        "terms_too_short_to_join": int((~long).sum()),
        "clusters": len(sizes),
        "largest_cluster": int(sizes.max()),
        "terms_alone": int((sizes == 1).sum()),
    }
    best = swept.best()
    figures = [
        Figure("theta of near pairs", ALL, None if np.isnan(best) else best, n),
        Figure("adjusted Rand index", ALL, clustering.adjusted_rand(clusters, terms.first_concept), n),
    ]
    return Result(rows, METRICS, (), figures, notes, swept.curves())
