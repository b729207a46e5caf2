"""`alphita quickstart`: the main job on real open data, end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alphita.cli._from_spec import Threads
from alphita.errors import UsageError


def quickstart(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for what it makes: quickstart, or with --train quickstart_training."
        ),
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Another sample: CSV with columns mention and concept_id (or NIL).")
    ] = None,
    train: Annotated[
        bool,
        typer.Option("--train", help="Show what training on the ontology brings instead; needs alphita[train,plots]."),
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="With --train: fewer steps, within ten minutes on a slow processor.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Answer messy clinical strings with concepts of the Human Phenotype Ontology, and measure the answers.

    With --train: train an encoder on the ontology, and compare it with what it started from. Stages that are done are
    skipped; a training run that was stopped goes on where it was.
    """
    from alphita import machine, registry

    threads = machine.set_threads(threads)
    from alphita import quickstart as job

    if small and not train:
        raise UsageError("--small goes with --train")
    asked = sample or job.sample_path()
    if train:
        training = registry.extension("quickstart_training")
        folder = output or Path("quickstart_training")
        training.show(training.run(folder, asked, settings=training.SMALL if small else {}), folder)
    else:
        folder = output or Path("quickstart")
        job.show(job.run(folder, asked, threads=threads), folder)
