"""`alphita review`: files into a store of reviews, and what was decided out of it; the page is `alphita serve`."""

from __future__ import annotations

import getpass
import re
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, clock, printing, progress, textio
from alphita.cli import _mapping_options as options
from alphita.cli._from_spec import AsJson, Brief, with_options
from alphita.errors import AlphitaError, Rejects, UsageError, counted, masked
from alphita.jobs.spec import Concepts
from alphita.mappings.formats import PREFIXES
from alphita.options import ENCODING, STRICT, Option, group, option

if TYPE_CHECKING:
    from collections.abc import Callable

    from alphita.answer.omop import OmopConcepts
    from alphita.mappings.formats import TargetInfo
    from alphita.review.records import Progress, ReviewRow
    from alphita.review.store import ReviewStore

app = typer.Typer(help="Reviews of mappings: rows in, decisions out.", no_args_is_help=True)
STORE = Option(
    flags=("--mappings", "-m"), metavar="STORE", help="Review store: a SQLite file or postgresql://user@host/database."
)
CONTEXT, READ = "Original input file", "Format of ANSWERS"
ANSWERED = "Concepts of the project: the same options as for 'alphita normalize'"
Store = Annotated[str, typer.Option(*STORE.flags, metavar="STORE", help=STORE.help)]


@app.callback()
def _review() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ImportSpec:
    """What to review, and what else reviewers see."""

    answers: Path = option(
        ...,
        positional=True,
        metavar="ANSWERS",
        help="File from 'alphita normalize', in any format that can be read back.",
    )
    mappings: str = option(..., like=STORE)
    project: str = option(..., help="Name of the project; new rows are added to an existing project.")
    source: str = option(..., help="Source of the codes; decisions are stored under it.")
    column: str = option("", help="Column of the strings in that source; stored with the project.")
    context_from: Path | None = option(
        None, metavar="INPUT", help="Original input file: reviewers see its other columns."
    )
    context_format: str = option(
        "", panel=CONTEXT, help="Format of that file, as for --input-format of normalize; by default from its name."
    )
    context_sheet: str | None = option(
        None, panel=CONTEXT, help="Sheet of that file, if it is an Excel workbook; not needed if only one is not empty."
    )
    context_delimiter: str = option("", panel=CONTEXT, help="Delimiter of that file, e.g. ';'.")
    context_encoding: str = option("utf-8", panel=CONTEXT, help="Encoding of that file, e.g. cp1252.")
    index: Path | None = option(None, help="Index that gave the answers: for their types, and to record its release.")
    from_: str = option("", panel=READ, help="Format of ANSWERS; by default from its name.")
    encoding: str = option("utf-8", like=ENCODING, panel=READ)
    prefix: tuple[str, ...] = option((), like=PREFIXES, panel=READ)
    concepts: Concepts = group(Concepts, without=("sources",), panel=ANSWERED)
    concept_sources: tuple[str, ...] = option(
        (), "--concept-source", panel=ANSWERED, help="Only concepts of this terminology (--source of normalize)."
    )
    open: bool = option(False, "--open/--blind", help="Whether reviewers of a new project see each other's decisions.")
    strict: bool = option(False, like=STRICT, panel=READ)
    private: bool = option(False, like=options.PRIVATE)


@app.command("import", cls=Brief)
@with_options
def import_(spec: ImportSpec) -> None:
    """Add the rows of a file to a project under review.

    alphita review import answers.csv --mappings reviews.db --project lab --source LAB

    The store and the project are created if they do not exist. Existing rows do not change; rows that cannot be read go
    to ANSWERS.import.rejects.csv. Decisions in ANSWERS (status, reviewer, time, comment) become decisions of the
    project. A row has one target; further ones are left out, counted and printed. The project
    keeps the limits on its concepts (--standard-only, --type, ...) for the page's search and for 'mappings migrate'.
    """
    from alphita.index.store import Index
    from alphita.mappings.formats import Header, _curies, chosen
    from alphita.review import files
    from alphita.review.store import ReviewStore
    from alphita.service import review_files

    answers, project = spec.answers, spec.project
    reader = chosen(answers, spec.from_, "--from", to_read=True)
    review_files.check_name(project)
    index = None if spec.index is None else Index.open(spec.index)
    textio.check_encoding(spec.encoding)
    prefixes = _curies.prefixes_of(spec.prefix)
    header = Header(prefixes=prefixes, source_vocabulary=spec.source, encoding=spec.encoding)
    left_out: Counter[str] = Counter()
    context = _context(spec)
    # Beside ANSWERS lies what `normalize` itself set aside, and is not to be lost.
    read = answers.with_name(f"{answers.name}.import")
    with Rejects(options.rejects_of(read), strict=spec.strict, private=spec.private) as rejects:
        read_rows = files.read(answers, reader, project, rejects, header=header, context=context, left_out=left_out)
        rows = list(read_rows)
    _check_context(spec, rows, context)
    concepts = replace(spec.concepts, sources=spec.concept_sources)
    facts = review_files.project_of(project, spec.source, spec.column, index, blind=not spec.open, concepts=concepts)
    with ReviewStore.open(spec.mappings, create=True) as store:
        added = review_files.add(store, facts, rows, index, left_out=left_out)
    print(f"{project}: {counted(added.new, 'row')} added, {added.known:,} known")
    if added.decided:
        print(f"  {counted(added.decided, 'decision')} taken over from {answers.name}")
    if added.overtaken:
        print(
            f"  {counted(added.overtaken, 'decision')} not taken over: not newer than what is here, or a rejection of "
            "another concept than the answer"
        )
    options.tell_losses(read, left_out, rejects.count)
    progress.say(f"next: alphita serve --to {spec.index or 'TERMINOLOGY'} --mappings {masked(spec.mappings)}")


