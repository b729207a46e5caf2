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
from alphita.index.neighbours import unit
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean_many
from alphita_lab.evaluation.systems import System, VectorSystem

# Points of a curve.
POINTS = 200
# Rows and columns of one block of similarities: 16 MiB of float32.
BLOCK = 2048
# Neighbours asked for at once, of all queries together.
NEIGHBOURS = 20_000_000
# Neighbours asked for at first, of each query.
NEIGHBOURS_AT_FIRST = 32

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Terms:
    """Distinct terms as written (n), concepts (m), and (term, concept) pairs as ascending rows and columns (p,)."""

    strings: list[str]
    concepts: list[str]
    rows: Int
    columns: Int
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.strings)

    @property
    def first_concept(self) -> Int:
        """The concept of each term, (n,); of a term of several the one that stands first."""
        return self.columns[np.searchsorted(self.rows, np.arange(len(self)))]

    @property
    def shared(self) -> int:
        return int((np.bincount(self.rows, minlength=len(self)) > 1).sum())


def terms_of(ids: Sequence[str], names: Sequence[str], *, keep: Collection[str] | None = None) -> Terms:
    """Return the distinct terms of (id, name) rows; names that clean to the same string are one term."""
    strings: dict[str, tuple[int, str]] = {}
    concepts: dict[str, int] = {}
    pairs: dict[tuple[int, int], None] = {}
    dropped = 0
    for concept_id, name, cleaned in zip(ids, names, clean_many(names), strict=True):
        if keep is not None and concept_id not in keep:
            continue
        if not cleaned:
            dropped += 1
            continue
        row = strings.setdefault(cleaned, (len(strings), name))[0]
        pairs[row, concepts.setdefault(concept_id, len(concepts))] = None
    table = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Terms([name for _, name in strings.values()], list(concepts), table[:, 0], table[:, 1], dropped)


def names_of(terminology: Terminology, languages: Collection[str] | None = None) -> tuple[list[str], list[str]]:
    """Return the ids and names of the terms that train: exact, live, not machine-translated."""
    rows, _ = terminology.training_terms(languages=languages)
    concepts = terminology.term_concept[rows]
    ids = {int(row): terminology.concept_id(row) for row in np.unique(concepts)}
    return [ids[int(row)] for row in concepts], terminology.terms.column("string").take(rows).to_pylist()


# --- similar pairs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Pairs of terms, each once (left < right), (p,), whose similarity is above `floor`; `raised` to keep them few."""

    left: Int
    right: Int
    similarity: NDArray[np.float32]
    floor: float
    raised: bool = False


def pairs_above(vectors: NDArray[np.float32], floor: float, *, max_pairs: int) -> Pairs:
    """Return all pairs of rows (n, d) whose cosine is above `floor`: exact range search in blocks."""
    vectors = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0).astype(np.float32)
    known = np.flatnonzero(vectors.any(axis=1))
    vectors = unit(vectors[known])
    kept = _Kept(floor, max_pairs)
    for start in range(0, len(vectors), BLOCK):
        for other in range(start, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK] @ vectors[other : other + BLOCK].T
            if other == start:
                block[np.tril_indices(len(block))] = -np.inf
            places = np.flatnonzero(block.ravel() > kept.floor)
            rows, columns = np.divmod(places, block.shape[1])
            kept.add(known[start + rows], known[other + columns], block.ravel()[places])
    return kept.pairs()


