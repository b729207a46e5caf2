"""The lines that a chunk's rows have in an output, and what is set aside of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from types import ModuleType

from alphita.calibrate.audit import ACCEPT
from alphita.errors import Rejects
from alphita.jobs.answers import DECISION, METHOD, Answer, lines_of
from alphita.jobs.job import Job
from alphita.jobs.reading.rows import MentionRow
from alphita.jobs.summary import ACCEPTED, FOR_REVIEW, REJECTED
from alphita.mappings.formats import Header, Problem, lost_anew
from alphita.mappings.record import COLUMNS, Mapping

DECISIONS = {"accept": ACCEPTED, "review": FOR_REVIEW}

_record = attrgetter(*COLUMNS)


def lines_and_counts(
    rows: Sequence[MentionRow], found: Sequence[Answer | None]
) -> tuple[list[Mapping], dict[str, int]]:
    """Return the lines of some rows, and how many rows had which outcome."""
    made: list[Mapping] = []
    tally: Counter[tuple[str, str | None]] = Counter()
    for row, answered in zip(rows, found, strict=True):
        if answered is None:
            tally[REJECTED, None] += 1
            continue
        made.extend(lines_of(row, answered))
        tally[answered[0][METHOD], answered[0][DECISION]] += 1
    return made, outcomes(tally)


def outcomes(tally: dict[tuple[str, str | None], int]) -> dict[str, int]:
    """Return how many rows had which outcome, of rows by method and decision."""
    counts: Counter[str] = Counter()
    for (method, decision), number in tally.items():
        counts[method] += number
        if decision in DECISIONS:
            counts[DECISIONS[decision]] += number
    return dict(counts)


def accepted(made: Sequence[Mapping]) -> bytes:
    """Return the accepted rows among some lines, as JSON."""
    return as_json(line for line in made if line.rank == 1 and line.decision == ACCEPT)


def as_json(lines: Iterable[Mapping]) -> bytes:
    """Return lines as JSON, one a line."""
    return "".join(json.dumps(_record(line)) + "\n" for line in lines).encode()


def losses_of(
    writer: ModuleType, header: Header, held: Sequence[Mapping], made: Sequence[Mapping]
) -> tuple[dict[int, Problem], dict[str, int]]:
    """Return why which rows cannot be written, and what else the format does not hold of lines after those held."""
    if not writer.LOSSES:
        return {}, {}
    unwritten: dict[int, Problem] = {}
    for line in made:
        if line.rank == 1 and (problem := writer.validate(header, line)) is not None:
            unwritten[line.row] = problem
    return unwritten, lost_anew(writer, header, held, made)


def reject_lines(rows: Sequence[MentionRow], unwritten: dict[int, Problem], job: Job, drafts: Path) -> bytes:
    """Return the rejects among some rows as CSV, in order: those that were not read, and those not written."""
    bad = [row for row in rows if row.problem is not None or row.number in unwritten]
    if not bad:
        return b""
    aside = drafts / "rejects.chunk"
    with Rejects(aside, private=job.private) as rejects:
        for row in bad:
            why = unwritten.get(row.number) or problem_of(row)
            rejects.add(why.problem, file=job.table.name, line=row.line, field=why.field, value=why.value)
    return aside.read_bytes()


def problem_of(row: MentionRow) -> Problem:
    """Return why a row could not be read."""
    return Problem(row.problem or "", row.field or "", row.value)
