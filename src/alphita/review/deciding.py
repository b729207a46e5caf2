"""Deciding and undoing. In force is, per reviewer and for adjudications, the newest not undone or forgotten."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import UnionType
from typing import Any, get_args

from alphita import registry
from alphita.errors import InputError
from alphita.mappings.record import Relation
from alphita.review import rows
from alphita.review.database import Busy, Conflict, NoDisagreement, Unknown, check_kinds, stored
from alphita.review.records import FINAL, KINDS, Decision, Project, Rebase, Rebased, ReviewRow, State

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


_COLUMN_NAMES = (
    "uid project row reviewer kind concept_id relation comment at undoes bulk confidence shown terminology release "
    "model concept_name"
)
_STORED = tuple(_COLUMN_NAMES.split())
_KINDS: dict[str, type | UnionType] = {
    **dict.fromkeys(("uid", "project", "source", "reviewer", "kind", "comment", "at", "bulk"), str),
    **dict.fromkeys(("concept_id", "relation", "concept_name"), str | None),
    "undoes": int | None,
    "confidence": float | None,
}
_COLUMNS = "d.id, p.name, p.source, " + ", ".join(f"d.{name}" for name in _STORED if name != "project")
_FROM = "FROM decision d JOIN project p ON p.id = d.project"
_NAMES = ("id", "project", "source", *(name for name in _STORED if name != "project"))
_CURIES = re.compile(r"[^\s:|]+:[^\s|]+(\|[^\s:|]+:[^\s|]+)*")
_RELATIONS = get_args(Relation)
# A time without a zone is read as UTC; where it was written, the clock may be that much ahead.
_AHEAD = timedelta(hours=14)
# Of decisions `d`.
NOT_UNDONE = "NOT EXISTS (SELECT 1 FROM decision u WHERE u.undoes = d.id)"
# What a decision that is sent again must say as it did before.
_SAME = ("project", "row", "reviewer", "kind", "concept_id", "comment")


def decide(connection: sqlite3.Connection, decision: Decision, seen: int | None) -> Decision:
    """See `ReviewStore.decide`."""
    project_id, project = rows.project(connection, decision.project)
    check_actor(decision.reviewer, decision.uid)
    before = next(select(connection, "WHERE d.uid = ?", decision.uid), None)
    if before is not None:
        if any(getattr(before, name) != getattr(decision, name) for name in _SAME) or (
            decision.relation not in (None, before.relation)
        ):
            raise _uid_in_use(decision.uid)
        return before
    if connection.execute("SELECT 1 FROM batch WHERE uid = ?", (decision.uid,)).fetchone():
        raise _uid_in_use(decision.uid)
    (row,) = rows.load(connection, [decision.row])
    if row.project != project.name:
        raise Unknown(f"unknown row {row.id} of project {project.name!r}")
    full = fill(_checked(decision, row), row, project)
    said = (one for one in in_force(connection, [row.id]) if one.kind != "adjudicate")
    if decision.kind == "adjudicate" and settle(said)[0] != "disagreed":
        raise NoDisagreement(f"reviewers do not disagree about row {row.id}: there is nothing to settle")
    if seen is not None:
        last = newest(connection, row.id, None if decision.kind == "adjudicate" else decision.reviewer)
        if last is not None and last.id > seen:
            raise Conflict(last)
    stored = insert(connection, project_id, full, at=moment(full.at, "at") or None)
    refresh(connection, [row.id])
    return stored


def undo(connection: sqlite3.Connection, project_name: str, reviewer: str, uid: str) -> tuple[Decision, ...]:
    """See `ReviewStore.undo`."""
    project_id, project = rows.project(connection, project_name)
    check_actor(reviewer, uid)
    if is_done(connection, uid, "undo", project_id, reviewer, {}):
        undone = "JOIN decision u ON u.undoes = d.id WHERE u.uid = ? OR u.bulk = ? ORDER BY d.id DESC"
        return tuple(select(connection, undone, uid, uid))
    # What the last change of release made or took over stays.
    (rebased_upto,) = connection.execute(
        "SELECT coalesce(max(upto), 0) FROM batch WHERE project = ? AND kind = 'rebase'", (project_id,)
    ).fetchone()
    first = max(rebased_upto, forgotten_upto(connection, project, reviewer))
    standing = (
        "WHERE d.project = ? AND d.reviewer = ? AND d.id > ? AND d.kind <> 'undo'"
        f" AND {NOT_UNDONE}"
        # What a file brought is not the newest thing that its reviewer did.
        " AND d.uid NOT LIKE 'import:%'"
    )
    last = next(select(connection, f"{standing} ORDER BY d.id DESC LIMIT 1", project_id, reviewer, first), None)
    taken = [last] if last else []
    if last and last.bulk:
        taken = list(
            select(connection, f"{standing} AND d.bulk = ? ORDER BY d.id DESC", project_id, reviewer, first, last.bulk)
        )
    for one in taken:
        named = {"uid": uid, "bulk": ""} if len(taken) == 1 else {"uid": f"{uid}#{one.id}", "bulk": uid}
        insert(connection, project_id, _undo_of(one, project, reviewer, **named))
    refresh(connection, [decision.row for decision in taken])
    note(connection, uid, "undo", project_id, reviewer, {})
    return tuple(taken)


def _undo_of(decision: Decision, project: Project, by: str, *, uid: str, bulk: str) -> Decision:
    of = {name: getattr(project, name) for name in ("terminology", "release", "model")}
    return Decision(uid, project.name, decision.row, by, "undo", bulk=bulk, undoes=decision.id, **of)


def rebase(connection: sqlite3.Connection, project_name: str, by: str, uid: str, change: Rebase) -> Rebased:
    """See `ReviewStore.rebase`."""
    project_id, old = rows.project(connection, project_name)
    check_actor(by, uid)
    asked = change.target
    if is_done(connection, uid, "rebase", project_id, by, asked):
        made = list(select(connection, "WHERE d.bulk = ? AND d.bulk <> ''", uid))
        reopened = {one.row for one in made if one.kind == "undo"}.intersection(change.reopen)
        return Rebased(sum(one.kind != "undo" for one in made), len(reopened))
    if change.seen is not None:
        newest = connection.execute("SELECT max(id) FROM decision WHERE project = ?", (project_id,)).fetchone()[0] or 0
        if newest > change.seen:
            problem = "somebody decided while it was worked out what moves; nothing of it was changed"
            raise Busy(f"project {project_name!r}: {problem}; run it again")
    project = replace(old, **asked)
    connection.execute(
        "UPDATE project SET terminology = ?, release = ?, model = ? WHERE id = ?", (*asked.values(), project_id)
    )
    changed = _rows(connection, project, {*change.candidates, *change.types})
    for row in changed:
        rows.change(connection, row, change.candidates.get(row.id, row.candidates), change.types.get(row.id, row.types))
    followed = _follow(connection, project_id, project, uid, change.follow)
    reopened_ids = [row.id for row in _rows(connection, project, change.reopen)]
    standing = f"d.kind <> 'undo' AND {NOT_UNDONE} ORDER BY d.id DESC"
    taken = [one for id in reopened_ids for one in select(connection, f"WHERE d.row = ? AND {standing}", id)]
    reopened = {decision.row for decision in taken}
    ids = json.dumps(sorted(set(change.lost)))
    forgotten = list(select(connection, f"JOIN json_each(?) i ON i.value = d.id WHERE {standing}", ids))
    if wrong := [decision for decision in forgotten if not decision.forgotten or decision.project != project.name]:
        raise Unknown(f"no forgotten decision {wrong[0].id} in project {project.name!r}")
    for one in [*taken, *(decision for decision in forgotten if decision.row not in reopened)]:
        insert(connection, project_id, _undo_of(one, project, by, uid=f"{uid}#undo#{one.id}", bulk=uid))
    refresh(connection, [*followed, *reopened_ids])
    note(connection, uid, "rebase", project_id, by, asked)
    return Rebased(len(followed), len(reopened))


def _follow(
    connection: sqlite3.Connection, project_id: int, project: Project, uid: str, follow: Dictionary[int, Decision]
) -> list[int]:
    """Store what takes the place of decisions in force; return the rows."""
    found = []
    for id, new in follow.items():
        old = next(
            select(connection, "JOIN in_force f ON f.decision = d.id AND f.row = d.row WHERE d.id = ?", id), None
        )
        if old is None or old.project != project.name:
            raise Unknown(f"no decision {id} in force in project {project.name!r}")
        check_meaning(new.concept_id, new.relation)
        (row,) = rows.load(connection, [old.row])
        answer = row.candidates[0].concept_id if row.candidates else None
        kind = "choose" if old.kind == "accept" and new.concept_id != answer else old.kind
        relation = (new.relation or old.relation or "exact") if new.concept_id else None
        means = new.concept_id, relation, new.comment
        by = old.project, old.row, old.reviewer
        made = Decision(f"{uid}#{id}", *by, kind, *means, concept_name=new.concept_name, bulk=uid)
        # As old as the one whose place it takes: what came after that still does.
        insert(connection, project_id, fill(made, row, project), at=old.at)
        found.append(old.row)
    return found


def _rows(connection: sqlite3.Connection, project: Project, ids: Collection[int]) -> list[ReviewRow]:
    found = rows.load(connection, sorted(ids))
    for row in found:
        if row.project != project.name:
            raise Unknown(f"unknown row {row.id} of project {project.name!r}")
    return found


def newest(connection: sqlite3.Connection, row: int, reviewer: str | None) -> Decision | None:
    """See `ReviewStore.newest`; what somebody else took back of a reviewer's counts as news to them."""
    rows.load(connection, [row])
    of_row = select(connection, "WHERE d.row = ? ORDER BY d.id", row)
    if reviewer is None:
        return next(reversed(list(of_row)), None)
    theirs: set[int | None] = set()
    last = None
    for one in of_row:
        if one.reviewer == reviewer or (one.undoes is not None and one.undoes in theirs):
            theirs.add(one.id)
            last = one
    return last


