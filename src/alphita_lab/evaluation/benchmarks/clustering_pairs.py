"""Clustering pairs: are two terms synonyms? Predicted where their cosine is above theta, for all pairs of terms.

Every pair is looked at, by exact range search above a floor; the code released with CODER++ (Zeng et al. 2022) looks at
each term's 30 nearest only (see `clusters`). Theta is the one of the best F1 on the scored pairs themselves, as in
Amore Bondarenko et al. 2022; beside it stands one chosen on some of the concepts and applied to the rest. For that one
a pair counts once for each of its ends: the share of synonyms among the pairs of a term is then the same in both parts,
whatever their sizes, and a pair across the parts (never synonyms, but for strings of several concepts) counts half in
each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from alphita.config import Config
from alphita.errors import InputError, UsageError
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.benchmarks import Source, about
from alphita_lab.evaluation.benchmarks._dictionary import read_names
from alphita_lab.evaluation.scoring import clustering
from alphita_lab.evaluation.scoring.clustering import Terms, names_of, terms_of
from alphita_lab.evaluation.scoring.results import ALL, Figure, Metric, Result
from alphita_lab.evaluation.scoring.similar_pairs import Pairs, find_pairs
from alphita_lab.evaluation.systems import System

INFO, PUBLISHED = about(__name__)


class Options(Config):
    """What is compared."""

    names: str | None = Field(
        None, description="a file under --data, one id<TAB>name per line (can be gzipped), instead of a terminology"
    )
    languages: str | None = Field(None, description="BCP-47 tags, e.g. it or en+fr; all by default")
    max_concepts: int | None = Field(
        None, ge=2, description="use a seeded sample of this many concepts; F1 rises with fewer concepts"
    )
    floor: float = Field(0.5, ge=-1, lt=1, description="similarity below which no pair is predicted")
    max_pairs: int = Field(
        20_000_000, ge=1, description="maximum number of pairs, about 120 bytes each; with more pairs, the floor rises"
    )
    tuning: float = Field(0.2, gt=0, lt=1, description="share of the concepts for choosing the second theta")
    seed: int = Field(0, ge=0, description="seed for the sample and the tuning part")


@dataclass(frozen=True)
class Data:
    """The terms, their languages if known, and the synonym pairs among them."""

    terms: Terms
    gold: NDArray[np.int64]


def load(source: Source, options: Options) -> Data:
    """Read the names and find the pairs of synonyms."""
    return load_terms(source, options.names, options.languages, options.max_concepts, options.seed)


def load_terms(source: Source, names: str | None, languages: str | None, max_concepts: int | None, seed: int) -> Data:
    """Read terms from a file of names or from the terminology; see `Options`."""
    if names:
        if languages is not None:
            raise UsageError("a file of names does not tell languages: give a terminology, or no languages")
        file = source.named(names)
        ids, strings = read_names(file)
    else:
        terminology = source.require_terminology()
        file = terminology.path
        ids, strings = names_of(terminology, None if languages is None else languages.split("+"))
    keep = None
    if max_concepts is not None:
        concepts = sorted(set(ids))
        chosen = np.random.default_rng(seed).permutation(len(concepts))[:max_concepts]
        keep = {concepts[row] for row in chosen}
    terms = terms_of(ids, strings, keep=keep)
    gold = clustering.gold_pairs(terms)
    if not len(gold):
        raise InputError("no concept has two terms: there are no synonyms to find", file=file)
    return Data(terms, gold)


def evaluate(data: Data, system: System, options: Options) -> Result:
    """Score one system; one row a term."""
    terms, gold, n = data.terms, data.gold, len(data.terms)
    strings = clean_many(terms.strings, system.rules)
    pairs, unknown = find_pairs(system, strings, options.floor, max_pairs=options.max_pairs)
    right = clustering.are_gold(pairs, gold, n)
    whole = clustering.sweep(pairs.similarity, right, len(gold), pairs.floor)
    tuned_on = tuning_part(terms, options.tuning, options.seed)
    thetas = {"": whole.best(), "_tuned": _tuned_theta(pairs, right, gold, tuned_on)}
    rows = pl.DataFrame(
        {
            "term": terms.strings,
            "concept": [terms.concepts[column] for column in terms.first_concept],
            "part": np.where(tuned_on, "tuning", "rest"),
        }
    )
    for ending, theta in thetas.items():
        counts = clustering.term_counts(pairs, right, gold, n, theta)
        rows = rows.with_columns(
            pl.Series(name + ending, values) for name, values in zip(("tp", "fp", "fn", "tn"), counts, strict=True)
        )
    rest = pl.when(pl.col("part") == "rest")
    rows = rows.with_columns(rest.then(pl.col(f"{name}_tuned")) for name in ("tp", "fp", "fn", "tn"))
    found = int(right.sum())
    notes: dict[str, Any] = {
        "terms": n,
        "concepts": len(terms.concepts),
        "strings_of_several_concepts": terms.shared,
        "names_empty_after_cleaning": terms.dropped,
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
    return Result(rows, METRICS, (), figures, notes, whole.curves())


def _metrics(ending: str, label: str) -> tuple[Metric, ...]:
    tp, fp, fn, tn = (name + ending for name in ("tp", "fp", "fn", "tn"))
    return (
        Metric(f"F1{label}", (tp, fp, fn), clustering.pair_f1),
        Metric(f"precision{label}", (tp, fp), clustering.ratio_to_sum),
        Metric(f"recall{label}", (tp, fn), clustering.ratio_to_sum),
        Metric(f"accuracy{label}", (tp, fp, fn, tn), clustering.pair_accuracy),
    )


METRICS = _metrics("", "") + _metrics("_tuned", ", tuned theta")


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
