"""Virtual batches of mentions: prototypes, each with mentions of the same concept, and hard negatives by index.

A step takes some prototypes, and for each k positives, those first that use other synonyms than it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from alphita.errors import UsageError
from alphita.index.backends import Backend
from alphita.index.neighbours import nearest
from alphita_lab.training.terms.mining import MinedRows

Int64 = NDArray[np.int64]
_PROTOTYPES, _EPOCH, _STEP = 31, 32, 33


@dataclass(frozen=True)
class VirtualBatch:
    """The prototypes of one step and their positives."""

    prototypes: Int64  # (b,) numbers of windows
    concepts: Int64  # (b,) the concept that each stands for
    positives: list[Int64]  # b arrays of at most k windows of that concept each; none is the prototype itself


class MentionSampler:
    """Draws virtual batches; each follows from the seed and its number alone."""

    def __init__(
        self,
        forms: Int64,
        concepts: Int64,
        *,
        seed: int,
        batch: int = 4,
        positives: int = 20,
        prototypes_a_concept: int = 3,
    ) -> None:
        """Take `forms`: (n,) the form, or name, of each window; `concepts`: (n,) the concept of each."""
        self.seed, self.batch, self.positives = seed, batch, positives
        self._forms, self._windows = forms, np.argsort(concepts, kind="stable")
        self._offsets = np.concatenate([[0], np.cumsum(np.bincount(concepts))])
        chance = np.random.default_rng([seed, _PROTOTYPES])
        sizes = np.diff(self._offsets)
        chosen, owners = [], []
        for concept in np.flatnonzero(sizes > 1).tolist():
            first = spread(self.windows_of(concept), self._forms, chance)[:prototypes_a_concept]
            chosen.append(np.sort(first))
            owners.append(np.full(len(first), concept))
        if not chosen:
            raise UsageError("no concept of the mentions has two windows, so that there are no positives")
        self.prototypes: Int64 = np.concatenate(chosen)  # (p,) windows, by concept
        self.prototype_concepts: Int64 = np.concatenate(owners)  # (p,) the concept of each
        # Of one epoch, for it takes as long to shuffle as there are prototypes.
        self._order: tuple[int, Int64] = (-1, np.empty(0, np.int64))

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
        positives = [
            self._positives(prototype, concept, chance)
            for prototype, concept in zip(prototypes.tolist(), concepts.tolist(), strict=True)
        ]
        return VirtualBatch(prototypes, concepts, positives)

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


Int32 = NDArray[np.int32]
# Similarities that a search may return at once.
FOUND_AT_ONCE = 2_000_000
NONE = -1


def hard_negatives(concepts: Int64, wanted: int, folder: Path, *, exact_up_to: int) -> MinedRows:
    """Return what finds possible hard negatives: the rows nearest to each prototype that are of other concepts.

    The paper takes the m most similar mentions of all; those of the prototype's own concept are passed over here, for
    the batch has its positives. NONE stands where there are no more.

    Args:
        concepts: (n,) the concept of each row.
    """

    def others(backend: Backend, vectors: NDArray[np.float32], prototypes: Int64) -> Int32:
        own = np.bincount(concepts)[concepts[prototypes]]
        negatives = np.full((len(prototypes), wanted), NONE, np.int32)
        order = np.argsort(own, kind="stable")
        start = 0
        while start < len(order):
            # As many more are asked for as the concept has rows itself; those that ask for few come first.
            size = max(1, FOUND_AT_ONCE // (wanted + int(own[order[start]])))
            block = order[start : start + size]
            start += size
            rows = prototypes[block]
            _, near = nearest(backend, vectors.shape, vectors[rows], wanted + int(own[block[-1]]))
            other = concepts[near] != concepts[rows][:, None]
            place = np.cumsum(other, axis=1) - 1
            which, where = np.nonzero(other & (place < wanted))
            negatives[block[which], place[which, where]] = near[which, where]
        return negatives

    return MinedRows(len(concepts), wanted, folder, others, exact_up_to=exact_up_to, kind="negatives")
