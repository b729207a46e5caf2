"""Deciding and undoing. In force is, per reviewer and for adjudications, the newest not undone or forgotten."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from types import UnionType
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, exists, func, insert, or_, select, update

from alphita import registry
from alphita.errors import InputError
from alphita.review import rows, rules, tables
from alphita.review.database import check_kinds, run, stored
from alphita.review.records import (
    KINDS,
    Busy,
    Conflict,
    Decision,
    NoDisagreement,
    Project,
    Rebase,
    Rebased,
    ReviewRow,
    Unknown,
)
from alphita.review.tables import among

_KINDS: dict[str, type | UnionType] = {
    **dict.fromkeys(("uid", "project", "source", "reviewer", "kind", "comment", "at", "bulk"), str),
    **dict.fromkeys(("concept_id", "relation", "concept_name"), str | None),
    "undoes": int | None,
    "confidence": float | None,
}
_decision, _project, _batch, _in_force = tables.decision.c, tables.project.c, tables.batch.c, tables.in_force.c
_PLAIN = [column.name for column in _decision if column.name not in ("id", "project")]
_NAMES = ("id", "project", "source", *_PLAIN)
# Decisions, of which the others choose.
ALL = select(_decision.id, _project.name, _project.source, *(_decision[name] for name in _PLAIN)).join_from(
    tables.decision, tables.project, _project.id == _decision.project
)
_undo = tables.decision.alias("undo")
STANDING = (_decision.kind != "undo") & ~exists().where(_undo.c.undoes == _decision.id)
IN_FORCE = ALL.join(tables.in_force, _in_force.decision == _decision.id).where(among(_in_force.row, "rows"))
_STANDING_OF_ROWS, _STANDING_IDS = (
    ALL.where(STANDING, among(column, name)).order_by(_decision.id.desc())
    for column, name in ((_decision.row, "rows"), (_decision.id, "ids"))
)
_IDS_IN_FORCE = ALL.where(among(_decision.id, "ids")).where(
    exists().where(_in_force.decision == _decision.id, _in_force.row == _decision.row)
)
_OF_ROWS = ALL.where(among(_decision.row, "rows")).order_by(_decision.id)
_OF_ROW_OR_UID = ALL.where(or_(_decision.row == bindparam("row"), _decision.uid == bindparam("uid"))).order_by(
    _decision.id
)
_NAMED = (
    select(_decision.concept_name)
    .where(_decision.row == bindparam("row"), _decision.concept_id == bindparam("concept"))
    .where(_decision.concept_name.is_not(None))
    .order_by(_decision.id.desc())
    .limit(1)
)
_UNDONE_BY = (
    ALL.join(_undo, _undo.c.undoes == _decision.id)
    .where(or_(_undo.c.uid == bindparam("uid"), _undo.c.bulk == bindparam("uid")))
    .order_by(_decision.id.desc())
)
_OWN = (
    ALL.where(_decision.project == bindparam("in_project"), _decision.reviewer == bindparam("by"))
    # What a file brought is not the newest thing that its reviewer did.
    .where(_decision.id > bindparam("after"), STANDING, _decision.uid.not_like(f"{rules.OF_FILES}%"))
    .order_by(_decision.id.desc())
)
_LAST_OWN, _OWN_BULK = _OWN.limit(1), _OWN.where(_decision.bulk == bindparam("action"))
_REBASED = select(func.max(_batch.upto)).where(_batch.project == bindparam("in_project"), _batch.kind == "rebase")
OF_BULK = ALL.where(_decision.bulk == bindparam("bulk"), _decision.bulk != "").order_by(_decision.id)
_INSERT = insert(tables.decision).returning(_decision.id, sort_by_parameter_order=True)
_BY_UID = select(_decision.id).where(_decision.uid == bindparam("uid"))
_BATCH = select(_batch.kind, _batch.project, _batch.reviewer, _batch.asked).where(_batch.uid == bindparam("uid"))
_FORGOTTEN = select(*(tables.forgetting.c[name] for name in ("what", "name", "upto"))).order_by(tables.forgetting.c.id)
_NEWEST_AT = select(_decision.at, _decision.uid).order_by(_decision.id.desc()).limit(1)
NEWEST = select(func.coalesce(func.max(_decision.id), 0))
_SETTLED = update(tables.row).where(tables.row.c.id == bindparam("of"))
_NEW_BATCH, _INTO_FORCE = insert(tables.batch), insert(tables.in_force)
_OUT_OF_FORCE = delete(tables.in_force).where(among(_in_force.row, "rows"))
# Up to which decision those of a source, a project or a reviewer are forgotten.
Upto = dict[tuple[str, str], int]
# What a decision that is sent again must say as it did before.
_SAME = ("project", "row", "reviewer", "kind", "concept_id", "comment")


def decide(connection: Connection, decision: Decision, *, seen: int | None = None) -> Decision:
    """Store a decision; fill in time, confidence, candidates shown, release and relation where it has none.

    Args:
        decision: of any kind but undo; the same one twice (by its uid) is kept once, and returned as stored.
        seen: id of the newest decision that the reviewer has seen (see `newest`), 0 for none; None: do not check.

    Raises:
        Conflict: there is a newer one than `seen`.
        NoDisagreement: an adjudication of a row on which reviewers do not disagree.
        InputError: a missing or unknown kind, concept, relation or time, or a uid that is in use.
    """
    rules.check_actor(decision.reviewer, decision.uid)
    project_id, project, row = rows.with_project(connection, decision.row)
    if project.name != decision.project:
        rows.numbered(connection, decision.project)
        raise Unknown(f"unknown row {row.id} of project {decision.project!r}")
    found = list(read(connection, _OF_ROW_OR_UID, row=row.id, uid=decision.uid))
    before = next((one for one in found if one.uid == decision.uid), None)
    if before is not None:
        if any(getattr(before, name) != getattr(decision, name) for name in _SAME) or (
            decision.relation not in (None, before.relation)
        ):
            raise _uid_in_use(decision.uid)
        return before
    if run(connection, _BATCH, uid=decision.uid).fetchone():
        raise _uid_in_use(decision.uid)
    full = fill(_checked(decision, row), row, project)
    said = (one for one in in_force(connection, [row.id]) if one.kind != "adjudicate")
    if decision.kind == "adjudicate" and rules.settle(said)[0] != "disagreed":
        raise NoDisagreement(f"reviewers do not disagree about row {row.id}: there is nothing to settle")
    if seen is not None:
        last = _newest(found, None if decision.kind == "adjudicate" else decision.reviewer)
        if last is not None and last.id > seen:
            raise Conflict(last)
    at = rules.moment(full.at, "at") or now(connection)
    (made,) = add(connection, project_id, [full], at=at)
    _derive(connection, {row.id: [*found, made]})
    return made


def undo(connection: Connection, project: str, reviewer: str, uid: str) -> tuple[Decision, ...]:
    """Take back a reviewer's newest decision in force, or whole bulk action; return them, newest first.

    It reaches back to the last change of release. The same `uid` twice does it once.
    """
    project_id, facts = rows.numbered(connection, project)
    rules.check_actor(reviewer, uid)
    if is_done(connection, uid, "undo", project_id, reviewer, {}):
        return tuple(read(connection, _UNDONE_BY, uid=uid))
    # What the last change of release made or took over stays.
    rebased = run(connection, _REBASED, in_project=project_id).fetchone()[0] or 0
    upto = forgotten(connection)
    keys = (("source", facts.source), ("project", facts.name), ("reviewer", reviewer))
    after = max(rebased, *(upto.get(key, 0) for key in keys))
    of: dict[str, Any] = {"in_project": project_id, "by": reviewer, "after": after}
    taken = list(read(connection, _LAST_OWN, upto, **of))
    if taken and taken[0].bulk:
        taken = list(read(connection, _OWN_BULK, upto, action=taken[0].bulk, **of))
    named = [{"uid": uid}] if len(taken) == 1 else [{"uid": f"{uid}#{one.id}", "bulk": uid} for one in taken]
    at = now(connection)
    undos = [_undo_of(one, facts, reviewer, at, **how) for one, how in zip(taken, named, strict=True)]
    add(connection, project_id, undos)
    refresh(connection, [decision.row for decision in taken])
    note(connection, uid, "undo", project_id, reviewer, {})
    return tuple(taken)


def now(connection: Connection) -> str:
    """Return the time, none before the newest decision, which another server may have stored by its own clock."""
    newest = run(connection, _NEWEST_AT).fetchone()
    # A file brings times of its own.
    if newest is not None and not newest[1].startswith(rules.OF_FILES):
        rules.keep_ahead(newest[0])
    return rules.now()


def _undo_of(decision: Decision, project: Project, by: str, at: str, *, uid: str, bulk: str = "") -> Decision:
    of = {name: getattr(project, name) for name in ("terminology", "release", "model")}
    return Decision(uid, project.name, decision.row, by, "undo", at=at, bulk=bulk, undoes=decision.id, **of)


def rebase(connection: Connection, project: str, by: str, uid: str, change: Rebase) -> Rebased:
    """Move a project to another release, all or nothing; raises `Busy` if somebody decided after `change.seen`."""
    project_id, old = rows.numbered(connection, project)
    rules.check_actor(by, uid)
    asked = change.target
    if is_done(connection, uid, "rebase", project_id, by, asked):
        made = list(read(connection, OF_BULK, bulk=uid))
        reopened = {one.row for one in made if one.kind == "undo"}.intersection(change.reopen)
        return Rebased(sum(one.kind != "undo" for one in made), len(reopened))
    newest = connection.execute(NEWEST.where(_decision.project == project_id)).scalar_one()
    if change.seen is not None and newest > change.seen:
        problem = "somebody decided while it was worked out what moves; nothing of it was changed"
        raise Busy(f"project {project!r}", f"{problem}; run it again")
    new = replace(old, **asked)
    connection.execute(update(tables.project).where(_project.id == project_id), asked)
    for row in rows.of_project(connection, project, {*change.candidates, *change.types}):
        rows.change(connection, row, change.candidates.get(row.id, row.candidates), change.types.get(row.id, row.types))
    followed = _follow(connection, project_id, new, uid, change.follow)
    reopened_ids = [row.id for row in rows.of_project(connection, project, change.reopen)]
    taken = list(read(connection, _STANDING_OF_ROWS, rows=reopened_ids))
    reopened = {decision.row for decision in taken}
    lost = read(connection, _STANDING_IDS, ids=sorted(set(change.lost)))
    for one in lost:
        if not one.forgotten or one.project != project:
            raise Unknown(f"no forgotten decision {one.id} in project {project!r}")
        if one.row not in reopened:
            taken.append(one)
    at = now(connection)
    add(connection, project_id, [_undo_of(one, new, by, at, uid=f"{uid}#undo#{one.id}", bulk=uid) for one in taken])
    refresh(connection, [*followed, *reopened_ids])
    note(connection, uid, "rebase", project_id, by, asked)
    return Rebased(len(followed), len(reopened))


def _follow(
    connection: Connection, project_id: int, project: Project, uid: str, follow: Dictionary[int, Decision]
) -> list[int]:
    """Store what takes the place of decisions in force; return the rows."""
    by_id = {one.id: one for one in read(connection, _IDS_IN_FORCE, ids=list(follow))}
    made = []
    for id, new in follow.items():
        old = by_id.get(id)
        if old is None or old.project != project.name:
            raise Unknown(f"no decision {id} in force in project {project.name!r}")
        rules.check_meaning(new.concept_id, new.relation)
        row = rows.row(connection, old.row)
        answer = row.candidates[0].concept_id if row.candidates else None
        kind = "choose" if old.kind == "accept" and new.concept_id != answer else old.kind
        relation = (new.relation or old.relation or "exact") if new.concept_id else None
        means = new.concept_id, relation, new.comment
        by = old.project, old.row, old.reviewer
        # As old as the one whose place it takes: what came after that still does.
        one = Decision(f"{uid}#{id}", *by, kind, *means, at=old.at, concept_name=new.concept_name, bulk=uid)
        made.append(fill(one, row, project))
    return [one.row for one in add(connection, project_id, made)]


def newest(connection: Connection, row: int, reviewer: str | None = None) -> Decision | None:
    """Return the newest decision about a row, undone ones and undos too, of a reviewer or (None) of anyone.

    What somebody else took back of a reviewer's counts as news to them.
    """
    rows.row(connection, row)
    return _newest(read(connection, _OF_ROWS, rows=[row]), reviewer)


def _newest(of_row: Iterable[Decision], reviewer: str | None) -> Decision | None:
    theirs: set[int | None] = set()
    last = None
    for one in of_row:
        if reviewer is None or one.reviewer == reviewer or (one.undoes is not None and one.undoes in theirs):
            theirs.add(one.id)
            last = one
    return last


@functools.cache
def history(*about: str) -> Select[Any]:
    """Return what selects every decision of a project, or of a row or reviewer in it, oldest first."""
    told = (_decision[name] == bindparam(name) for name in about)
    return ALL.where(_decision.project == bindparam("in_project"), *told).order_by(_decision.id)


def add(
    connection: Connection, project_id: int, decisions: Sequence[Decision], *, at: str | None = None
) -> list[Decision]:
    """Store decisions of a project as they are, or at a time; return them as stored; their rows are to be refreshed."""
    names: dict[tuple[int, str | None], str | None] = {}
    cells = []
    for one in decisions:
        about, name = (one.row, one.concept_id), one.concept_name
        if one.concept_id is not None and name is None:
            # As whoever decided the same before them named it.
            if about not in names:
                names[about] = (run(connection, _NAMED, row=one.row, concept=one.concept_id).fetchone() or (None,))[0]
            name = names[about]
        names[about] = name
        said = {name: getattr(one, name) for name in _PLAIN}
        shown = json.dumps(one.shown)
        cells.append(said | {"project": project_id, "shown": shown, "concept_name": name, "at": at or one.at})
    if not cells:
        return []
    try:
        if len(cells) == 1:
            ids = [run(connection, _INSERT, **cells[0]).fetchone()[0]]
        else:
            ids = list(connection.execute(_INSERT, cells).scalars())
    except Exception as error:
        if "unique" in str(getattr(error, "orig", error)).lower():
            raise _uid_in_use(decisions[0].bulk or decisions[0].uid) from None
        raise
    return [
        replace(one, id=id, concept_name=cell["concept_name"], at=cell["at"])
        for one, id, cell in zip(decisions, ids, cells, strict=True)
    ]


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


def is_done(connection: Connection, uid: str, kind: str, project_id: int, reviewer: str, asked: dict[str, Any]) -> bool:
    """Tell whether an action of several decisions was done before."""
    found = run(connection, _BATCH, uid=uid).fetchone()
    if found is not None:
        if tuple(found) != (kind, project_id, reviewer, json.dumps(asked, sort_keys=True)):
            raise _uid_in_use(uid)
        return True
    if run(connection, _BY_UID, uid=uid).fetchone():
        raise _uid_in_use(uid)
    return False


def note(connection: Connection, uid: str, kind: str, project_id: int, reviewer: str, asked: dict[str, Any]) -> None:
    """Note that an action of several decisions, which are stored by now, was done."""
    upto = run(connection, NEWEST).fetchone()[0]
    by = {"reviewer": reviewer, "asked": json.dumps(asked, sort_keys=True), "at": rules.now(), "upto": upto}
    run(connection, _NEW_BATCH, uid=uid, kind=kind, project=project_id, **by)


def refresh(connection: Connection, ids: Iterable[int]) -> None:
    """Bring up to date what is in force for some rows, and how they stand."""
    by_row: dict[int, list[Decision]] = {id: [] for id in sorted(set(ids))}
    for one in read(connection, _OF_ROWS, rows=list(by_row)):
        by_row[one.row].append(one)
    _derive(connection, by_row)


def _derive(connection: Connection, by_row: Dictionary[int, Sequence[Decision]]) -> None:
    """Keep what follows from all decisions about some rows, oldest first."""
    if not by_row:
        return
    slots: dict[tuple[int, str], Decision] = {}
    for row, decisions in by_row.items():
        undone = {one.undoes for one in decisions}
        for one in decisions:
            if one.kind != "undo" and one.id not in undone and not one.forgotten:
                slots[row, "" if one.kind == "adjudicate" else one.reviewer] = one
    run(connection, _OUT_OF_FORCE, rows=list(by_row))
    said = [
        {"row": row, "slot": slot, "decision": one.id, "kind": one.kind, "meaning": rules.meaning(one)}
        for (row, slot), one in slots.items()
    ]
    if said:
        run(connection, _INTO_FORCE, *said)
    standing = defaultdict(list)
    for (row, _), one in slots.items():
        standing[row].append(one)
    stands = []
    for row in by_row:
        state, by = rules.settle(standing[row])
        stands.append({"of": row, "state": state, "settled_by": by.id if by else None})
    run(connection, _SETTLED, *stands)


def in_force(connection: Connection, ids: Sequence[int]) -> Iterator[Decision]:
    """Yield the decisions in force about some rows."""
    return read(connection, IN_FORCE, {}, rows=list(ids))


def read(connection: Connection, chosen: Select[Any], upto: Upto | None = None, **values: Any) -> Iterator[Decision]:  # noqa: ANN401
    """Yield decisions that are chosen; `upto` is what is forgotten, if that is known."""
    upto = forgotten(connection) if upto is None else upto
    for found in run(connection, chosen, **values):
        fields = dict(zip(_NAMES, found, strict=True))
        check_kinds(fields, _KINDS)
        keys = (("source", fields.pop("source")), ("project", fields["project"]), ("reviewer", fields["reviewer"]))
        fields["shown"] = tuple(stored(fields["shown"], list))
        yield Decision(**fields, forgotten=any(fields["id"] <= upto.get(key, 0) for key in keys))


def forgotten(connection: Connection) -> Upto:
    """Return up to which decision those of a source, a project or a reviewer are forgotten."""
    return {(what, name): upto for what, name, upto in run(connection, _FORGOTTEN)}


def _checked(decision: Decision, row: ReviewRow) -> Decision:
    """Return a decision with its relation, if it is one that can be taken of this row."""
    kind, concept = decision.kind, decision.concept_id
    if kind not in KINDS:
        raise InputError(registry.unknown("kind", kind, KINDS), field="kind")
    if kind == "undo" or decision.undoes is not None or decision.bulk:
        raise InputError("undos and bulk actions have calls of their own", field="kind", value=kind)
    rules.check_meaning(concept, decision.relation)
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


def _uid_in_use(uid: str) -> InputError:
    return InputError("this uid was used for another action", field="uid", value=uid)
