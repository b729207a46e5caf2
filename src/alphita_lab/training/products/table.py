"""Products out of a terminology: titles, attribute names and values, as the strings that an encoder reads.

A triple (head, relation, tail) of any terminology reads as a product: the head's preferred name is its title, the
relation an attribute's name, the tail's preferred name a value of it. An encoder sees strings, so strings are what is
counted: concepts of one name are one title, and what is true of one of them is true of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology.text import clean, clean_many
from alphita_lab.graph.triples import between_pairs

if TYPE_CHECKING:
    from alphita.terminology.splits import Split
    from alphita.terminology.store import Terminology

Int64 = NDArray[np.int64]
NOT_THERE = -1


@dataclass(frozen=True)
class ProductTable:
    """All products of a terminology.

    Attributes:
        names: their names as an encoder reads them: "has phenotype" for has_phenotype.
        triples: (n, 3) title, attribute, value; distinct and sorted.
        held_strings: (strings,) bool, whether the split holds it out.
        held_pairs: (h, 2) strings between which the split holds a triple out, under whatever relation.
        counts: of triples left out: `unnamed`, whose title or value has no name; `value_is_title`; and `repeated`, of
            concepts of one name.
    """

    strings: list[str]
    written: list[str]
    labels: list[str]
    names: list[str]
    triples: Int64
    held_strings: NDArray[np.bool_]
    held_pairs: Int64
    counts: dict[str, int]

    def held_out(self) -> NDArray[np.bool_]:
        """Return which triples are between two strings whose triples the split holds out, (n,)."""
        return between_pairs(self.triples, self.held_pairs.astype(np.int32))


class Related:
    """Tells of pairs of strings whether any triple of the table joins them, in either direction, or a held-out one."""

    def __init__(self, table: ProductTable) -> None:
        pairs = np.concatenate([table.triples[:, [0, 2]], table.held_pairs])
        self._keys = np.unique(_keys(pairs[:, 0], pairs[:, 1]))

    def __call__(self, title: int, others: Int64) -> NDArray[np.bool_]:
        """Return which of `others` (m,) are related to the string `title`, itself included; (m,) bool."""
        keys = _keys(np.full(len(others), title), others)
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
    """Return the strings of some terms."""
    return list(terminology.terms.column("string").take(rows).to_pylist())


def _keys(one: Int64, other: Int64) -> Int64:
    """Return a number for each unordered pair of strings."""
    keys: Int64 = (np.minimum(one, other) << 32) | np.maximum(one, other)
    return keys
