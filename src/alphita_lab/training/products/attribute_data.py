"""Product attribute prediction's data: products of a terminology's triples, what is held out, and negatives.

Two strings that a triple joins, in either direction, are *related*; related strings are never a title and a negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology.text import clean, clean_many
from alphita_lab.graph.triples import between_pairs, pair_keys

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

Int64 = NDArray[np.int64]
NOT_THERE = -1


@dataclass(frozen=True)
class ProductTable:
    """All products of a terminology."""

    strings: list[str]
    written: list[str]
    labels: list[str]
    names: list[str]  # their names as an encoder reads them: "has phenotype" for has_phenotype
    triples: Int64  # (n, 3) title, attribute, value; distinct and sorted
    held_strings: NDArray[np.bool_]  # (strings,) bool, whether the split holds it out
    held_pairs: Int64  # (h, 2) strings between which the split holds a triple out, under whatever relation
    counts: dict[str, int]  # of triples left out: `unnamed`, whose title or value has no name

    def held_out(self) -> NDArray[np.bool_]:
        """Return which triples are between two strings whose triples the split holds out, (n,)."""
        return between_pairs(self.triples, self.held_pairs.astype(np.int32))


class Related:
    """Tells of pairs of strings whether any triple of the table joins them, in either direction, or a held-out one."""

    def __init__(self, table: ProductTable) -> None:
        pairs = np.concatenate([table.triples[:, [0, 2]], table.held_pairs])
        self._keys = np.unique(pair_keys(pairs[:, 0], pairs[:, 1]))

    def __call__(self, title: int, others: Int64) -> NDArray[np.bool_]:
        """Return which of `others` (m,) are related to the string `title`, itself included; (m,) bool."""
        keys = pair_keys(np.full(len(others), title), others)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return (self._keys[places] == keys) | (others == title)


def read_products(
    terminology: Terminology, *, attributes: str = "", languages: Collection[str] = (), split: Split | None = None
) -> ProductTable:
    """Return the products of a terminology."""
    wanted = _wanted(terminology, attributes)
    rows, offsets = terminology.training_terms(languages=languages or None)
    named = np.flatnonzero(np.diff(offsets) > 0)
    name_row = np.full(terminology.n_concepts, NOT_THERE, np.int64)
    name_row[named] = rows[offsets[named]]
    triples = np.asarray(terminology.triples, np.int64)
    triples = triples[np.isin(triples[:, 1], wanted)]
    both = (name_row[triples[:, 0]] >= 0) & (name_row[triples[:, 2]] >= 0)
    counts = {"unnamed": int((~both).sum())}
    triples = triples[both]
    concepts = np.unique(triples[:, [0, 2]])
    spelt = _names(terminology, name_row[concepts])
    number: dict[str, int] = {}
    written: list[str] = []
    string_of = np.full(terminology.n_concepts, NOT_THERE, np.int64)
    for concept, string, cleaned in zip(concepts.tolist(), spelt, clean_many(spelt), strict=True):
        if cleaned not in number:
            number[cleaned] = len(written)
            written.append(string)
        string_of[concept] = number[cleaned]
    triples = np.stack(
        [string_of[triples[:, 0]], np.searchsorted(wanted, triples[:, 1]), string_of[triples[:, 2]]], axis=1
    )
    same = triples[:, 0] == triples[:, 2]
    counts["value_is_title"] = int(same.sum())
    distinct = np.unique(triples[~same], axis=0)
    counts["repeated"] = int((~same).sum()) - len(distinct)
    if not len(distinct):
        spoken = f" in {', '.join(languages)}" if languages else ""
        raise InputError(
            f"no relation joins two concepts with names{spoken}, so there are no products",
            file=terminology.path,
            remedy="import one with relations (alphita terminology import products ...), or name other attributes"
            + (" or languages" if languages else ""),
        )
    labels = [terminology.relation_labels[label] for label in wanted]
    held_strings, pairs = np.zeros(len(number), bool), np.empty((0, 2), np.int64)
    if split is not None:
        held_strings = np.array([cleaned in split.cleaned for cleaned in number], bool)
        rows_held = name_row[split.triple_pairs(terminology)]
        rows_held = rows_held[(rows_held >= 0).all(axis=1)]
        strings = clean_many(_names(terminology, rows_held.ravel()))
        pairs = np.array([number.get(string, NOT_THERE) for string in strings], np.int64).reshape(-1, 2)
        pairs = pairs[(pairs >= 0).all(axis=1)]
    return ProductTable(list(number), written, labels, clean_many(labels), distinct, held_strings, pairs, counts)


def values_of(triples: Int64, attributes: int) -> list[tuple[Int64, Int64]]:
    """Return the distinct values of each of so many attributes, sorted, and how many of `triples` (n, 3) have each."""
    strings = int(triples[:, 2].max(initial=0)) + 1
    keys, counts = np.unique(triples[:, 1] * strings + triples[:, 2], return_counts=True)
    cuts = np.searchsorted(keys, np.arange(1, attributes) * strings)
    return list(zip(np.split(keys % strings, cuts), np.split(counts.astype(np.int64), cuts), strict=True))


def _wanted(terminology: Terminology, attributes: str) -> Int64:
    """Return the numbers of the relations that are attributes, sorted."""
    labels = terminology.relation_labels
    if not attributes.strip():
        return np.arange(len(labels))
    places = {clean(label): number for number, label in reversed(list(enumerate(labels)))}
    places |= {label: number for number, label in enumerate(labels)}
    pairs = set()
    for name in (part.strip() for part in attributes.split(",")):
        place = places.get(name, places.get(clean(name)))
        if place is None:
            raise UsageError(unknown("attribute", name, labels))
        pairs.add(place)
    return np.array(sorted(pairs), np.int64)


def _names(terminology: Terminology, rows: Int64) -> list[str]:
    return list(terminology.terms.column("string").take(rows).to_pylist())


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
    """Held-out triples, each with values of its attribute among which its own is sought."""

    triples: Int64  # (q, 3) title, attribute, value
    candidates: Int64  # (q, c) strings: the true value first, then others, none of them related to the title

    def __len__(self) -> int:
        return len(self.triples)

    @property
    def short(self) -> int:
        """How many have fewer candidates than there are columns."""
        return int((self.candidates == NOT_THERE).any(axis=1).sum())

    def ranks(self, distances: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the rank of each true value among its candidates, 1 at best; distances: (q, c), smaller is better."""
        known = np.where(np.isnan(distances), np.inf, distances)
        own, others = known[:, :1], known[:, 1:]
        there = self.candidates[:, 1:] != NOT_THERE
        nearer, equal = ((others < own) & there).sum(axis=1), ((others == own) & there).sum(axis=1)
        ranks: NDArray[np.float64] = 1 + nearer + equal / 2
        return ranks


