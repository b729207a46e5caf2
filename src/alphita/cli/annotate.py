"""`alphita annotate`: free text -> its concepts, with what the text says of them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphita import artefact, machine, registry
from alphita.cli._from_spec import with_options
from alphita.index.choice import Choice
from alphita.jobs.spec import REPORT, TO
from alphita.options import HOW, THREADS, Restart, group, option

if TYPE_CHECKING:
    from alphita.jobs.annotate import Summary

FORMATS = ", ".join(registry.names("alphita.annotation.formats"))
KEPT = "Filters and rules"


@dataclass(frozen=True, kw_only=True)
class AnnotateSpec:
    """The options of `alphita annotate`."""

    input: str = option(
        ...,
        positional=True,
        metavar="TEXTS",
        help="A .txt file, a folder of them, or CSV, TSV, Excel, Parquet or JSON Lines with one text per row; '-' is "
        "one text from stdin.",
    )
    to: str = option(..., like=TO)
    output: str = option(..., "--output", "-o", help="Output file, or folder for brat; '-' is stdout.")
    column: str | None = option(
        None, help="Column of the texts; not needed if there is only one, or one called 'text'."
    )
    id_column: str | None = option(None, help="Column with the ids of the texts; row numbers by default.")
    encoding: str = option("utf-8", help="Encoding of the texts, e.g. cp1252.")
    format: str = option("", help=f"{FORMATS}; by default from the output's name.")
    exact: bool = option(False, panel=KEPT, help="Find names of the terminology only: fast, without confidence.")
    precision: float | None = option(
        None, least=0.0, most=1.0, panel=KEPT, help="Keep only mentions with at least this confidence, e.g. 0.9."
    )
    under: tuple[str, ...] = option(
        (), metavar="CURIE", panel=KEPT, help="Only this concept and those below it; repeatable."
    )
    context_rules: Path | None = option(
        None, panel=KEPT, help="TSV of context rules (negation and others), instead of Alphita's."
    )
    given: Choice = group(Choice)
    threads: int | None = option(None, like=THREADS, panel=HOW)
    restart: Restart = group(Restart)
    private: bool = option(False, help="Texts are patient data: rejects omit them, and only you can read the output.")
    report: Path | None = option(None, like=REPORT)


@with_options
def annotate(spec: AnnotateSpec) -> None:
    """Find concepts in texts, with their assertion: negated, possible, family ...

    alphita annotate letters/ --to hpo -o letters.html

    Texts that cannot be used go to OUTPUT.rejects.csv. --resume continues a job that was killed.
    """
    threads = machine.set_threads(spec.threads)
    from alphita.annotation.annotator import Annotator, Settings
    from alphita.annotation.context import load_rules
    from alphita.annotation.formats import chosen as format_of
    from alphita.answer.filters import Filters
    from alphita.answer.normalizer import Normalizer
    from alphita.index.sources import index_of
    from alphita.jobs.annotate import Job, Texts, run

    settings = Settings(exact=spec.exact, precision=spec.precision, context_rules=spec.context_rules)
    texts = Texts(spec.input, spec.column, spec.id_column, spec.encoding)
    # Errors are reported before a terminology is indexed.
    format_of(spec.format, spec.output)
    load_rules(spec.context_rules)
    index = index_of(spec.to, spec.given, threads=threads)
    filters = Filters(under=spec.under) if spec.under else None
    annotator = Annotator(Normalizer(index, filters=filters, threads=threads), settings)
    job = Job(texts, spec.output, spec.format, spec.private)
    summary = run(annotator, job, spec.restart)
    if spec.report is not None:
        with artefact.atomic_file(spec.report, "w") as file:
            json.dump(asdict(summary) | {"command": sys.argv[1:], "machine": machine.describe()}, file, indent=1)
    # The mentions themselves may be going to stdout.
    print(_text_of(summary), file=sys.stderr if spec.output == "-" else sys.stdout)


def _text_of(summary: Summary) -> str:
    resumed = f" ({summary.resumed:,} done before)" if summary.resumed else ""
    texts = f"{summary.documents:,} text{'' if summary.documents == 1 else 's'}"
    assertions = ", ".join(f"{number:,} {name}" for name, number in summary.said.items())
    lines = [
        f"{texts}{resumed}, {summary.words:,} words: {summary.mentions:,} mentions of {summary.concepts:,} concepts"
        + (f": {assertions}" if assertions else "")
    ]
    lines.append(f"{summary.accepted:,} accepted, {summary.mentions - summary.accepted:,} for review")
    if summary.lost:
        lines.append("not in this format: " + ", ".join(f"{name} ({n:,})" for name, n in summary.lost.items()))
    if summary.rejected:
        lines.append(f"set aside: {summary.rejected:,}" + (f" ({summary.rejects})" if summary.rejects else ""))
    return "\n".join([*lines, f"output: {summary.out}"])
