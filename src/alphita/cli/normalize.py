"""`alphita normalize`: a file of strings -> a file of concepts."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, machine, registry
from alphita.cli._engine_options import Address, Engine, GpusPerWorker, Workers, refuse
from alphita.cli._enrichment_options import Learn, Names, NoBorrow, ShippedModel, chosen
from alphita.cli._mapping_options import prefixes_of
from alphita.cli._source_options import TO
from alphita.cli._summary import text_of
from alphita.cli.normalize_shards import normalize_shards, refuse_of_one_file
from alphita.errors import UsageError

if TYPE_CHECKING:
    from alphita.normalizer.answering.filters import Filters
    from alphita.normalizer.writing.remembering import Memory

FORMATS = ", ".join(registry.names("alphita.mappings.formats"))
RANKINGS = ", ".join(["auto", *registry.names("alphita.normalizer.answering.rankings")])
OUTPUT, WHICH, HOW = "Output", "Which concepts may be answered", "How"
REVIEWS = "What was decided before"


def normalize(
    input_: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="CSV, TSV, Excel, Parquet, JSON Lines or .txt file, text also .gz; '-' is stdin. With --engine: a "
            "Parquet file, a folder of them, a pattern or a URL.",
        ),
    ],
    to: Annotated[str, typer.Option("--to", "--index", metavar="SOURCE", help=TO)],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output file; '-' is stdout. With --engine: a folder or URL.")
    ],
    column: Annotated[
        str | None,
        typer.Option(help="Column of the strings; not needed if there is one column, or one called 'mention'."),
    ] = None,
    code_column: Annotated[str | None, typer.Option(help="Column of your own codes, kept as 'mention_code'.")] = None,
    context_column: Annotated[
        str | None, typer.Option(help="Column of the text that each string stands in; it decides on abbreviations.")
    ] = None,
    language_column: Annotated[str | None, typer.Option(help="Column of each string's language: en, de, ...")] = None,
    frequency_column: Annotated[
        str | None, typer.Option(help="Column of how often each string occurs, kept as 'frequency'.")
    ] = None,
    input_format: Annotated[
        str, typer.Option(help="csv, tsv, excel, parquet, jsonl or lines; told by the file's name else (stdin: lines).")
    ] = "",
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of an Excel workbook; not needed if only one has anything in it.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="Between the cells of CSV or TSV, e.g. ';'.")] = "",
    encoding: Annotated[str, typer.Option(help="Encoding of a text input, e.g. cp1252.")] = "utf-8",
    top: Annotated[int, typer.Option(min=1, help="Candidates per string, one line each.")] = 1,
    explain: Annotated[bool, typer.Option("--explain", help="Say why, in the column 'explanation'.")] = False,
    format_: Annotated[
        str, typer.Option("--format", help=f"{FORMATS}; told by the output's name otherwise.", rich_help_panel=OUTPUT)
    ] = "",
    source_vocabulary: Annotated[
        str, typer.Option(help="Short name of the system of your own codes.", rich_help_panel=OUTPUT)
    ] = "",
    source_system: Annotated[str, typer.Option(help="Its URI, for FHIR.", rich_help_panel=OUTPUT)] = "",
    source_version: Annotated[str, typer.Option(help="Its version.", rich_help_panel=OUTPUT)] = "",
    set_id: Annotated[str, typer.Option(help="URI of the set of mappings made.", rich_help_panel=OUTPUT)] = "",
    licence: Annotated[str, typer.Option(help="URI of the licence of that set.", rich_help_panel=OUTPUT)] = "",
    prefix: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URI", help="What a CURIE prefix stands for; repeatable.", rich_help_panel=OUTPUT),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Answer with codes of this code system, e.g. SNOMEDCT.", rich_help_panel=WHICH)
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", help="Concepts of this type or domain only; repeatable.", rich_help_panel=WHICH),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Concepts of this terminology only; repeatable.", rich_help_panel=WHICH)
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Terms in this language only; repeatable.", rich_help_panel=WHICH)
    ] = None,
    under: Annotated[
        list[str] | None,
        typer.Option(metavar="CURIE", help="This concept and those below it only; repeatable.", rich_help_panel=WHICH),
    ] = None,
    standard_only: Annotated[
        bool, typer.Option("--standard-only", help="Standard concepts (OMOP) only.", rich_help_panel=WHICH)
    ] = False,
    mappings: Annotated[
        Path | None,
        typer.Option(
            metavar="STORE",
            help="A store of reviews: what people settled there answers first.",
            rich_help_panel=REVIEWS,
        ),
    ] = None,
    mappings_source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What was settled of strings from there; needed if the store has several sources.",
            rich_help_panel=REVIEWS,
        ),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Only what was settled in this project.", rich_help_panel=REVIEWS)
    ] = None,
    ranking: Annotated[str, typer.Option(help=f"{RANKINGS}.", rich_help_panel=HOW)] = "auto",
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="From 'alphita calibrate'; by default that of the index, else that of its model.", rich_help_panel=HOW
        ),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            rich_help_panel=HOW,
            help="Allowed share of errors among what is accepted; 0.05 by default, where there is a calibration.",
        ),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            min=-1.0,
            max=1.0,
            help="Similarity below which no concept is given (NIL); without calibration.",
            rich_help_panel=HOW,
        ),
    ] = None,
    abbreviations: Annotated[
        Path | None,
        typer.Option(help="Your own abbreviations: a CSV or TSV with the columns short and long.", rich_help_panel=HOW),
    ] = None,
    no_borrow: NoBorrow = False,
    names: Names = None,
    learn: Learn = "seconds",
    model: ShippedModel = None,
    precision: Annotated[
        str, typer.Option(help="Arithmetic of the encoder: auto, fp32, bf16, ...", rich_help_panel=HOW)
    ] = "auto",
    device: Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda.", rich_help_panel=HOW)] = "auto",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of every library; all cores by default.", rich_help_panel=HOW)
    ] = None,
    engine: Engine = None,
    workers: Workers = None,
    address: Address = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    audit: Annotated[int, typer.Option(min=0, help="Draw so many of the accepted rows at random, for review.")] = 0,
    audit_out: Annotated[Path | None, typer.Option(help="The file for them; OUTPUT.audit.csv otherwise.")] = None,
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

    A file is read twice: first for the abbreviations that it defines, as "congestive heart failure (CHF)"; what comes
    from stdin or a pipe is read once, and there a definition serves its own row alone.
    """
    filters = _filters(type_, source, language, under, standard_only)
    choice = chosen(no_borrow, names, learn, model)
    if engine is not None:
        refuse_of_one_file(
            input_,
            output,
            input_format=input_format,
            sheet=sheet,
            delimiter=delimiter,
            encoding=encoding,
            format_=format_,
            source_vocabulary=source_vocabulary,
            source_system=source_system,
            source_version=source_version,
            set_id=set_id,
            licence=licence,
            prefix=prefix,
            audit=audit,
            audit_out=audit_out,
        )
        from alphita.distributed.job import some_mentions
        from alphita.index.choice import language_of
        from alphita.index.sources import index_of, is_index
        from alphita.normalizer.answering.records import DEFAULT_FLOOR
        from alphita.normalizer.writing.batches import NormalizerSettings

        spoken = None if is_index(to) else language_of(some_mentions(input_, output, column))
        path = str(index_of(to, choice, language=spoken, threads=threads).path)
        settings = NormalizerSettings(
            path,
            column or "",
            context_column,
            language_column,
            top,
            explain,
            ranking,
            None if calibration is None else str(calibration),
            DEFAULT_FLOOR if floor is None else floor,
            error,
            target,
            filters,
            None if abbreviations is None else str(abbreviations),
            precision,
            device,
            threads,
            memory=_memory(mappings, mappings_source, project),
        )
        normalize_shards(
            input_,
            output,
            settings,
            code=code_column,
            frequency=frequency_column,
            private=private,
            verify=verify,
            engine=engine,
            workers=workers,
            address=address,
            gpus=gpus_per_worker,
            resume=resume,
            force=force,
            report=report,
        )
        return
    refuse({"--workers": workers, "--address": address, "--gpus-per-worker": gpus_per_worker})
    threads = machine.set_threads(threads)
    from alphita.index.choice import language_of
    from alphita.index.sources import index_of, is_index
    from alphita.mappings.formats import Header
    from alphita.normalizer.answering.normalizer import Normalizer
    from alphita.normalizer.answering.records import DEFAULT_FLOOR
    from alphita.normalizer.calibrating.audit import WRITTEN
    from alphita.normalizer.reading.files import MentionFile
    from alphita.normalizer.writing.run import Job, run

    table = MentionFile(
        input_,
        input_format,
        column,
        code_column,
        encoding,
        delimiter,
        context_column=context_column,
        language_column=language_column,
        frequency_column=frequency_column,
        sheet=sheet,
    )
    header = Header(
        set_id=set_id,
        licence=licence,
        source_vocabulary=source_vocabulary,
        source_system=source_system,
        source_version=source_version,
        prefixes=prefixes_of(prefix),
    )
    read = {
        "the file of abbreviations": abbreviations,
        "the calibration": calibration,
        "the store of reviews": mappings,
    }
    job = Job(
        table,
        output,
        format_,
        top,
        private,
        explain=explain,
        audit=audit,
        audit_out=audit_out,
        header=header,
        report=report,
        memory=_memory(mappings, mappings_source, project),
        reads={what: path for what, path in read.items() if path is not None},
    )
    spoken = None
    if not table.is_stream:
        next(table.rows(), None)  # what is wrong with its columns is told before a terminology is indexed
        spoken = None if is_index(to) else language_of(row.mention for row in table.rows() if row.mention)
    index = index_of(to, choice, language=spoken, threads=threads, verify=verify or None)
    normalizer = Normalizer(
        index,
        ranking=ranking,
        calibration=calibration,
        floor=DEFAULT_FLOOR if floor is None else floor,
        error=error,
        target=target,
        filters=filters,
        abbreviations=abbreviations,
        precision=precision,
        device=device,
        threads=threads,
    )
    summary = run(normalizer, job, resume=resume, force=force)
    if report is not None:
        with artefact.atomic_file(report, "w", so_far=WRITTEN) as file:
            json.dump(asdict(summary) | {"command": sys.argv[1:], "machine": machine.describe()}, file, indent=1)
    # The answers themselves may be going to stdout.
    print(text_of(summary, audit), file=sys.stderr if job.to_stdout else sys.stdout)


def _memory(mappings: Path | None, source: str | None, project: str | None) -> Memory | None:
    if mappings is None:
        if source is not None or project is not None:
            raise UsageError("--mappings-source and --project go with --mappings STORE")
        return None
    from alphita.normalizer.writing.remembering import Memory

    return Memory.read(mappings, source=source, project=project)


def _filters(
    types: list[str] | None,
    sources: list[str] | None,
    languages: list[str] | None,
    under: list[str] | None,
    standard_only: bool,
) -> Filters | None:
    if not (types or sources or languages or under or standard_only):
        return None
    from alphita.normalizer.answering.filters import Filters

    return Filters(
        types=tuple(types or ()),
        sources=tuple(sources or ()),
        languages=tuple(languages or ()),
        under=tuple(under or ()),
        standard_only=standard_only,
    )
