"""`alphita normalize`: a file of strings -> a file of concepts."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, machine
from alphita.normalizer.records import DEFAULT_FLOOR

if TYPE_CHECKING:
    from alphita.normalizer.jobs import Summary


def normalize(
    input_: Annotated[
        str, typer.Argument(metavar="INPUT", help="CSV, TSV, Parquet, JSON Lines or .txt file, also .gz; '-' is stdin.")
    ],
    index: Annotated[Path, typer.Option(help="Index folder, from 'alphita index'.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Output file; '-' is stdout.")],
    column: Annotated[
        str | None,
        typer.Option(help="Column of the strings; not needed if there is one column, or one called 'mention'."),
    ] = None,
    code_column: Annotated[str | None, typer.Option(help="Column of your own codes, kept as 'mention_code'.")] = None,
    input_format: Annotated[
        str, typer.Option(help="csv, tsv, parquet, jsonl or lines; told by the file's name otherwise (stdin: lines).")
    ] = "",
    delimiter: Annotated[str, typer.Option(help="Between the cells of CSV or TSV, e.g. ';'.")] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of a text input, e.g. cp1252.")] = "utf-8",
    top: Annotated[int, typer.Option(min=1, help="Candidates per string, one line each.")] = 1,
    floor: Annotated[
        float, typer.Option(min=-1.0, max=1.0, help="Similarity below which no concept is given (NIL).")
    ] = DEFAULT_FLOOR,
    format_: Annotated[
        str, typer.Option("--format", help="csv, jsonl or parquet; told by the output's name otherwise.")
    ] = "",
    precision: Annotated[str, typer.Option(help="Arithmetic of the encoder: auto, fp32, bf16, ...")] = "auto",
    device: Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a job that was broken off.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing output; forget an unfinished job.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Strings are patient data: rejects and errors give row numbers only.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Rehash the whole index first, however large.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write the counts and times to this JSON file too.")] = None,
) -> None:
    """Map each string of a file to the concept it names.

    Rows that cannot be read go to OUTPUT.rejects.csv. A job that was killed goes on with --resume.
    """
    threads = machine.set_threads(threads)
    from alphita.normalizer.jobs import STDOUT, Job, run
    from alphita.normalizer.normalizer import Normalizer
    from alphita.normalizer.tables import Table

    table = Table(input_, input_format, column, code_column, encoding, delimiter)
    job = Job(table, output, format_, top, private)
    normalizer = Normalizer.load(
        index, floor=floor, precision=precision, device=device, threads=threads, verify=verify or None
    )
    summary = run(normalizer, job, resume=resume, force=force)
    if report is not None:
        with artefact.atomic_file(report, "w") as file:
            json.dump(asdict(summary) | {"command": sys.argv[1:], "machine": machine.describe()}, file, indent=1)
    # The answers themselves may be going to stdout.
    print(_text(summary), file=sys.stderr if output == STDOUT else sys.stdout)


def _text(summary: Summary) -> str:
    resumed = f" ({summary.resumed_rows:,} done before)" if summary.resumed_rows else ""
    text = (
        f"{summary.rows:,} rows{resumed}: {summary.exact:,} exact, {summary.nearest:,} nearest, {summary.nil:,} NIL, "
        f"{summary.rejected:,} rejected; {summary.rows_per_second:,.0f} rows/s\n"
    )
    if summary.rejects is not None:
        text += f"rejects: {summary.rejects}\n"
    return text + f"output: {summary.out}"
