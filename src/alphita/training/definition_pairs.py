"""BioLORD's data (Remy et al. 2024, "Contrastive phase"): a text and a name of its concept, many pairs a batch.

Every text comes once an epoch, each time with a name of its concept drawn anew, and a text that is itself one of the
names with another. In a batch, the texts of other pairs are negatives; those that would be false ones are found here:
of the same concept, of a concept that the drawn name or the text names too, or the same text. They are told as groups:
pairs of one group are no negatives of each other.

Hard negatives (appendix A): texts of a concept's siblings, or of its ancestors' siblings, never of its ancestors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita.terminology.text import clean_many
from alphita.terminology.verbalisation.texts import Texts
from alphita.training.triples import EpochWalk, Int64, between_pairs

if TYPE_CHECKING:
    import torch

    from alphita.terminology.store import Terminology
    from alphita.training.names import TrainingNames
    from alphita.training.term_batches import Batch

# Draws in search of one hard negative: a concept may have few siblings with a text, or only such as are ruled out.
TRIES = 10
# Concepts whose ancestors are kept.
KEPT = 100_000


@dataclass(frozen=True)
class DefinitionBatch:
    """One batch of n pairs.

    Attributes:
        names: (n,) numbers of names.
        texts: (n,) numbers of texts.
        group: (n,) equal for pairs that are no negatives of each other.
        hard: (h,) numbers of texts, further negatives.
        hard_of: (h,) the pair that each of them is a negative of.
    """

    names: Int64
    texts: Int64
    group: Int64
    hard: Int64
    hard_of: Int64


class DefinitionPairs:
    """Draws batches in shuffled epochs of the texts; everything follows from the seed and a batch's number.

    Attributes:
        pairs: pairs an epoch: as many as texts.
    """

    def __init__(
        self, names: TrainingNames, texts: Texts, *, batch: int, seed: int, hard: HardNegatives | None = None
    ) -> None:
        """Prepare to draw.

        Args:
            names: the names that train.
            texts: texts of concepts; each of them must have a name.
            batch: pairs a batch.
            seed: of the whole run.
            hard: finds hard negatives; None: there are none.

        Raises:
            InputError: there is no text.
        """
        self.pairs = len(texts)
        if not self.pairs:
            raise InputError("there is no text to train on", remedy="look at the kinds of texts and at --split")
        self._offsets, self._weights = names.offsets, names.weights
        self._concepts = texts.concepts.astype(np.int64)
        strings = pa.array([*names.strings, *clean_many(texts.strings)]).dictionary_encode().indices.to_numpy()
        self._strings, self._texts = np.split(strings, [len(names.strings)])
        self._named = _homonyms(self._strings, names.offsets)
        self._seed, self._hard = seed, hard
        self._walk = EpochWalk(self.pairs, batch, [seed, 10])

    def draw(self, number: int) -> DefinitionBatch:
        """Return what stands in batch `number` (from 0)."""
        texts = self._walk.places(number)
        rng = np.random.default_rng([self._seed, 11, number])
        concepts = self._concepts[texts]
        names = self._draw_names(concepts, rng)
        itself = self._strings[names] == self._texts[texts]
        names = np.where(itself, self._next_name(concepts, names), names)
        called = [
            self._named.get(int(string), [int(c)]) for string, c in zip(self._strings[names], concepts, strict=True)
        ]
        # A text that is a name may be that of further concepts.
        keys = [
            [("text", int(text)), *(("concept", one) for one in {int(c), *others, *self._named.get(int(text), ())})]
            for c, text, others in zip(concepts, self._texts[texts], called, strict=True)
        ]
        hard, hard_of = [], []
        if self._hard is not None:
            for pair, (concept, others, text) in enumerate(zip(concepts.tolist(), called, texts.tolist(), strict=True)):
                for found in self._hard.draw(concept, rng):
                    also = {int(self._concepts[found]), *self._named.get(int(self._texts[found]), ())}
                    if also.isdisjoint(others) and self._texts[found] != self._texts[text]:
                        hard.append(found)
                        hard_of.append(pair)
        return DefinitionBatch(names, texts, groups(keys), np.array(hard, np.int64), np.array(hard_of, np.int64))

    def batch(self, number: int) -> Batch:
        """Return batch `number` as a training step takes it, over the names and, after them, the texts.

        Its arrays: name, text (n,) and extra (h,) are places among its terms; group (n,) and extra_negative (n, h) are
        as `objectives.info_nce` takes them.
        """
        from alphita.training.term_batches import Batch

        drawn = self.draw(number)
        rows = [drawn.names, drawn.texts + len(self._strings), drawn.hard + len(self._strings)]
        terms, place = np.unique(np.concatenate(rows), return_inverse=True)
        name, text, extra = np.split(place, np.cumsum([len(part) for part in rows])[:-1])
        own = drawn.hard_of[None, :] == np.arange(len(name))[:, None]
        arrays = {"name": name, "text": text, "group": drawn.group, "extra": extra, "extra_negative": own}
        return Batch(terms, arrays, rows=len(place))

    def _draw_names(self, concepts: Int64, rng: np.random.Generator) -> Int64:
        """Return the number of a name of each concept."""
        first, last = self._offsets[concepts], self._offsets[concepts + 1]
        share = rng.random(len(concepts))
        if self._weights is None:
            return first + (share * (last - first)).astype(np.int64)
        chosen = []
        for start, stop, place in zip(first.tolist(), last.tolist(), share.tolist(), strict=True):
            sums = np.cumsum(self._weights[start:stop])
            chosen.append(start + int(np.searchsorted(sums, place * sums[-1], side="right")))
        return np.array(chosen, np.int64)

    def _next_name(self, concepts: Int64, names: Int64) -> Int64:
        """Return the name that follows each in its concept, the first after the last."""
        first, last = self._offsets[concepts], self._offsets[concepts + 1]
        return first + (names - first + 1) % (last - first)


def contrast_of(
    vectors: torch.Tensor, given: Mapping[str, torch.Tensor], *, temperature: float, symmetric: bool
) -> dict[str, torch.Tensor]:
    """Return InfoNCE of a batch of `DefinitionPairs.batch`, from the vectors of its terms and its arrays."""
    from alphita.objectives.info_nce import info_nce

    return info_nce(
        vectors[given["name"]], vectors[given["text"]], given["group"], temperature=temperature, symmetric=symmetric,
        extra=vectors[given["extra"]], extra_negative=given["extra_negative"],
    )  # fmt: skip


class HardNegatives:
    """Draws texts of concepts that stand near another in the graph, but are none of those above or below it."""

    def __init__(
        self, terminology: Terminology, concepts: NDArray[np.int32], *, count: int, held_out: NDArray[np.int32]
    ) -> None:
        """Prepare to draw.

        Args:
            terminology: the graph.
            concepts: (n,) ascending, the concept of each text.
            count: negatives a pair at most.
            held_out: (p, 2) pairs of concepts whose triples must not be used to find siblings.

        Raises:
            InputError: the terminology has no parents.
        """
        triples = np.asarray(terminology.triples)
        triples = triples[np.isin(triples[:, 1], terminology.parent_relations)]
        if not len(triples):
            raise InputError(
                "no concept has a parent, so there are no siblings as hard negatives", file=terminology.path,
                remedy="set hard_negatives=0, or import the terminology with its hierarchy",
            )  # fmt: skip
        n = terminology.n_concepts
        self._above = _Lists(triples[:, 0], triples[:, 2], n)
        shown = triples[~between_pairs(triples, held_out)] if len(held_out) else triples
        self._parents, self._children = _Lists(shown[:, 0], shown[:, 2], n), _Lists(shown[:, 2], shown[:, 0], n)
        self._texts = np.searchsorted(concepts, np.arange(n + 1))
        self._count = count
        self._known: dict[int, frozenset[int]] = {}

    def draw(self, concept: int, rng: np.random.Generator) -> list[int]:
        """Return numbers of texts, each of another concept; fewer than `count` where they are hard to find."""
        above = self._ancestors(concept)
        levels = [concept, *sorted(above)]
        found: dict[int, int] = {}
        for _ in range(TRIES * self._count):
            if len(found) == self._count:
                break
            parents = self._parents[levels[int(rng.integers(len(levels)))]]
            if not len(parents):
                continue
            siblings = self._children[int(parents[int(rng.integers(len(parents)))])]
            other = int(siblings[int(rng.integers(len(siblings)))])
            first, last = self._texts[other : other + 2].tolist()
            if first == last or other == concept or other in found or other in above:
                continue
            if concept not in self._ancestors(other):
                found[other] = first + int(rng.integers(last - first))
        return list(found.values())

    def _ancestors(self, concept: int) -> frozenset[int]:
        if concept not in self._known:
            if len(self._known) == KEPT:
                self._known.clear()
            seen, waiting = {concept}, [concept]
            while waiting:
                new = set(self._above[waiting.pop()].tolist()) - seen
                seen |= new
                waiting += new
            self._known[concept] = frozenset(seen - {concept})
        return self._known[concept]


class _Lists:
    """For each of n concepts, those that some pairs join it to."""

    def __init__(self, ones: NDArray[np.int32], others: NDArray[np.int32], n: int) -> None:
        order = np.lexsort([others, ones])
        self._others = others[order]
        self._starts = np.searchsorted(ones[order], np.arange(n + 1))

    def __getitem__(self, concept: int) -> NDArray[np.int32]:
        return self._others[self._starts[concept] : self._starts[concept + 1]]


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


def groups(keys: Sequence[Sequence[object]]) -> Int64:
    """Return a number for each row, (n,): equal where rows share a key, or hang together through others that do."""
    root = list(range(len(keys)))

    def find(row: int) -> int:
        while root[row] != row:
            row = root[row]
        return row

    first: dict[object, int] = {}
    for row, own in enumerate(keys):
        for key in own:
            one, other = find(first.setdefault(key, row)), find(row)
            root[max(one, other)] = min(one, other)
    return np.array([find(row) for row in range(len(keys))], np.int64)


def _homonyms(strings: NDArray[np.int32], offsets: Int64) -> dict[int, list[int]]:
    """Return, for the numbers of strings that name several concepts, those concepts."""
    concepts = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    several = np.flatnonzero(np.bincount(strings)[strings] > 1)
    found: dict[int, list[int]] = {}
    for string, concept in zip(strings[several].tolist(), concepts[several].tolist(), strict=True):
        found.setdefault(string, []).append(concept)
    return found
