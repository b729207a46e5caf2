"""`alphita normalize`: a file of strings -> a file of concepts."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from alphita import artefact, machine, progress
from alphita.cli._from_spec import with_options
from alphita.errors import counted, masked, shorten
from alphita.jobs.spec import Spec

# Values that a warning names.
MOST = 5

if TYPE_CHECKING:
    from alphita.index.store import Index
    from alphita.jobs.answers import Memory
    from alphita.jobs.job import Summary


@with_options
def normalize(spec: Spec) -> None:
    """Map each string of a file to the concept it names.

    alphita normalize words.csv --to hpo --column complaint -o mapped.csv

    Rows that cannot be read go to OUTPUT.rejects.csv. --resume continues a job that was killed.

    A file is read twice: first for the abbreviations that it defines, such as "congestive heart failure (CHF)". Input
    from stdin or a pipe is read once, so that a definition applies only to its own row.
    """
    spec.check_engine()
    if spec.cluster.engine is None:
        _one_file(spec)
    else:
        _shards(spec)


def _one_file(spec: Spec) -> None:
    machine.set_threads(spec.running.threads)
    from alphita.index.choice import language_of
    from alphita.index.sources import index_of, is_index
    from alphita.jobs.job import format_of
    from alphita.jobs.run import run

    job = spec.job()
    format_of(job)
    spoken = None
    if not job.table.is_stream:
        next(job.table.rows(), None)  # errors in format and columns are reported before a terminology is indexed
        if not is_index(spec.to):
            tags = (row.language or "" for row in job.table.rows()) if spec.language_column else ()
            spoken = language_of((row.mention for row in job.table.rows() if row.mention), tags)
    choice = spec.choice(job.memory)
    index = index_of(spec.to, choice, language=spoken, threads=spec.running.threads, verify=spec.verify or None)
    _tell_unknown(spec, job.memory, index)
    summary = run(spec.normalizer(index), job, spec.restart)
    _report(spec, summary)
    # The answers themselves may be going to stdout.
    print(text_of(summary, spec.audit), file=sys.stderr if job.to_stdout else sys.stdout)


def _shards(spec: Spec) -> None:
    """Normalise Parquet to a folder of Parquet, by several processes or machines."""
    from alphita.index.choice import language_of
    from alphita.index.sources import index_of, is_index
    from alphita.jobs.engines import open_engine
    from alphita.jobs.folder import Shards, run, some_mentions

    if spec.report is not None:
        artefact.refuse_unwritable(spec.report)
    spoken = None if is_index(spec.to) else language_of(some_mentions(spec.input, spec.output, spec.column))
    memory = spec.memory()
    index = index_of(spec.to, spec.choice(memory), language=spoken, threads=spec.running.threads)
    _tell_unknown(spec, memory, index)
    settings = spec.settings(index.path, memory)
    if spec.verify:
        artefact.verify(settings.index, "index")
    own = spec.code_column, spec.frequency_column, spec.private
    shards = Shards(spec.input, spec.output, settings, *own, domains=spec.domains())
    with open_engine(*asdict(spec.cluster).values()) as opened:
        done = run(shards, opened, spec.restart)
    more = {"parts": done.parts, "distinct": done.distinct, "steps": done.seconds, "engine": done.engine}
    _report(spec, done.summary, **more)
    print(text_of(done.summary))
    facts = ", ".join(f"{name} {value}" for name, value in done.engine.items())
    print(f"{done.distinct:,} distinct strings answered; {done.parts:,} parts; {facts}")


def _tell_unknown(spec: Spec, memory: Memory | None, index: Index) -> None:
    """Say which decisions name concepts that the index lacks; a code system's own codes are not looked up."""
    if memory is None or spec.concepts.target is not None:
        return
    ids = sorted({curie for one in memory.decisions.values() for curie in (one.concept_id or "").split("|") if curie})
    unknown = [curie for curie, row in zip(ids, index.concept_rows(ids).tolist(), strict=True) if row < 0]
    if unknown:
        progress.say(
            f"{masked(spec.mappings)}: decisions name {counted(len(unknown), 'concept')} that {spec.to} lacks, such as "
            f"{shorten(unknown[0])!r}; they still answer; after a new release: alphita mappings migrate"
        )