@dataclass(frozen=True)
class Drawn:
    """Values for some pairs of a title and an attribute, pair by pair."""

    pair: Int64  # (m,) the place of its pair among those asked for
    value: Int64  # (m,) a string
    positive: NDArray[np.bool_]  # (m,) bool, whether it is a value of the pair
    missing: int


class Products:
    """The products that train, and a few triples held out to score with.

    `pairs`: (p, 2) title and attribute, distinct and sorted.
    """

    def __init__(self, table: ProductTable, *, dev: int = 0, seed: int = 0, negatives_by: str = "uniform") -> None:
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
        # (p + 1,) pair i has the values values[offsets[i] : offsets[i + 1]].
        self.offsets = np.append(starts, len(kept)).astype(np.int64)
        self.values = kept[:, 2].copy()  # (n,) strings
        # The values of each attribute, and how often they or an earlier one is positive.
        self._frequency = [(values, np.cumsum(counts)) for values, counts in values_of(kept, len(table.labels))]
        even = [(values, np.arange(1, len(values) + 1)) for values, _ in self._frequency]
        self._weighted = self._frequency if negatives_by == "frequency" else even
        # All values that train, where negatives are drawn of any attribute.
        self._any = np.unique(self.values) if negatives_by == "any" else None

    def frequency(self, attribute: int) -> tuple[Int64, Int64]:
        """Return the values that train of an attribute, sorted, and how many titles have each."""
        values, cumulative = self._frequency[attribute]
        return values, np.diff(cumulative, prepend=0)

    def draw(self, pairs: Int64, *, most: int, negatives: int, random: np.random.Generator) -> Drawn:
        """Draw values and negatives for some pairs; pairs: (b,) numbers of pairs."""
        lists, signs, owners, missing = [], [], [], 0
        for place, number in enumerate(pairs.tolist()):
            own = self.values[self.offsets[number] : self.offsets[number + 1]]
            if len(own) > most:
                own = random.choice(own, most, replace=False, shuffle=False)
            title, attribute = self.pairs[number].tolist()
            if self._any is None:
                others = self._negatives(title, attribute, negatives * len(own), random)
            else:
                others = random.choice(np.setdiff1d(self._any, own), negatives * len(own))
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
