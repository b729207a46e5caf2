"""What a file says was decided already: its reviewed mappings become decisions like all others.

    approved    accept, choose or nil
    rejected    reject, if it is the answer that was, in the file and in the store
    flagged     flag
    ignored     skip: nothing was said of what the row means

A row means one concept here, so that one mapping of a row becomes a decision, and a further one only where another
reviewer said the same; what the target gives of a row besides (a value, a unit) is not what it means. What is left out
is counted. Reviewer, time and comment are those of the file; `Decision.uid`
names it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from alphita import artefact
from alphita.mappings.record import Mapping
from alphita.review import agreement, deciding, rows
from alphita.review.records import Added, Decision, Kind, Project, ReviewRow

# Who decided, where the file does not say it.
UNNAMED = "imported"
IGNORED = "ignored"
KIND = "import"
MEANS = "maps_to"
# Which of the mappings of one rank is shown first, and which says what the row means.
FIRST = {"approved": 0, "rejected": 2}


def in_order(mappings: Iterable[Mapping]) -> list[Mapping]:
    """Return the mappings of one row, the answer first: by rank, then approved ones, rejected ones and NIL last."""
    return sorted(
        mappings,
        key=lambda one: (one.rank, FIRST.get(one.status, 1), one.mapping_type != MEANS, one.concept_id is None),
    )


def check(mapping: Mapping) -> None:
    """See that a mapping that was reviewed can become a decision."""
    if mapping.status != "unreviewed":
        deciding.check_meaning(mapping.concept_id, None)
        deciding.moment(mapping.reviewed_at, "reviewed_at")


def uid(decision: Decision, key: tuple[str, str], file: str) -> str:
    """Return the uid of a decision that a file brings about a code and string: the same whenever it is imported."""
    said = ("project", "reviewer", "kind", "concept_id", "relation", "comment", "at")
    return f"{KIND}:{artefact.hash_json([key, *(getattr(decision, name) for name in said)])[:32]}:{file}"


def decided(mappings: Sequence[Mapping], project: str, file: str, left_out: Counter[str]) -> tuple[Decision, ...]:
    """Return the decisions that a file brings about one row, none of them stored yet."""
    main = _settling(mappings)
    found: dict[str, Mapping] = {}
    for one in mappings:
        if one.status == "unreviewed":
            continue
        if one.status == "approved" and one.mapping_type != MEANS and (main is None or main.status != "approved"):
            left_out[f"approved mappings that do not say what a row means (not {MEANS})"] += 1
        elif _says(one) != _says(main):
            left_out[f"further {one.status} mappings of a row"] += 1
        elif (first := found.setdefault(_reviewer(one), one)) is not one:
            found[_reviewer(one)] = _filled(first, one)
        elif one.status == "ignored":
            left_out["ignored mappings, kept as skipped"] += 1
    return tuple(_decision(one, project, file) for one in found.values())


def add(connection: sqlite3.Connection, name: str, given: Iterable[ReviewRow], by: str, *, guarded: bool) -> Added:
    """Add rows to a project, with the decisions that they bring; see `ReviewStore.add_rows`."""
    project_id, project = rows.project(connection, name)
    counts: Counter[str] = Counter()

    def added() -> Iterator[ReviewRow]:
        for row in given:
            one = rows.add_rows(connection, project_id, [row])
            counts.update(new=one.new, known=one.known)
            yield row

    stored, overtaken = take_over(connection, project_id, project, added(), by, guarded=guarded)
    return Added(counts["new"], counts["known"], stored, overtaken)


def take_over(
    connection: sqlite3.Connection,
    project_id: int,
    project: Project,
    given: Iterable[ReviewRow],
    by: str,
    *,
    guarded: bool,
) -> tuple[int, int]:
    """Store the decisions that rows bring, each once; the rows are there."""
    stored: list[Decision] = []
    overtaken = 0
    for one in (row for row in given if row.decided):
        (id,) = connection.execute(
            "SELECT id FROM row WHERE project = ? AND code = ? AND mention = ?", (project_id, one.code, one.mention)
        ).fetchone()
        (row,) = rows.load(connection, [id])
        answer = row.candidates[0].concept_id if row.candidates else None
        in_force = {one.reviewer: one for one in deciding.in_force(connection, [id]) if one.kind != "adjudicate"}
        for decision in one.decided:
            if connection.execute("SELECT 1 FROM decision WHERE uid = ?", (decision.uid,)).fetchone():
                continue
            if decision.kind == "reject" and decision.concept_id != answer:
                overtaken += 1
                continue
            last = in_force.get(decision.reviewer)
            if last is not None and _is_known(decision, last):
                continue
            if last is not None and not _replaces(decision, last, guarded=guarded and decision.reviewer != by):
                overtaken += 1
                continue
            kind: Kind = "accept" if decision.kind == "choose" and decision.concept_id == answer else decision.kind
            means = None if kind == "reject" else decision.concept_id
            full = deciding.fill(replace(decision, row=id, kind=kind, concept_id=means), row, project)
            stored.append(deciding.insert(connection, project_id, full, at=decision.at))
    deciding.refresh(connection, [one.row for one in stored])
    if stored:
        action = f"{KIND}:{artefact.hash_json([one.uid for one in stored])[:32]}"
        deciding.note(connection, action, KIND, project_id, by, {"decisions": len(stored)})
    return len(stored), overtaken


def _is_known(decision: Decision, last: Decision) -> bool:
    return decision.at == last.at and _said(decision) == _said(last)


def _replaces(decision: Decision, last: Decision, *, guarded: bool) -> bool:
    """Tell whether a decision of a file takes the place of the one in force, which is another."""
    if last.uid.startswith(f"{KIND}:"):
        # A corrected file brings the time of the first one again.
        return decision.at >= last.at
    return decision.at > last.at and not guarded


def _said(decision: Decision) -> tuple[str, str]:
    """Return what a decision says; to choose the answer is to accept it."""
    means = agreement.meaning(decision)
    return decision.kind if means is None else f"={means}", decision.comment


def _settling(mappings: Sequence[Mapping]) -> Mapping | None:
    """Return the mapping that says what the row means; None: none does, or was put off."""
    approved = [mapping for mapping in mappings if mapping.status == "approved" and mapping.mapping_type == MEANS]
    rejected = [mapping for mapping in mappings[:1] if mapping.status == "rejected"]
    others = [mapping for status in ("flagged", "ignored") for mapping in mappings if mapping.status == status]
    approved.sort(key=lambda one: one.concept_id is None)
    return next(iter([*approved, *rejected, *others]), None)


def _says(mapping: Mapping | None) -> tuple[object, ...]:
    if mapping is None:
        return ()
    return mapping.status, mapping.concept_id, mapping.relation or "exact", mapping.mapping_type


def _reviewer(mapping: Mapping) -> str:
    return mapping.reviewer if mapping.reviewer and mapping.reviewer.strip() else UNNAMED


def _filled(first: Mapping, further: Mapping) -> Mapping:
    """Return a reviewer's mapping with what another one that says the same has beside it."""
    comments = filter(None, dict.fromkeys((first.comment, further.comment)))
    empty = {name: getattr(further, name) for name in ("reviewed_at", "concept_name") if not getattr(first, name)}
    return replace(first, comment="; ".join(comments) or None, **empty)


def _decision(mapping: Mapping, project: str, file: str) -> Decision:
    means = mapping.concept_id if mapping.status == "approved" else None
    approved: Kind = "nil" if means is None else "choose"
    kinds: dict[str, Kind] = {"approved": approved, "rejected": "reject", "flagged": "flag", "ignored": "skip"}
    said = [IGNORED if mapping.status == "ignored" else "", mapping.comment or ""]
    relation = (mapping.relation or "exact") if means is not None else None
    made = Decision(
        "",
        project,
        0,
        _reviewer(mapping),
        kinds[mapping.status],
        means,
        relation,
        "; ".join(filter(None, said)),
        deciding.moment(mapping.reviewed_at, "reviewed_at"),
        concept_name=mapping.concept_name if means is not None else None,
    )
    named = replace(made, uid=uid(made, (mapping.mention_code or "", mapping.mention), file))
    return replace(named, concept_id=mapping.concept_id) if named.kind == "reject" else named