def history(
    connection: sqlite3.Connection, project_id: int, row: int | None, reviewer: str | None
) -> Iterator[Decision]:
    """See `ReviewStore.history`."""
    values: list[object] = [project_id]
    clauses = "WHERE d.project = ?"
    for column, value in (("row", row), ("reviewer", reviewer)):
        if value is not None:
            clauses += f" AND d.{column} = ?"
            values.append(value)
    yield from select(connection, f"{clauses} ORDER BY d.id", *values)


def insert(connection: sqlite3.Connection, project_id: int, decision: Decision, *, at: str | None = None) -> Decision:
    """Store a decision as it is, with id and the time `at`, None for now; the row is to be refreshed."""
    at = rows.now() if at is None else at
    values = [getattr(decision, name) for name in _STORED]
    values[_STORED.index("project")], values[_STORED.index("at")] = project_id, at
    values[_STORED.index("shown")] = json.dumps(decision.shown)
    name = decision.concept_name
    if decision.concept_id is not None and name is None:
        # As whoever decided the same before them named it.
        named = "d.row = ? AND d.concept_id = ? AND d.concept_name IS NOT NULL ORDER BY d.id DESC LIMIT 1"
        before = select(connection, f"WHERE {named}", decision.row, decision.concept_id, forgotten={})
        name = next((one.concept_name for one in before), None)
    values[_STORED.index("concept_name")] = name
    try:
        id = connection.execute(
            f"INSERT INTO decision ({', '.join(_STORED)}) VALUES ({', '.join('?' * len(_STORED))}) RETURNING id", values
        ).fetchone()[0]
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise _uid_in_use(decision.uid) from None
        raise
    return replace(decision, id=id, at=at, concept_name=name)