def _context(spec: ImportSpec) -> dict[int, dict[str, str]] | None:
    """Return the other cells of each row of the file that was normalised; None: there is none."""
    from alphita.jobs.reading import MentionFile, cells_of

    if spec.context_from is None:
        return None
    try:
        file = MentionFile(
            spec.context_from,
            spec.context_format,
            sheet=spec.context_sheet,
            delimiter=spec.context_delimiter,
            encoding=spec.context_encoding,
            encoding_option="--context-encoding",
        )
        cells = dict(cells_of(file))
        columns = list(next(iter(cells.values()), ()))
        if spec.column or len(columns) == 1:
            file.choose(columns, spec.column or None)
    except AlphitaError as error:
        error.args = (re.sub(r"--(?:input-)?(?=format|sheet|delimiter|encoding)", "--context-", str(error)),)
        raise
    return cells


def _check_context(spec: ImportSpec, rows: list[ReviewRow], context: dict[int, dict[str, str]] | None) -> None:
    """See that the file of context is the one that was normalised: its rows hold the strings of the answers."""
    if not context or not rows:
        return
    lacking = sum(not any(row.mention in cell for cell in context[row.number].values()) for row in rows)
    problem = f"{spec.context_from}: {lacking:,} of {len(rows):,} rows do not hold the string that {spec.answers} has"
    remedy = "give the file that was normalised, with its --context-encoding and --context-delimiter"
    if lacking == len(rows):
        raise UsageError(f"{problem}; {remedy}")
    if lacking:
        progress.say(f"{problem}; if that is not meant, {remedy}")


@dataclass(frozen=True, kw_only=True)
class ExportSpec:
    """Which decisions to write, and to what."""

    mappings: str = option(..., like=STORE)
    project: str = option(..., help="Name of the project.")
    all: bool = option(False, help="Also write rows without a final decision.")
    index: Path | None = option(
        None, help="Index that gave the answers, for the OMOP ids, which usagi and omop need (or give --concepts)."
    )
    writing: options.Writing = group(options.Writing)


@app.command("export", cls=Brief)
@with_options
def export(spec: ExportSpec) -> None:
    """Write the decisions of a project to a file that only its owner can read.

    alphita review export --mappings reviews.db --project lab -o lab.sssom.tsv

    What the format cannot hold is counted and printed. OUTPUT.rejects.csv lists the numbers of rows that cannot be
    written.
    """
    from alphita.answer.omop import OmopConcepts
    from alphita.index.store import Index
    from alphita.mappings.record import COLUMNS, OTHERS
    from alphita.review.store import ReviewStore
    from alphita.service import review_files

    writing, output = spec.writing, spec.writing.output
    writer = writing.writer
    if output.exists() and Path(spec.mappings).exists() and output.samefile(spec.mappings):
        raise UsageError(f"{output} is the store of the review itself; choose another name")
    if output.exists() and not writing.force:
        raise UsageError(f"{output} already exists; choose another name or use --force")
    with ReviewStore.open(spec.mappings) as store:
        omop = None if spec.index is None else OmopConcepts(Index.open(spec.index))
        columns = COLUMNS if omop is not None and omop.known else OTHERS
        header = replace(writing.header(), columns=columns, target_info=_target_info(spec, store, omop))
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with Rejects(options.rejects_of(output), strict=writing.strict, private=True) as rejects:
                written = review_files.export(
                    store, spec.project, writer, header, output, rejects, settled_only=not spec.all, omop=omop
                )
        except OSError as error:
            raise AlphitaError(f"could not write {output}: {error.strerror or error}; nothing was changed") from error
    print(f"{output}: {counted(written.mappings, 'mapping')}")
    options.tell_losses(output, Counter(written.losses), written.set_aside)


