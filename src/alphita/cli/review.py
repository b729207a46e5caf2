"""`alphita review`: files into a store of reviews, and what was decided out of it; the page is `alphita serve`."""

from __future__ import annotations

import getpass
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphita import artefact, progress
from alphita.cli import _mapping_options as options
from alphita.errors import AlphitaError, Rejects, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from alphita.index.store import Index
    from alphita.mappings.formats import TargetInfo
    from alphita.mappings.review.records import Progress
    from alphita.mappings.review.store import ReviewStore

app = typer.Typer(help="Reviews of mappings: rows in, decisions out.", no_args_is_help=True)
Store = Annotated[Path, typer.Option("--mappings", "-m", help="The store of reviews, one SQLite file.")]


@app.callback()
def _review() -> None:
    pass


@app.command("import")
def import_(
    answers: Annotated[Path, typer.Argument(metavar="ANSWERS", help="What 'alphita normalize' wrote, in any format.")],
    mappings: Store,
    project: Annotated[str, typer.Option(help="Name of the project; rows are added to it if it is there.")],
    source: Annotated[str, typer.Option(help="Where the codes come from; decisions are remembered by it.")],
    column: Annotated[str, typer.Option(help="Column of the strings there; it is noted with the project.")] = "",
    context_from: Annotated[
        Path | None,
        typer.Option(metavar="INPUT", help="The file that was normalised: reviewers see its other columns."),
    ] = None,
    context_format: Annotated[
        str, typer.Option(help="Its format, as --input-format of normalize has it; told by its name otherwise.")
    ] = "",
    context_sheet: Annotated[
        str | None, typer.Option(help="Its sheet, of an Excel workbook; not needed if only one has anything in it.")
    ] = None,
    context_delimiter: Annotated[str, typer.Option(help="Between its cells, e.g. ';'.")] = "",
    context_encoding: Annotated[str, typer.Option(help="Its encoding, e.g. cp1252.")] = "utf-8",
    index: Annotated[
        Path | None,
        typer.Option(help="The index that was normalised with: for the types of the answers, and to note its release."),
    ] = None,
    from_: Annotated[str, typer.Option("--from", help="Format of ANSWERS; told by its name otherwise.")] = "",
    prefix: options.Prefixes = None,
    open_: Annotated[
        bool, typer.Option("--open/--blind", help="Whether reviewers of a new project see each other's decisions.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first bad row.")] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Strings are patient data: rejects give line numbers only.")
    ] = False,
) -> None:
    """Add the rows of a file to a project under review.

    The store and the project are made if they are not there. Rows that are there stay as they are; rows that cannot be
    read go to ANSWERS.import.rejects.csv. What ANSWERS says was decided (status, reviewer, time, comment) becomes
    decisions. A row holds one target; what that leaves out is counted and printed.
    """
    from alphita.mappings.formats import Header, _curies, _names
    from alphita.mappings.review import files
    from alphita.mappings.review.store import ReviewStore
    from alphita.normalizer.reading.cells import cells_of
    from alphita.normalizer.reading.files import MentionFile
    from alphita.service import review_files

    reader = _names.chosen(answers, from_, "--from", to_read=True)
    review_files.check_name(project)
    opened = _index(index)
    header = Header(prefixes=_curies.prefixes_of(prefix))
    left_out: Counter[str] = Counter()
    context = None
    if context_from is not None:
        context = dict(
            cells_of(
                MentionFile(
                    context_from,
                    context_format,
                    sheet=context_sheet,
                    delimiter=context_delimiter,
                    encoding=context_encoding,
                )
            )
        )
    # Beside ANSWERS lies what `normalize` itself set aside, and is not to be lost.
    read = answers.with_name(f"{answers.name}.import")
    with Rejects(options.rejects_of(read), strict=strict, private=private) as rejects:
        rows = files.read(answers, reader, project, rejects, header=header, context=context, left_out=left_out)
    facts = review_files.project_of(project, source, column, opened, blind=not open_)
    with ReviewStore.open(mappings, create=True) as store:
        added = review_files.add(store, facts, rows, opened)
    print(f"{project}: {added.new:,} rows added, {added.known:,} known")
    if added.decided:
        print(f"  {added.decided:,} decisions taken over from {answers.name}")
    if added.overtaken:
        print(
            f"  {added.overtaken:,} decisions not taken over: not newer than what is here, or a rejection of another "
            "concept than the answer"
        )
    options.tell_losses(read, left_out, rejects.count)
    progress.say(f"next: alphita serve --index X.index --mappings {mappings}")


