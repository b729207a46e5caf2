"""Samplers of triples with names (CODER), of groups of names (its first version), and of synonym pairs (SapBERT).

A batch follows from the seed and its number alone, so a resumed run draws what an unbroken one would have drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.graph.triples import between_pairs

if TYPE_CHECKING:
    from alphita.terminology.store import Terminology

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class TripleBatch:
    """k triples, row by row."""

    head: Int32  # (k,) concept row of each head
    relation: Int32  # (k,) relation label of each triple
    tail: Int32  # (k,) concept row of each tail
    head_term: Int32  # (k,) term that names each head
    tail_term: Int32  # (k,) term that names each tail


def relation_labels(labels: Sequence[str], *, inverse: bool) -> list[str]:
    """Return the labels of the relations that train: `labels`, and with `inverse` each again as "inverse of LABEL"."""
    return [*labels, *(f"inverse of {label}" for label in labels)] if inverse else list(labels)


def usable_triples(
    triples: Int32,
    term_offsets: Int64,
    n_relations: int,
    *,
    inverse: bool,
    least_head_names: int = 1,
    held_out: Int32 | None = None,
) -> Int32:
    """Return the distinct triples both of whose ends have a training term, without self-loops.

    Args:
        triples: (n, 3) head, relation, tail.
        term_offsets: (n_concepts + 1,) CSR offsets of the training terms.
        held_out: (p, 2) pairs of concepts (`Split.triple_pairs`): every triple between two such, in either
            direction and under any relation, is dropped.

    Returns:
        (m, 3) int32.
    """
    counts = np.diff(term_offsets)
    kept = triples[(counts[triples[:, 0]] > 0) & (counts[triples[:, 2]] > 0) & (triples[:, 0] != triples[:, 2])]
    if held_out is not None and len(held_out):
        kept = kept[~between_pairs(kept, held_out)]
    kept = np.unique(kept, axis=0)
    if inverse:
        turned = kept[:, ::-1].copy()
        turned[:, 1] += n_relations
        kept = np.concatenate([kept, turned])
    kept = kept[counts[kept[:, 0]] >= least_head_names]
    return np.ascontiguousarray(kept, dtype=np.int32)


class EpochWalk:
    """The endless row of shuffled epochs over `total` things, some of them a batch, and no state to save."""

    def __init__(self, total: int, size: int, seed: Sequence[int]) -> None:
        self._total, self._size, self.seed = total, size, list(seed)
        self._epoch = -1
        self._order = np.empty(0, np.int64)

    def places(self, number: int, batches: int = 1) -> Int64:
        """Return what batch `number` and those after it hold, `batches` in all, (batches * size,)."""
        start, wanted = number * self._size, batches * self._size
        parts = []
        while wanted > 0:
            epoch, offset = divmod(start, self._total)
            if epoch != self._epoch:
                self._order = self.shuffled(epoch, np.random.default_rng([*self.seed, epoch]))
                self._epoch = epoch
            part = self._order[offset : offset + wanted]
            parts.append(part)
            start, wanted = start + len(part), wanted - len(part)
        return np.concatenate(parts)

    def shuffled(self, epoch: int, rng: np.random.Generator) -> Int64:
        """Return what stands in an epoch, in its order, (total,)."""
        return rng.permutation(self._total)


class TripleSampler:
    """Draws batches of k triples of which each stands m times, under different names where they exist (§3.3).

    Triples come in shuffled epochs without replacement. A concept with c >= m names shows m different ones; with fewer,
    every name shows before any shows again. With weights, each shows as often as its share of them says.
    """

    def __init__(
        self,
        triples: Int32,
        term_offsets: Int64,
        *,
        k: int,
        m: int,
        seed: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Prepare to sample.

        Args:
            triples: (n, 3) as `usable_triples` gives them.
            term_offsets: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1].
            weights: (n_terms,) how much oftener than others of its concept a term comes.
        """
        if len(triples) == 0:
            raise InputError(
                "the terminology has no relation between two named, live concepts, so nothing to train on",
                remedy="import one with relations, or take the recipe sapbert, which needs synonyms only",
            )
        self.triples, self.term_offsets, self.weights = triples, term_offsets, weights
        self.distinct, self.m, self.seed = k // m, m, seed
        self._walk = EpochWalk(len(triples), self.distinct, [seed, 0])

    def batch(self, number: int) -> TripleBatch:
        """Return batch `number` (from 0); the same number always gives the same batch."""
        chosen = self.triples[self._walk.places(number)]
        rng = np.random.default_rng([self.seed, 1, number])
        head, relation, tail = (np.repeat(chosen[:, column], self.m) for column in range(3))
        wanted = np.full(len(chosen), self.m)
        return TripleBatch(
            head,
            relation,
            tail,
            head_term=draw_names(self.term_offsets, chosen[:, 0], wanted, self.weights, rng),
            tail_term=draw_names(self.term_offsets, chosen[:, 2], wanted, self.weights, rng),
        )


