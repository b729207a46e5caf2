"""The names of an index by their sorted roots, and the words that names put for each other."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
import pyarrow.compute as pc

from alphita.annotation.tokens import ABNORMAL, ABNORMALITIES, COMMON, QUALIFIERS, forms, root, singular
from alphita.index.store import Index

# Concepts whose names must say so, at least.
MIN_CONCEPTS = 3
# Share of the concepts that name the rarer root in which the other takes its place, at least.
MIN_SHARE = 0.04
# Equivalents of one root, the likeliest first, and names of one concept that are compared, at most.
MAX_EQUIVALENTS, MAX_NAMES = 12, 40


def learn(concepts: Iterable[Sequence[tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return for each root those that may take its place, the likeliest first."""
    swapped: Counter[tuple[str, str]] = Counter()
    holding: Counter[str] = Counter()
    for names in concepts:
        distinct = list(dict.fromkeys(names))[:MAX_NAMES]
        holding.update({root for name in distinct for root in name})
        swapped.update(_swapped(distinct))
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (left, right), number in swapped.items():
        share = number / min(holding[left], holding[right])
        if number >= MIN_CONCEPTS and share >= MIN_SHARE:
            found[left].append((-share, right))
            found[right].append((-share, left))
    return {root: tuple(other for _, other in sorted(some)[:MAX_EQUIVALENTS]) for root, some in found.items()}


def _swapped(names: Sequence[tuple[str, ...]]) -> set[tuple[str, str]]:
    """Return the pairs of roots in which two names of one concept differ, both of several roots."""
    by_rest: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for name in names:
        if len(name) > 1:
            for place, root in enumerate(name):
                by_rest[name[:place] + name[place + 1 :]].add(root)
    found: set[tuple[str, str]] = set()
    for roots in by_rest.values():
        if len(roots) > 1:
            ordered = sorted(roots)
            found.update((left, right) for place, left in enumerate(ordered) for right in ordered[place + 1 :])
    return found


MAX_WORDS = 8
STRINGS_AT_ONCE = 65_536
LONGEST_ACRONYM = 5
SHORTEST_NAME = 3
# Roots of a window in which one may be put for another, at most.
MAX_SWAPPED = 5
# Letters of a word that is left of a name without its qualifier, at least.
SHORTEST_LEFT = 8
# Share of the concepts whose own names hold a word that must be the concept's which borrows it as a name.
MIN_OWN = 0.5
CAPITALS = re.compile(r"[A-Z0-9][A-Z0-9/&-]*")


class Level(IntEnum):
    """How a window equals a name: the closest first."""

    SAME = 0
    INFLECTED = 1
    ROOTS = 2
    ALIKE = 3
    MISSPELT = 4