def fill(decision: Decision, row: ReviewRow, project: Project) -> Decision:
    """Return a decision with what was shown, and what was known then."""
    shown = tuple(candidate.concept_id for candidate in row.candidates if candidate.concept_id)
    name = next(
        (candidate.concept_name for candidate in row.candidates if candidate.concept_id == decision.concept_id), None
    )
    return replace(
        decision,
        confidence=row.confidence if decision.confidence is None else decision.confidence,
        shown=decision.shown or shown,
        terminology=decision.terminology or project.terminology,
        release=decision.release or project.release,
        model=decision.model or project.model,
        concept_name=(decision.concept_name or name) if decision.concept_id else None,
    )


def is_done(
    connection: sqlite3.Connection, uid: str, kind: str, project_id: int, reviewer: str, asked: dict[str, Any]
) -> bool:
    """Tell whether an action of several decisions was done before."""
    found = connection.execute("SELECT kind, project, reviewer, asked FROM batch WHERE uid = ?", (uid,)).fetchone()
    if found is not None:
        if tuple(found) != (kind, project_id, reviewer, json.dumps(asked, sort_keys=True)):
            raise _uid_in_use(uid)
        return True
    if connection.execute("SELECT 1 FROM decision WHERE uid = ?", (uid,)).fetchone():
        raise _uid_in_use(uid)
    return False


def note(
    connection: sqlite3.Connection, uid: str, kind: str, project_id: int, reviewer: str, asked: dict[str, Any]
) -> None:
    """Note that an action of several decisions, which are stored by now, was done."""
    upto = connection.execute("SELECT coalesce(max(id), 0) FROM decision").fetchone()[0]
    values = (uid, kind, project_id, reviewer, json.dumps(asked, sort_keys=True), rows.now(), upto)
    connection.execute(
        "INSERT INTO batch (uid, kind, project, reviewer, asked, at, upto) VALUES (?, ?, ?, ?, ?, ?, ?)", values
    )