def draw_names(
    term_offsets: Int64,
    concepts: Int32,
    wanted: NDArray[np.integer[Any]],
    weights: NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> Int32:
    """Return terms of each concept: a shuffled walk through its names, and where those run out another one.

    Args:
        term_offsets: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1].
        concepts: (n,) concept rows, each with a name.
        wanted: (n,) terms of each, 1 or more.
        weights: (n_terms,) how much oftener than others of its concept a term comes, above 0.

    Returns:
        (sum of wanted,) int32, concept by concept.
    """
    starts = term_offsets[concepts]
    counts = term_offsets[concepts + 1] - starts
    if weights is not None:
        return _weighted(starts, counts, wanted, weights, rng)
    sizes = -(-wanted // counts) * counts
    before = np.cumsum(sizes) - sizes
    place = np.arange(int(sizes.sum())) - np.repeat(before, sizes)
    walk, name = np.divmod(place, np.repeat(counts, sizes))
    term = np.repeat(starts, sizes) + name
    luck = rng.random(len(term))
    # One number sorts by concept, then walk, then luck.
    walks = int(walk.max(initial=0)) + 1
    order = np.argsort(np.repeat(np.arange(len(concepts)) * walks, sizes) + walk + luck)
    taken = np.repeat(before - (np.cumsum(wanted) - wanted), wanted) + np.arange(int(wanted.sum()))
    return term[order[taken]].astype(np.int32)


def _weighted(
    starts: Int64,
    counts: Int64,
    wanted: NDArray[np.integer[Any]],
    weights: NDArray[np.float64],
    rng: np.random.Generator,
) -> Int32:
    """Return terms of each concept by systematic sampling (Madow 1949): points at distance 1 on the shares in a row."""
    concept = np.repeat(np.arange(len(counts)), counts)
    last = np.cumsum(counts)
    term = np.repeat(starts - (last - counts), counts) + np.arange(len(concept))
    term = term[np.argsort(concept + rng.random(len(term)))]
    own = weights[term]
    sums = np.cumsum(own / np.maximum.reduceat(own, last - counts)[concept])
    before = np.concatenate([[0.0], sums[last[:-1] - 1]])
    share = (sums - before[concept]) / (sums[last - 1] - before)[concept]
    # Concept after concept takes up as much of the line as it has terms wanted; its last share ends there exactly.
    line = np.cumsum(wanted) - wanted
    of = np.repeat(np.arange(len(counts)), wanted)
    place = np.arange(len(of), dtype=np.float64)
    points = np.minimum(place + rng.random(len(counts))[of], np.nextafter(place + 1, 0))
    drawn = term[np.searchsorted(line[concept] + wanted[concept] * share, points, side="right")]
    return drawn[np.argsort(of + rng.random(len(of)))].astype(np.int32)


# Concepts with many pairs come again and again: which of them are in the data is kept for so many concepts.
CHOICES_KEPT = 10_000


class PairSampler:
    """Draws batches of pairs in shuffled epochs without replacement."""

    def __init__(self, term_offsets: Int64, *, pairs: int, most: int, seed: int) -> None:
        """Take `term_offsets`: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1]."""
        counts = np.diff(term_offsets)
        self._all = counts * (counts - 1) // 2
        self._starts = np.concatenate([[0], np.cumsum(np.minimum(self._all, most))])
        self.pairs = int(self._starts[-1])
        if self.pairs == 0:
            raise InputError(
                "no concept has two names to train on, so there are no pairs of synonyms",
                remedy="import the terminology with its synonyms, or hold fewer of them out",
            )
        self._offsets, self._most, self._seed = term_offsets, most, seed
        self._choices: dict[int, Int64] = {}
        self._walk = EpochWalk(self.pairs, pairs, [seed, 4])

    def batch(self, number: int) -> tuple[Int64, Int64, Int64]:
        """Return batch `number` (from 0): concepts, first terms and second terms, (pairs,) each."""
        drawn = self._walk.places(number)
        concepts = np.searchsorted(self._starts, drawn, side="right") - 1
        place = drawn - self._starts[concepts]
        for row in np.flatnonzero(self._all[concepts] > self._most):
            place[row] = self._chosen(int(concepts[row]))[place[row]]
        # The names a < b of pair number `place`, counted (0, 1), (0, 2), (1, 2), (0, 3), ...
        second = ((1 + np.sqrt(1 + 8 * place.astype(np.float64))) / 2).astype(np.int64)
        first = place - second * (second - 1) // 2
        start = self._offsets[concepts]
        return concepts, start + first, start + second

    def _chosen(self, concept: int) -> Int64:
        """Return which of a concept's many pairs are in the data, always the same ones."""
        if concept not in self._choices:
            if len(self._choices) == CHOICES_KEPT:
                self._choices.clear()
            rng = np.random.default_rng([self._seed, 5, concept])
            self._choices[concept] = rng.choice(int(self._all[concept]), self._most, replace=False)
        return self._choices[concept]


@dataclass(frozen=True)
class NameGroupBatch:
    """k triples with names, row by row; a triple drawn once stands in as many rows as it shows names."""

    head: Int32  # (k,) concept rows
    relation: Int32  # (k,) relation labels
    tail: Int32  # (k,) concept rows
    corrupted: Int32  # (k,) concept rows
    head_term: Int32  # (k,) the term that names each
    tail_term: Int32  # (k,) the term that names each
    corrupted_term: Int32  # (k,) the term that names each


class NameGroupSampler:
    """Draws batches of triples, each under min(names of head, names of tail, most) names of both ends.

    Row i of heads and tails is one such pair of names, and has a corrupted tail of its own: another concept, drawn
    uniformly of those with names, under one of its names. The last triple of a batch shows fewer names where more would
    make it too large. Triples are drawn at random with replacement: how many fit into a batch depends on their names,
    so that a walk through epochs could not be told from the batch's number alone.
    """

    def __init__(
        self,
        triples: Int32,
        term_offsets: Int64,
        *,
        rows: int,
        most: int,
        seed: int,
        weights: NDArray[np.float64] | None = None,
    ) -> None:
        """Prepare to sample.

        Args:
            triples: (n, 3) as `triples.usable_triples` gives them.
            term_offsets: (n_concepts + 1,) CSR offsets: concept c has the terms offsets[c] to offsets[c + 1].
            weights: (n_terms,) how much likelier than others of its concept a term is to come early.
        """
        if len(triples) == 0:
            raise InputError(
                "the terminology has no relation between two named, live concepts, so TransE has nothing to learn",
                remedy="import one with relations, or take the recipe sapbert, which needs synonyms only",
            )
        counts = np.diff(term_offsets)
        self._shown = np.minimum(np.minimum(counts[triples[:, 0]], counts[triples[:, 2]]), most).astype(np.int32)
        if int(self._shown.max()) < 2:
            raise InputError(
                "no triple has several names at both ends, so the MS loss has no positive pair",
                remedy="import the terminology with its synonyms, or hold fewer of them out",
            )
        self._triples, self._offsets = triples, term_offsets
        self._named = np.flatnonzero(counts > 0).astype(np.int32)
        self._rows, self._seed, self._weights = rows // 3, seed, weights

    def batch(self, number: int) -> NameGroupBatch:
        """Return batch `number` (from 0); the same number always gives the same batch."""
        rng = np.random.default_rng([self._seed, 3, number])
        # At most so many triples fit, one row each.
        drawn = rng.integers(0, len(self._triples), self._rows)
        before = np.cumsum(self._shown[drawn]) - self._shown[drawn]
        kept = drawn[before < self._rows]
        shown = np.minimum(self._shown[kept], self._rows - before[: len(kept)])
        head, relation, tail = (np.repeat(self._triples[kept, column], shown) for column in range(3))
        # Another concept for each tail, drawn uniformly.
        own = np.searchsorted(self._named, tail)
        other = rng.integers(0, len(self._named) - 1, len(tail))
        corrupted = self._named[other + (other >= own)]
        return NameGroupBatch(
            head,
            relation,
            tail,
            corrupted,
            head_term=draw_names(self._offsets, self._triples[kept, 0], shown, self._weights, rng),
            tail_term=draw_names(self._offsets, self._triples[kept, 2], shown, self._weights, rng),
            corrupted_term=draw_names(self._offsets, corrupted, np.ones_like(corrupted), self._weights, rng),
        )


class SemanticTypes:
    """Which concept has which types."""

    def __init__(self, terminology: Terminology) -> None:
        table = terminology.side_table("semantic_types")
        if len(table) == 0:
            raise InputError(
                "no concept has a semantic type, which semantic_type_weight needs",
                file=terminology.path,
                remedy="leave semantic_type_weight at 0, or import an ontology with --set semantic_type=ROOT, by which "
                "the branches below ROOT become types",
            )
        column = table.column("semantic_type").cast(pa.large_string()).combine_chunks().dictionary_encode()
        types: list[str] = column.dictionary.to_pylist()
        self.names = sorted(types)  # the types, sorted; their places are their labels
        number = {name: place for place, name in enumerate(self.names)}
        labels = np.array([number[name] for name in types], np.int32)[column.indices.to_numpy()]
        # Sorted by concept, as all side tables are.
        concepts = table.column("concept").to_numpy()
        self._labels = labels
        self._offsets = np.searchsorted(concepts, np.arange(terminology.n_concepts + 1))

    def matrix(self, concepts: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return (n, T): whether each of n concepts has each type."""
        types = np.zeros((len(concepts), len(self.names)), bool)
        for row, concept in enumerate(concepts.tolist()):
            types[row, self._labels[self._offsets[concept] : self._offsets[concept + 1]]] = True
        return types
