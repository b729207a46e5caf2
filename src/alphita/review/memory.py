"""What was settled about a mention, code or concept, whose influence is removed from it, and what is exported."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.mappings.record import REVIEWED, Mapping, bare
from alphita.review import deciding, queueing, rows
from alphita.review.database import Connections, Unknown
from alphita.review.records import Decision, Project, ReviewRow, Standing
from alphita.review.rows import candidates_of
from alphita.terminology.text import clean

PAGE = 1000


def remembered(
    connection: sqlite3.Connection, source: str, mentions: Iterable[str], project: str | None
) -> dict[str, Decision]:
    """See `ReviewStore.remembered`."""
    if project is not None:
        rows.project(connection, project)
    # A mention of nothing but punctuation is like no other.
    cleaned = {mention: clean(mention) for mention in mentions}
    forms = sorted({form for form in cleaned.values() if form})
    newest: dict[str, Decision] = {}
    for start in range(0, len(forms), PAGE):
        # A cross join, for SQLite is not to guess how few mentions there are.
        found = connection.execute(
            "SELECT i.value, r.settled_by FROM json_each(?) i CROSS JOIN row r ON r.cleaned = i.value"
            " JOIN project p ON p.id = r.project JOIN decision d ON d.id = r.settled_by"
            " WHERE p.source = ? AND (? IS NULL OR p.name = ?) AND d.kind <> 'reject' ORDER BY d.at, d.id",
            (json.dumps(forms[start : start + PAGE]), source, project, project),
        )
        newest |= _settling(connection, dict(found.fetchall()))
    return {mention: newest[form] for mention, form in cleaned.items() if form in newest}


def settled(connection: sqlite3.Connection, source: str | None, project: str | None) -> dict[str, Decision]:
    """See `ReviewStore.settled`."""
    for what, name in (("source", source), ("project", project)):
        if name is not None:
            _check_known(connection, what, name)
    found = connection.execute(
        "SELECT r.cleaned, d.id FROM row r JOIN project p ON p.id = r.project JOIN decision d ON d.id = r.settled_by"
        " WHERE d.kind <> 'reject' AND r.cleaned <> '' AND (? IS NULL OR p.source = ?) AND (? IS NULL OR p.name = ?)"
        " ORDER BY d.at, d.id",
        (source, source, project, project),
    )
    return _settling(connection, dict(found.fetchall()))


def _settling(connection: sqlite3.Connection, by_form: dict[str, int]) -> dict[str, Decision]:
    """Return the decisions of these ids that settle rows, with the comments of all that count there."""
    by_row: dict[int, list[Decision]] = defaultdict(list)
    of_rows = (
        "JOIN in_force f ON f.decision = d.id"
        " WHERE f.row IN (SELECT s.row FROM json_each(?) i JOIN decision s ON s.id = i.value)"
    )
    for one in deciding.select(connection, of_rows, json.dumps(sorted(by_form.values())), forgotten={}):
        by_row[one.row].append(one)
    by_id = {one.id: deciding.with_comments(one, some) for some in by_row.values() for one in some}
    return {form: by_id[id] for form, id in by_form.items()}


def mappings(
    connection: sqlite3.Connection, project_id: int, project: Project, settled_only: bool
) -> Iterator[Mapping]:
    """See `ReviewStore.mappings`."""
    return map(mapping, queueing.every(connection, project_id, project, "decided" if settled_only else "all"))


def mapping(standing: Standing) -> Mapping:
    """Return what is exported of a row, all decisions considered."""
    row = standing.row
    answer = row.candidates[0] if row.candidates else _bare(row)
    plain = replace(
        answer,
        row=row.number,
        mention=row.mention,
        mention_code=row.code or answer.mention_code,
        rank=1,
        decision=None if answer.decision == REVIEWED else answer.decision,
        status="unreviewed",
        reviewer=None,
        reviewed_at=None,
        comment=deciding.comments(standing.decisions) or None,
    )
    if standing.state == "disagreed":
        return replace(
            plain,
            decision=None,
            status="flagged",
            comment="; ".join(filter(None, ("reviewers disagree", plain.comment))),
        )
    if standing.state == "open":
        return plain
    flags = (decision for decision in standing.decisions if decision.kind == "flag")
    by = deciding.with_comments(deciding.settle(standing.decisions)[1] or next(flags), standing.decisions)
    signed = replace(plain, reviewer=by.reviewer, reviewed_at=by.at or None, comment=by.comment or None)
    if standing.state == "flagged":
        return replace(signed, decision=None, status="flagged")
    if by.kind == "reject":
        return replace(signed, decision=None, status="rejected")
    return replace(_meant(signed, row, by), status="approved", decision=REVIEWED, relation=by.relation)


def _meant(signed: Mapping, row: ReviewRow, by: Decision) -> Mapping:
    """Return the mapping with the concept that was decided on, and what is known of it."""
    if by.concept_id == signed.concept_id:
        return signed
    for candidate in row.candidates:
        if candidate.concept_id is not None and candidate.concept_id == by.concept_id:
            kept = ("row", "mention", "mention_code", "rank", "frequency", "reviewer", "reviewed_at", "comment")
            return replace(candidate, **{name: getattr(signed, name) for name in kept})
    blank = replace(
        _bare(row),
        frequency=signed.frequency,
        reviewer=signed.reviewer,
        reviewed_at=signed.reviewed_at,
        comment=signed.comment,
    )
    if by.concept_id is None:
        return blank
    return replace(blank, concept_id=by.concept_id, concept_name=by.concept_name, method="nearest")


def _bare(row: ReviewRow) -> Mapping:
    """Return the mapping of a row to nothing."""
    return bare(row.number, row.code or None, row.mention, frequency=row.frequency)


_OF = {
    "source": "d.project IN (SELECT id FROM project WHERE source = ?)",
    "project": "d.project IN (SELECT id FROM project WHERE name = ?)",
    "reviewer": "d.reviewer = ?",
}


def set_forgotten(
    connection: sqlite3.Connection,
    source: str | None,
    project: str | None,
    reviewer: str | None,
    by: str,
    *,
    forgotten: bool,
) -> int:
    """See `ReviewStore.forget` and `restore`."""
    named = {"source": source, "project": project, "reviewer": reviewer}
    given = [(what, name) for what, name in named.items() if name is not None]
    if len(given) != 1:
        raise UsageError("name exactly one: a source, a project or a reviewer")
    if not by.strip():
        raise InputError("must not be empty", field="by")
    ((what, name),) = given
    _check_known(connection, what, name)
    upto = connection.execute("SELECT coalesce(max(id), 0) FROM decision").fetchone()[0] if forgotten else 0
    before = _forgotten(connection, what, name)
    connection.execute(
        "INSERT INTO forgetting (what, name, upto, reviewer, at) VALUES (?, ?, ?, ?, ?)",
        (what, name, upto, by, rows.now()),
    )
    after = _forgotten(connection, what, name)
    deciding.refresh(connection, {row for id, row in before ^ after})
    return len(before ^ after)


def _forgotten(connection: sqlite3.Connection, what: str, name: str) -> set[tuple[int, int]]:
    """Return id and row of the decisions of a source, project or reviewer that are forgotten, for whichever reason."""
    found = deciding.select(connection, f"WHERE {_OF[what]} AND d.kind <> 'undo' AND {deciding.NOT_UNDONE}", name)
    return {(one.id, one.row) for one in found if one.forgotten}


def _check_known(connection: sqlite3.Connection, what: str, name: str) -> None:
    table, column = (
        ("decision", "reviewer") if what == "reviewer" else ("project", "name" if what == "project" else what)
    )
    known = [one for (one,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}")]
    if name not in known:
        raise Unknown(registry.unknown(what, name, known))


_FOUND = """
SELECT p.name, p.source, r.id, r.code, r.mention, d.concept_id, d.concept_name, d.relation
FROM project p CROSS JOIN row r ON r.project = p.id JOIN decision d ON d.id = r.settled_by
WHERE d.kind <> 'reject' AND """
# To wait for another program that is writing.
SECONDS = 10.0


class FinalMapping(NamedTuple):
    """The final meaning of a row; confidence and decision are the normalizer's, where people agreed with it."""

    project: str
    row: int
    source: str
    code: str
    mention: str
    concept_id: str | None
    concept_name: str | None
    relation: str | None
    confidence: float | None = None
    decision: str | None = None


