"""The package's commands, run in this process: one of their own would take seconds to begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from alphita import cli

CALLS: list[list[str]] = []
"""What the benches called so far, each call's arguments."""


def alphita(*arguments: str | Path) -> None:
    """Run a command; errors come out as they are."""
    typer.main.get_command(cli.app)([*map(str, arguments)], standalone_mode=False)


def in_process(threads: int | None) -> Callable[..., None]:
    """Stand in for `cells.caller`, and note the calls; one thread, however many are asked for."""

    def call(*arguments: str | Path) -> None:
        CALLS.append([*map(str, arguments)])
        alphita(*CALLS[-1], "--threads", "1")

    return call