@app.command("progress")
def show_progress(
    mappings: Store,
    project: Annotated[str | None, typer.Option(help="Name of the project; all by default.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the progress of a review, and how well its reviewers agree."""
    import json

    from alphita.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        names = [store.project(project).name] if project is not None else [status.name for status in store.projects()]
        progress_of = {name: store.progress(name) for name in names}
    if not progress_of:
        name = masked(mappings)
        raise UsageError(f"{name} holds no project; add one: alphita review import ANSWERS --mappings {name}")
    if as_json:
        printing.print_rows({"project": name, **status.to_json()} for name, status in progress_of.items())
    else:
        for name, status in progress_of.items():
            print("\n".join(_text(name, status)))
    if report is not None:
        with artefact.atomic_file(report, "w") as file:
            json.dump(
                {name: status.to_json() for name, status in progress_of.items()}, file, indent=1, ensure_ascii=False
            )


Source = Annotated[str | None, typer.Option(help="Decisions of all projects with this source.")]
Reviewer = Annotated[str | None, typer.Option(help="Decisions of this reviewer, in all projects.")]
OfProject = Annotated[str | None, typer.Option("--project", help="Decisions of this project.")]
By = Annotated[str, typer.Option(help="Name to record; your account name by default.")]


@app.command("forget")
def forget(
    mappings: Store, source: Source = None, project: OfProject = None, reviewer: Reviewer = None, by: By = ""
) -> None:
    """Exclude all existing decisions of one source, project or reviewer.

    They stay in the history; later decisions count. 'alphita review restore' undoes it.
    """
    from alphita.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        changed = store.forget(source=source, project=project, reviewer=reviewer, by=by or getpass.getuser())
    print(f"forgotten: {counted(changed, 'decision')}")


@app.command("restore")
def restore(
    mappings: Store, source: Source = None, project: OfProject = None, reviewer: Reviewer = None, by: By = ""
) -> None:
    """Undo 'alphita review forget' of the same source, project or reviewer."""
    from alphita.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        changed = store.restore(source=source, project=project, reviewer=reviewer, by=by or getpass.getuser())
    print(f"counting again: {counted(changed, 'decision')}")


@app.command("purge")
def purge(
    mappings: Store,
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="Age of the newest decision about a row: 5y, 18m (months) or 90d.")
    ],
    project: OfProject = None,
    by: By = "",
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; by default they are only counted.")] = False,
) -> None:
    """Remove old settled rows and their decisions for good.

    alphita review purge --mappings reviews.db --older-than 5y

    They are gone from the history, and no longer answer 'alphita normalize'. The store keeps how many were removed, by
    whom and when. A project without rows is removed too. Rows that are not settled stay.
    """
    from alphita.review.store import Busy, ReviewStore

    before = (clock.now() - _age(older_than)).isoformat(timespec="milliseconds")
    with ReviewStore.open(mappings) as reviews:
        found = reviews.purge(project, before, by or getpass.getuser()) if yes else reviews.purgeable(project, before)
        for one in found:
            rows = f"{one.rows:,} of {one.rows + one.left:,} rows" if one.left else "the whole project"
            print(f"{one.project}: {rows}; decisions before {before[:10]}: {one.decisions:,}")
        if not found:
            print(f"no settled rows from before {before[:10]}")
        elif not yes:
            print("nothing was removed; to remove them, run it again with --yes")
        else:
            print("removed")
        if yes:
            try:
                reviews.shrink()
            except Busy:
                progress.say("the file keeps its size, because another program uses it; run this again later")


def _age(text: str) -> timedelta:
    """Return a time as it is typed: 5y, 18m, 90d."""
    match = re.fullmatch(r"([1-9]\d{0,4})([ymd])", text)
    if match is None:
        raise UsageError(f"--older-than {text}: write it as 5y, 18m (months) or 90d")
    return timedelta(days=int(match[1]) * {"y": 365.25, "m": 365.25 / 12, "d": 1}[match[2]])


def _text(name: str, status: Progress) -> list[str]:
    share = status.decided_occurrences / status.occurrences if status.occurrences else 0.0
    lines = [
        f"{name}: {status.decided:,} of {status.rows:,} rows decided, {share:.1%} of {status.occurrences:,} occurrences"
    ]
    lines += [f"  {count:>10,}  {kind}" for kind, count in status.by_kind.items()]
    lines += [f"  {count:>10,}  by {reviewer}" for reviewer, count in status.by_reviewer.items()]
    if status.compared:
        lines.append(f"  rows decided by at least two reviewers: {status.compared:,}; agreed: {status.agreed:,}")
    if status.pair is not None and status.kappa is not None:
        lines.append(f"  Cohen's kappa of {status.pair[0]} and {status.pair[1]}: {status.kappa:.2f}")
    if status.disagreed:
        lines.append(f"  rows to adjudicate: {len(status.disagreed):,}")
    return lines


def _target_info(
    spec: ExportSpec, store: ReviewStore, omop: OmopConcepts | None
) -> Callable[[str], TargetInfo | None] | None:
    """Return what knows the OMOP facts of the project's concepts; None: nothing that was given does."""
    if spec.writing.concepts is not None:
        from alphita.mappings.formats.omop import load_concepts

        mappings = store.mappings(spec.project)
        wanted = {curie for mapping in mappings for curie in (mapping.concept_id or "").split("|")}
        return load_concepts(spec.writing.concepts, wanted).get
    if omop is None:
        return None
    known = omop.targets(replaced=False)
    if known is None:
        raise UsageError(f"{spec.index} is no index of OMOP vocabularies; give Athena's CONCEPT.csv by --concepts")
    return known
