"""Why an answer was given: as fields, and as one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alphita.answer.ranker import Ranker

DEFINITION_CHARACTERS = 160
# What gives less than this is not worth a word.
SMALL = 0.05
# Groups of features named in the line.
MAX_GROUPS = 3


@dataclass(frozen=True, slots=True)
class RunnerUp:
    """A candidate that was not chosen.

    Attributes:
        concept_id: CURIE.
        matched_term: the term that speaks for it.
        behind: what it lacks against the answer, by group of features, greatest first: positive numbers speak for the
            answer.
    """

    concept_id: str
    concept_name: str
    matched_term: str
    behind: Mapping[str, float]
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an answer was given.

    Attributes:
        answer: the answer in words: "equal to", "nearest to", or why it is NIL.
        matched_term: the term that speaks for the concept; None where nothing was found.
        term_kind: what the term is to its concept: "preferred name", "exact synonym", "broad synonym", ...
        similarity: cosine, -1 to 1, and n-gram similarity, 0 to 1, by name; of the routes that were asked.
        definition: the concept's, or None.
        parents: names of the concept's parents.
        semantic_types: the concept's.
        expansion: what the mention was taken to stand for, and whence that is known; None for no abbreviation.
        retired: the retired concept whose term matched; None for a live one.
        non_standard: the non-standard concept (OMOP) whose term matched, where it maps to this one; else None.
        nil: the ranker's probability that no concept fits, 0 to 1; None where nothing was learned.
        gave: what each group of features gave the answer, against a middling candidate, greatest first: positive
            numbers speak for it.
    """

    answer: str
    matched_term: str | None = None
    term_kind: str | None = None
    routes: tuple[str, ...] = ()
    similarity: Mapping[str, float] = field(default_factory=dict)
    definition: str | None = None
    parents: tuple[str, ...] = ()
    semantic_types: tuple[str, ...] = ()
    expansion: str | None = None
    contradictions: tuple[str, ...] = ()
    retired: str | None = None
    runners_up: tuple[RunnerUp, ...] = ()
    nil: float | None = None
    gave: Mapping[str, float] = field(default_factory=dict)
    non_standard: str | None = None

    def __str__(self) -> str:
        """Return one line."""
        parts = [self.answer]
        if self.matched_term is not None:
            parts[0] += f" {self.matched_term!r}" + (f" ({self.term_kind})" if self.term_kind else "")
        if self.routes:
            parts.append("found by " + ", ".join(self.routes))
        parts += [f"{name} {value:.2f}" for name, value in self.similarity.items()]
        if self.gave:
            parts.append("by " + _numbers(dict(list(self.gave.items())[:MAX_GROUPS])))
        if self.nil is not None:
            parts.append(f"p(NIL) {self.nil:.2f}")
        if self.expansion:
            parts.append(self.expansion)
        if self.retired:
            parts.append(f"a name of {self.retired}, retired and replaced by this")
        if self.non_standard:
            parts.append(f"a name of {self.non_standard}, which is not standard and maps to this")
        parts += [f"contradiction: {one}" for one in self.contradictions]
        for other in self.runners_up[:1]:
            why = _numbers(other.behind)
            parts.append(f"before {other.matched_term!r} ({other.concept_id})" + (f": {why}" if why else ""))
        if self.semantic_types:
            parts.append("type: " + ", ".join(self.semantic_types))
        if self.parents:
            parts.append("a kind of: " + ", ".join(self.parents))
        if self.definition:
            parts.append("definition: " + _cut(self.definition))
        return "; ".join(parts)


def behind(ranker: Ranker, winner: NDArray[np.float32], others: NDArray[np.float32]) -> list[dict[str, float]]:
    """Return what each other candidate lacks against the winner, by group of features.

    Args:
        winner: (len(NAMES),) features.
        others: (m, len(NAMES)) features.
    """
    from alphita.answer.features import GROUPS, NAMES

    swapped = []
    for other in others:
        for names in GROUPS.values():
            columns = [NAMES.index(name) for name in names]
            one = winner.copy()
            one[columns] = other[columns]
            swapped.append(one)
    if not swapped:
        return []
    lost = float(ranker.score(winner[None])[0]) - ranker.score(np.array(swapped, np.float32))
    found = []
    for row in lost.reshape(len(others), len(GROUPS)).tolist():
        named = {name: round(value, 3) for name, value in zip(GROUPS, row, strict=True) if abs(value) >= SMALL}
        found.append(dict(sorted(named.items(), key=lambda pair: -abs(pair[1]))))
    return found


def _numbers(groups: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in groups.items())


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= DEFINITION_CHARACTERS else text[: DEFINITION_CHARACTERS - 1].rstrip() + "…"
