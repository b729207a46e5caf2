"""Terms clustered by their similarity, against the concepts that they name: clustering_pairs and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, UsageError, require
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, benchmark
from alphita_lab.evaluation.benchmarks._terminology_targets import read_names
from alphita_lab.evaluation.scoring import clustering
from alphita_lab.evaluation.scoring.clustering import Pairs, Terms, find_pairs, names_of, pairs_of_neighbours, terms_of
from alphita_lab.evaluation.scoring.results import ALL, Figure, Metric, Result
from alphita_lab.evaluation.systems import System

COUNTS = ("tp", "fp", "fn", "tn")


NAMES = "a file under --data, one id<TAB>name per line (can be gzipped), instead of a terminology"
LANGUAGES = "BCP-47 tags, e.g. it or en+fr; all by default"
SAMPLE = "use a seeded sample of this many concepts"


class PairOptions(Config):
    """What is compared."""

    names: str | None = Field(None, description=NAMES)
    languages: str | None = Field(None, description=LANGUAGES)
    max_concepts: int | None = Field(None, ge=2, description=f"{SAMPLE}; F1 rises with fewer concepts")
    floor: float = Field(0.5, ge=-1, lt=1, description="similarity below which no pair is predicted")
    max_pairs: int = Field(
        20_000_000, ge=1, description="maximum number of pairs, about 120 bytes each; with more pairs, the floor rises"
    )
    tuning: float = Field(0.2, gt=0, lt=1, description="share of the concepts for choosing the second theta")
    seed: int = Field(0, ge=0, description="seed for the sample and the tuning part")


@dataclass(frozen=True)
class Data:
    """The terms, and the synonym pairs among them."""

    terms: Terms
    gold: NDArray[np.int64]

    def notes(self) -> dict[str, Any]:
        """Return the sizes that a report shows."""
        terms = self.terms
        return {
            "terms": len(terms),
            "concepts": len(terms.concepts),
            "strings_of_several_concepts": terms.shared,
            "names_empty_after_cleaning": terms.dropped,
        }

    def rows(self, **columns: Any) -> pl.DataFrame:  # noqa: ANN401 - values of n terms
        concepts = [self.terms.concepts[column] for column in self.terms.first_concept]
        return pl.DataFrame({"term": self.terms.strings, "concept": concepts, **columns})


def _load_terms(source: Source, options: PairOptions | ClusterOptions) -> Data:
    """Read terms from a file of names or from the terminology, and find the pairs of synonyms."""
    if options.names:
        if options.languages is not None:
            raise UsageError("a file of names does not tell languages: give a terminology, or no languages")
        file = source.named(options.names)
        ids, strings = read_names(file)
    else:
        terminology = source.require_terminology()
        file = terminology.path
        ids, strings = names_of(terminology, None if options.languages is None else options.languages.split("+"))
    keep = None
    if options.max_concepts is not None:
        concepts = sorted(set(ids))
        chosen = np.random.default_rng(options.seed).permutation(len(concepts))[: options.max_concepts]
        keep = {concepts[row] for row in chosen}
    terms = terms_of(ids, strings, keep=keep)
    gold = clustering.gold_pairs(terms)
    if not len(gold):
        raise InputError("no concept has two terms: there are no synonyms to find", file=file)
    return Data(terms, gold)


def _evaluate_pairs(data: Data, system: System, options: PairOptions) -> Result:
    """Score one system; one row a term."""
    terms, gold, n = data.terms, data.gold, len(data.terms)
    strings = clean_many(terms.strings, system.rules)
    pairs, unknown = find_pairs(system, strings, options.floor, max_pairs=options.max_pairs)
    right = clustering.are_gold(pairs, gold, n)
    whole = clustering.sweep(pairs.similarity, right, len(gold), pairs.floor)
    tuned_on = tuning_part(terms, options.tuning, options.seed)
    thetas = {"": whole.best(), "_tuned": _tuned_theta(pairs, right, gold, tuned_on)}
    rows = data.rows(part=np.where(tuned_on, "tuning", "rest"))
    for ending, theta in thetas.items():
        counts = clustering.term_counts(pairs, right, gold, n, theta)
        rows = rows.with_columns(pl.Series(name + ending, values) for name, values in zip(COUNTS, counts, strict=True))
    rest = pl.when(pl.col("part") == "rest")
    rows = rows.with_columns(rest.then(pl.col(f"{name}_tuned")) for name in COUNTS)
    found = int(right.sum())
    notes: dict[str, Any] = data.notes() | {
        "terms_without_a_vector": unknown,
        "pairs": n * (n - 1) // 2,
        "synonym_pairs": len(gold),
        "floor": pairs.floor,
        "pairs_above_floor": len(right),
        "synonym_pairs_at_or_below_floor": len(gold) - found,
        "floor_raised_to_keep_max_pairs": pairs.raised,
    }
    if not len(whole.similarity):
        notes["warning"] = "no pair of terms is above the floor: nothing is predicted"
    elif int(np.argmax(whole.f1())) == len(whole.similarity) - 1:
        notes["warning"] = "F1 is best at the floor itself, and may be better below"
    figures = [
        Figure(name, ALL, None if np.isnan(theta) else theta, n)
        for name, theta in (("theta", thetas[""]), ("theta, tuned", thetas["_tuned"]))
    ]
    return Result(rows, PAIR_METRICS, (), figures, notes, whole.curves())


@benchmark(PairOptions, _evaluate_pairs)
def clustering_pairs(source: Source, options: PairOptions) -> Data:
    """Clustering pairs: are two terms synonyms? Predicted where their cosine is above theta, for all pairs of terms.

    Every pair is looked at, by exact range search above a floor; the code released with CODER++ (Zeng et al. 2022)
    looks at each term's 30 nearest only (see `clusters`). Theta is the one of the best F1 on the scored pairs
    themselves, as in Amore Bondarenko et al. 2022; beside it stands one chosen on some of the concepts and applied to
    the rest. For that one a pair counts once for each of its ends: the share of synonyms among the pairs of a term is
    then the same in both parts, whatever their sizes, and a pair across the parts (never synonyms, but for strings of
    several concepts) counts half in each.
    """
    return _load_terms(source, options)


def _metrics(ending: str, label: str) -> tuple[Metric, ...]:
    tp, fp, fn, tn = (name + ending for name in COUNTS)
    return (
        Metric(f"F1{label}", (tp, fp, fn), clustering.pair_f1),
        Metric(f"precision{label}", (tp, fp), clustering.ratio_to_sum),
        Metric(f"recall{label}", (tp, fn), clustering.ratio_to_sum),
        Metric(f"accuracy{label}", (tp, fp, fn, tn), clustering.pair_accuracy),
    )


PAIR_METRICS = _metrics("", "") + _metrics("_tuned", ", tuned theta")


def tuning_part(terms: Terms, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which terms are of the tuning part, (n,): whole concepts, so that synonyms stay together."""
    chosen = np.random.default_rng([seed, 1]).permutation(len(terms.concepts)) < share * len(terms.concepts)
    # Concepts are numbered as they stand in the data, which is the same for every system.
    return np.asarray(chosen[terms.first_concept])


