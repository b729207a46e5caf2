"""The texts of concepts: written definitions, descriptions from the graph, generated definitions.

A definition that several concepts share would be a false negative of the others, so it is left out and counted.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology.store import Terminology
from alphita.terminology.text import clean
from alphita_lab.verbalisation.definitions import Withheld, definitions, generated_definitions
from alphita_lab.verbalisation.descriptions import descriptions as describe

KINDS = ("definition", "description", "generated")
# A kind, the concepts' rows, their texts.
Kind = tuple[str, NDArray[np.int32], list[str]]


@dataclass(frozen=True)
class Texts:
    """Texts of concepts.

    Attributes:
        concepts: (n,) int32 rows of the terminology, ascending; a concept's texts are in the order of `KINDS`.
        kinds: (n,) uint8, places in `KINDS`.
        counts: what was left out or changed and why, by "KIND: REASON".
    """

    concepts: NDArray[np.int32]
    strings: list[str]
    kinds: NDArray[np.uint8]
    counts: dict[str, int]

    def __len__(self) -> int:
        """Return how many texts there are."""
        return len(self.strings)


def verbalise(
    terminology: Terminology,
    *,
    exclude: Collection[str] = frozenset(),
    held_out: NDArray[np.integer[Any]] | None = None,
    languages: Collection[str] = ("en",),
    kinds: Collection[str] = KINDS,
    descriptions: int = 3,
    generated: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
) -> Texts:
    """Return the texts of the live concepts.

    Args:
        held_out: (p, 2) rows of concepts whose triples must not show, in whatever direction.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(unknown("kind of text", kind, KINDS))
    if not kinds or descriptions < 0:
        raise UsageError(f"give some of the kinds {list(KINDS)}, and no negative number of descriptions")
    withheld = Withheld(exclude, held_out, terminology.n_concepts)
    counts: Counter[str] = Counter()
    texts_of_kinds: list[Kind] = []
    if "definition" in kinds:
        texts_of_kinds.append(("definition", *definitions(terminology, languages, withheld, counts)))
    if "generated" in kinds and generated is not None:
        texts_of_kinds.append(("generated", *generated_definitions(terminology, generated, withheld, counts)))
    texts_of_kinds = _distinct(texts_of_kinds, counts)
    if "definition" in kinds:
        defined = np.unique(texts_of_kinds[0][1])
        if without := int((~terminology.retired).sum()) - len(defined):
            counts["definition: concepts without one"] = without
    if "description" in kinds and "en" in languages:
        described = describe(terminology, descriptions, seed, withheld, counts)
        if shared := int((_owners(*described)[0] > 1).sum()):
            counts["description: kept though another concept has the same"] = shared
        texts_of_kinds.append(("description", *described))
    concepts = np.concatenate([np.empty(0, np.int32), *(rows for _, rows, _ in texts_of_kinds)])
    places = [np.full(len(rows), KINDS.index(kind), np.uint8) for kind, rows, _ in texts_of_kinds]
    numbers = np.concatenate([np.empty(0, np.uint8), *places])
    strings = [string for _, _, texts in texts_of_kinds for string in texts]
    if not strings:
        raise InputError(
            f"no concept has a text of the kinds asked for ({', '.join(kinds)})",
            file=terminology.path,
            remedy="take descriptions too (they need relations or semantic types), or bring generated definitions",
        )
    order = np.lexsort([numbers, concepts])
    strings = [strings[place] for place in order.tolist()]
    return Texts(concepts[order], strings, numbers[order], dict(sorted(counts.items())))


def _distinct(kinds: list[Kind], counts: Counter[str]) -> list[Kind]:
    """Leave out texts that a concept has twice, and those that several concepts have, over all kinds given."""
    concepts = np.concatenate([np.empty(0, np.int32), *(rows for _, rows, _ in kinds)])
    owners, again = _owners(concepts, [string for _, _, texts in kinds for string in texts])
    kept = []
    start = 0
    for kind, rows, texts in kinds:
        part = slice(start, start := start + len(rows))
        shared = owners[part] > 1
        repeated = again[part] & ~shared
        for left_out, why in ((shared, "several concepts have the same"), (repeated, "the concept has it already")):
            if left_out.any():
                counts[f"{kind}: {why}"] += int(left_out.sum())
        keep = ~(shared | repeated)
        kept.append((kind, rows[keep], [text for text, wanted in zip(texts, keep.tolist(), strict=True) if wanted]))
    return kept


def _owners(concepts: NDArray[np.int32], strings: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return for each text how many concepts have it, after cleaning, and whether its concept had it before: (n,)."""
    if not strings:
        return np.empty(0, np.int64), np.empty(0, bool)
    digests = b"".join(hashlib.blake2b(clean(string).encode(), digest_size=8).digest() for string in strings)
    _, which = np.unique(np.frombuffer(digests, np.int64), return_inverse=True)
    pairs, first = np.unique(which.astype(np.int64) << 32 | concepts, return_index=True)
    again = np.ones(len(strings), bool)
    again[first] = False
    return np.bincount(pairs >> 32)[which], again
