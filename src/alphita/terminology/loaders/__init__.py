"""Loaders: one file a format; its name is the word on the command line.

Each module has

- `DESCRIPTION: str`, one line for `--help`;
- `Options`, a `Config` of what can be chosen (every option has a default that works);
- `load(paths, options, rejects) -> Tables`.

A bad row goes to `rejects` with its file and line and never ends the work; a file that is not of the format at all, or
from which nothing can be read, raises `InputError`. What a format has and a loader leaves out on purpose is counted in
`Tables.dropped`. Files may be gzipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from alphita.config import Config
    from alphita.errors import Rejects
    from alphita.terminology.model import Tables

PACKAGE = "alphita.terminology.loaders"


class Loader(Protocol):
    """What every module of this folder offers."""

    DESCRIPTION: str
    Options: type[Config]

    def load(self, paths: Sequence[Path], options: Config, rejects: Rejects) -> Tables:
        """Read the files into tables."""
        ...