def pairs_by_neighbours(system: System, strings: Sequence[str], floor: float, *, max_pairs: int) -> Pairs:
    """Return all pairs above `floor` for a system that has no vectors: neighbours, more of them until one is below."""
    n, kept = len(strings), _Kept(floor, max_pairs, twice=True)
    rows, wanted = np.arange(n), min(NEIGHBOURS_AT_FIRST, n)
    while len(rows):
        further = []
        for start in range(0, len(rows), max(1, NEIGHBOURS // wanted)):
            block = rows[start : start + max(1, NEIGHBOURS // wanted)]
            similarity, near = system.neighbours([strings[row] for row in block], strings, wanted)
            done = (near[:, -1] < 0) | (similarity[:, -1] <= kept.floor) | (wanted == n)
            line, place = np.nonzero((near >= 0) & (similarity > kept.floor) & done[:, None])
            kept.add(block[line], near[line, place], similarity[line, place])
            further.append(block[~done])
        rows, wanted = np.concatenate(further), min(4 * wanted, n)
    return kept.pairs()


def pairs_of_neighbours(similarity: NDArray[np.float32], near: Int) -> Pairs:
    """Return the pairs in lists of neighbours (n, k), -1 for none, each once and none of a term with itself.

    Where similarity differs by direction the greater counts.
    """
    line, place = np.nonzero(near >= 0)
    low = float(similarity[line, place].min()) - 1e-6 if len(line) else 0.0
    kept = _Kept(low, near.size + 1, twice=True)
    kept.add(line, near[line, place], similarity[line, place])
    return kept.pairs()


def find_pairs(system: System, strings: Sequence[str], floor: float, *, max_pairs: int) -> tuple[Pairs, int]:
    """Return all pairs above `floor`, by vectors where the system has them, and how many strings it cannot
    represent."""
    if isinstance(system, VectorSystem):
        vectors = system.encode(strings)
        return pairs_above(vectors, floor, max_pairs=max_pairs), int((~np.isfinite(vectors).all(axis=1)).sum())
    return pairs_by_neighbours(system, strings, floor, max_pairs=max_pairs), 0


class _Kept:
    """Collects pairs and raises the floor when they grow too many; `twice`: a pair comes from both its ends."""

    def __init__(self, floor: float, most: int, *, twice: bool = False) -> None:
        self.floor, self._most, self._twice, self._raised = floor, most, twice, False
        self._parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))]
        self._count = 0

    def add(self, one: Int, other: Int, similarity: NDArray[np.float32]) -> None:
        """Take pairs above the floor; a term and itself are none."""
        apart = one != other
        self._parts.append((np.minimum(one, other)[apart], np.maximum(one, other)[apart], similarity[apart]))
        self._count += int(apart.sum())
        # Twice as many may wait, so that not every block is sorted.
        if self._count > 2 * self._most:
            self._cut()

    def _cut(self) -> None:
        left, right, similarity = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        if self._twice and len(left):
            width = int(right.max()) + 1
            keys = left * width + right
            order = np.argsort(keys)
            keys = keys[order]
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            left, right = np.divmod(keys[starts], width)
            similarity = np.maximum.reduceat(similarity[order], starts)
        if len(left) > self._most:
            # The greatest value that does not fit is the new floor: those equal to it go together.
            place = len(similarity) - self._most - 1
            self.floor, self._raised = float(np.partition(similarity, place)[place]), True
            above = similarity > np.float32(self.floor)
            left, right, similarity = left[above], right[above], similarity[above]
        self._parts, self._count = [(left, right, similarity)], len(left)

    def pairs(self) -> Pairs:
        self._cut()
        left, right, similarity = self._parts[0]
        return Pairs(left, right, similarity, float(self.floor), self._raised)


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
    """Predicted and rightly predicted pairs as theta falls: at each distinct similarity (s,), greatest first."""

    similarity: Float
    predicted: Float
    right: Float
    positives: float
    floor: float

    def f1(self) -> Float:
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
        any_predicted = predicted > 0
        f1 = 2 * right / np.maximum(predicted + self.positives, 1)
        return {
            "theta F1": (thetas.tolist(), f1.tolist()),
            "theta precision": (
                thetas[any_predicted].tolist(),
                (right[any_predicted] / predicted[any_predicted]).tolist(),
            ),
            "theta recall": (thetas.tolist(), (right / max(self.positives, 1)).tolist()),
        }


def sweep(
    similarity: NDArray[np.float32],
    right: NDArray[np.bool_],
    positives: float,
    floor: float,
    weight: Float | None = None,
) -> Sweep:
    """Compute every threshold in one pass over the pairs (p,) sorted by similarity; `weight` is what each counts."""
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
    """Return of each term the share of its cluster that are synonyms, and of its synonyms those in its cluster."""
    n = len(clusters)
    left, right = np.divmod(gold, n)
    together = clusters[left] == clusters[right]
    both = 1.0 + _degrees(left[together], right[together], n)
    size = np.bincount(clusters)[clusters]
    return BCubed(both / size, both / (1.0 + _degrees(left, right, n)))
