"""Projects and rows of files into the store, with the decisions that they bring."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from sqlalchemy import Connection, select

from alphita.review import deciding, rows, rules, tables
from alphita.review.database import run
from alphita.review.files import KIND, UNNAMED
from alphita.review.records import Added, Decision, Kind, Project, ReviewRow

_KNOWN = select(tables.decision.c.uid).where(tables.among(tables.decision.c.uid, "uids", tables.STRINGS))


def add_project(
    connection: Connection, project: Project, given: Iterable[ReviewRow] = (), *, by: str = UNNAMED
) -> Added:
    """Add a project with rows (see `add_rows`), both or neither; an empty `created_at` becomes now."""
    rows.add_project(connection, project)
    return add_rows(connection, project.name, given, by=by)


def add_rows(
    connection: Connection,
    project: str,
    given: Iterable[ReviewRow],
    *,
    by: str = UNNAMED,
    guarded: bool = False,
    filters: dict[str, Any] | None = None,
) -> Added:
    """Add rows, all or none; a known pair of code and mention stays as it is.

    Decisions that they bring are stored with them, each once, unless its reviewer has overtaken it here.

    Args:
        by: who brings the decisions.
        guarded: a reviewer's decision here stands against a file of anybody else, however new it is.
        filters: the project's from now on, if given.

    Raises:
        InputError: a row is not valid; nothing is added.
    """
    if filters:
        rows.set_filters(connection, project, filters)
    project_id, facts = rows.numbered(connection, project)
    left, new, known, overtaken = iter(given), 0, 0, 0
    stored: list[Decision] = []
    while some := list(islice(left, rows.AT_ONCE)):
        n_new, ids = rows.add(connection, project_id, some)
        new, known = new + n_new, known + len(some) - n_new
        brought = [(id, one.decided) for id, one in zip(ids, some, strict=True) if one.decided]
        if not brought:
            continue
        uids = [decision.uid for _, decided in brought for decision in decided]
        is_known = {uid for (uid,) in run(connection, _KNOWN, uids=uids)}
        about = {row.id: row for row in rows.load(connection, [id for id, _ in brought])}
        in_force = {
            (one.row, one.reviewer): one
            for one in deciding.in_force(connection, list(about))
            if one.kind != "adjudicate"
        }
        made = []
        for id, decided in brought:
            for decision in decided:
                if decision.uid in is_known:
                    continue
                last = in_force.get((id, decision.reviewer))
                answer = about[id].candidates[0].concept_id if about[id].candidates else None
                is_other = decision.kind == "reject" and decision.concept_id != answer
                if last is not None and not is_other and decision.at == last.at and _said(decision) == _said(last):
                    continue
                is_theirs = guarded and decision.reviewer != by
                if is_other or (last is not None and not _replaces(decision, last, guarded=is_theirs)):
                    overtaken += 1
                    continue
                is_known.add(decision.uid)
                kind: Kind = "accept" if decision.kind == "choose" and decision.concept_id == answer else decision.kind
                means = None if kind == "reject" else decision.concept_id
                full = replace(decision, row=id, kind=kind, concept_id=means)
                made.append(deciding.fill(full, about[id], facts))
        stored += deciding.add(connection, project_id, made)
    deciding.refresh(connection, [one.row for one in stored])
    if stored:
        # After a purge, a file may bring the same decisions again.
        action = f"{rules.OF_FILES}{stored[0].id}"
        deciding.note(connection, action, KIND, project_id, by, {"decisions": len(stored)})
    return Added(new, known, len(stored), overtaken)


def _replaces(decision: Decision, last: Decision, *, guarded: bool) -> bool:
    """Tell whether a decision of a file takes the place of the one in force, which is another."""
    if last.uid.startswith(rules.OF_FILES):
        # A corrected file brings the time of the first one again.
        return decision.at >= last.at
    return decision.at > last.at and not guarded


def _said(decision: Decision) -> tuple[str, str]:
    """Return what a decision says; to choose the answer is to accept it."""
    means = rules.meaning(decision)
    return decision.kind if means is None else f"={means}", decision.comment
