"""Batches of triples with names: which triples stand in a batch, and which term names each of their ends.

Sampling is a pure function of the seed and the batch number, so a resumed run draws the very batches that an unbroken
one would have drawn, and no sampler state is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.graph.triples import between_pairs

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class TripleBatch:
    """k triples, row by row.

    Attributes:
        head: (k,) concept row of each head.
        relation: (k,) relation label of each triple.
        tail: (k,) concept row of each tail.
        head_term: (k,) term that names each head.
        tail_term: (k,) term that names each tail.
    """

    head: Int32
    relation: Int32
    tail: Int32
    head_term: Int32
    tail_term: Int32


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
        self._total, self._size, self._seed = total, size, list(seed)
        self._epoch = -1
        self._order = np.empty(0, np.int64)

    def places(self, number: int, batches: int = 1) -> Int64:
        """Return what batch `number` and those after it hold, `batches` in all, (batches * size,)."""
        start, wanted = number * self._size, batches * self._size
        parts = []
        while wanted > 0:
            epoch, offset = divmod(start, self._total)
            if epoch != self._epoch:
                self._order = np.random.default_rng([*self._seed, epoch]).permutation(self._total)
                self._epoch = epoch
            part = self._order[offset : offset + wanted]
            parts.append(part)
            start, wanted = start + len(part), wanted - len(part)
        return np.concatenate(parts)


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
