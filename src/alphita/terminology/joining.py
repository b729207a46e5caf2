"""Which concepts become one: a union-find that never puts two live concepts of one source together.

Claims of sameness are taken level by level, the strongest first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

TAKEN, CONTESTED, CHAIN, VETOED = "taken", "contested", "chain", "vetoed"


class Claim(NamedTuple):
    """A statement that two concepts are the same.

    Attributes:
        level: how strong it is; 0 is the strongest.
    """

    first: int
    second: int
    level: int
    order: tuple[object, ...]
    evidence: object = None


@dataclass(frozen=True)
class Refusal:
    """A claim that was not followed.

    Attributes:
        kept_apart: the two concepts that it would have put together: of one source, or declared not to be the same.
    """

    kind: str
    claim: Claim
    kept_apart: tuple[int, int]
    chain: tuple[Claim, ...]


@dataclass
class Joined:
    """What came of it.

    Attributes:
        root: (n,) for each concept the smallest number of those it was joined with.
    """

    root: list[int]
    used: list[Claim] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


def join(sources: Sequence[str], claims: Iterable[Claim], vetoes: Iterable[tuple[int, int]] = ()) -> Joined:
    """Join concepts by claims, see the module's head.

    Args:
        sources: (n,) the source of each concept.
    """
    joiner = _Joiner(sources, vetoes)
    best: dict[tuple[int, int], Claim] = {}
    for claim in claims:
        pair = (min(claim.first, claim.second), max(claim.first, claim.second))
        if claim.first != claim.second and (pair not in best or _rank(claim) < _rank(best[pair])):
            best[pair] = claim
    for _, level in groupby(sorted(best.values(), key=_rank), key=lambda claim: claim.level):
        joiner.take(list(level))
    root = [joiner.find(concept) for concept in range(len(sources))]
    return Joined(root, joiner.used, joiner.refused)


def _rank(claim: Claim) -> tuple[object, ...]:
    return (claim.level, claim.order)


# One end of a claim, its other end, the claim.
_Step = tuple[int, int, Claim]


class _Joiner:
    """The state of one joining."""

    def __init__(self, sources: Sequence[str], vetoes: Iterable[tuple[int, int]]) -> None:
        self.sources = sources
        self.parent = list(range(len(sources)))
        # Of each root that has more than itself: its members by source; sets are small, for a source counts once.
        self.members: dict[int, dict[str, int]] = {}
        self.links: defaultdict[int, list[Claim]] = defaultdict(list)
        self.vetoes: defaultdict[int, set[int]] = defaultdict(set)
        for first, second in vetoes:
            self.vetoes[first].add(second)
            self.vetoes[second].add(first)
        self.used: list[Claim] = []
        self.refused: list[Refusal] = []

    def find(self, concept: int) -> int:
        root = concept
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[concept] != root:
            self.parent[concept], concept = root, self.parent[concept]
        return root

    def take(self, claims: Collection[Claim]) -> None:
        """Follow the claims of one level, in their order."""
        open_ = [claim for claim in claims if not self._refuse_if_impossible(claim, TAKEN)]
        contested = self._refuse_contested(open_)
        for claim in open_:
            if id(claim) not in contested and not self._refuse_if_impossible(claim, CHAIN):
                self._union(claim)

    def _refuse_contested(self, claims: Iterable[Claim]) -> set[int]:
        """Refuse the claims that tie what is one concept already to several of one source; return which they are."""
        # (root, source) -> concept of that source -> the claims that would bring it in, as (near end, far end, claim).
        groups: defaultdict[tuple[int, str], defaultdict[int, list[_Step]]] = defaultdict(lambda: defaultdict(list))
        for claim in claims:
            for near, far in ((claim.first, claim.second), (claim.second, claim.first)):
                root, other = self.find(near), self.find(far)
                if root != other:
                    for source, concept in self._members(other).items():
                        groups[root, source][concept].append((near, far, claim))
        refusals: dict[int, Refusal] = {}
        for group in groups.values():
            if len(group) > 1:
                first, second = list(group)[:2]
                for concept, steps in group.items():
                    rival = second if concept == first else first
                    for step in steps:
                        chain = self._over(concept, step, rival, group[rival][0])
                        refusals.setdefault(id(step[2]), Refusal(CONTESTED, step[2], (concept, rival), chain))
        self.refused += refusals.values()
        return set(refusals)

    def _over(self, start: int, step: _Step, end: int, rival: _Step) -> tuple[Claim, ...]:
        """Return the chain from one concept over a claim and its rival to the other."""
        (near, far, claim), (rival_near, rival_far, rival_claim) = step, rival
        return (*self._path(start, far), claim, *self._path(near, rival_near), rival_claim, *self._path(rival_far, end))

    def _refuse_if_impossible(self, claim: Claim, kind: str) -> bool:
        first, second = self.find(claim.first), self.find(claim.second)
        if first == second:
            return False
        lefts, rights = self._members(first), self._members(second)
        shared = min(lefts.keys() & rights.keys(), default=None)
        apart = None if shared is None else (lefts[shared], rights[shared])
        if apart is None and self.vetoes:
            kind = VETOED
            vetoed = ((a, b) for a in lefts.values() for b in rights.values() if b in self.vetoes.get(a, ()))
            apart = min(vetoed, default=None)
        if apart is None:
            return False
        start, end = apart
        left, right = (claim.first, claim.second) if self.find(start) == first else (claim.second, claim.first)
        chain = (*self._path(start, left), claim, *self._path(right, end))
        self.refused.append(Refusal(kind, claim, apart, chain))
        return True

    def _members(self, root: int) -> Mapping[str, int]:
        return self.members.get(root) or {self.sources[root]: root}

    def _union(self, claim: Claim) -> None:
        self.used.append(claim)
        first, second = sorted((self.find(claim.first), self.find(claim.second)))
        if first == second:
            return
        self.links[claim.first].append(claim)
        self.links[claim.second].append(claim)
        members = {**self._members(first), **self._members(second)}
        self.parent[second] = first
        self.members.pop(second, None)
        self.members[first] = members

    def _path(self, start: int, end: int) -> list[Claim]:
        """Return the claims that joined `start` and `end`, in order."""
        came: dict[int, tuple[int, Claim] | None] = {start: None}
        waiting = deque([start])
        while waiting and end not in came:
            concept = waiting.popleft()
            for claim in self.links[concept]:
                neighbour = claim.second if claim.first == concept else claim.first
                if neighbour not in came:
                    came[neighbour] = (concept, claim)
                    waiting.append(neighbour)
        path: list[Claim] = []
        while step := came[end]:
            end, claim = step
            path.append(claim)
        return path[::-1]
