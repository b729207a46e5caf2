"""What decisions about one row say together, and how well two reviewers agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from alphita.review.records import FINAL, Decision, State

# The meanings of a row that are no concept.
NIL, REJECTED = "", "!"


def meaning(decision: Decision) -> str | None:
    """Return what a decision says that a row means: "CONCEPT RELATION", `NIL` or `REJECTED`; None: it says nothing."""
    if decision.kind not in FINAL:
        return None
    if decision.kind == "reject":
        return REJECTED
    return NIL if decision.concept_id is None else f"{decision.concept_id} {decision.relation or 'exact'}"


def state(decisions: Iterable[Decision]) -> tuple[State, Decision | None]:
    """Return how a row stands, and the decision that settles it, if it is settled."""
    ordered = sorted(decisions, key=_age)
    for one in ordered:
        if one.kind == "adjudicate":
            return "decided", one
    final = [one for one in ordered if one.kind in FINAL]
    flags = [one for one in ordered if one.kind == "flag"]
    if len({meaning(one) for one in final}) > 1:
        return "disagreed", None
    if flags and (not final or _age(flags[-1]) > _age(final[-1])):
        return "flagged", None
    return ("decided", final[-1]) if final else ("open", None)


def comments(decisions: Iterable[Decision]) -> str:
    """Return what reviewers wrote beside their decisions about one row, oldest first, each under its name."""
    return "; ".join(f"{one.reviewer}: {one.comment}" for one in sorted(decisions, key=_age) if one.comment)


def with_comments(by: Decision, decisions: Collection[Decision]) -> Decision:
    """Return a decision with the comments of all decisions about its row; unnamed, where all are as its own."""
    if {one.comment for one in decisions if one.comment} <= {by.comment}:
        return by
    return replace(by, comment=comments(decisions))


def _age(decision: Decision) -> tuple[str, int]:
    """Return what decisions are ordered by: a file may bring old ones late."""
    return decision.at, decision.id


def kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa (1960): (p_o - p_e) / (1 - p_e)."""
    n = len(pairs)
    if n < 2:
        return None
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    # In whole numbers, so that p_e = 1 is told exactly.
    agreed = sum(one == other for one, other in pairs) * n
    expected = sum(count * second[value] for value, count in first.items())
    return None if expected == n * n else (agreed - expected) / (n * n - expected)
