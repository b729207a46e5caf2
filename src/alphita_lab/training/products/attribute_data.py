"""Product attribute prediction's data: what trains, what is held out to score with, and negatives.

Two strings that a triple of the table joins, in either direction, are *related*; a string is related to itself. With a
held-out triple every other triple between its two strings leaves the training, and related strings are never a title
and a negative of it: what is held out is seen neither as true nor as false. The table has the triples of the attributes
asked for (`read_products`), so a value that only another attribute joins to a title can be a negative of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError
from alphita_lab.graph.triples import between_pairs
from alphita_lab.training.products.table import NOT_THERE, Int64, ProductTable, Related, values_of

# A held-out value is sought among so many of its attribute.
CANDIDATES = 100
# Streams of random numbers.
CHOSEN, ASKED = 0, 1
# Draws before the values of an attribute are gone through one by one.
ROUNDS = 4
# Values looked at at once for candidates.
AT_ONCE = 256


@dataclass(frozen=True)
class Questions:
    """Held-out triples, each with values of its attribute among which its own is sought.

    Attributes:
        triples: (q, 3) title, attribute, value.
        candidates: (q, c) strings: the true value first, then others, none of them related to the title; -1 where the
            attribute has no more.
    """

    triples: Int64
    candidates: Int64

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.triples)

    @property
    def short(self) -> int:
        """How many have fewer candidates than there are columns."""
        return int((self.candidates == NOT_THERE).any(axis=1).sum())

    def ranks(self, distances: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the rank of each true value among its candidates, 1 at best.

        Args:
            distances: (q, c), smaller is better.
        """
        known = np.where(np.isnan(distances), np.inf, distances)
        own, others = known[:, :1], known[:, 1:]
        there = self.candidates[:, 1:] != NOT_THERE
        nearer, equal = ((others < own) & there).sum(axis=1), ((others == own) & there).sum(axis=1)
        ranks: NDArray[np.float64] = 1 + nearer + equal / 2
        return ranks


@dataclass(frozen=True)
class Drawn:
    """Values for some pairs of a title and an attribute, pair by pair.

    Attributes:
        pair: (m,) the place of its pair among those asked for.
        value: (m,) a string.
        positive: (m,) bool, whether it is a value of the pair.
    """

    pair: Int64
    value: Int64
    positive: NDArray[np.bool_]
    missing: int


class Products:
    """The products that train, and a few triples held out to score with.

    Attributes:
        pairs: (p, 2) title and attribute, distinct and sorted.
        offsets: (p + 1,) pair i has the values values[offsets[i] : offsets[i + 1]].
        values: (n,) strings.
    """

    def __init__(self, table: ProductTable, *, dev: int = 0, seed: int = 0, by_frequency: bool = False) -> None:
        self.table, self._related = table, Related(table)
        hidden = table.held_strings[table.triples[:, [0, 2]]].any(axis=1)
        held_out = table.held_out() & ~hidden
        kept = table.triples[~hidden & ~held_out]
        held = {"held_out_strings": int(hidden.sum()), "held_out_triples": int(held_out.sum())}
        known = [values for values, _ in values_of(kept, len(table.labels))]
        chosen = _choose(kept, known, self._related, dev, np.random.default_rng([seed, CHOSEN]))
        between = between_pairs(kept, chosen[:, [0, 2]].astype(np.int32))
        kept, related = kept[~between], int(between.sum()) - len(chosen)
        self.counts = table.counts | held | {"dev_related": related, "training": len(kept)}
        if not len(kept):
            raise InputError(
                "no product with an attribute's value is left to train on",
                remedy="look at --split, at the attributes named and at how many are held out to score with",
            )
        self.dev = questions(chosen, known, self._related, seed=seed)
        self.pairs, starts = np.unique(kept[:, :2], axis=0, return_index=True)
        self.offsets = np.append(starts, len(kept)).astype(np.int64)
        self.values = kept[:, 2].copy()
        # The values of each attribute, and how often they or an earlier one is positive.
        self._frequency = [(values, np.cumsum(counts)) for values, counts in values_of(kept, len(table.labels))]
        even = [(values, np.arange(1, len(values) + 1)) for values, _ in self._frequency]
        self._weighted = self._frequency if by_frequency else even

    def frequency(self, attribute: int) -> tuple[Int64, Int64]:
        """Return the values that train of an attribute, sorted, and how many titles have each."""
        values, cumulative = self._frequency[attribute]
        return values, np.diff(cumulative, prepend=0)

    def draw(self, pairs: Int64, *, most: int, negatives: int, random: np.random.Generator) -> Drawn:
        """Draw values and negatives for some pairs.

        Args:
            pairs: (b,) numbers of pairs.
        """
        lists, signs, owners, missing = [], [], [], 0
        for place, number in enumerate(pairs.tolist()):
            own = self.values[self.offsets[number] : self.offsets[number + 1]]
            if len(own) > most:
                own = random.choice(own, most, replace=False, shuffle=False)
            title, attribute = self.pairs[number].tolist()
            others = self._negatives(title, attribute, negatives * len(own), random)
            missing += negatives * len(own) - len(others)
            lists += [own, others]
            signs += [np.ones(len(own), bool), np.zeros(len(others), bool)]
            owners.append(np.full(len(own) + len(others), place))
        return Drawn(np.concatenate(owners), np.concatenate(lists), np.concatenate(signs), missing)

    def lines(self) -> Iterator[str]:
        """Yield what to tell of the data."""
        counts = self.counts
        titles = len(np.unique(self.pairs[:, 0]))
        yield (
            f"products: {titles:,} titles with {len(self.pairs):,} attributes and {len(self.values):,} values, "
            f"{len(np.unique(self.values)):,} of them distinct; {len(self.table.labels):,} names of attributes"
        )
        yield (
            f"left out: {counts['unnamed']:,} triples whose title or value has no name that trains, "
            f"{counts['value_is_title']:,} whose value is the title, {counts['repeated']:,} said twice, "
            f"{counts['held_out_strings']:,} with a string and {counts['held_out_triples']:,} with a triple that the "
            "split holds out"
        )
        if len(self.dev):
            yield (
                f"to score with: {len(self.dev):,} triples, and {counts['dev_related']:,} others between their names "
                f"that do not train; {self.dev.short:,} have fewer than {CANDIDATES} candidates"
            )

    def _negatives(self, title: int, attribute: int, wanted: int, random: np.random.Generator) -> Int64:
        """Return up to `wanted` distinct values of an attribute, not related to a title."""
        values, cumulative = self._weighted[attribute]
        found: dict[int, None] = {}
        for _ in range(ROUNDS):
            places = np.searchsorted(cumulative, random.integers(0, cumulative[-1], 2 * wanted + 8), side="right")
            drawn = values[places]
            found |= dict.fromkeys(drawn[~self._related(title, drawn)].tolist())
            if len(found) >= wanted:
                return np.array(list(found)[:wanted], np.int64)
        counts = np.diff(cumulative, prepend=0)
        left = ~self._related(title, values) & ~np.isin(values, list(found))
        # The smallest exponential time over weight comes first with its chance (Efraimidis, Spirakis 2006).
        order = np.argsort(random.exponential(size=int(left.sum())) / counts[left])
        return np.concatenate([np.array(list(found), np.int64), values[left][order]])[:wanted]


