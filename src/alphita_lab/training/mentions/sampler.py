"""Virtual batches of mentions: prototypes, each with mentions of the same concept.

As the Italian system has it: of each concept a few contexts are its prototypes, of different synonyms where it has them
in the corpus; a step takes some prototypes, and for each k positives, those first that use other synonyms than it does.
How many prototypes a concept has is not stated; 50k steps of 4 prototypes in 4 epochs over 20,447 concepts are 2.4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.index.backends import faiss as exact
from alphita.index.neighbours import Backend, nearest, unit
from alphita_lab.training.terms.mining import InvertedFile, kept

if TYPE_CHECKING:
    from alphita_lab.training.mentions.store import Mentions

Int64 = NDArray[np.int64]
_PROTOTYPES, _EPOCH, _STEP = 31, 32, 33


@dataclass(frozen=True)
class VirtualBatch:
    """The prototypes of one step and their positives.

    Attributes:
        prototypes: (b,) numbers of windows.
        concepts: (b,) the concept that each stands for.
        positives: b arrays of at most k windows of that concept each; none is the prototype itself.
    """

    prototypes: Int64
    concepts: Int64
    positives: list[Int64]


@dataclass(frozen=True)
class OfForms:
    """The concepts that each form names.

    Attributes:
        offsets: (forms + 1,) where those of each begin.
        concepts: the concepts, form by form.
        n: how many concepts there are.
    """

    offsets: NDArray[np.integer[Any]]
    concepts: NDArray[np.integer[Any]]
    n: int


class MentionSampler:
    """Draws virtual batches; each follows from the seed and its number alone.

    Attributes:
        prototypes: (p,) windows, by concept.
        prototype_concepts: (p,) the concept of each.
        without_positives: concepts that have a single window, and so no prototype.
    """

    def __init__(
        self,
        forms: NDArray[np.integer[Any]],
        concepts: OfForms,
        *,
        seed: int,
        batch: int = 4,
        positives: int = 20,
        prototypes_a_concept: int = 3,
    ) -> None:
        """Choose the prototypes.

        Args:
            forms: (n,) the form, or name, of each window.
        """
        for name, value in (("batch", batch), ("positives", positives), ("prototypes_a_concept", prototypes_a_concept)):
            if value < 1:
                raise UsageError(f"{name} must be 1 or more, not {value}")
        self.seed, self.batch, self.positives = seed, batch, positives
        self._forms = forms.astype(np.int64)
        self._windows, self._offsets = _by_concept(self._forms, concepts)
        chance = np.random.default_rng([seed, _PROTOTYPES])
        sizes = np.diff(self._offsets)
        chosen, owners = [], []
        for concept in np.flatnonzero(sizes > 1).tolist():
            first = spread(self.windows_of(concept), self._forms, chance)[:prototypes_a_concept]
            chosen.append(np.sort(first))
            owners.append(np.full(len(first), concept))
        self.without_positives = int((sizes == 1).sum())
        if not chosen:
            raise UsageError("no concept of the mentions has two windows, so that there are no positives")
        self.prototypes: Int64 = np.concatenate(chosen)
        self.prototype_concepts: Int64 = np.concatenate(owners)
        # Of one epoch, for it takes as long to shuffle as there are prototypes.
        self._order: tuple[int, Int64] = (-1, np.empty(0, np.int64))

    @classmethod
    def of(cls, mentions: Mentions, *, seed: int, batch: int = 4, positives: int = 20) -> MentionSampler:
        """Draw windows of `mentions`; concepts are then places in its `concept_ids`."""
        concepts = OfForms(
            np.asarray(mentions.form_offsets), np.asarray(mentions.form_concepts), len(mentions.concept_ids)
        )
        return cls(mentions.windows.forms, concepts, seed=seed, batch=batch, positives=positives)

    @property
    def steps_an_epoch(self) -> int:
        """Steps in which every prototype is drawn once, but for the few that fill no step."""
        return max(1, len(self.prototypes) // self.batch)

    def windows_of(self, concept: int) -> Int64:
        """Return the windows of a concept, ascending."""
        return self._windows[self._offsets[concept] : self._offsets[concept + 1]]

    def drawn(self, first: int, end: int) -> Int64:
        """Return the prototypes of the steps from `first` to before `end`, each once, ascending."""
        return np.unique(self.prototypes[np.concatenate([self._rows_of(number) for number in range(first, end)])])

    def __getitem__(self, number: int) -> VirtualBatch:
        """Return the virtual batch of step `number`, from 0 without end."""
        rows = self._rows_of(number)
        chance = np.random.default_rng([self.seed, _STEP, number])
        prototypes, concepts = self.prototypes[rows], self.prototype_concepts[rows]
        found = [
            self._positives(prototype, concept, chance)
            for prototype, concept in zip(prototypes.tolist(), concepts.tolist(), strict=True)
        ]
        return VirtualBatch(prototypes, concepts, found)

    def _rows_of(self, number: int) -> Int64:
        """Return the places of a step's prototypes in `prototypes`."""
        epoch, step = divmod(number, self.steps_an_epoch)
        return self._order_of(epoch)[step * self.batch : (step + 1) * self.batch]

    def _order_of(self, epoch: int) -> Int64:
        known, order = self._order
        if known != epoch:
            order = np.random.default_rng([self.seed, _EPOCH, epoch]).permutation(len(self.prototypes))
            self._order = (epoch, order)
        return order

    def _positives(self, prototype: int, concept: int, chance: np.random.Generator) -> Int64:
        others = self.windows_of(concept)
        others = chance.permutation(others[others != prototype])
        same = self._forms[others] == self._forms[prototype]
        return np.concatenate([others[~same], others[same]])[: self.positives]


