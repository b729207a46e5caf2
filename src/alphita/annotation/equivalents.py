"""Words that stand for each other in the names of a terminology, learned from its synonyms.

Two names of one concept that differ in a single root ("renal cyst", "kidney cyst") say that the two roots may stand for
each other. `learn` counts in how many concepts that is so. What few concepts say is chance; what is seldom among the
names that hold the rarer root ("finger" and "hand") is no equivalence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

# Concepts whose names must say so, at least.
LEAST_CONCEPTS = 3
# Share of the concepts that name the rarer root in which the other takes its place, at least.
LEAST_SHARE = 0.04
# Equivalents of one root, the likeliest first, and names of one concept that are compared, at most.
MOST_EQUIVALENTS, MOST_NAMES = 12, 40


def learn(concepts: Iterable[Sequence[tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    """Return for each root those that may take its place, the likeliest first."""
    swapped: Counter[tuple[str, str]] = Counter()
    holding: Counter[str] = Counter()
    for names in concepts:
        distinct = list(dict.fromkeys(names))[:MOST_NAMES]
        holding.update({root for name in distinct for root in name})
        swapped.update(_swapped(distinct))
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (left, right), number in swapped.items():
        share = number / min(holding[left], holding[right])
        if number >= LEAST_CONCEPTS and share >= LEAST_SHARE:
            found[left].append((-share, right))
            found[right].append((-share, left))
    return {root: tuple(other for _, other in sorted(some)[:MOST_EQUIVALENTS]) for root, some in found.items()}


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
