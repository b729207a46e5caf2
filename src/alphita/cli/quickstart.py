"""`alphita quickstart`: the main job on real open data, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def quickstart(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what it makes.")] = Path("quickstart"),
    sample: Annotated[
        Path | None, typer.Option(help="Another sample: CSV with columns mention and concept_id (or NIL).")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every library; all cores by default.")] = None,
) -> None:
    """Import the Human Phenotype Ontology, train on it, evaluate, and normalise messy clinical strings.

    Stages that are done already are skipped; a training run that was stopped goes on where it was.
    """
    from alphita import machine

    machine.set_threads(threads)
    from alphita import quickstart as job

    job.show(job.run(output, sample or job.sample_path()), output)