class FinalMappings:
    """Looks up in the file of a store, which sees every decision as soon as it is stored."""

    def __init__(self, path: Path) -> None:
        self._connections = Connections(path, SECONDS)

    def close(self) -> None:
        self._connections.close()

    def by_code(self, code: str) -> list[FinalMapping]:
        """Return what a code means, in all projects; a row without a code is found by its string."""
        if not code:
            return []
        with self._connections.reading() as connection:
            coded = connection.execute(f"{_FOUND} r.code = ? ORDER BY p.id, r.number, r.id", (code,)).fetchall()
            uncoded = connection.execute(
                f"{_FOUND} r.code = '' AND r.mention = ? ORDER BY p.id, r.number, r.id", (code,)
            ).fetchall()
            return [_settled(connection, values) for values in (*coded, *uncoded)]

    def by_concept(self, wanted: Callable[[str], bool]) -> list[FinalMapping]:
        """Return the rows, in all projects, that mean a concept whose id (or one of its ids) is wanted."""
        with self._connections.reading() as connection:
            found = connection.execute(f"{_FOUND} d.concept_id IS NOT NULL ORDER BY p.id, r.number, r.id")
            kept = [values for values in found if any(map(wanted, values[5].split("|")))]
            return [_settled(connection, values) for values in kept]


def _settled(connection: sqlite3.Connection, values: tuple[Any, ...]) -> FinalMapping:
    project, source, row, code, mention, concept_id, name, relation = values
    (known,) = connection.execute("SELECT candidates FROM detail WHERE row = ?", (row,)).fetchone()
    candidates = candidates_of(known)
    if concept_id is not None and name is None:
        names = (candidate.get("concept_name") for candidate in candidates if candidate.get("concept_id") == concept_id)
        name = next(names, None)
    answer = candidates[0] if candidates else {}
    is_answer = answer.get("concept_id") == concept_id
    said = [answer.get(one) if is_answer else None for one in ("confidence", "decision")]
    return FinalMapping(project, row, source, code or mention, mention, concept_id, name, relation, *said)