def _tuned_theta(pairs: Pairs, right: NDArray[np.bool_], gold: NDArray[np.int64], tuned_on: NDArray[np.bool_]) -> float:
    """Return the theta of the best F1 over the pairs of the tuning terms with all terms, each once for each end."""
    ends = tuned_on[pairs.left].astype(np.float64) + tuned_on[pairs.right]
    used = ends > 0
    left, other = np.divmod(gold, len(tuned_on))
    positives = float(tuned_on[left].sum() + tuned_on[other].sum())
    return clustering.sweep(pairs.similarity[used], right[used], positives, pairs.floor, ends[used]).best()


CLUSTER_METRICS = (
    Metric("B-cubed F1", ("cluster_precision", "cluster_recall"), clustering.harmonic),
    Metric("B-cubed precision", ("cluster_precision",)),
    Metric("B-cubed recall", ("cluster_recall",)),
    Metric("F1 of near pairs", ("tp", "fp", "fn"), clustering.pair_f1),
    Metric("precision of near pairs", ("tp", "fp"), clustering.ratio_to_sum),
    Metric("recall of near pairs", ("tp", "fn"), clustering.ratio_to_sum),
    Metric("accuracy of near pairs", ("tp", "fp", "fn", "tn"), clustering.pair_accuracy),
)


class ClusterOptions(Config):
    """How clusters are made."""

    names: str | None = Field(None, description=NAMES)
    languages: str | None = Field(None, description=LANGUAGES)
    max_concepts: int | None = Field(None, ge=2, description=SAMPLE)
    neighbours: int = Field(30, ge=2, description="number of nearest terms, including the term itself (CODER++: 30)")
    theta: float = Field(0.8, ge=-1, le=1, description="similarity above which pairs are joined (CODER++: 0.8)")
    shortest: int = Field(4, ge=1, description="minimum characters of a term to cluster (CODER++: 4)")
    seed: int = Field(0, ge=0, description="seed for the sample")


def _evaluate_clusters(data: Data, system: System, options: ClusterOptions) -> Result:
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
    measures = {"cluster": clusters, "cluster_precision": precision, "cluster_recall": recall}
    rows = data.rows(**measures, **dict(zip(COUNTS, counts, strict=True)))
    sizes = np.bincount(clusters)
    notes: dict[str, Any] = data.notes() | {
        "synonym_pairs": len(gold),
        "synonym_pairs_among_neighbours": int(right.sum()),
        "terms_too_short_to_join": int((~long).sum()),
        "clusters": len(sizes),
        "largest_cluster": int(sizes.max()),
        "terms_alone": int((sizes == 1).sum()),
    }
    best, metrics = swept.best(), require("sklearn.metrics", "evaluate")
    figures = [
        Figure("theta of near pairs", ALL, None if np.isnan(best) else best, n),
        Figure("adjusted Rand index", ALL, float(metrics.adjusted_rand_score(terms.first_concept, clusters)), n),
    ]
    return Result(rows, CLUSTER_METRICS, (), figures, notes, swept.curves())


@benchmark(ClusterOptions, _evaluate_clusters)
def clusters(source: Source, options: ClusterOptions) -> Data:
    """Clusters of terms against concepts, as CODER++ (Zeng et al. 2022) makes and scores them.

    Two measures of the released code's two programs. Pairs: each term and its 30 nearest (itself among them) are the
    only pairs that can be predicted, F1 at the best theta; all other synonym pairs are missed. Clusters: such pairs
    above theta 0.8 are joined into connected components, strings of three characters or less left alone; precision and
    recall of each term's cluster are B-cubed. Deviations: the released program gives no score to its clusters and cuts
    those of over 50 terms by spectral clustering, which is not done here; it skips each term's first neighbour, which
    need not be the term itself, where here the term itself is skipped.
    """
    return _load_terms(source, options)