class Names:
    """The names of an index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.roots = set(ABNORMALITIES)
        self._rows: dict[str, int | tuple[int, ...]] = {}
        self._shouted = _acronyms(index)
        strings = index.strings.array
        keys = [
            self._key(row, string)
            for start in range(0, len(strings), STRINGS_AT_ONCE)
            for row, string in enumerate(strings.slice(start, STRINGS_AT_ONCE).to_pylist(), start)
        ]
        own = self._own_names(keys)
        self._equivalents = learn(own.values())
        # Strings of the index that are no names here.
        self.strange = self._strange(keys, own)
        for row, key in enumerate(keys):
            if key is not None and row not in self.strange:
                self.roots.update(key.split(" "))
                before = self._rows.get(key)
                self._rows[key] = row if before is None else (*_several(before), row)
        self._shortened = self._without_qualifiers(keys)

    def _key(self, row: int, string: str) -> str | None:
        """Return the sorted roots of a name; None: it is not looked for."""
        roots = [found for form in forms(string) if (found := root(form))]
        if not roots or len(roots) > MAX_WORDS or len(string) < SHORTEST_NAME - (row in self._shouted):
            return None
        if len(roots) == 1 and (string in COMMON or not any(map(str.isalpha, string))):
            return None
        return " ".join(sorted(roots))

    def _own_names(self, keys: Sequence[str | None]) -> dict[int, list[tuple[str, ...]]]:
        """Return the exact names of each concept that are the terminology's own, as sorted roots."""
        segment = self.index.segment
        found: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        string_of = np.repeat(np.arange(len(keys)), np.diff(segment.offsets))
        own = np.flatnonzero(segment.standing <= 1)
        concepts = segment.term_concept[own].tolist()
        for string, concept in zip(string_of[own].tolist(), concepts, strict=True):
            key = keys[string]
            if key is not None:
                found[concept].append(tuple(map(sys.intern, key.split(" "))))
        return found

    def _strange(self, keys: Sequence[str | None], own: dict[int, list[tuple[str, ...]]]) -> set[int]:
        """Return the borrowed names of one word that are not looked for."""
        segment = self.index.segment
        holding: dict[str, set[int]] = defaultdict(set)
        for concept, names in own.items():
            for name in names:
                for part in name:
                    holding[part].add(concept)
        found = set()
        for row, key in enumerate(keys):
            terms = slice(int(segment.offsets[row]), int(segment.offsets[row + 1]))
            if key is None or " " in key or not segment.borrowed[terms].all():
                continue
            shared = holding[key] & set(segment.term_concept[terms].tolist()) if key in holding else None
            if row in self._shouted or (shared is not None and len(shared) < MIN_OWN * len(holding[key])):
                found.add(row)
        return found

    def _without_qualifiers(self, keys: Sequence[str | None]) -> dict[str, int]:
        """Return the rows of own names by what is left of them without a qualifier, where that is no other name."""
        segment = self.index.segment
        found: dict[str, set[int]] = defaultdict(set)
        rows: dict[str, int] = {}
        for row, key in enumerate(keys):
            if key is None or " " not in key or segment.standing[segment.offsets[row]] > 1:
                continue
            roots = key.split(" ")
            for place, part in enumerate(roots):
                left = " ".join(roots[:place] + roots[place + 1 :])
                if part in _QUALIFIERS and len(left) >= SHORTEST_LEFT and left not in self._rows:
                    found[left].add(int(segment.term_concept[segment.offsets[row]]))
                    rows.setdefault(left, row)
        return {left: rows[left] for left, concepts in found.items() if len(concepts) == 1}

    def knows(self, form: str) -> bool:
        """Tell whether a word's root stands in some name."""
        return root(form) in self.roots

    def rows(self, roots: Sequence[str]) -> tuple[int, ...]:
        """Return the names that have these roots."""
        found = self._rows.get(roots[0] if len(roots) == 1 else " ".join(sorted(roots)))
        return () if found is None else _several(found)

    def alike(self, roots: Sequence[str]) -> int | None:
        """Return the name that has all roots but one, and for it an equivalent; or these and a qualifier."""
        if len(roots) > MAX_SWAPPED:
            return None
        ordered = sorted(roots)
        left = self._shortened.get(" ".join(ordered))
        if left is not None or len(roots) == 1:
            return left
        for place, one in enumerate(ordered):
            for other in self._equivalents.get(one, ()):
                rows = self._rows.get(" ".join(sorted((*ordered[:place], other, *ordered[place + 1 :]))))
                if rows is not None:
                    return _several(rows)[0]
        return None

    def general(self, roots: Sequence[str]) -> int | None:
        """Return the name that says "abnormal" for the word by which some roots mean any finding of something."""
        # A dysfunction is no malformation.
        found = self.rows([ABNORMAL if one in ABNORMALITIES else one for one in roots])
        rows = [row for row in found if ABNORMAL in self.index.strings[row]]
        return self._any(rows) if rows else None

    def preferred(self, rows: Sequence[int], mention: str) -> int | None:
        """Return the preferred term that "anomalies" of something mean, not a kind's synonym; None: there is none."""
        if "anomal" not in mention:
            return None
        row = self._any(rows)
        return row if self.index.segment.standing[self.index.segment.offsets[row]] == 0 else None

    def _any(self, rows: Sequence[int]) -> int:
        """Return the one of some names that says "abnormal" itself, and of these a preferred term, or the first."""
        segment, strings = self.index.segment, self.index.strings
        return min(rows, key=lambda row: (ABNORMAL not in strings[row], segment.standing[segment.offsets[row]], row))

    def closest(
        self, rows: Sequence[int], spoken: Sequence[str], mention: str, is_joined: bool
    ) -> tuple[int, Level] | None:
        """Return the one of some names that is closest to a window, and how close; None: none of them may be meant."""
        best: tuple[Level, int] | None = None
        bag: list[str] | None = None
        for row in rows:
            if row in self._shouted and not CAPITALS.fullmatch(mention):
                continue
            own = forms(self.index.strings[row])
            if own == list(spoken):
                level = Level.SAME
            elif not is_joined:
                # Across a comma or a bracket only the name as it is written.
                continue
            else:
                bag = sorted(filter(None, map(singular, spoken))) if bag is None else bag
                level = Level.INFLECTED if sorted(filter(None, map(singular, own))) == bag else Level.ROOTS
            if best is None or (level, row) < best:
                best = (level, row)
        return None if best is None else (best[1], best[0])

    def is_in_order(self, row: int, spoken: Sequence[str]) -> bool:
        """Tell whether a name has these words in their order, but for their number."""
        return list(map(singular, forms(self.index.strings[row]))) == list(map(singular, spoken))


_QUALIFIERS = frozenset(map(root, QUALIFIERS))


def _several(rows: int | tuple[int, ...]) -> tuple[int, ...]:
    return rows if isinstance(rows, tuple) else (rows,)


def _acronyms(index: Index) -> frozenset[int]:
    """Return the short strings of an index that its terms write in capitals only; in a text they must be so too."""
    segment = index.segment
    lengths = pc.utf8_length(index.strings.array).to_numpy()
    found = []
    written = segment.terms.column("string")
    for row in np.flatnonzero(lengths <= LONGEST_ACRONYM).tolist():
        terms = written.slice(int(segment.offsets[row]), int(segment.offsets[row + 1] - segment.offsets[row]))
        if all(CAPITALS.fullmatch(term.strip()) and not term.isdecimal() for term in terms.to_pylist()):
            found.append(row)
    return frozenset(found)
