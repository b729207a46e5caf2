"""What the commands that read corpora share."""

from __future__ import annotations

from typing import Annotated

import typer

from alphita import progress
from alphita.errors import Rejects

TextField = Annotated[str, typer.Option(help="The field of .jsonl that holds the text.")]


def tell_unreadable(rejects: Rejects) -> None:
    """Say how many lines of text cannot be read, if any, and where they are listed."""
    if rejects.count:
        progress.say(f"{rejects.count:,} lines cannot be read; each is in {rejects.path} with its number")
