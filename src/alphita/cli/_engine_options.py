"""Options that the commands which run on several processes or machines have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from alphita.errors import UsageError

CLUSTER = "Several processes or machines"

Engine = Annotated[
    str | None,
    typer.Option(help="What runs the job: processes (of this machine), ray or spark.", rich_help_panel=CLUSTER),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="How many; by default as the engine has room.", rich_help_panel=CLUSTER)
]
Address = Annotated[
    str | None,
    typer.Option(help="Of the cluster: HOST:6379 for Ray, spark://HOST:7077 for Spark.", rich_help_panel=CLUSTER),
]
GpusPerWorker = Annotated[
    float, typer.Option(min=0.0, help="GPUs of each worker, or a share of one: 0.5.", rich_help_panel=CLUSTER)
]


def refuse(given: Mapping[str, object]) -> None:
    """Make sure that of the options `given`, by name, none has a value, for there is no engine.

    Raises:
        UsageError: one has.
    """
    for option, value in given.items():
        if value:
            raise UsageError(f"{option} goes with --engine processes, ray or spark")
