"""The queue: which rows to look at, in which order, how each stands, and how far the project is."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, get_args

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.review import deciding, rows
from alphita.review.database import Unknown
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
)

# Each is an index of the table of rows.
ORDERS: dict[str, str] = {
    "risk": "r.risk DESC, r.number, r.id",
    "frequency": "r.frequency DESC, r.number, r.id",
    "confidence": "r.confidence, r.number, r.id",
    "row": "r.number, r.id",
    "learning": "r.learning DESC, r.risk DESC, r.number, r.id",
}
# Rows loaded together.
AT_ONCE = 1_000
_FINAL = ", ".join(f"'{kind}'" for kind in FINAL)
# How a row stands for a reviewer who sees only their own decisions (`mine`) and the adjudication (`last`).
_OWN_STATE = (
    f"CASE WHEN last.kind IS NOT NULL OR mine.kind IN ({_FINAL}) THEN 'decided'"
    " WHEN mine.kind = 'flag' THEN 'flagged' ELSE 'open' END"
)


def page(
    connection: sqlite3.Connection,
    project_name: str,
    *,
    reviewer: str | None,
    order: Order,
    state: State,
    search: str,
    types: Collection[str],
    limit: int,
    offset: int,
) -> tuple[int, list[Standing]]:
    """See `ReviewStore.queue`."""
    if order not in ORDERS:
        raise UsageError(registry.unknown("order", order, ORDERS))
    if limit < 0 or offset < 0:
        raise UsageError(f"limit and offset must not be negative: {limit}, {offset}")
    project_id, project = rows.project(connection, project_name)
    limit, offset = min(limit, rows.LARGEST), min(offset, rows.LARGEST)
    parts = selection(project_id, project, reviewer, state, search, types)
    ids: list[int] = []
    # What was skipped is looked at later.
    if reviewer is None or state != "open":
        total = connection.execute(f"SELECT count(*) {parts[0]}", parts[1]).fetchone()[0]
        ids = _ids(connection, parts, ORDERS[order], limit, offset)
    else:
        counts = f"SELECT count(*), coalesce(sum(mine.kind IS NOT 'skip'), 0) {parts[0]}"
        total, n_first = connection.execute(counts, parts[1]).fetchone()
        if offset < n_first:
            ids = _ids(connection, _and(parts, "mine.kind IS NOT 'skip'"), ORDERS[order], limit, offset)
        if len(ids) < limit and n_first < total:
            later = _and(parts, "mine.kind = 'skip'")
            ids += _ids(connection, later, "mine.decision", limit - len(ids), max(0, offset - n_first))
    return total, standings(connection, rows.load(connection, ids), project, reviewer)


def every(connection: sqlite3.Connection, project_id: int, project: Project, state: State) -> Iterator[Standing]:
    """See `ReviewStore.every`."""
    parts = selection(project_id, project, None, state, "", ())
    ids = _ids(connection, parts, ORDERS["row"], rows.LARGEST, 0)
    for start in range(0, len(ids), AT_ONCE):
        yield from standings(connection, rows.load(connection, ids[start : start + AT_ONCE]), project, None)


def queued_rows(connection: sqlite3.Connection, project_name: str) -> list[QueuedRow]:
    """See `ReviewStore.queued_rows`."""
    found = connection.execute(
        "SELECT r.id, r.mention, r.frequency, r.confidence, r.settled_by IS NOT NULL FROM row r"
        f" WHERE r.project = ? ORDER BY {ORDERS['row']}",
        (rows.project(connection, project_name)[0],),
    )
    return [
        QueuedRow(row, mention, frequency, confidence, bool(settled))
        for row, mention, frequency, confidence, settled in found
    ]


def open_rows(
    connection: sqlite3.Connection,
    project_id: int,
    project: Project,
    reviewer: str,
    threshold: float,
    types: Collection[str],
) -> list[ReviewRow]:
    """Return the rows open for a reviewer whose answer is sure enough, as in the input."""
    parts = _and(selection(project_id, project, reviewer, "open", "", types), "r.confidence >= ?", threshold)
    return rows.load(connection, _ids(connection, parts, ORDERS["row"], rows.LARGEST, 0))


def preview_bulk(
    connection: sqlite3.Connection, project_name: str, reviewer: str, threshold: float, types: Collection[str]
) -> Bulk:
    """Return what `accept` would do."""
    project_id, project = rows.project(connection, project_name)
    _check(threshold)
    return _sum(open_rows(connection, project_id, project, reviewer, threshold, types))


def accept_bulk(
    connection: sqlite3.Connection, project_name: str, reviewer: str, uid: str, threshold: float, types: Collection[str]
) -> Bulk:
    """See `ReviewStore.bulk`."""
    project_id, project = rows.project(connection, project_name)
    deciding.check_actor(reviewer, uid)
    _check(threshold)
    request = {"threshold": float(threshold), "types": sorted(types)}
    if deciding.is_done(connection, uid, "bulk", project_id, reviewer, request):
        done = tuple(deciding.select(connection, "WHERE d.bulk = ? AND d.bulk <> '' ORDER BY d.id", uid))
        frequency = {row.id: row.frequency for row in rows.load(connection, [one.row for one in done])}
        wrong = sum(1.0 - (one.confidence or 0.0) for one in done)
        return Bulk(len(done), sum(frequency[one.row] for one in done), wrong, done)
    found = open_rows(connection, project_id, project, reviewer, threshold, types)
    made = tuple(
        deciding.insert(connection, project_id, deciding.fill(_accepted(row, reviewer, uid), row, project))
        for row in found
    )
    deciding.refresh(connection, [row.id for row in found])
    deciding.note(connection, uid, "bulk", project_id, reviewer, request)
    return replace(_sum(found), decisions=made)


def _accepted(row: ReviewRow, reviewer: str, uid: str) -> Decision:
    answer = row.candidates[0]
    by = f"{uid}#{row.id}", row.project, row.id, reviewer
    if answer.concept_id is None:
        return Decision(*by, "nil", bulk=uid)
    return Decision(*by, "accept", answer.concept_id, answer.relation or "exact", bulk=uid)


def _sum(found: Sequence[ReviewRow]) -> Bulk:
    wrong = sum(1.0 - (row.confidence or 0.0) for row in found)
    return Bulk(len(found), sum(row.frequency for row in found), wrong)


def _check(threshold: float) -> None:
    if not 0.0 <= threshold <= 1.0:
        raise InputError("must be between 0 and 1", field="threshold", value=threshold)


def set_learning(connection: sqlite3.Connection, project_name: str, scores: Mapping[int, float]) -> None:
    """See `ReviewStore.set_learning`."""
    project_id, _ = rows.project(connection, project_name)
    connection.execute("UPDATE row SET learning = NULL WHERE project = ?", (project_id,))
    for id, score in scores.items():
        if not math.isfinite(score):
            raise InputError("not a number", line=id, field="score", value=score)
        changed = connection.execute(
            "UPDATE row SET learning = ? WHERE id = ? AND project = ?", (score, id, project_id)
        )
        if not changed.rowcount:
            raise Unknown(f"unknown row {id} of this project")


def selection(
    project_id: int, project: Project, reviewer: str | None, state: State, search: str, types: Collection[str]
) -> tuple[str, list[Any]]:
    """Return the clauses from FROM on that choose rows `r`, and their parameters."""
    if state not in get_args(State):
        raise UsageError(registry.unknown("state", state, get_args(State)))
    text = "FROM row r"
    values: list[Any] = []
    if reviewer is not None:
        text += (
            " LEFT JOIN in_force mine ON mine.row = r.id AND mine.slot = ?"
            " LEFT JOIN in_force last ON last.row = r.id AND last.slot = ''"
        )
        values.append(reviewer)
    text += " WHERE r.project = ?"
    values.append(project_id)
    parts = (text, values)
    if state != "all":
        parts = _and(parts, f"{_OWN_STATE if project.blind and reviewer is not None else 'r.state'} = ?", state)
    if search:
        parts = _and(parts, "instr(r.searched, ?) > 0", rows.fold(search))
    if types:
        among = "EXISTS (SELECT 1 FROM row_type t WHERE t.row = r.id AND t.type IN (SELECT value FROM json_each(?)))"
        parts = _and(parts, among, json.dumps(sorted(types)))
    return parts


def standing(connection: sqlite3.Connection, id: int, reviewer: str | None) -> Standing:
    """See `ReviewStore.standing`."""
    row = rows.load(connection, [id])
    return standings(connection, row, rows.project(connection, row[0].project)[1], reviewer)[0]


def standings(
    connection: sqlite3.Connection, some: Sequence[ReviewRow], project: Project, reviewer: str | None
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
    state, by = deciding.settle(shown)
    return Standing(row, shown, state, by.concept_id if by else None, by is not None)


def _and(parts: tuple[str, list[Any]], condition: str, *values: object) -> tuple[str, list[Any]]:
    return f"{parts[0]} AND {condition}", [*parts[1], *values]


def _ids(
    connection: sqlite3.Connection, parts: tuple[str, list[Any]], order: str, limit: int, offset: int
) -> list[int]:
    found = connection.execute(f"SELECT r.id {parts[0]} ORDER BY {order} LIMIT ? OFFSET ?", (*parts[1], limit, offset))
    return [id for (id,) in found]


def progress(connection: sqlite3.Connection, project_name: str) -> Progress:
    """See `ReviewStore.progress`."""
    project_id, _ = rows.project(connection, project_name)
    by_state = {
        state: (n, occurrences)
        for state, n, occurrences in connection.execute(
            "SELECT state, count(*), sum(frequency) FROM row WHERE project = ? GROUP BY state", (project_id,)
        )
    }
    by_kind: Counter[str] = Counter()
    by_reviewer: Counter[str] = Counter()
    said: dict[int, dict[str, str]] = defaultdict(dict)
    for row, reviewer, kind, meaning in connection.execute(
        "SELECT f.row, d.reviewer, f.kind, f.meaning FROM row r CROSS JOIN in_force f ON f.row = r.id"
        " JOIN decision d ON d.id = f.decision WHERE r.project = ?",
        (project_id,),
    ):
        by_kind[kind] += 1
        by_reviewer[reviewer] += 1
        if meaning is not None and kind != "adjudicate":
            said[row][reviewer] = meaning
    compared = [of_row for of_row in said.values() if len(of_row) > 1]
    pair, both = _pair(compared)
    disagreed = connection.execute(
        "SELECT id FROM row WHERE project = ? AND state = 'disagreed' ORDER BY number, id", (project_id,)
    )
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
        kappa=deciding.kappa(both),
        pair=pair,
        disagreed=tuple(id for (id,) in disagreed),
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
