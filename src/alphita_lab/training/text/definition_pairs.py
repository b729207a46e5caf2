"""BioLORD's data (Remy et al. 2024, "Contrastive phase"): a text and a name of its concept, many pairs a batch.

Pairs of one group are no negatives of each other: those of one concept, of a shared name, or of the same text. Hard
negatives (appendix A) are texts of a concept's siblings, or of its ancestors' siblings, never of its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita_lab.training.terms.samplers import EpochWalk, Int64, between_pairs
from alphita_lab.verbalisation.texts import Texts

if TYPE_CHECKING:
    import torch

    from alphita.terminology.store import Terminology
    from alphita_lab.training.terms.batches import Batch
    from alphita_lab.training.terms.mining import NearNames
    from alphita_lab.training.terms.names import TrainingNames

# Where concepts have no more ancestors than this in all, they are found once (8 bytes each).
MAX_ANCESTORS = 50_000_000
# Concepts whose ancestors are found together.
AT_ONCE = 16_384
# Draws in search of one hard negative: a concept may have few siblings with a text, or only such as are ruled out.
TRIES = 10


@dataclass(frozen=True)
class DefinitionBatch:
    """One batch of n pairs."""

    names: Int64  # (n,) numbers of names
    texts: Int64  # (n,) numbers of texts
    group: Int64  # (n,) equal for pairs that are no negatives of each other
    hard: Int64  # (h,) numbers of texts, further negatives
    hard_of: Int64  # (h,) the pair that each of them is a negative of
    near: Int64  # (m,) numbers of names, further negatives too
    near_of: Int64  # (m,) the pair that each of them is a negative of


class DefinitionPairs:
    """Draws batches in shuffled epochs of the texts; everything follows from the seed and a batch's number."""

    def __init__(
        self,
        names: TrainingNames,
        texts: Texts,
        *,
        batch: int,
        seed: int,
        hard: HardNegatives | None = None,
        near: NearNames | None = None,
    ) -> None:
        self.pairs = len(texts)
        if not self.pairs:
            raise InputError("there is no text to train on", remedy="look at the kinds of texts and at --split")
        self._offsets = names.offsets
        # Where the weights are: their sum before each name.
        self._sums = None if names.weights is None else np.concatenate([[0.0], np.cumsum(names.weights)])
        self._concepts = texts.concepts.astype(np.int64)
        strings = pa.array([*names.strings, *clean_many(texts.strings)]).dictionary_encode().indices.to_numpy()
        self._strings, self._texts = np.split(strings.astype(np.int64), [len(names.strings)])
        owners = np.repeat(np.arange(len(names.offsets) - 1), np.diff(names.offsets))
        self._named = Lists(self._strings, owners, int(strings.max()) + 1)
        self._seed, self._hard, self._near = seed, hard, near
        self._walk = EpochWalk(self.pairs, batch, [seed, 10])

    def draw(self, number: int) -> DefinitionBatch:
        """Return what stands in batch `number` (from 0)."""
        texts = self._walk.places(number)
        rng = np.random.default_rng([self._seed, 11, number])
        concepts = self._concepts[texts]
        names = self._draw_names(concepts, rng)
        itself = self._strings[names] == self._texts[texts]
        # The name that follows in its concept, the first after the last.
        first, last = self._offsets[concepts], self._offsets[concepts + 1]
        names = np.where(itself, first + (names - first + 1) % (last - first), names)
        pair, called = self._named.of(self._strings[names])
        # A text that is a name may be that of further concepts.
        also_pair, also = self._named.of(self._texts[texts])
        every, most = np.arange(len(texts)), len(self._offsets) - 1
        group = groups(
            np.concatenate([every, every, pair, also_pair]),
            np.concatenate([concepts, most + self._texts[texts], called, also]),
            len(texts),
        )
        known = np.unique(pair * most + called)
        hard = hard_of = near = near_of = np.empty(0, np.int64)
        if self._hard is not None:
            hard, hard_of = self._hard.draw(concepts, rng)
            kept = ~self._of_called(self._texts[hard], hard_of, known, self._concepts[hard])
            kept &= self._texts[hard] != self._texts[texts][hard_of]
            hard, hard_of = hard[kept], hard_of[kept]
        if self._near is not None:
            near, near_of = self._near.draw(names, rng)
            kept = ~self._of_called(self._strings[near], near_of, known)
            near, near_of = near[kept], near_of[kept]
        return DefinitionBatch(names, texts, group, hard, hard_of, near, near_of)

    def _of_called(self, strings: Int64, of: Int64, known: Int64, concepts: Int64 | None = None) -> NDArray[np.bool_]:
        """Tell of h strings whether they are of a concept that the name of their pair names.

        Args:
            strings: (h,) their numbers.
            of: (h,) the pair of each.
            concepts: (h,) the concept of each, where it is not one that the string names.
        """
        most = len(self._offsets) - 1
        row, also = self._named.of(strings)
        wrong = np.bincount(row, weights=among(of[row] * most + also, known), minlength=len(strings)) > 0
        return wrong if concepts is None else wrong | among(of * most + concepts, known)

    def batch(self, number: int) -> Batch:
        """Return batch `number` as a training step takes it, over the names and, after them, the texts."""
        from alphita_lab.training.terms.batches import Batch

        drawn = self.draw(number)
        extras = np.concatenate([drawn.hard + len(self._strings), drawn.near])
        rows = [drawn.names, drawn.texts + len(self._strings), extras]
        terms, place = np.unique(np.concatenate(rows), return_inverse=True)
        name, text, extra = np.split(place, np.cumsum([len(part) for part in rows])[:-1])
        own = np.concatenate([drawn.hard_of, drawn.near_of])[None, :] == np.arange(len(name))[:, None]
        arrays = {"name": name, "text": text, "group": drawn.group, "extra": extra, "extra_negative": own}
        return Batch(terms, arrays, rows=len(place))

    def _draw_names(self, concepts: Int64, rng: np.random.Generator) -> Int64:
        first, last = self._offsets[concepts], self._offsets[concepts + 1]
        share = rng.random(len(concepts))
        if self._sums is None:
            return first + (share * (last - first)).astype(np.int64)
        place = self._sums[first] + share * (self._sums[last] - self._sums[first])
        return np.clip(np.searchsorted(self._sums, place, side="right") - 1, first, last - 1)