def refresh(connection: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Bring up to date what is in force for some rows, and how they stand."""
    forgotten = _forgotten(connection)
    by_row: dict[int, dict[str, Decision]] = defaultdict(dict)
    wanted = json.dumps(sorted(set(ids)))
    counted = f"JOIN json_each(?) i ON i.value = d.row WHERE d.kind <> 'undo' AND {NOT_UNDONE} ORDER BY d.id"
    for one in select(connection, counted, wanted, forgotten=forgotten):
        if not one.forgotten:
            by_row[one.row]["" if one.kind == "adjudicate" else one.reviewer] = one
    connection.execute("DELETE FROM in_force WHERE row IN (SELECT value FROM json_each(?))", (wanted,))
    connection.executemany(
        "INSERT INTO in_force (row, slot, decision, kind, meaning) VALUES (?, ?, ?, ?, ?)",
        [(row, slot, one.id, one.kind, meaning(one)) for row, slots in by_row.items() for slot, one in slots.items()],
    )
    stands = []
    for row in json.loads(wanted):
        state, by = settle(by_row[row].values())
        stands.append((state, by.id if by else None, row))
    connection.executemany("UPDATE row SET state = ?, settled_by = ? WHERE id = ?", stands)


def in_force(connection: sqlite3.Connection, ids: Sequence[int]) -> Iterator[Decision]:
    """Yield the decisions in force about some rows."""
    joined = "JOIN in_force f ON f.decision = d.id JOIN json_each(?) i ON i.value = f.row"
    return select(connection, joined, json.dumps(ids), forgotten={})


def select(
    connection: sqlite3.Connection, clauses: str, *values: object, forgotten: dict[tuple[str, str], int] | None = None
) -> Iterator[Decision]:
    """Yield decisions `d` that SQL clauses choose."""
    upto = _forgotten(connection) if forgotten is None else forgotten
    for found in connection.execute(f"SELECT {_COLUMNS} {_FROM} {clauses}", values):
        fields = dict(zip(_NAMES, found, strict=True))
        check_kinds(fields, _KINDS)
        keys = (("source", fields.pop("source")), ("project", fields["project"]), ("reviewer", fields["reviewer"]))
        fields["shown"] = tuple(stored(fields["shown"], list))
        yield Decision(**fields, forgotten=any(fields["id"] <= upto.get(key, 0) for key in keys))


def forgotten_upto(connection: sqlite3.Connection, project: Project, reviewer: str) -> int:
    """Return the id up to which a reviewer's decisions in a project are forgotten."""
    upto = _forgotten(connection)
    return max(
        upto.get(key, 0) for key in (("source", project.source), ("project", project.name), ("reviewer", reviewer))
    )


def check_actor(reviewer: str, uid: str) -> None:
    """See that an action says whose it is, and which."""
    for name, value in (("reviewer", reviewer), ("uid", uid)):
        if not value.strip():
            raise InputError("must not be empty", field=name)


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
        # The store, and `rows.now`, count milliseconds.
        found = found.replace(microsecond=found.microsecond // 1000 * 1000)
    except (ValueError, OverflowError):
        remedy = "as in 2026-01-31T09:30:00+00:00"
        raise InputError("not a time", field=field, value=text, remedy=remedy) from None
    # It would count as newer than all that is decided until then.
    here = rows.now()
    if found - datetime.fromisoformat(here) > (timedelta() if read.tzinfo else _AHEAD):
        remedy = f"give the time of the review; by this machine's clock it is {here}"
        raise InputError("a time in the future", field=field, value=text, remedy=remedy)
    return found.isoformat(timespec="milliseconds")


def _checked(decision: Decision, row: ReviewRow) -> Decision:
    """Return a decision with its relation, if it is one that can be taken of this row."""
    kind, concept = decision.kind, decision.concept_id
    if kind not in KINDS:
        raise InputError(registry.unknown("kind", kind, KINDS), field="kind")
    if kind == "undo" or decision.undoes is not None or decision.bulk:
        raise InputError("undos and bulk actions have calls of their own", field="kind", value=kind)
    check_meaning(concept, decision.relation)
    answer = row.candidates[0] if row.candidates else None
    if kind in ("accept", "choose") and concept is None:
        raise InputError(f"{kind} needs a concept", field="concept_id", remedy="that no concept fits is of kind nil")
    if kind not in ("accept", "choose", "adjudicate") and concept is not None:
        raise InputError(f"{kind} takes no concept", field="concept_id", value=concept)
    if kind == "accept" and (answer is None or concept != answer.concept_id):
        raise InputError(
            f"not the answer of row {row.id}", field="concept_id", value=concept, remedy="another concept is chosen"
        )
    if concept is None or decision.relation is not None:
        return decision
    return replace(decision, relation=(answer.relation if kind == "accept" and answer else None) or "exact")


def _forgotten(connection: sqlite3.Connection) -> dict[tuple[str, str], int]:
    """Return up to which decision those of a source, a project or a reviewer are forgotten."""
    found = connection.execute("SELECT what, name, upto FROM forgetting ORDER BY id")
    return {(what, name): upto for what, name, upto in found}


def _uid_in_use(uid: str) -> InputError:
    return InputError("this uid was used for another action", field="uid", value=uid)
