"""Batches of aligned pairs and of names without translation: all follows from the seed and the batch's number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.training.terms.aligned_pairs import AlignedPairs
from alphita.training.terms.triples import EpochWalk, Int64


@dataclass(frozen=True)
class Numbered:
    """The strings of pairs and names, each once, as a `TokenTable` wants them.

    Attributes:
        strings: the u distinct strings.
        sources: (n,) int32, the number of each pair's source.
        translations: (n,) int32, of its translation.
        names: (m,) int32, of each name without translation.
    """

    strings: list[str]
    sources: NDArray[np.int32]
    translations: NDArray[np.int32]
    names: NDArray[np.int32]


def numbered(pairs: AlignedPairs, names: Sequence[str] = ()) -> Numbered:
    """Number the distinct strings: sources first, then names, then translations, each in its order."""
    place = {
        string: number for number, string in enumerate(dict.fromkeys([*pairs.sources, *names, *pairs.translations]))
    }
    columns = ([place[string] for string in column] for column in (pairs.sources, pairs.translations, names))
    return Numbered(list(place), *(np.array(column, np.int32) for column in columns))


@dataclass(frozen=True)
class PairBatch:
    """One batch.

    Attributes:
        pairs: (p,) int64, rows of the pairs.
        names: (q,) int64, places among the names without translation; p + q is the batch's size.
    """

    pairs: Int64
    names: Int64


class PairBatches:
    """Draws batches in shuffled epochs, in each of which every pair and every name stands once.

    With a temperature T above 1, or weights, the languages share an epoch's places for pairs otherwise: language l with
    n_l pairs and weight w_l gets them in proportion to w_l n_l^(1/T), one at least, as is usual for multilingual
    training (Conneau et al., ACL 2020, §3.1: there the exponent 1/T is 0.3). A large language then shows some of its
    pairs in an epoch and others in the next, a small one shows each several times: within a language the pairs take
    turns. The epoch stays as long as it was, and names stay as they are.

    Attributes:
        rows: places in an epoch.
        shown: language -> pairs of it in an epoch.
    """

    def __init__(
        self,
        pairs: AlignedPairs,
        names: int = 0,
        *,
        batch: int,
        seed: int,
        temperature: float = 1.0,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Prepare to draw.

        Args:
            pairs: n of them.
            names: how many names without translation there are.
            batch: pairs and names a batch, together.
            seed: of the order.
            temperature: 1 or more; 1: as many pairs as there are, larger: the languages more and more alike.
            weights: BCP-47 tag -> weight above 0, of the languages that are to have another than 1.

        Raises:
            InputError: there is nothing to draw, or a weight is of a language that no pair has.
            UsageError: the batch is empty, or temperature or a weight is out of range.
        """
        if batch < 1 or not 1 <= temperature < np.inf:
            raise UsageError(f"batch must be 1 or more and temperature 1 or more, not {batch} and {temperature:g}")
        weights = dict(weights or {})
        for tag, weight in weights.items():
            if tag not in pairs.languages:
                raise InputError("no pair is of this language", value=tag, remedy=f"choose from {pairs.languages}")
            if not 0 < weight < np.inf:
                raise UsageError(f"the weight of {tag} must be above 0, not {weight:g}")
        self.rows = len(pairs) + names
        if self.rows == 0:
            raise InputError(
                "there is neither a pair nor a name to train on", remedy="look at what was left out and why"
            )
        self._n_pairs, self._batch, self._seed = len(pairs), batch, seed
        counts = np.bincount(pairs.language, minlength=len(pairs.languages))
        wanted = np.array([weights.get(tag, 1.0) for tag in pairs.languages]) * counts ** (1 / temperature)
        quotas = counts if temperature == 1 and not weights else _shared_out(len(pairs), wanted)
        self.shown = dict(zip(pairs.languages, quotas.tolist(), strict=True))
        members = np.split(np.argsort(pairs.language, kind="stable"), np.cumsum(counts)[:-1]) if len(pairs) else []
        groups = [*zip(members, quotas.tolist(), strict=True), (len(pairs) + np.arange(names), names)]
        self._groups = [
            (group, EpochWalk(len(group), quota, [seed, 20, number]))
            for number, (group, quota) in enumerate(groups)
            if quota
        ]
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def batch(self, number: int) -> PairBatch:
        """Return batch `number` (from 0); the same number always gives the same batch."""
        start, wanted = number * self._batch, self._batch
        parts = []
        while wanted > 0:
            epoch, offset = divmod(start, self.rows)
            part = self._of_epoch(epoch)[offset : offset + wanted]
            parts.append(part)
            start, wanted = start + len(part), wanted - len(part)
        drawn = np.concatenate(parts)
        is_pair = drawn < self._n_pairs
        return PairBatch(drawn[is_pair], drawn[~is_pair] - self._n_pairs)

    def _of_epoch(self, epoch: int) -> Int64:
        """Return what stands in an epoch, in its order: pairs, and from the number of pairs on names, (rows,)."""
        if epoch != self._epoch:
            drawn = np.concatenate([group[walk.places(epoch)] for group, walk in self._groups])
            self._order = np.random.default_rng([self._seed, 21, epoch]).permutation(drawn)
            self._epoch = epoch
        return self._order


def _shared_out(places: int, shares: NDArray[np.float64]) -> Int64:
    """Return whole numbers in proportion to `shares` that add up to `places`, one at least each; places >= len(shares).

    By largest remainders, of equal ones the first.
    """
    exact = (places - len(shares)) * shares / shares.sum()
    whole = np.floor(exact).astype(np.int64)
    order = np.argsort(whole - exact, kind="stable")
    whole[order[: places - len(shares) - int(whole.sum())]] += 1
    return whole + 1