def contrast_of(
    vectors: torch.Tensor, given: Mapping[str, torch.Tensor], *, temperature: float, symmetric: bool
) -> dict[str, torch.Tensor]:
    """Return InfoNCE of a batch of `DefinitionPairs.batch`, from the vectors of its terms and its arrays."""
    from alphita_lab.objectives.info_nce import info_nce

    return info_nce(
        vectors[given["name"]],
        vectors[given["text"]],
        given["group"],
        temperature=temperature,
        symmetric=symmetric,
        extra=vectors[given["extra"]],
        extra_negative=given["extra_negative"],
    )


class HardNegatives:
    """Draws texts of concepts that stand near another in the graph, but are none of those above or below it."""

    def __init__(
        self, terminology: Terminology, concepts: NDArray[np.int32], *, count: int, held_out: NDArray[np.int32]
    ) -> None:
        """Prepare to draw.

        Args:
            concepts: (n,) ascending, the concept of each text.
            held_out: (p, 2) pairs of concepts whose triples must not be used to find siblings.
        """
        triples = np.asarray(terminology.triples)
        triples = triples[np.isin(triples[:, 1], terminology.parent_relations)]
        if not len(triples):
            raise InputError(
                "no concept has a parent, so there are no siblings as hard negatives",
                file=terminology.path,
                remedy="set hard_negatives=0, or import the terminology with its hierarchy",
            )
        n = terminology.n_concepts
        self._above = Lists(triples[:, 0], triples[:, 2], n)
        shown = triples[~between_pairs(triples, held_out)] if len(held_out) else triples
        self._parents, self._children = Lists(shown[:, 0], shown[:, 2], n), Lists(shown[:, 2], shown[:, 0], n)
        self._texts = np.searchsorted(concepts, np.arange(n + 1))
        self._count, self._n = count, n
        self._found = self._find_all()

    def draw(self, concepts: Int64, rng: np.random.Generator) -> tuple[Int64, Int64]:
        """Draw for each of n concepts; fewer than `count` for those where they are hard to find.

        Returns:
            (h,) numbers of texts, each of another concept, and (h,) the place among the n that each is for.
        """
        row, above = self._ancestors(concepts)
        ruled_out = np.sort(row * self._n + above)
        # Levels to look on: the concept itself, then those above it.
        levels = Lists(
            np.concatenate([np.arange(len(concepts)), row]), np.concatenate([concepts, above]), len(concepts)
        )
        lacking = np.full(len(concepts), self._count)
        found, found_of = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        taken = np.empty(0, np.int64)
        for _ in range(TRIES * self._count):
            rows = np.flatnonzero(lacking)
            if not len(rows):
                break
            at = levels.one(rows, rng)
            others = self._children.one(self._parents.one(at, rng), rng)
            fit = (others >= 0) & (others != concepts[rows])
            fit &= self._texts[others] < self._texts[others + 1]
            key = rows * self._n + others
            fit &= ~among(key, ruled_out) & ~among(key, taken)
            rows, others, key = rows[fit], others[fit], key[fit]
            below, its_above = self._ancestors(others)
            under = np.zeros(len(others), bool)
            under[below[its_above == concepts[rows][below]]] = True
            rows, others = rows[~under], others[~under]
            taken = np.union1d(taken, key[~under])
            lacking[rows] -= 1
            start, end = self._texts[others], self._texts[others + 1]
            found.append(start + (rng.random(len(others)) * (end - start)).astype(np.int64))
            found_of.append(rows)
        return np.concatenate(found), np.concatenate(found_of)

    def _find_all(self) -> Lists | None:
        """Return the ancestors of every concept; None if there are too many to keep."""
        ones, others, number = [], [], 0
        for start in range(0, self._n, AT_ONCE):
            row, above = self._find(np.arange(start, min(start + AT_ONCE, self._n)))
            number += len(row)
            if number > MAX_ANCESTORS:
                return None
            ones.append(row + start)
            others.append(above)
        return Lists(np.concatenate(ones), np.concatenate(others), self._n)

    def _ancestors(self, concepts: Int64) -> tuple[Int64, Int64]:
        """Return all concepts above each of n, never itself: (a,) places among the n, ascending, and (a,) concepts."""
        return self._find(concepts) if self._found is None else self._found.of(concepts)

    def _find(self, concepts: Int64) -> tuple[Int64, Int64]:
        """Return the same, level by level."""
        rows, at = np.arange(len(concepts)), concepts
        seen = np.empty(0, np.int64)
        while len(at):
            which, parents = self._above.of(at)
            new = np.unique(rows[which] * self._n + parents)
            new = new[~among(new, seen)]
            seen = np.union1d(seen, new)
            rows, at = np.divmod(new, self._n)
        rows, above = np.divmod(seen, self._n)
        others = above != concepts[rows]
        return rows[others], above[others]