@app.command("export")
def export(
    mappings: Store,
    project: Annotated[str, typer.Option(help="Name of the project.")],
    output: options.Output,
    format_: options.Format = "",
    all_: Annotated[bool, typer.Option("--all", help="Write rows that are not settled, too.")] = False,
    set_id: options.SetId = "",
    set_version: options.SetVersion = "",
    licence: options.Licence = "",
    date: options.Day = "",
    source_vocabulary: options.SourceVocabulary = "",
    source_system: options.SourceSystem = "",
    source_version: options.SourceVersion = "",
    target_system: options.TargetSystem = "",
    prefix: options.Prefixes = None,
    concepts: options.Concepts = None,
    strict: options.Strict = False,
    force: options.Force = False,
) -> None:
    """Write what was decided in a project to a file that only its owner can read.

    What the format cannot hold is counted and printed. Rows that cannot be written go to OUTPUT.rejects.csv, by their
    numbers.
    """
    from alphita.mappings.formats import Header, _curies, _names, day_of
    from alphita.mappings.review.store import ReviewStore
    from alphita.service import review_files

    writer = _names.chosen(output, format_, "--format")
    if output.exists() and mappings.exists() and output.samefile(mappings):
        raise UsageError(f"{output} is the store of the review itself; choose another name")
    if output.exists() and not force:
        raise UsageError(f"{output} already exists; choose another name or use --force")
    with ReviewStore.open(mappings) as store:
        header = Header(
            set_id=set_id,
            version=set_version,
            licence=licence,
            date=day_of(date),
            source_vocabulary=source_vocabulary,
            source_system=source_system,
            source_version=source_version,
            target_system=target_system,
            prefixes=_curies.prefixes_of(prefix),
            target_info=_omop(concepts, store, project),
        )
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            with Rejects(options.rejects_of(output), strict=strict, private=True) as rejects:
                written = review_files.export(store, project, writer, header, output, rejects, settled_only=not all_)
        except OSError as error:
            raise AlphitaError(f"could not write {output}: {error.strerror or error}; nothing was changed") from error
    print(f"{output}: {written.mappings:,} mappings")
    options.tell_losses(output, Counter(written.losses), written.set_aside)


@app.command("progress")
def show_progress(
    mappings: Store,
    project: Annotated[str | None, typer.Option(help="Name of the project; all by default.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the figures to this JSON file too.")] = None,
) -> None:
    """Print how far a review is, and how well its reviewers agree."""
    import json

    from alphita.mappings.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        names = [store.project(project).name] if project is not None else [one.name for one in store.projects()]
        found = {name: store.progress(name) for name in names}
    if not found:
        raise UsageError(f"{mappings} holds no project; add one: alphita review import ANSWERS --mappings {mappings}")
    for name, one in found.items():
        print("\n".join(_text(name, one)))
    if report is not None:
        with artefact.atomic_file(report, "w") as file:
            json.dump({name: one.to_json() for name, one in found.items()}, file, indent=1, ensure_ascii=False)


Source = Annotated[str | None, typer.Option(help="Of all projects with this source.")]
Reviewer = Annotated[str | None, typer.Option(help="Of this reviewer, in all projects.")]
OfProject = Annotated[str | None, typer.Option("--project", help="Of this project.")]
By = Annotated[str, typer.Option(help="Who wants it so; you, by default.")]


@app.command("forget")
def forget(
    mappings: Store, source: Source = None, project: OfProject = None, reviewer: Reviewer = None, by: By = ""
) -> None:
    """Remove the influence of all decisions so far of one source, project or reviewer.

    They stay in the history; those made later count. 'alphita review restore' takes it back.
    """
    from alphita.mappings.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        changed = store.forget(source=source, project=project, reviewer=reviewer, by=by or getpass.getuser())
    print(f"{changed:,} decisions are forgotten")


@app.command("restore")
def restore(
    mappings: Store, source: Source = None, project: OfProject = None, reviewer: Reviewer = None, by: By = ""
) -> None:
    """Take 'alphita review forget' of the same source, project or reviewer back."""
    from alphita.mappings.review.store import ReviewStore

    with ReviewStore.open(mappings) as store:
        changed = store.restore(source=source, project=project, reviewer=reviewer, by=by or getpass.getuser())
    print(f"{changed:,} decisions count again")


def _text(name: str, found: Progress) -> list[str]:
    share = found.decided_occurrences / found.occurrences if found.occurrences else 0.0
    lines = [
        f"{name}: {found.decided:,} of {found.rows:,} rows decided, {share:.1%} of {found.occurrences:,} occurrences"
    ]
    lines += [f"  {count:>10,}  {kind}" for kind, count in found.by_kind.items()]
    lines += [f"  {count:>10,}  by {reviewer}" for reviewer, count in found.by_reviewer.items()]
    if found.compared:
        lines.append(f"  {found.compared:,} rows decided by two reviewers or more, {found.agreed:,} alike")
    if found.pair is not None and found.kappa is not None:
        lines.append(f"  Cohen's kappa of {found.pair[0]} and {found.pair[1]}: {found.kappa:.2f}")
    if found.disagreed:
        lines.append(f"  {len(found.disagreed):,} rows to adjudicate")
    return lines


def _index(path: Path | None) -> Index | None:
    if path is None:
        return None
    from alphita.index.store import Index

    return Index.open(path)


def _omop(concepts: Path | None, store: ReviewStore, project: str) -> Callable[[str], TargetInfo | None] | None:
    if concepts is None:
        return None
    from alphita.mappings.concepts import load

    wanted = {one for mapping in store.mappings(project) for one in (mapping.concept_id or "").split("|")}
    return load(concepts, wanted).get
