"""`alphita terminology changes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alphita import printing, progress
from alphita.cli._from_spec import AsJson
from alphita.errors import UsageError


def changes(
    old: Annotated[Path, typer.Argument(metavar="OLD.terminology", help="The older release.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.terminology", help="The newer release.")],
    outputs: Annotated[
        list[Path] | None,
        typer.Option("--output", "-o", help="Write every change to this .csv, .tsv or .json file; repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two releases: concepts added and retired, names, synonyms, parents."""
    from alphita.terminology import changes as comparing
    from alphita.terminology.store import load_terminology

    for output in outputs or []:
        if output.suffix.lower() not in comparing.SUFFIXES:
            raise UsageError(f"{output}: the name must end in one of {list(comparing.SUFFIXES)}")
    found = comparing.changes(load_terminology(old), load_terminology(new))
    for output in outputs or []:
        found.write(output)
        progress.say(f"{len(found.table):,} changes are in {output}")
    if as_json:
        printing.print_rows(found.table.iter_rows(named=True))
    else:
        print(found.summary())
