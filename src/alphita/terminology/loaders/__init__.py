"""Loaders: one file a format; its name is the word on the command line, `Loader` what each of them offers.

A bad row goes to `rejects` with its file and line and never ends the work; a file that is not of the format at all, or
from which nothing can be read, raises `InputError`. What a format has and a loader leaves out on purpose is counted in
`Tables.dropped`. Files may be gzipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from alphita.registry import Group

if TYPE_CHECKING:
    from alphita.config import Config
    from alphita.errors import Rejects
    from alphita.terminology.loaders._look import Look
    from alphita.terminology.model import Tables

PACKAGE = "alphita.terminology.loaders"
PLUGINS = Group("alphita.loaders", ("DESCRIPTION", "Options", "recognises", "load"))


class Loader(Protocol):
    """What every module of this folder offers: a line for `--help`, and options that all have a default that works."""

    DESCRIPTION: str
    Options: type[Config]

    def recognises(self, seen: Look) -> dict[str, str] | None:
        """Return the options with which `load` reads what was seen, or None if it is not of this format.

        It goes by content where `load` does, and by the files' names where `load` needs them. No file is read beyond
        its first 64 KB, but workbooks. It must not take what another loader reads better: two that recognise a file are
        an error in `detect`, which asks `products` and `table` only about what no other loader takes. A format that
        only adds to a terminology has an option `onto`, and recognises its files all the same.

        Raises:
            InputError: it is of this format, and cannot be read as it was given; the remedy says what to give.
        """
        ...

    def load(self, paths: Sequence[Path], options: Config, rejects: Rejects) -> Tables: ...
