"""What a file says was decided already: its reviewed mappings become decisions like all others.

    approved    accept, choose or nil
    rejected    reject, if it is the answer that was
    flagged     flag
    ignored     skip: nothing was said of what the row means

A row means one concept here, so that one mapping of a row becomes a decision, and a further one only where another
reviewer said the same. What is left out is counted. Reviewer, time and comment are those of the file; `Decision.uid`
names it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from alphita import artefact
from alphita.errors import InputError
from alphita.mappings.record import Mapping
from alphita.mappings.review import deciding, rows
from alphita.mappings.review.records import Decision, Kind, Project, Row

# Who decided, where the file does not say it.
UNNAMED = "imported"
IGNORED = "ignored"
KIND = "import"
# Which of the mappings of one rank is shown first, and which says what the row means.
FIRST = {"approved": 0, "rejected": 2}


def in_order(mappings: Iterable[Mapping]) -> list[Mapping]:
    """Return the mappings of one row, the answer first: by rank, then approved ones, rejected ones and NIL last."""
    return sorted(mappings, key=lambda one: (one.rank, FIRST.get(one.status, 1), one.concept_id is None))


def check(mapping: Mapping) -> None:
    """See that a mapping that was reviewed can become a decision.

    Raises:
        InputError: its concept is no CURIE, or its time no time.
    """
    if mapping.status != "unreviewed":
        deciding.check_meaning(mapping.concept_id, None)
        _time(mapping.reviewed_at)


def uid(decision: Decision, key: tuple[str, str], file: str) -> str:
    """Return the uid of a decision that a file brings about a code and string: the same whenever it is imported."""
    said = ("project", "reviewer", "kind", "concept_id", "relation", "comment", "at")
    return f"{KIND}:{artefact.hash_json([key, *(getattr(decision, name) for name in said)])[:32]}:{file}"


def decided(mappings: Sequence[Mapping], project: str, file: str, left_out: Counter[str]) -> tuple[Decision, ...]:
    """Return the decisions that a file brings about one row, none of them stored yet.

    Args:
        mappings: all of the row, `in_order` and sound (see `check`).
        project: its name.
        file: its name.
        left_out: counts what does not become a decision.
    """
    main = _settling(mappings)
    found: dict[str, Decision] = {}
    for one in mappings:
        if one.status == "unreviewed":
            continue
        said = _decision(one, project, file)
        if _says(one) != _says(main):
            left_out[f"further {one.status} mappings of a row"] += 1
        elif said.reviewer not in found:
            found[said.reviewer] = said
            if one.status == "ignored":
                left_out["ignored mappings, kept as skipped"] += 1
    return tuple(found.values())


def take_over(
    connection: sqlite3.Connection, project_id: int, project: Project, given: Iterable[Row], by: str
) -> tuple[int, int]:
    """Store the decisions that rows bring, each once; the rows are there.

    Returns:
        How many were stored, and how many not, for the store has a newer one of the same reviewer about the row.
    """
    stored: list[Decision] = []
    overtaken = 0
    for one in (row for row in given if row.decided):
        (id,) = connection.execute(
            "SELECT id FROM row WHERE project = ? AND code = ? AND mention = ?", (project_id, one.code, one.mention)
        ).fetchone()
        (row,) = rows.load(connection, [id])
        answer = row.candidates[0].concept_id if row.candidates else None
        for decision in one.decided:
            if connection.execute("SELECT 1 FROM decision WHERE uid = ?", (decision.uid,)).fetchone():
                continue
            last = connection.execute(
                "SELECT d.at FROM in_force f JOIN decision d ON d.id = f.decision WHERE f.row = ? AND f.slot = ?",
                (id, decision.reviewer),
            ).fetchone()
            # One without a time may be of any; one of the same time is the one that is there.
            if last is not None and decision.at <= last[0]:
                overtaken += decision.at != last[0]
                continue
            kind: Kind = "accept" if decision.kind == "choose" and decision.concept_id == answer else decision.kind
            full = deciding.fill(replace(decision, row=id, kind=kind), row, project)
            stored.append(deciding.insert(connection, project_id, full, at=decision.at))
    deciding.refresh(connection, [one.row for one in stored])
    if stored:
        action = f"{KIND}:{artefact.hash_json([one.uid for one in stored])[:32]}"
        deciding.note(connection, action, KIND, project_id, by, {"decisions": len(stored)})
    return len(stored), overtaken


def _settling(mappings: Sequence[Mapping]) -> Mapping | None:
    """Return the mapping that says what the row means; None: none does, or was put off."""
    approved = [one for one in mappings if one.status == "approved"]
    rejected = [one for one in mappings[:1] if one.status == "rejected"]
    others = [one for status in ("flagged", "ignored") for one in mappings if one.status == status]
    approved.sort(key=lambda one: one.concept_id is None)
    return next(iter([*approved, *rejected, *others]), None)


def _says(mapping: Mapping | None) -> tuple[object, ...]:
    if mapping is None:
        return ()
    return mapping.status, mapping.concept_id, mapping.relation or "exact"


def _decision(mapping: Mapping, project: str, file: str) -> Decision:
    means = mapping.concept_id if mapping.status == "approved" else None
    approved: Kind = "nil" if means is None else "choose"
    kinds: dict[str, Kind] = {"approved": approved, "rejected": "reject", "flagged": "flag", "ignored": "skip"}
    reviewer = mapping.reviewer if mapping.reviewer and mapping.reviewer.strip() else UNNAMED
    said = [IGNORED if mapping.status == "ignored" else "", mapping.comment or ""]
    relation = (mapping.relation or "exact") if means is not None else None
    made = Decision(
        "", project, 0, reviewer, kinds[mapping.status], means, relation, "; ".join(filter(None, said)),
        _time(mapping.reviewed_at), concept_name=mapping.concept_name if means is not None else None,
    )  # fmt: skip
    return replace(made, uid=uid(made, (mapping.mention_code or "", mapping.mention), file))


def _time(text: str | None) -> str:
    """Return a time as the store writes it, in UTC; "" if there is none."""
    if not text:
        return ""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        remedy = "as in 2026-01-31T09:30:00+00:00"
        raise InputError("not a time", field="reviewed_at", value=text, remedy=remedy) from None
