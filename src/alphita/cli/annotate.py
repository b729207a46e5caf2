"""`alphita annotate`: free text -> its concepts, with what the text says of them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, machine, registry
from alphita.cli._from_spec import HelpAll, Learn, Names, NoBorrow, ShippedModel, Threads, option
from alphita.normalizer.spec import chosen

if TYPE_CHECKING:
    from alphita.annotating.job import Summary

FORMATS = ", ".join(registry.names("alphita.annotating.formats"))
KEPT = "What is kept"


def annotate(
    input_: Annotated[
        str,
        typer.Argument(
            metavar="TEXTS",
            help="A .txt file, a folder of them, or CSV, TSV, Excel, Parquet or JSON Lines with a text a row; '-' is "
            "one text from stdin.",
        ),
    ],
    to: Annotated[str, option("to")],
    output: Annotated[str, typer.Option("--output", "-o", help="Output file, or folder for brat; '-' is stdout.")],
    column: Annotated[
        str | None, typer.Option(help="Column of the texts; not needed if there is one, or one called 'text'.")
    ] = None,
    id_column: Annotated[str | None, typer.Option(help="Column of the texts' names; rows are numbered else.")] = None,
    encoding: Annotated[str, typer.Option(help="Encoding of the texts, e.g. cp1252.")] = "utf-8",
    format_: Annotated[str, typer.Option("--format", help=f"{FORMATS}; told by the output's name otherwise.")] = "",
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Names of the terminology alone: quick, without confidence.", rich_help_panel=KEPT
        ),
    ] = False,
    precision: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Keep mentions of at least this confidence, as 0.9.", rich_help_panel=KEPT),
    ] = None,
    under: Annotated[
        list[str] | None,
        typer.Option(metavar="CURIE", help="This concept and those below it only; repeatable.", rich_help_panel=KEPT),
    ] = None,
    context_rules: Annotated[
        Path | None,
        typer.Option(help="Rules of negation and the like, in place of Alphita's: a TSV.", rich_help_panel=KEPT),
    ] = None,
    no_borrow: NoBorrow = False,
    names: Names = None,
    learn: Learn = "seconds",
    model: ShippedModel = None,
    threads: Threads = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a job that was broken off.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output; forget an unfinished job.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Texts are patient data: rejects hold none, only you can read the output.")
    ] = False,
    report: Annotated[Path | None, option("report")] = None,
    help_all: HelpAll = False,
) -> None:
    """Find the concepts of a terminology in texts, and what is said of each: negated, possible, of the family ...

    alphita annotate letters/ --to hpo -o letters.html

    Texts that cannot be used go to OUTPUT.rejects.csv. A job that was killed goes on with --resume.
    """
    threads = machine.set_threads(threads)
    from alphita.annotating.annotator import Annotator, Settings
    from alphita.annotating.context import load_rules
    from alphita.annotating.formats import chosen as format_of
    from alphita.annotating.job import Job, run
    from alphita.annotating.texts import Texts
    from alphita.index.sources import index_of
    from alphita.normalizer.answering.filters import Filters
    from alphita.normalizer.answering.normalizer import Normalizer

    settings = Settings(exact=exact, precision=precision, context_rules=context_rules)
    job = Job(Texts(input_, column, id_column, encoding), output, format_, private)
    # What is wrong is told before a terminology is indexed.
    format_of(format_, output)
    load_rules(context_rules)
    index = index_of(to, chosen(no_borrow, names, learn, model), threads=threads)
    filters = Filters(under=tuple(under)) if under else None
    annotator = Annotator(Normalizer(index, filters=filters, threads=threads), settings)
    summary = run(annotator, job, resume=resume, force=force)
    if report is not None:
        with artefact.atomic_file(report, "w") as file:
            json.dump(asdict(summary) | {"command": sys.argv[1:], "machine": machine.describe()}, file, indent=1)
    # The mentions themselves may be going to stdout.
    file_ = sys.stderr if output == "-" else sys.stdout
    print(_text_of(summary), file=file_)


def _text_of(summary: Summary) -> str:
    resumed = f" ({summary.resumed:,} done before)" if summary.resumed else ""
    texts = f"{summary.documents:,} text{'' if summary.documents == 1 else 's'}"
    said = ", ".join(f"{number:,} {name}" for name, number in summary.said.items())
    lines = [
        f"{texts}{resumed}, {summary.words:,} words: {summary.mentions:,} mentions of {summary.concepts:,} concepts"
        + (f": {said}" if said else "")
    ]
    lines.append(f"{summary.accepted:,} may be accepted unseen, {summary.mentions - summary.accepted:,} are for review")
    if summary.lost:
        lines.append("not in this format: " + ", ".join(f"{name} ({n:,})" for name, n in summary.lost.items()))
    if summary.rejected:
        lines.append(f"set aside: {summary.rejected:,}" + (f" ({summary.rejects})" if summary.rejects else ""))
    return "\n".join([*lines, f"output: {summary.out}"])
