"""The queue: which rows to look at, in which order, how each stands, and how far the project is."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy import Connection, Select, bindparam, func, select

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.review import deciding, rows, rules, tables
from alphita.review.database import run
from alphita.review.records import (
    FINAL,
    Bulk,
    Decision,
    Order,
    Progress,
    Project,
    QueuedRow,
    ReviewRow,
    Standing,
    State,
    Unknown,
)
from alphita.review.tables import ORDERS, STRINGS, among

Part = Literal["count", "all", "first", "skipped", "sure"]
_row, _in_force, _decision = tables.row.c, tables.in_force.c, tables.decision.c
# How a row stands for a reviewer who sees only their own decisions (`mine`) and the adjudication (`last`).
_mine, _last = (tables.in_force.alias(name) for name in ("mine", "last"))
_IS_DECIDED = _last.c.kind.is_not(None) | sa.or_(*(_mine.c.kind == kind for kind in FINAL))
_OWN_STATE = sa.case((_IS_DECIDED, "decided"), (_mine.c.kind == "flag", "flagged"), else_="open")
_IS_SKIPPED = _mine.c.kind == "skip"
_IS_FIRST = _mine.c.kind.is_distinct_from("skip")


_OF_PROJECT = _row.project == bindparam("in_project")
_BY_STATE = select(_row.state, func.count(), func.sum(_row.frequency)).where(_OF_PROJECT).group_by(_row.state)
_SAID = (
    select(_in_force.row, _decision.reviewer, _in_force.kind, _in_force.meaning)
    .join_from(tables.row, tables.in_force, _in_force.row == _row.id)
    .join(tables.decision, _decision.id == _in_force.decision)
    .where(_OF_PROJECT)
)
_DISAGREED = select(_row.id).where(_OF_PROJECT, _row.state == "disagreed").order_by(*ORDERS["row"])
_SCORED = sa.update(tables.row).where(_row.id == bindparam("of"))


def page(
    connection: Connection,
    project: str,
    *,
    reviewer: str | None = None,
    order: Order = "risk",
    state: State = "open",
    search: str = "",
    types: Collection[str] = (),
    limit: int = 100,
    offset: int = 0,
) -> tuple[int, list[Standing]]:
    """Return how many rows there are to look at, and a page of them.

    Args:
        reviewer: who asks (see `standing`); rows that they skipped come last.
        order: "risk", "frequency": greatest first; "confidence": smallest first; "row": input order; "learning":
            by `set_learning`, then risk. Ties as in the input.
        search: a part of mention, code, context or the answer's id or name, in any case.
        types: any of these semantic types of the answer; none: all.
        offset: rows before the page; use `every` to see all.

    Raises:
        UsageError: an unknown order or state, or a negative limit or offset.
    """
    if order not in ORDERS:
        raise UsageError(registry.unknown("order", order, ORDERS))
    if limit < 0 or offset < 0:
        raise UsageError(f"limit and offset must not be negative: {limit}, {offset}")
    project_id, facts = rows.numbered(connection, project)
    offset = min(offset, rules.LARGEST)
    given, values = selection(project_id, facts, reviewer, state, search, types)

    def ids_of(part: Part, limit: int, offset: int) -> list[int]:
        found = run(connection, statement(given, part, order), limit=min(limit, rules.LARGEST), offset=offset, **values)
        return [id for (id,) in found]

    total, n_first = run(connection, statement(given, "count", order), **values).fetchone()
    # What was skipped is looked at later.
    if reviewer is None or state != "open":
        ids = ids_of("all", limit, offset)
    else:
        ids = ids_of("first", limit, offset) if offset < n_first else []
        if len(ids) < limit and n_first < total:
            ids += ids_of("skipped", limit - len(ids), max(0, offset - n_first))
    return total, standings(connection, rows.load(connection, ids), facts, reviewer)


def _ids(
    connection: Connection, chosen: tuple[frozenset[str], dict[str, Any]], threshold: float | None = None
) -> list[int]:
    """Return rows as in the input, all or those that are sure enough."""
    part: Part = "all" if threshold is None else "sure"
    asked = statement(chosen[0], part, "row")
    values = chosen[1] | ({} if threshold is None else {"threshold": threshold})
    return [id for (id,) in run(connection, asked, limit=rules.LARGEST, offset=0, **values)]


def every(connection: Connection, project_id: int, project: Project, state: State) -> Iterator[Standing]:
    """See `ReviewStore.every`."""
    ids = _ids(connection, selection(project_id, project, None, state, "", ()))
    for start in range(0, len(ids), rows.AT_ONCE):
        some = rows.load(connection, ids[start : start + rows.AT_ONCE])
        yield from standings(connection, some, project, None)


def queued_rows(connection: Connection, project: str) -> list[QueuedRow]:
    """Return what decides when each row is asked, in the order of the input."""
    said = (_row.id, _row.mention, _row.frequency, _row.confidence, _row.settled_by)
    asked = select(*said).where(_row.project == rows.numbered(connection, project)[0]).order_by(*ORDERS["row"])
    return [QueuedRow(*values[:-1], values[-1] is not None) for values in connection.execute(asked)]


def _open_rows(
    connection: Connection, project_id: int, project: Project, reviewer: str, threshold: float, types: Collection[str]
) -> list[ReviewRow]:
    """Return the rows open for a reviewer whose answer is sure enough, as in the input."""
    return rows.load(
        connection, _ids(connection, selection(project_id, project, reviewer, "open", "", types), threshold)
    )


def bulk(
    connection: Connection,
    project: str,
    reviewer: str,
    uid: str,
    *,
    threshold: float,
    types: Collection[str] = (),
    preview: bool = False,
) -> Bulk:
    """See `ReviewStore.bulk`."""
    project_id, facts = rows.numbered(connection, project)
    if not 0.0 <= threshold <= 1.0:
        raise InputError("must be between 0 and 1", field="threshold", value=threshold)
    if preview:
        return _sum(_open_rows(connection, project_id, facts, reviewer, threshold, types))
    rules.check_actor(reviewer, uid)
    request = {"threshold": float(threshold), "types": sorted(types)}
    if deciding.is_done(connection, uid, "bulk", project_id, reviewer, request):
        done = tuple(deciding.read(connection, deciding.OF_BULK, bulk=uid))
        frequency = {row.id: row.frequency for row in rows.load(connection, [one.row for one in done])}
        wrong = sum(1.0 - (one.confidence or 0.0) for one in done)
        return Bulk(len(done), sum(frequency[one.row] for one in done), wrong, done)
    found = _open_rows(connection, project_id, facts, reviewer, threshold, types)
    at = deciding.now(connection)
    accepted = [deciding.fill(_accepted(row, reviewer, uid, at), row, facts) for row in found]
    made = tuple(deciding.add(connection, project_id, accepted))
    deciding.refresh(connection, [row.id for row in found])
    deciding.note(connection, uid, "bulk", project_id, reviewer, request)
    return replace(_sum(found), decisions=made)


def _accepted(row: ReviewRow, reviewer: str, uid: str, at: str) -> Decision:
    answer = row.candidates[0]
    by = f"{uid}#{row.id}", row.project, row.id, reviewer
    if answer.concept_id is None:
        return Decision(*by, "nil", at=at, bulk=uid)
    return Decision(*by, "accept", answer.concept_id, answer.relation or "exact", at=at, bulk=uid)


def _sum(found: Sequence[ReviewRow]) -> Bulk:
    wrong = sum(1.0 - (row.confidence or 0.0) for row in found)
    return Bulk(len(found), sum(row.frequency for row in found), wrong)


def set_learning(connection: Connection, project: str, scores: Mapping[int, float]) -> None:
    """Set the order "learning": a score for each row id, the greatest is asked first; rows left out come last."""
    project_id, _ = rows.numbered(connection, project)
    connection.execute(sa.update(tables.row).where(_row.project == project_id), {"learning": None})
    known = set(connection.execute(select(_row.id).where(_row.project == project_id)).scalars())
    for id, score in scores.items():
        if not math.isfinite(score):
            raise InputError("not a number", line=id, field="score", value=score)
        if not -rules.LARGEST <= id <= rules.LARGEST:
            raise InputError("a number is out of range")
        if id not in known:
            raise Unknown(f"unknown row {id} of this project")
    if scores:
        run(connection, _SCORED, *({"of": id, "learning": score} for id, score in scores.items()))


def selection(
    project_id: int, project: Project, reviewer: str | None, state: State, search: str, types: Collection[str]
) -> tuple[frozenset[str], dict[str, Any]]:
    """Return by what rows are asked (`statement`), and by which values."""
    if state not in get_args(State):
        raise UsageError(registry.unknown("state", state, get_args(State)))
    is_own = project.blind and reviewer is not None and state != "all"
    values: dict[str, Any] = {"in_project": project_id}
    values |= {} if reviewer is None else {"reviewer": reviewer}
    values |= {} if state == "all" else {"state": state}
    values |= {"search": rows.fold(search)} if search else {}
    values |= {"types": sorted(types)} if types else {}
    return frozenset([*values, *(["own"] if is_own else [])]), values


@functools.cache
def statement(given: frozenset[str], part: Part, order: Order) -> Select[Any]:
    """Return what selects ids of rows, or counts all and those that were not skipped.

    Args:
        given: by what they are asked: reviewer, state (as "own" only their own decisions make it), search, types.
    """
    joined: sa.FromClause = tables.row
    slots: Any = ((_mine, bindparam("reviewer"), "reviewer"), (_last, sa.literal(""), "own"))
    for slot, name, needed in slots:
        if needed in given:
            joined = joined.outerjoin(slot, sa.and_(slot.c.row == _row.id, slot.c.slot == name))
    found: Select[Any] = select(_row.id).select_from(joined).where(_OF_PROJECT)
    if "state" in given:
        found = found.where((_OWN_STATE if "own" in given else _row.state) == bindparam("state"))
    if "search" in given:
        found = found.where(func.instr(_row.searched, bindparam("search")) > 0)
    if "types" in given:
        of_type = sa.exists().where(tables.row_type.c.row == _row.id)
        found = found.where(of_type.where(among(tables.row_type.c.type, "types", STRINGS)))
    if part == "count":
        first = func.sum(sa.case((_IS_FIRST, 1), else_=0)) if "reviewer" in given else func.count()
        counts: list[Any] = [func.count(), func.coalesce(first, 0)]
        return found.with_only_columns(*counts, maintain_column_froms=True)
    narrower = {"first": _IS_FIRST, "skipped": _IS_SKIPPED, "sure": _row.confidence >= bindparam("threshold")}
    if part != "all":
        found = found.where(narrower[part])
    keys = (_mine.c.decision,) if part == "skipped" else ORDERS[order]
    return (
        found.order_by(*keys)
        .limit(bindparam("limit", type_=sa.BigInteger))
        .offset(bindparam("offset", type_=sa.BigInteger))
    )


def standing(connection: Connection, id: int, *, reviewer: str | None = None) -> Standing:
    """Return how a row stands for a reviewer; None sees all.

    In a blind project they see only their own decisions until the row is adjudicated.
    """
    _, project, row = rows.with_project(connection, id)
    return standings(connection, [row], project, reviewer)[0]


def disagreements(connection: Connection, project: str, *, reviewer: str | None = None) -> list[Standing]:
    """Return the rows to adjudicate, greatest risk first; in a blind project those the reviewer has decided."""
    found = page(connection, project, state="disagreed", limit=rules.LARGEST)[1]
    if reviewer is None or not rows.project(connection, project).blind:
        return found

    def is_theirs(one: Standing) -> bool:
        return any(decision.reviewer == reviewer and decision.kind in FINAL for decision in one.decisions)

    return [one for one in found if is_theirs(one)]


def standings(
    connection: Connection, some: Sequence[ReviewRow], project: Project, reviewer: str | None
) -> list[Standing]:
    """Return how rows of one project stand for who asks."""
    in_force: dict[int, list[Decision]] = defaultdict(list)
    for decision in deciding.in_force(connection, [row.id for row in some]):
        in_force[decision.row].append(decision)
    return [_standing(row, in_force[row.id], project, reviewer) for row in some]


def _standing(row: ReviewRow, decisions: list[Decision], project: Project, reviewer: str | None) -> Standing:
    last = [decision for decision in decisions if decision.kind == "adjudicate"]
    own = [decision for decision in decisions if decision.kind != "adjudicate"]
    if project.blind and reviewer is not None and not last:
        own = [one for one in own if one.reviewer == reviewer]
    shown = (*sorted(own, key=lambda one: -one.id), *last)
    state, by = rules.settle(shown)
    return Standing(row, shown, state, by.concept_id if by else None, by is not None)


def progress(connection: Connection, project: str) -> Progress:
    """Return how far a project is, and how well its reviewers agree."""
    of: dict[str, Any] = {"in_project": rows.numbered(connection, project)[0]}
    by_state = {state: (n, int(occurrences)) for state, n, occurrences in run(connection, _BY_STATE, **of)}
    by_kind: Counter[str] = Counter()
    by_reviewer: Counter[str] = Counter()
    said: dict[int, dict[str, str]] = defaultdict(dict)
    for row, reviewer, kind, meaning in run(connection, _SAID, **of):
        by_kind[kind] += 1
        by_reviewer[reviewer] += 1
        if meaning is not None and kind != "adjudicate":
            said[row][reviewer] = meaning
    compared = [of_row for of_row in said.values() if len(of_row) > 1]
    pair, both = _pair(compared)
    decided, decided_occurrences = by_state.get("decided", (0, 0))
    return Progress(
        rows=sum(n for n, _ in by_state.values()),
        occurrences=sum(n for _, n in by_state.values()),
        decided=decided,
        decided_occurrences=decided_occurrences,
        by_kind=dict(sorted(by_kind.items())),
        by_reviewer=dict(sorted(by_reviewer.items())),
        compared=len(compared),
        agreed=sum(len(set(of_row.values())) == 1 for of_row in compared),
        kappa=rules.kappa(both),
        pair=pair,
        disagreed=tuple(id for (id,) in run(connection, _DISAGREED, **of)),
    )


def _pair(compared: list[dict[str, str]]) -> tuple[tuple[str, str] | None, list[tuple[str, str]]]:
    """Return the two reviewers with most rows in common (of as many, the first by name), and what they say of them."""
    common = Counter(pair for of_row in compared for pair in combinations(sorted(of_row), 2))
    if not common:
        return None, []
    first, second = min(common, key=lambda pair: (-common[pair], pair))
    return (first, second), [
        (of_row[first], of_row[second]) for of_row in compared if first in of_row and second in of_row
    ]
