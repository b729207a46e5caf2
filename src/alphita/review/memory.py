"""What was settled about a mention, code or concept, whose influence is removed from it, and what is exported."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, insert, select

from alphita import registry
from alphita.errors import InputError, UsageError
from alphita.mappings.record import REVIEWED, Mapping, bare
from alphita.review import deciding, queueing, rows, rules, tables
from alphita.review.database import Database, run
from alphita.review.records import Decision, Project, ReviewRow, Standing, Unknown
from alphita.review.tables import STRINGS, among
from alphita.terminology.text import clean

_row, _project, _decision, _in_force = tables.row.c, tables.project.c, tables.decision.c, tables.in_force.c


@functools.cache
def settling(*given: str) -> Select[Any]:
    """Return what selects forms, the decisions that settle them and their rows, the newest last.

    Args:
        given: of "forms", "source" and "project", by which it is asked.
    """
    asked: Select[Any] = select(_row.cleaned, _decision.id, _row.id).where(
        _decision.kind != "reject", _row.cleaned != ""
    )
    asked = asked.join_from(tables.row, tables.decision, _decision.id == _row.settled_by)
    whose = select(_project.id)
    for name, column in (("source", _project.source), ("project", _project.name)):
        if name in given:
            whose = whose.where(column == bindparam(name))
    if "forms" in given:
        asked = asked.where(among(_row.cleaned, "forms", STRINGS))
    # Not by the index of projects, for SQLite is not to guess how few rows have these forms.
    return asked.where((_row.project + 0).in_(whose)).order_by(_decision.at, _decision.id)


def remembered(
    connection: Connection, source: str, mentions: Iterable[str], *, project: str | None = None
) -> dict[str, Decision]:
    """Return the newest final decision about equal mentions (after cleaning) of a source, or in one project.

    Rejections do not count; unknown mentions are left out.
    """
    if project is not None:
        rows.numbered(connection, project)
    # A mention of nothing but punctuation is like no other.
    cleaned = {mention: clean(mention) for mention in mentions}
    forms = sorted({form for form in cleaned.values() if form})
    newest: dict[str, Decision] = {}
    given = {"source": source} | ({} if project is None else {"project": project})
    for start in range(0, len(forms), rows.AT_ONCE):
        newest |= _settled(connection, forms=forms[start : start + rows.AT_ONCE], **given)
    return {mention: newest[form] for mention, form in cleaned.items() if form in newest}


def settled(connection: Connection, *, source: str | None = None, project: str | None = None) -> dict[str, Decision]:
    """Return all that was settled about strings of a source and project (None: any), as `remembered` would."""
    for what, name in (("source", source), ("project", project)):
        if name is not None:
            _check_known(connection, what, name)
    given = {what: name for what, name in (("source", source), ("project", project)) if name is not None}
    return _settled(connection, **given)


def _settled(connection: Connection, **given: Any) -> dict[str, Decision]:  # noqa: ANN401 - texts, or forms
    """Return the decisions that settle forms, the newest of each, with the comments of all that count for its row."""
    found = run(connection, settling(*given), **given)
    last = {form: (id, row) for form, id, row in found}
    by_row: dict[int, list[Decision]] = defaultdict(list)
    for one in deciding.in_force(connection, sorted({row for _, row in last.values()})):
        by_row[one.row].append(one)
    by_id = {one.id: rules.with_comments(one, some) for some in by_row.values() for one in some}
    return {form: by_id[id] for form, (id, _) in last.items()}


def mappings(connection: Connection, project_id: int, project: Project, settled_only: bool) -> Iterator[Mapping]:
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
        comment=rules.comments(standing.decisions) or None,
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
    by = rules.with_comments(rules.settle(standing.decisions)[1] or next(flags), standing.decisions)
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


_KEYS: Dictionary[str, Any] = {"source": _project.source, "project": _project.name, "reviewer": _decision.reviewer}
_STANDING_OF = {
    what: deciding.ALL.where(column == bindparam("about"), deciding.STANDING) for what, column in _KEYS.items()
}


def forget(
    connection: Connection,
    *,
    source: str | None = None,
    project: str | None = None,
    reviewer: str | None = None,
    by: str,
    forgotten: bool = True,
) -> int:
    """Remove the influence of all decisions so far of one source, project or reviewer; return how many.

    They stay in the history, as forgotten; later decisions count. `by` says who asks for it.
    """
    named = {"source": source, "project": project, "reviewer": reviewer}
    given = [(what, name) for what, name in named.items() if name is not None]
    if len(given) != 1:
        raise UsageError("name exactly one: a source, a project or a reviewer")
    if not by.strip():
        raise InputError("must not be empty", field="by")
    ((what, name),) = given
    _check_known(connection, what, name)
    before = _forgotten(connection, what, name)
    note(connection, what, name, connection.execute(deciding.NEWEST).scalar_one() if forgotten else 0, by)
    after = _forgotten(connection, what, name)
    deciding.refresh(connection, {row for id, row in before ^ after})
    return len(before ^ after)


def note(connection: Connection, what: str, name: str, upto: int, by: str) -> None:
    """Note that what was decided, up to a number, counts no more or is gone, and who asked for it."""
    said = {"what": what, "name": name, "upto": upto, "reviewer": by, "at": rules.now()}
    connection.execute(insert(tables.forgetting), said)


def _forgotten(connection: Connection, what: str, name: str) -> set[tuple[int, int]]:
    """Return id and row of the decisions of a source, project or reviewer that are forgotten, for whichever reason."""
    found = deciding.read(connection, _STANDING_OF[what], about=name)
    return {(one.id, one.row) for one in found if one.forgotten}


def _check_known(connection: Connection, what: str, name: str) -> None:
    known = connection.execute(select(_KEYS[what]).distinct()).scalars().all()
    if name not in known:
        raise Unknown(registry.unknown(what, name, known))


_FINAL = (
    select(_project.name, _row.id, _project.source, _row.code, _row.mention, tables.detail.c.candidates)
    .add_columns(_decision.concept_id, _decision.concept_name, _decision.relation)
    .join_from(tables.row, tables.project, _project.id == _row.project)
    .join(tables.decision, _decision.id == _row.settled_by)
    .join(tables.detail, tables.detail.c.row == _row.id)
    .where(_decision.kind != "reject")
    .order_by(_project.id, *tables.TIES)
)


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
    """Looks up in a store, and sees every decision as soon as it is stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def by_code(self, code: str) -> list[FinalMapping]:
        """Return what a code means, in all projects; a row without a code is found by its string."""
        if not code:
            return []
        with self._database.reading() as connection:
            of_code = [_row.code == code], [_row.code == "", _row.cleaned == clean(code), _row.mention == code]
            return [_final(*values) for asked in of_code for values in connection.execute(_FINAL.where(*asked))]

    def by_concept(self, wanted: Callable[[str], bool]) -> list[FinalMapping]:
        """Return the rows, in all projects, that mean a concept whose id (or one of its ids) is wanted."""
        with self._database.reading() as connection:
            found = connection.execute(_FINAL.where(_decision.concept_id.is_not(None)))
            return [_final(*values) for values in found if any(map(wanted, values.concept_id.split("|")))]


def _final(
    project: str,
    row: int,
    source: str,
    code: str,
    mention: str,
    known: str,
    concept_id: str | None,
    name: str | None,
    relation: str | None,
) -> FinalMapping:
    candidates = rows.candidates_of(known)
    if concept_id is not None and name is None:
        names = (candidate.get("concept_name") for candidate in candidates if candidate.get("concept_id") == concept_id)
        name = next(names, None)
    answer = candidates[0] if candidates else {}
    is_answer = answer.get("concept_id") == concept_id
    said = [answer.get(one) if is_answer else None for one in ("confidence", "decision")]
    return FinalMapping(project, row, source, code or mention, mention, concept_id, name, relation, *said)