def _report(spec: Spec, summary: Summary, **more: object) -> None:
    """Write the counts and times, where they are asked for."""
    if spec.report is None:
        return
    from alphita.calibrate.audit import WRITTEN

    facts = asdict(summary) | more | {"command": machine.command()[1:], "machine": machine.describe()}
    with artefact.atomic_file(spec.report, "w", so_far=WRITTEN) as file:
        json.dump(facts, file, indent=1)


def warnings_of(summary: Summary) -> list[str]:
    """Return what a user must know before the counts."""
    warnings = []
    if summary.rejects is not None:
        what = [f"{counted(summary.rejected, 'row')} not read"] * bool(summary.rejected)
        what += [f"{counted(summary.unwritten, 'answer')} not written"] * bool(summary.unwritten)
        warnings.append(f"{' and '.join(what)}; the reasons are in {summary.rejects}")
    if summary.no_code:
        warnings.append(
            f"{counted(summary.no_code, 'row')} without a code in --code-column; "
            "in formats that need one the text stands for it"
        )
    for column, found in summary.unread.items():
        values = ", ".join(f"{value} ({number:,})" for value, number in Counter(found).most_common(MOST))
        rows = f"{counted(sum(found.values()), 'row')} with a value in --{column.replace('_', '-')}"
        if column == "domain_column":
            rows += " that is no domain of the terminology, answered from all"
            warnings.append(f"{rows}: {values}; say their domains with --domain-map")
        else:
            warnings.append(f"{rows} that is not known, answered without it: {values}")
    return [f"warning: {warning}" for warning in warnings]


def text_of(summary: Summary, audit: int = 0) -> str:
    """Return the counts of a job in some lines."""
    resumed = f" ({summary.resumed_rows:,} done before)" if summary.resumed_rows else ""
    abbreviation = f"{summary.abbreviation:,} by a short form, order or test, " if summary.abbreviation else ""
    reviewed = f"{summary.reviewed:,} reviewed before, " if summary.reviewed else ""
    lines = [
        *warnings_of(summary),
        f"{counted(summary.rows, 'row')}{resumed}: {reviewed}{summary.exact:,} exact, {abbreviation}"
        f"{summary.nearest:,} nearest, {summary.nil:,} NIL, {summary.rejected:,} rejected; "
        f"{summary.rows_per_second:,.0f} rows/s",
    ]
    if summary.learned is not None:
        lines.append(f"learned from {counted(summary.learned, 'phrase')} that reviewers confirmed")
    if summary.accepted is not None and summary.review is not None:
        accepting, nil = (
            "" if error is None else f" at an allowed error of {100 * error:g}%"
            for error in (summary.error, summary.nil_error)
        )
        lines.append(
            f"{summary.accepted:,} accepted{accepting}, {summary.nil:,} NIL{nil}, {summary.review:,} for review"
        )
    if summary.assurance == "certified":
        lines.append("confidence: certified for what is accepted, on strings of this index that it did not learn from")
    elif summary.assurance is not None and not summary.origin:
        lines.append(f"confidence: {summary.assurance}; too few strings were held out to certify that error")
    elif summary.assurance is not None:
        remedy = "'alphita calibrate --index INDEX' certifies it, given enough synonyms"
        lines.append(f"confidence: {summary.assurance} ({summary.origin}); {remedy}")
    if summary.lost:
        lines.append("not in this format: " + ", ".join(f"{name} ({n:,})" for name, n in summary.lost.items()))
    if audit:
        lines.append(f"audit: {summary.audit or 'no row was accepted, so there is nothing to audit'}")
    return "\n".join([*lines, f"output: {summary.out}"])
