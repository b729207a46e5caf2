"""What decisions mean together, what can be decided, and when it is: rules that no database is asked for."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

from alphita import clock, registry
from alphita.errors import InputError
from alphita.mappings.record import Relation
from alphita.review.records import FINAL, Decision, ReviewRow, State

LARGEST = 2**63 - 1
_CURIES = re.compile(r"[^\s:|]+:[^\s|]+(\|[^\s:|]+:[^\s|]+)*")
_RELATIONS = get_args(Relation)
# A time without a zone is read as UTC; where it was written, the clock may be that much ahead.
_AHEAD = timedelta(hours=14)
# How the uids begin of what files bring.
OF_FILES = "import:"
# The meanings of a row that are no concept.
NIL, REJECTED = "", "!"


def meaning(decision: Decision) -> str | None:
    """Return what a decision says that a row means: "CONCEPT RELATION", `NIL` or `REJECTED`; None: it says nothing."""
    if decision.kind not in FINAL:
        return None
    if decision.kind == "reject":
        return REJECTED
    return NIL if decision.concept_id is None else f"{decision.concept_id} {decision.relation or 'exact'}"


def settle(decisions: Iterable[Decision]) -> tuple[State, Decision | None]:
    """Return how a row stands, and the decision that settles it, if it is settled."""
    ordered = sorted(decisions, key=_age)
    for one in ordered:
        if one.kind == "adjudicate":
            return "decided", one
    final = [decision for decision in ordered if decision.kind in FINAL]
    flags = [decision for decision in ordered if decision.kind == "flag"]
    if len({meaning(decision) for decision in final}) > 1:
        return "disagreed", None
    if flags and (not final or _age(flags[-1]) > _age(final[-1])):
        return "flagged", None
    return ("decided", final[-1]) if final else ("open", None)


def comments(decisions: Iterable[Decision]) -> str:
    """Return what reviewers wrote beside their decisions about one row, oldest first, each under its name."""
    return "; ".join(
        f"{decision.reviewer}: {decision.comment}" for decision in sorted(decisions, key=_age) if decision.comment
    )


def with_comments(by: Decision, decisions: Collection[Decision]) -> Decision:
    """Return a decision with the comments of all decisions about its row; unnamed, where all are as its own."""
    if {decision.comment for decision in decisions if decision.comment} <= {by.comment}:
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


_latest_lock = threading.Lock()
_latest = ""


def now() -> str:
    """Return the time, UTC; none before one that was told already, or that a store opened here holds."""
    global _latest
    with _latest_lock:
        _latest = max(_latest, clock.now().isoformat(timespec="milliseconds"))
        return _latest


def keep_ahead(newest: str | None) -> None:
    """Let `now` tell no time before the newest decision of a store: the clock may be set back between two programs."""
    global _latest
    with _latest_lock:
        _latest = max(_latest, newest if isinstance(newest, str) else "")


def check_row(row: ReviewRow) -> None:
    """See that a row is sound; its mention is not shown, for it may be patient data."""
    for name, least in (("number", 1), ("frequency", 0)):
        if not least <= getattr(row, name) <= LARGEST:
            raise InputError("out of range", line=row.number, field=name, value=getattr(row, name))
    if row.confidence is not None and not 0 <= row.confidence <= 1:
        raise InputError("not a probability", line=row.number, field="confidence", value=row.confidence)


def check_actor(reviewer: str, uid: str) -> None:
    """See that an action says whose it is, and which."""
    for name, value in (("reviewer", reviewer), ("uid", uid)):
        if not value.strip():
            raise InputError("must not be empty", field=name)
    # Else anybody could tell by one what others decided, or keep a file out.
    if uid.startswith(OF_FILES):
        raise InputError(f"must not begin with {OF_FILES!r}", field="uid")


def check_meaning(concept_id: str | None, relation: str | None) -> None:
    """See that a concept is a CURIE, and its relation one that there is."""
    if concept_id is not None and not _CURIES.fullmatch(concept_id):
        raise InputError("not a concept id", field="concept_id", value=concept_id, remedy="as in HP:0001250")
    if relation is None:
        return
    if relation not in _RELATIONS:
        raise InputError(registry.unknown("relation", relation, _RELATIONS), field="relation")
    if concept_id is None:
        raise InputError("a relation needs a concept", field="relation", value=relation)


def moment(text: str | None, field: str) -> str:
    """Return a time as the store writes it, in UTC; "" if there is none."""
    if not text:
        return ""
    try:
        read = datetime.fromisoformat(text)
        found = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        # The store, and `now`, count milliseconds.
        found = found.replace(microsecond=found.microsecond // 1000 * 1000)
    except (ValueError, OverflowError):
        remedy = "as in 2026-01-31T09:30:00+00:00"
        raise InputError("not a time", field=field, value=text, remedy=remedy) from None
    # It would count as newer than all that is decided until then.
    here = now()
    if found - datetime.fromisoformat(here) > (timedelta() if read.tzinfo else _AHEAD):
        remedy = f"give the time of the review; by this machine's clock it is {here}"
        raise InputError("a time in the future", field=field, value=text, remedy=remedy)
    return found.isoformat(timespec="milliseconds")
