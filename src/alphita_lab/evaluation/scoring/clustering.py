"""Clustering of terms: which pairs a system takes for synonyms, all thresholds in one sorted pass, and whole clusters.

Two terms are synonyms if some concept has both (a string may name several concepts). A pair is predicted if its
similarity is above theta. With tp, fp and fn counted for each term over the pairs that it is part of, precision, recall
and F1 of the pairs are ratios of sums over terms, so that intervals come from resampling terms.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphita.errors import require
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.scoring.similar_pairs import Pairs


@dataclass(frozen=True)
class Terms:
    """Distinct terms and the concepts that each names.

    Attributes:
        strings: (n,) as written, distinct after cleaning.
        concepts: names of the m concepts.
        rows: (p,) int64 term of each (term, concept) pair, ascending.
        columns: (p,) int64 concept of each pair.
    """

    strings: list[str]
    concepts: list[str]
    rows: Int
    columns: Int
    dropped: int = 0

    def __len__(self) -> int:
        """Return n."""
        return len(self.strings)

    @property
    def first_concept(self) -> Int:
        """The concept of each term, (n,); of a term of several the one that stands first."""
        return self.columns[np.searchsorted(self.rows, np.arange(len(self)))]

    @property
    def shared(self) -> int:
        """How many terms name several concepts."""
        return int((np.bincount(self.rows, minlength=len(self)) > 1).sum())


def terms_of(ids: Sequence[str], names: Sequence[str], *, keep: Collection[str] | None = None) -> Terms:
    """Return the distinct terms of (id, name) rows; names that clean to the same string are one term."""
    strings: dict[str, tuple[int, str]] = {}
    concepts: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    dropped = 0
    for one, name, cleaned in zip(ids, names, clean_many(names), strict=True):
        if keep is not None and one not in keep:
            continue
        if not cleaned:
            dropped += 1
            continue
        row = strings.setdefault(cleaned, (len(strings), name))[0]
        pairs[row, concepts.setdefault(one, len(concepts))] = None
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Terms([name for _, name in strings.values()], list(concepts), table[:, 0], table[:, 1], dropped)


def names_of(terminology: Terminology, languages: Collection[str] | None = None) -> tuple[list[str], list[str]]:
    """Return the ids and names of the terms that train: exact, live, not machine-translated."""
    rows, _ = terminology.training_terms(languages=languages)
    concepts = terminology.term_concept[rows]
    ids = {int(row): terminology.concept_id(row) for row in np.unique(concepts)}
    return [ids[int(row)] for row in concepts], terminology.terms.column("string").take(rows).to_pylist()


# Points of a curve.
POINTS = 200

Float = NDArray[np.float64]
Int = NDArray[np.int64]


# --- synonyms ---------------------------------------------------------------------------------------------------------


def gold_pairs(terms: Terms) -> Int:
    """Return the pairs of terms that share a concept, each once, as sorted keys left * n + right with left < right."""
    rows, n = terms.rows[np.lexsort((terms.rows, terms.columns))], len(terms)
    sizes = np.bincount(terms.columns, minlength=len(terms.concepts))
    starts = np.cumsum(sizes) - sizes
    keys = [np.empty(0, np.int64)]
    # All concepts of as many terms at once.
    for size in np.unique(sizes[sizes > 1]).tolist():
        members = rows[starts[sizes == size][:, None] + np.arange(size)]
        left, right = np.triu_indices(size, 1)
        keys.append((members[:, left] * n + members[:, right]).ravel())
    return np.unique(np.concatenate(keys))


def are_gold(pairs: Pairs, gold: Int, n: int) -> NDArray[np.bool_]:
    """Return which of the pairs are synonyms, (p,)."""
    if not len(gold):
        return np.zeros(len(pairs.left), bool)
    keys = pairs.left * n + pairs.right
    places = np.minimum(np.searchsorted(gold, keys), len(gold) - 1)
    found: NDArray[np.bool_] = gold[places] == keys
    return found


# --- thresholds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sweep:
    """How many pairs are predicted, and rightly, as theta falls: at each distinct similarity, greatest first.

    Attributes:
        similarity: (s,) float64, falling; a theta just below it predicts every pair so far.
        predicted: (s,) pairs predicted.
        right: (s,) of them synonyms.
        floor: below the last similarity; theta is never under it.
    """

    similarity: Float
    predicted: Float
    right: Float
    positives: float
    floor: float

    def f1(self) -> Float:
        """Return F1 at each similarity, (s,)."""
        return 2 * self.right / np.maximum(self.predicted + self.positives, 1e-300)

    def best(self) -> float:
        """Return the theta of the best F1; of equals the greatest. NaN where nothing is predicted at all."""
        if not len(self.similarity):
            return float("nan")
        place = int(np.argmax(self.f1()))
        below = self.similarity[place + 1] if place + 1 < len(self.similarity) else self.floor
        return float(self.similarity[place] + below) / 2

    def at(self, thetas: Float) -> tuple[Float, Float]:
        """Return (predicted, right) at given thresholds: the pairs whose similarity is above."""
        places = np.searchsorted(-self.similarity, -np.asarray(thetas, np.float64), side="left")
        return np.r_[0.0, self.predicted][places], np.r_[0.0, self.right][places]

    def curves(self) -> dict[str, tuple[Sequence[float], Sequence[float]]]:
        """Return "theta F1", "theta precision" and "theta recall" at evenly spaced thresholds."""
        if not len(self.similarity):
            return {}
        thetas = np.linspace(self.floor, float(self.similarity[0]), POINTS)
        predicted, right = self.at(thetas)
        some = predicted > 0
        f1 = 2 * right / np.maximum(predicted + self.positives, 1)
        return {
            "theta F1": (thetas.tolist(), f1.tolist()),
            "theta precision": (thetas[some].tolist(), (right[some] / predicted[some]).tolist()),
            "theta recall": (thetas.tolist(), (right / max(self.positives, 1)).tolist()),
        }


def sweep(
    similarity: NDArray[np.float32],
    right: NDArray[np.bool_],
    positives: float,
    floor: float,
    weight: Float | None = None,
) -> Sweep:
    """Work out every threshold in one pass over the pairs sorted by similarity.

    Args:
        similarity: (p,) of the pairs.
        right: (p,) whether each is a pair of synonyms.
        weight: (p,) what each pair counts.
    """
    order = np.argsort(-similarity)
    values = similarity[order].astype(np.float64)
    counts = np.ones(len(order)) if weight is None else weight[order]
    last = np.flatnonzero(np.r_[values[1:] != values[:-1], True][: len(values)])
    predicted, hits = np.cumsum(counts)[last], np.cumsum(np.where(right[order], counts, 0.0))[last]
    return Sweep(values[last], predicted, hits, float(positives), floor)


def term_counts(pairs: Pairs, right: NDArray[np.bool_], gold: Int, n: int, theta: float) -> tuple[Int, Int, Int, Int]:
    """Return tp, fp, fn and tn of each term over its n - 1 pairs, at a threshold; (n,) each."""
    above = pairs.similarity.astype(np.float64) > theta
    tp = _degrees(pairs.left[above & right], pairs.right[above & right], n)
    fp = _degrees(pairs.left[above & ~right], pairs.right[above & ~right], n)
    fn = _degrees(*np.divmod(gold, n), n) - tp
    return tp, fp, fn, n - 1 - tp - fp - fn


def _degrees(left: Int, right: Int, n: int) -> Int:
    return np.bincount(left, minlength=n) + np.bincount(right, minlength=n)


# --- statistics over terms: columns tp, fp, fn[, tn] ------------------------------------------------------------------


def pair_f1(values: Float) -> float:
    """Return F1 from columns tp, fp, fn; NaN where there is nothing to find and nothing found."""
    tp, fp, fn = values.sum(axis=0)
    return _ratio(2 * tp, 2 * tp + fp + fn)


def ratio_to_sum(values: Float) -> float:
    """Return sum(first column) / sum(all columns): precision from tp, fp; recall from tp, fn."""
    return _ratio(values[:, 0].sum(), values.sum())


def pair_accuracy(values: Float) -> float:
    """Return the share of pairs that are told rightly, from columns tp, fp, fn, tn."""
    return _ratio(values[:, 0].sum() + values[:, 3].sum(), values.sum())


def harmonic(values: Float) -> float:
    """Return the harmonic mean of the means of two columns: B-cubed F1 from precision and recall."""
    first, second = values.mean(axis=0)
    return _ratio(2 * first * second, first + second)


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below else float("nan")


# --- clusters ---------------------------------------------------------------------------------------------------------


def components(left: Int, right: Int, n: int) -> Int:
    """Return a cluster number for each of n terms: pairs join, and so does a chain of pairs."""
    sparse, graph = (require(f"scipy.{part}", "evaluate") for part in ("sparse", "sparse.csgraph"))
    links = sparse.coo_array((np.ones(len(left), bool), (left, right)), shape=(n, n))
    labels: Int = graph.connected_components(links, directed=False)[1].astype(np.int64)
    return labels


class BCubed(NamedTuple):
    """B-cubed precision and recall of each term, (n,) float64 each."""

    precision: Float
    recall: Float


def b_cubed(clusters: Int, gold: Int) -> BCubed:
    """Return, of each term, the share of its cluster that are its synonyms, and of its synonyms those in its cluster.

    Args:
        clusters: (n,) cluster number of each term.
    """
    n = len(clusters)
    left, right = np.divmod(gold, n)
    together = clusters[left] == clusters[right]
    both = 1.0 + _degrees(left[together], right[together], n)
    size = np.bincount(clusters)[clusters]
    return BCubed(both / size, both / (1.0 + _degrees(left, right, n)))


def adjusted_rand(clusters: Int, concepts: Int) -> float:
    """Return the adjusted Rand index of two partitions (Hubert and Arabie 1985); 1.0 for equal ones.

    Args:
        clusters: (n,) numbers.
        concepts: (n,) numbers.
    """
    width = int(concepts.max()) + 1
    joint = np.unique(clusters * width + concepts, return_counts=True)[1]
    agree, first, second = (
        float((count * (count - 1.0)).sum()) / 2 for count in (joint, np.bincount(clusters), np.bincount(concepts))
    )
    pairs = len(clusters) * (len(clusters) - 1) / 2
    chance = first * second / max(pairs, 1)
    most = (first + second) / 2
    return 1.0 if most == chance else (agree - chance) / (most - chance)
