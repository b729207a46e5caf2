"""Many rows at once: accepting what is sure enough, and moving a project to another release."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import replace

from alphita.errors import InputError
from alphita.review import deciding, queueing, rows
from alphita.review.failures import Busy, Unknown
from alphita.review.records import Bulk, Decision, Project, Rebase, Rebased, ReviewRow


def preview(
    connection: sqlite3.Connection, project_name: str, reviewer: str, threshold: float, types: Collection[str]
) -> Bulk:
    """Return what `accept` would do."""
    project_id, project = rows.project(connection, project_name)
    _check(threshold)
    return _sum(queueing.open_rows(connection, project_id, project, reviewer, threshold, types))


def accept(
    connection: sqlite3.Connection, project_name: str, reviewer: str, uid: str, threshold: float, types: Collection[str]
) -> Bulk:
    """See `ReviewStore.bulk`."""
    project_id, project = rows.project(connection, project_name)
    deciding.check_actor(reviewer, uid)
    _check(threshold)
    asked = {"threshold": float(threshold), "types": sorted(types)}
    if deciding.is_done(connection, uid, "bulk", project_id, reviewer, asked):
        done = tuple(deciding.select(connection, "WHERE d.bulk = ? AND d.bulk <> '' ORDER BY d.id", uid))
        frequency = {row.id: row.frequency for row in rows.load(connection, [one.row for one in done])}
        wrong = sum(1.0 - (one.confidence or 0.0) for one in done)
        return Bulk(len(done), sum(frequency[one.row] for one in done), wrong, done)
    found = queueing.open_rows(connection, project_id, project, reviewer, threshold, types)
    made = tuple(
        deciding.insert(connection, project_id, deciding.fill(_accepted(row, reviewer, uid), row, project))
        for row in found
    )
    deciding.refresh(connection, [row.id for row in found])
    deciding.note(connection, uid, "bulk", project_id, reviewer, asked)
    return replace(_sum(found), decisions=made)


def rebase(connection: sqlite3.Connection, project_name: str, by: str, uid: str, change: Rebase) -> Rebased:
    """See `ReviewStore.rebase`."""
    project_id, old = rows.project(connection, project_name)
    deciding.check_actor(by, uid)
    asked = change.target
    if deciding.is_done(connection, uid, "rebase", project_id, by, asked):
        made = list(deciding.select(connection, "WHERE d.bulk = ? AND d.bulk <> ''", uid))
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
    standing = f"d.kind <> 'undo' AND {deciding.NOT_UNDONE} ORDER BY d.id DESC"
    taken = [one for id in reopened_ids for one in deciding.select(connection, f"WHERE d.row = ? AND {standing}", id)]
    reopened = {one.row for one in taken}
    ids = json.dumps(sorted(set(change.lost)))
    forgotten = list(deciding.select(connection, f"JOIN json_each(?) i ON i.value = d.id WHERE {standing}", ids))
    if wrong := [one for one in forgotten if not one.forgotten or one.project != project.name]:
        raise Unknown(f"no forgotten decision {wrong[0].id} in project {project.name!r}")
    for one in [*taken, *(one for one in forgotten if one.row not in reopened)]:
        back = Decision(
            uid=f"{uid}#undo#{one.id}",
            project=project.name,
            row=one.row,
            reviewer=by,
            kind="undo",
            undoes=one.id,
            bulk=uid,
            terminology=project.terminology,
            release=project.release,
            model=project.model,
        )
        deciding.insert(connection, project_id, back)
    deciding.refresh(connection, [*followed, *reopened_ids])
    deciding.note(connection, uid, "rebase", project_id, by, asked)
    return Rebased(len(followed), len(reopened))


def _follow(
    connection: sqlite3.Connection, project_id: int, project: Project, uid: str, follow: Dictionary[int, Decision]
) -> list[int]:
    """Store what takes the place of decisions in force; return the rows."""
    found = []
    for id, new in follow.items():
        old = next(
            deciding.select(connection, "JOIN in_force f ON f.decision = d.id AND f.row = d.row WHERE d.id = ?", id),
            None,
        )
        if old is None or old.project != project.name:
            raise Unknown(f"no decision {id} in force in project {project.name!r}")
        deciding.check_meaning(new.concept_id, new.relation)
        (row,) = rows.load(connection, [old.row])
        answer = row.candidates[0].concept_id if row.candidates else None
        kind = "choose" if old.kind == "accept" and new.concept_id != answer else old.kind
        relation = (new.relation or old.relation or "exact") if new.concept_id else None
        made = Decision(
            uid=f"{uid}#{id}",
            project=old.project,
            row=old.row,
            reviewer=old.reviewer,
            kind=kind,
            concept_id=new.concept_id,
            concept_name=new.concept_name,
            relation=relation,
            comment=new.comment,
            bulk=uid,
        )
        # As old as the one whose place it takes: what came after that still does.
        deciding.insert(connection, project_id, deciding.fill(made, row, project), at=old.at)
        found.append(old.row)
    return found


def _rows(connection: sqlite3.Connection, project: Project, ids: Collection[int]) -> list[ReviewRow]:
    found = rows.load(connection, sorted(ids))
    for row in found:
        if row.project != project.name:
            raise Unknown(f"unknown row {row.id} of project {project.name!r}")
    return found


def _accepted(row: ReviewRow, reviewer: str, uid: str) -> Decision:
    answer = row.candidates[0]
    named = answer.concept_id is not None
    return Decision(
        uid=f"{uid}#{row.id}",
        project=row.project,
        row=row.id,
        reviewer=reviewer,
        kind="accept" if named else "nil",
        concept_id=answer.concept_id,
        relation=(answer.relation or "exact") if named else None,
        bulk=uid,
    )


def _sum(found: Sequence[ReviewRow]) -> Bulk:
    wrong = sum(1.0 - (row.confidence or 0.0) for row in found)
    return Bulk(len(found), sum(row.frequency for row in found), wrong)


def _check(threshold: float) -> None:
    if not 0.0 <= threshold <= 1.0:
        raise InputError("must be between 0 and 1", field="threshold", value=threshold)
