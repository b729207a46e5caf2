"""What the commands that read corpora share."""

from __future__ import annotations

from alphita import progress
from alphita.errors import Rejects
from alphita.options import Option

TEXT_FIELD = Option(help="Field of .jsonl with the text.")


def tell_unreadable(rejects: Rejects) -> None:
    """Say how many lines of text cannot be read, if any, and where they are listed."""
    if rejects.count:
        progress.say(f"{rejects.count:,} lines cannot be read; each is in {rejects.path} with its number")
