"""What `alphita normalize` prints at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alphita.jobs.summary import Summary


def text_of(summary: Summary, audit: int = 0) -> str:
    """Return the counts of a job in some lines.

    Args:
        summary: of the job.
        audit: the accepted rows that were to be drawn for review.
    """
    resumed = f" ({summary.resumed_rows:,} done before)" if summary.resumed_rows else ""
    abbreviation = f"{summary.abbreviation:,} by abbreviation, " if summary.abbreviation else ""
    reviewed = f"{summary.reviewed:,} reviewed before, " if summary.reviewed else ""
    lines = [
        f"{summary.rows:,} rows{resumed}: {reviewed}{summary.exact:,} exact, {abbreviation}"
        f"{summary.nearest:,} nearest, {summary.nil:,} NIL, {summary.rejected:,} rejected; "
        f"{summary.rows_per_second:,.0f} rows/s"
    ]
    if summary.accepted is not None and summary.review is not None:
        allowed = f" at an allowed error of {100 * summary.error:g}%" if summary.error is not None else ""
        lines.append(f"{summary.accepted:,} accepted{allowed}, {summary.review:,} for review")
    if summary.assurance == "certified":
        lines.append("confidence: certified on strings of this index that ranker and confidence did not learn from")
    elif summary.assurance is not None and not summary.origin:
        lines.append(f"confidence: {summary.assurance}; too few strings were held out to certify that error")
    elif summary.assurance is not None:
        remedy = "'alphita calibrate --index INDEX' makes it certified"
        lines.append(f"confidence: {summary.assurance} ({summary.origin}); {remedy}")
    if summary.lost:
        lines.append("not in this format: " + ", ".join(f"{name} ({n:,})" for name, n in summary.lost.items()))
    if summary.rejects is not None:
        lines.append(f"rejects: {summary.rejects}")
    if audit:
        lines.append(f"audit: {summary.audit or 'no row was accepted, so there is nothing to audit'}")
    return "\n".join([*lines, f"output: {summary.out}"])
