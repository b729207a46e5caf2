"""An audit of a user's output: a random sample of accepted rows for review, and the bound that the review gives.

A calibration is valid only for mentions like those that it was fitted on.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.artefact import atomic_file, hash_file
from alphita.calibrate.risk_coverage import DELTA, finite_upper_limit
from alphita.errors import InputError
from alphita.mappings.record import Mapping
from alphita.spreadsheets import Guard

ACCEPT = "accept"
ANSWER = "right"
# The columns that the reviewer sees.
SHOWN = (
    *("row", "mention_code", "mention", "concept_id", "concept_name"),
    *("matched_term", "similarity", "confidence", "explanation"),
)
# Identifies the file of the sample; repeated in every row, because a spreadsheet keeps only rows.
TIES = ("accepted_rows", "sample_rows", "output", "output_hash")
YES = frozenset({"yes", "y", "true", "1"})
NO = frozenset({"no", "n", "false", "0"})
# The advice if the sample cannot be written.
WRITTEN = "the output itself is written"
COLUMNS_REMEDY = "give a file that --audit wrote, with all its columns"
REMEDY = "draw a new sample with: alphita normalize … --audit N"


@dataclass(frozen=True)
class Sample:
    """Accepted rows drawn at random, in the order of the output, and the number of accepted rows."""

    mappings: list[Mapping]
    accepted: int


@dataclass(frozen=True)
class Audit:
    """The result of a review of one output file.

    `unanswered` rows of the sample count as wrong, also in the share `observed`. At most `most_wrong` of the accepted
    rows are wrong; `bound` is this number as a share.
    """

    output: str
    accepted: int
    sampled: int
    wrong: int
    unanswered: int
    observed: float
    most_wrong: int
    bound: float
    level: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """Return the certificate as a sentence, with its assumptions."""
        # Rounded up, otherwise the sentence would claim too much.
        bound = math.ceil(self.bound * 1e4 - 1e-9) / 100
        open_rows = f", {self.unanswered:,} unanswered and counted as wrong" if self.unanswered else ""
        return (
            f"At most {bound:g}% of the {self.accepted:,} accepted rows of {self.output} are wrong, with "
            f"{100 * self.level:g}% confidence ({self.sampled:,} drawn at random, {self.wrong:,} wrong{open_rows})."
        )


def draw(mappings: Iterable[Mapping], size: int, *, seed: int = 0) -> Sample:
    """Draw a simple random sample of the accepted rows in one pass: every set of `size` rows is equally likely."""
    if size < 1:
        raise ValueError(f"the sample must have 1 row or more, not {size}")
    chance = random.Random(seed)
    drawn: list[Mapping] = []
    accepted = 0
    for mapping in mappings:
        if mapping.rank != 1 or mapping.decision != ACCEPT:
            continue
        accepted += 1
        if len(drawn) < size:
            drawn.append(mapping)
        elif (place := chance.randrange(accepted)) < size:
            drawn[place] = mapping
    if not accepted:
        raise InputError(
            "no row of the output was accepted, so there is nothing to audit",
            remedy="without a calibration nothing is accepted: alphita calibrate",
        )
    return Sample(sorted(drawn, key=lambda mapping: mapping.row), accepted)


def write_audit(path: Path, sample: Sample, output: Path, *, force: bool = False) -> None:
    """Write a sample as a CSV file for review, readable by its owner only; its column `right` is empty."""
    ties = [sample.accepted, len(sample.mappings), output.name, hash_file(output)]
    with atomic_file(path, "w", private=True, force=force, newline="", so_far=WRITTEN) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*SHOWN, ANSWER, *TIES])
        writer.writerows(Guard()([*(getattr(row, name) for name in SHOWN), "", *ties]) for row in sample.mappings)


def read_audit(path: Path | str, *, output: Path | None = None, delta: float = DELTA) -> Audit:
    """Read a sample back with its answers, and return the certificate."""
    path = Path(path)
    answers: dict[int, bool | None] = {}
    ties: tuple[str, ...] | None = None
    # Only mentions contain non-ASCII characters, and they are not used, so any encoding of a spreadsheet works.
    rows = textio.columns(path, ("row", ANSWER, *TIES), remedy=COLUMNS_REMEDY, errors="replace", how=textio.PLAIN)
    for line, (number, answer, *own_ties) in rows:
        own = tuple(own_ties)
        if ties is not None and own != ties:
            name = next(name for name, mine, theirs in zip(TIES, own, ties, strict=True) if mine != theirs)
            raise InputError(
                "rows of different samples",
                file=path,
                line=line,
                field=name,
                value=dict(zip(TIES, own, strict=True))[name],
                remedy="give the rows of one sample only",
            )
        ties = own
        row = _count(number, path, line, "row")
        if row in answers:
            raise InputError("a row stands twice", file=path, line=line, field="row", value=row)
        answers[row] = _answer(answer, path, line)
    if ties is None:
        raise InputError("no rows", file=path, remedy=REMEDY)
    accepted, sampled = (_count(ties[place], path, 2, TIES[place]) for place in (0, 1))
    if len(answers) != sampled or sampled > accepted:
        raise InputError(
            f"{len(answers):,} rows, but {sampled:,} of {accepted:,} were drawn",
            file=path,
            remedy="leave every row of the sample in",
        )
    if output is not None and hash_file(output) != ties[3]:
        raise InputError("the output is not the one that the sample was drawn from", file=output, remedy=REMEDY)
    wrong, unanswered = (sum(answer is value for answer in answers.values()) for value in (False, None))
    if unanswered == sampled:
        raise InputError("no row has been answered yet", file=path, field=ANSWER, remedy="fill in yes or no")
    most = finite_upper_limit(wrong + unanswered, sampled, accepted, delta)
    return Audit(
        ties[2], accepted, sampled, wrong, unanswered, (wrong + unanswered) / sampled, most, most / accepted, 1 - delta
    )


def _answer(cell: str, path: Path, line: int) -> bool | None:
    answer = cell.strip().lower()
    if answer and answer not in YES | NO:
        raise InputError(
            "an answer that is neither yes nor no",
            file=path,
            line=line,
            field=ANSWER,
            value=cell,
            remedy="write yes, no, or nothing",
        )
    return answer in YES if answer else None


def _count(cell: str, path: Path, line: int, name: str) -> int:
    if (count := textio.whole_number(cell)) is None:
        raise InputError(
            "not a whole number",
            file=path,
            line=line,
            field=name,
            value=cell,
            remedy="leave all columns but `right` as they are",
        )
    return count