def spread(windows: Int64, forms: Int64, chance: np.random.Generator) -> Int64:
    """Return some windows in random order, but one of each form before the second of any.

    Args:
        windows: (n,) numbers of windows.
    """
    mixed = chance.permutation(windows)
    seen: dict[int, int] = {}
    turns = []
    for form in forms[mixed].tolist():
        turns.append(seen.get(form, 0))
        seen[form] = turns[-1] + 1
    return mixed[np.argsort(turns, kind="stable")]


def _by_concept(forms: Int64, of_forms: OfForms) -> tuple[Int64, Int64]:
    """Return the windows of each concept, concept by concept, and (c + 1,) offsets into them."""
    starts, ends = of_forms.offsets[forms], of_forms.offsets[forms + 1]
    windows = np.repeat(np.arange(len(forms)), ends - starts)
    lengths = ends - starts
    places = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    concepts = of_forms.concepts[places]
    order = np.argsort(concepts, kind="stable")
    counts = np.bincount(concepts, minlength=of_forms.n)
    return windows[order], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


Int32 = NDArray[np.int32]
ROWS_AT_ONCE = 65_536
# Similarities that a search may return at once.
FOUND_AT_ONCE = 2_000_000
NONE = -1

Encode = Callable[[Int64], NDArray[np.float32]]
"""(m,) rows -> (m, d) vectors, of any length but 0."""


class HardNegatives:
    """Possible hard negatives: the rows nearest to each prototype that are of other concepts, found anew each epoch.

    All rows are encoded with the weights as they are, and searched for the prototypes that are drawn until the next
    search: all where that is an epoch away, fewer in a shorter training. What was found is kept in the run's folder, so
    that a resumed run reads what the unbroken one found with weights that are gone by then. The paper takes the m most
    similar mentions of all; those of the prototype's own concept are passed over here, for the batch has its positives.

    Attributes:
        step: the optimiser step of the weights they were found with; -1 before the first search.
    """

    def __init__(self, concepts: Int64, wanted: int, folder: Path, *, exact_up_to: int) -> None:
        """Prepare to search.

        Args:
            concepts: (n,) the concept of each row.
        """
        self._concepts, self._wanted = concepts, wanted
        self._folder, self._exact = folder, len(concepts) <= exact_up_to
        self._prototypes: Int64 = np.empty(0, np.int64)
        self._found: Int32 = np.empty((0, wanted), np.int32)
        self.step = -1

    def refresh(self, step: int, prototypes: Int64, encode: Encode | None, *, needed_from: int = 0) -> None:
        """Read what was found at `step`, or search."""
        path, prototypes = self._folder / f"negatives-{step:08d}.npy", np.unique(prototypes)
        search = None if encode is None else partial(self._search, prototypes, encode)
        negatives = kept(path, search, f"the hard negatives found at step {step} are gone", needed_from=needed_from)
        if negatives.shape != (len(prototypes), self._wanted):
            raise InputError(
                f"there are negatives of {len(negatives):,} prototypes, and not of the {len(prototypes):,} "
                "that are drawn",
                file=path,
                remedy="it is of another version of alphita: start again with --force",
            )
        self.step, self._prototypes, self._found = step, prototypes, negatives

    def guess(self, prototypes: Int64) -> None:
        """Give the prototypes any rows: for a trial of the batches' size."""
        self._prototypes = np.unique(prototypes)
        shape = (len(self._prototypes), self._wanted)
        self._found = np.random.default_rng(0).integers(0, len(self._concepts), shape).astype(np.int32)

    def of(self, prototypes: Int64) -> Int32:
        """Return the negatives of each prototype, nearest first, (p, m); NONE where there are no more."""
        return self._found[np.searchsorted(self._prototypes, prototypes)]

    def _search(self, prototypes: Int64, encode: Encode) -> Int32:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "vectors.draft"
        n = len(self._concepts)
        try:
            vectors: NDArray[np.float32] | None = None
            for start in range(0, n, ROWS_AT_ONCE):
                block = unit(encode(np.arange(start, min(start + ROWS_AT_ONCE, n))))
                if vectors is None:
                    vectors = np.memmap(path, np.float32, "w+", shape=(n, block.shape[1]))
                vectors[start : start + len(block)] = block
            assert vectors is not None, "there are rows"
            backend: Backend = exact.attach(vectors) if self._exact else InvertedFile(vectors)
            return self._others(prototypes, backend, vectors)
        finally:
            path.unlink(missing_ok=True)

    def _others(self, prototypes: Int64, backend: Backend, vectors: NDArray[np.float32]) -> Int32:
        """Return the nearest rows of other concepts: so many more are asked for as the concept has rows itself."""
        own = np.bincount(self._concepts)[self._concepts[prototypes]]
        negatives = np.full((len(prototypes), self._wanted), NONE, np.int32)
        order = np.argsort(own, kind="stable")
        start = 0
        while start < len(order):
            # Those that ask for few come first, so that a block asks for about as many.
            size = max(1, FOUND_AT_ONCE // (self._wanted + int(own[order[start]])))
            block = order[start : start + size]
            start += size
            rows = prototypes[block]
            asked = self._wanted + int(own[block[-1]])
            _, near = nearest(backend, (len(vectors), vectors.shape[1]), vectors[rows], asked)
            other = self._concepts[near] != self._concepts[rows][:, None]
            place = np.cumsum(other, axis=1) - 1
            kept = other & (place < self._wanted)
            which, where = np.nonzero(kept)
            negatives[block[which], place[which, where]] = near[which, where]
        return negatives