def questions(
    asked: Int64, values: list[Int64], related: Related, *, seed: int, candidates: int = CANDIDATES
) -> Questions:
    """Return held-out triples with the candidates for their values, drawn evenly among those of the attribute.

    Args:
        asked: (q, 3) title, attribute, value.
    """
    random = np.random.default_rng([seed, ASKED])
    candidate_rows = np.full((len(asked), candidates), NOT_THERE, np.int64)
    for row, (title, attribute, value) in enumerate(asked.tolist()):
        order = random.permutation(values[attribute])
        others = np.empty(0, np.int64)
        for start in range(0, len(order), AT_ONCE):
            block = order[start : start + AT_ONCE]
            others = np.concatenate([others, block[~related(title, block)]])[: candidates - 1]
            if len(others) == candidates - 1:
                break
        candidate_rows[row, 0], candidate_rows[row, 1 : 1 + len(others)] = value, others
    return Questions(asked, candidate_rows)


def _choose(triples: Int64, values: list[Int64], related: Related, wanted: int, random: np.random.Generator) -> Int64:
    """Return up to `wanted` triples (q, 3) to hold out; see `Products`. Each has another candidate than its value."""
    if wanted <= 0:
        return np.empty((0, 3), np.int64)
    title_left = np.bincount(triples[:, 0])
    _, of_value, value_left = np.unique(triples[:, 1:], axis=0, return_inverse=True, return_counts=True)
    of_value = of_value.ravel()
    ends = np.sort(triples[:, [0, 2]], axis=1)
    _, of_pair, sizes = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
    of_pair = of_pair.ravel()
    by_pair, stop = np.argsort(of_pair, kind="stable"), np.cumsum(sizes)
    start = stop - sizes
    chosen: list[int] = []
    for row in random.permutation(len(triples)).tolist():
        if len(chosen) == wanted:
            break
        (title, attribute, _), pair = triples[row].tolist(), of_pair[row]
        leaving = by_pair[start[pair] : stop[pair]]
        titles, counts = np.unique(triples[leaving, 0], return_counts=True)
        needed = (title_left[titles] <= counts).any() or (value_left[of_value[leaving]] < 2).any()
        if needed or related(title, values[attribute]).all():
            continue
        title_left[titles] -= counts
        # An attribute's value is once among them.
        value_left[of_value[leaving]] -= 1
        # They do not leave again.
        start[pair] = stop[pair]
        chosen.append(row)
    return triples[np.sort(np.array(chosen, np.int64))]