class Lists:
    """For each of n ones, the others that some pairs join it to."""

    def __init__(self, ones: NDArray[np.integer], others: NDArray[np.integer], n: int) -> None:
        order = np.lexsort([others, ones])
        self._others = others[order].astype(np.int64)
        self._starts = np.searchsorted(ones[order], np.arange(n + 1))

    def of(self, ones: Int64) -> tuple[Int64, Int64]:
        """Return the others of each of m ones: (o,) places among the m, ascending, and (o,) others."""
        starts = self._starts[ones]
        counts = self._starts[ones + 1] - starts
        place = np.repeat(np.arange(len(ones)), counts)
        return place, self._others[np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(len(place))]

    def one(self, ones: Int64, rng: np.random.Generator) -> Int64:
        """Return one other of each of m ones, drawn at random; -1 where there is none, or the one is -1 itself."""
        starts = self._starts[ones]
        counts = np.where(ones < 0, 0, self._starts[ones + 1] - starts)
        drawn = starts + (rng.random(len(ones)) * counts).astype(np.int64)
        return np.where(counts == 0, -1, self._others[np.minimum(drawn, len(self._others) - 1)])


def among(keys: Int64, ascending: Int64) -> NDArray[np.bool_]:
    """Tell of each key whether it is among some, which ascend."""
    if not len(ascending):
        return np.zeros(len(keys), bool)
    place = np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)
    return ascending[place] == keys


def subset(texts: Texts, kept: NDArray[np.bool_], counts: Mapping[str, int] | None = None) -> Texts:
    """Return some of the texts, (n,) of them marked, with the same counts or others."""
    places = np.flatnonzero(kept)
    strings = [texts.strings[place] for place in places.tolist()]
    return Texts(texts.concepts[places], strings, texts.kinds[places], dict(texts.counts if counts is None else counts))


def names_as_texts(names: TrainingNames, kind: int) -> Texts:
    """Return the names of concepts that have several, as texts of `kind`."""
    each = np.diff(names.offsets)
    concepts = np.repeat(np.arange(len(each), dtype=np.int32), each)
    several = np.flatnonzero((each > 1)[concepts])
    strings = [names.strings[place] for place in several.tolist()]
    return Texts(concepts[several], strings, np.full(len(several), kind, np.uint8), {})


def joined(one: Texts, other: Texts) -> Texts:
    """Return the texts of both, ordered by concept and kind, with the counts of the first."""
    concepts, kinds = np.concatenate([one.concepts, other.concepts]), np.concatenate([one.kinds, other.kinds])
    strings = [*one.strings, *other.strings]
    order = np.lexsort([kinds, concepts])
    return Texts(concepts[order], [strings[place] for place in order.tolist()], kinds[order], one.counts)


def with_names(texts: Texts, names: TrainingNames) -> Texts:
    """Return the texts of concepts that have a name; how many have none is among the counts."""
    named = (np.diff(names.offsets) > 0)[texts.concepts]
    return subset(texts, named, {**texts.counts, "of concepts without a name to train": int((~named).sum())})


def groups(rows: Int64, keys: Int64, n: int) -> Int64:
    """Return a number for each of n rows, (n,): equal where rows share a key, or hang together through others that do.

    rows: (k,) the row of each key, 0 to n - 1; keys: (k,) keys, any numbers.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    distinct, key = np.unique(keys, return_inverse=True)
    size = n + len(distinct)
    joined = coo_array((np.ones(len(rows), np.int8), (rows, n + key)), shape=(size, size))
    part: Int64 = connected_components(joined, directed=False)[1][:n].astype(np.int64)
    return part
