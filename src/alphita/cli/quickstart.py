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
        typer.Option("--output", "-o", help="Output folder: quickstart, or with --train quickstart_training."),
    ] = None,
    sample: Annotated[
        Path | None, typer.Option(help="Your own sample: a CSV with the columns mention and concept_id (or NIL).")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Show what training on the ontology gains; needs alphita[train,plots].")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="With --train: fewer steps, at most ten minutes on a slow CPU.")
    ] = False,
    threads: Threads = None,
) -> None:
    """Map messy clinical strings to the Human Phenotype Ontology, and measure the accuracy.

    With --train: train an encoder on the ontology, and compare it with its starting point. What is already in the
    folder is used again; an interrupted training run continues.
    """
    from alphita import machine, registry

    threads = machine.set_threads(threads)
    from alphita import quickstart as job

    if small and not train:
        raise UsageError("--small goes with --train")
    sample_file = sample or job.sample_path()
    if train:
        training = registry.extension("quickstart_training")
        folder = output or Path("quickstart_training")
        training.show(training.run(folder, sample_file, settings=training.SMALL if small else {}), folder)
    else:
        folder = output or Path("quickstart")
        job.show(job.run(folder, sample_file, threads=threads), folder)
