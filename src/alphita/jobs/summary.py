"""What a job of normalising did, in numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from alphita.answer.normalizer import Normalizer
from alphita.answer.records import ABBREVIATION, EXACT, NEAREST, NIL
from alphita.jobs.parts import Chunk
from alphita.mappings.record import REVIEWED

REJECTED = "rejected"
ACCEPTED = "accepted"
FOR_REVIEW = "review"
# Rows whose answer the output's format cannot hold.
UNWRITTEN = "unwritten"
# Of these every row has one.
OUTCOMES = (EXACT, ABBREVIATION, NEAREST, NIL, REVIEWED, REJECTED)


@dataclass(frozen=True)
class Summary:
    """What a job did.

    Attributes:
        rows: input rows, rejects included.
        exact: rows answered by an exact match.
        abbreviation: rows answered by what an abbreviation stands for.
        nearest: rows answered by the nearest term.
        nil: rows for which no concept fits.
        rejected: rows that could not be used.
        accepted: rows whose answer may be accepted unseen; None without calibration.
        review: rows whose answer a person should see; None without calibration.
        resumed_rows: rows that an earlier, broken run had done.
        rows_per_second: rows done by this run, per second.
        rejects: the file of rejects, or None if there are none (or no file: the output is stdout).
        audit: the file of accepted rows to review; None if none were asked for, or there are none.
        lost: what the output's format could not hold, counted by field or in words.
        reviewed: rows answered by what people settled before.
        error: the allowed error at which answers were accepted; None without calibration.
        assurance: "certified" or "estimated", see `Normalizer.assurance`; None without calibration.
        origin: where an estimated confidence is from, in words; empty for one fitted on the index itself.
    """

    rows: int
    exact: int
    abbreviation: int
    nearest: int
    nil: int
    rejected: int
    accepted: int | None
    review: int | None
    resumed_rows: int
    seconds: float
    rows_per_second: float
    out: str
    rejects: str | None
    audit: str | None
    lost: dict[str, int]
    reviewed: int = 0
    error: float | None = None
    assurance: str | None = None
    origin: str = ""

    @classmethod
    def of(
        cls,
        counts: Mapping[str, int],
        resumed: int,
        start: float,
        out: str,
        normalizer: Normalizer,
        *,
        lost: Mapping[str, int] | None = None,
        rejects: str | None = None,
        audit: str | None = None,
    ) -> Summary:
        """Return the summary of the counts of all rows; `start` is when this run began, by `time.monotonic`."""
        calibration = normalizer.calibration
        calibrated = calibration is not None
        rows = rows_of(counts)
        seconds = time.monotonic() - start
        return cls(
            rows,
            counts.get(EXACT, 0),
            counts.get(ABBREVIATION, 0),
            counts.get(NEAREST, 0),
            counts.get(NIL, 0),
            counts.get(REJECTED, 0),
            counts.get(ACCEPTED, 0) if calibrated else None,
            counts.get(FOR_REVIEW, 0) if calibrated else None,
            resumed,
            round(seconds, 3),
            round((rows - resumed) / max(seconds, 1e-9), 1),
            out,
            rejects,
            audit,
            dict(lost or {}),
            counts.get(REVIEWED, 0),
            normalizer.error if calibrated else None,
            normalizer.assurance,
            calibration.origin if calibration is not None else "",
        )

    @classmethod
    def of_chunks(
        cls,
        chunks: Iterable[Chunk],
        resumed: int,
        start: float,
        out: str,
        normalizer: Normalizer,
        *,
        rejects: Path | None = None,
        audit: Path | None = None,
    ) -> Summary:
        """Return the summary of all chunks, as `of` does."""
        total: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        for chunk in chunks:
            total.update(chunk.counts)
            lost.update(chunk.lost)
        files = {name: str(path) for name, path in {"rejects": rejects, "audit": audit}.items() if path is not None}
        return cls.of(total, resumed, start, out, normalizer, lost=dict((+lost).most_common()), **files)


def rows_of(counts: Mapping[str, int]) -> int:
    """Return how many rows some counts are of."""
    return sum(counts.get(name, 0) for name in OUTCOMES)
