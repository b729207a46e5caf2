"""`alphita terminology subset`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from alphita import artefact, progress
from alphita.cli._from_spec import Force
from alphita.errors import Rejects, UsageError


def subset(
    terminology: Annotated[Path, typer.Argument(metavar="X.terminology", help="Terminology folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to create: Y.terminology.")],
    sources: Annotated[
        list[str] | None, typer.Option("--source", help="Only statements of this source: HP, DOID, …; repeatable.")
    ] = None,
    languages: Annotated[
        list[str] | None, typer.Option("--language", help="Only terms in this language: en, it, …; repeatable.")
    ] = None,
    semantic_types: Annotated[
        list[str] | None,
        typer.Option("--semantic-type", help="Only concepts with this type, by name or code; repeatable."),
    ] = None,
    descendants_of: Annotated[
        list[str] | None,
        typer.Option("--descendants-of", metavar="CURIE", help="Only this concept and all below it; repeatable."),
    ] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", help="File of ids, one per line, or the first column of a table.")
    ] = None,
    retired: Annotated[bool, typer.Option("--retired/--no-retired", help="Keep matching retired concepts.")] = True,
    strict: Annotated[bool, typer.Option("--strict", help="Fail at the first unknown id of the list.")] = False,
    force: Force = False,
) -> None:
    """Keep a part: different options must all hold, values of one option are alternatives."""
    from alphita.terminology import store
    from alphita.terminology import subset as choosing

    if not (sources or languages or semantic_types or descendants_of or list_file or not retired):
        raise UsageError(
            "say what to keep: --source, --language, --semantic-type, --descendants-of, --list, --no-retired"
        )
    artefact.refuse_existing(output, force, " (the old one is moved aside)")
    report = output.with_name(output.name + ".rejects.csv")
    for what, read in {"the terminology": terminology, "the list": list_file}.items():
        if read is not None:
            artefact.refuse_same({what: read, "the output": output, "the rejects": report})
    opened = store.load_terminology(terminology)
    with contextlib.suppress(OSError):  # where it cannot be made, the first write says so
        output.parent.mkdir(parents=True, exist_ok=True)
    with Rejects(report, strict=strict) as rejects:
        listed = choosing.read_list(list_file, opened, rejects) if list_file is not None else None
        choice = choosing.SubsetChoice(
            sources or (), languages or (), semantic_types or (), descendants_of or (), listed, retired
        )
        tables = choosing.subset(opened, choice)
        left_out = tables.dropped
        used = {
            "subset_of": {"name": opened.path.name, "content_hash": opened.content_hash},
            "sources": list(choice.sources),
            "languages": list(choice.languages),
            "semantic_types": list(choice.semantic_types),
            "descendants_of": list(choice.descendants_of),
            "listed": None if listed is None else len(listed),
            "retired": retired,
        }
        store.save(tables, output, config=used, rejects=rejects, force=force)
    counts = store.load_terminology(output).manifest["counts"]
    print(f"{output}: " + ", ".join(f"{counts[name]:,} {name}" for name in ("concepts", "terms", "relations")))
    for name, count in left_out.items():
        progress.say(f"left out: {count:,} {name}")
    if rejects.count:
        progress.say(f"{rejects.count:,} rows were left out; each is in {report} with its line")
