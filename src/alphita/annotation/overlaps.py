"""Which of several spans in one place stands.

The rule: of spans that overlap, the longest certain one stands; of those as long, the most confident.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from alphita.annotation.spans import Place
from alphita.mappings.record import Decision


class Candidate(NamedTuple):
    """A span that may stand.

    Attributes:
        matched_term: the term it equals or is nearest to.
        confidence: 0 to 1; None: not judged.
        decision: "accept" or "review".
        is_name: whether it is a name, but for order and inflection.
        is_alike: whether words of a name, or their equivalents, name the concept that the normalizer answers.
    """

    pieces: tuple[Place, ...]
    asked: str
    concept_id: str
    concept_name: str
    matched_term: str
    confidence: float | None
    decision: Decision | None
    method: str
    is_name: bool
    is_alike: bool
    is_certain: bool

    @property
    def start(self) -> int:
        """First character."""
        return self.pieces[0].start

    @property
    def end(self) -> int:
        """The character behind the last."""
        return self.pieces[-1].end

    @property
    def length(self) -> int:
        """Characters of its parts."""
        return sum(end - start for start, end in self.pieces)


def settle(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of one sentence that stand, by their place."""
    return [one for some in _touching(candidates) for one in _settled(some)]


def _touching(candidates: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Yield the candidates in groups, from left to right: what overlaps is in one group."""
    group: list[Candidate] = []
    end = 0
    for one in sorted(candidates, key=lambda one: one.start):
        if group and one.start >= end:
            yield group
            group = []
        end = max(end, one.end) if group else one.end
        group.append(one)
    if group:
        yield group


def _settled(candidates: Sequence[Candidate]) -> list[Candidate]:
    ordered = sorted(candidates, key=_rank)
    standing: list[Candidate] = []
    for one in ordered:
        if any(_excludes(other, one) for other in standing) or any(_is_said_by_part(one, other) for other in ordered):
            continue
        standing.append(one)
    return sorted(standing, key=lambda one: (one.start, one.end, one.concept_id))


def _rank(one: Candidate) -> tuple[bool, int, float, int, str]:
    confidence = one.confidence if one.confidence is not None else 1.0
    return not one.is_certain, -one.length if one.is_certain else 0, -confidence, one.start, one.concept_id


def _excludes(standing: Candidate, one: Candidate) -> bool:
    if len(standing.pieces) > 1 or len(one.pieces) > 1:
        # Parts that share a head share its place.
        return _within(one.pieces, standing.pieces)
    return one.start < standing.end and standing.start < one.end


def _within(inner: Sequence[Place], outer: Sequence[Place]) -> bool:
    return all(any(start >= other.start and end <= other.end for other in outer) for start, end in inner)


def _is_said_by_part(one: Candidate, other: Candidate) -> bool:
    return (
        not one.is_name
        and other.concept_id == one.concept_id
        and other.length < one.length
        and _within(other.pieces, one.pieces)
        and (other.is_certain or not one.is_certain)
    )
