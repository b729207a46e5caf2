"""Formats of annotated texts. A module here is a choice of `--format`.

Each holds `DESCRIPTION`, `SUFFIXES`, `FOLDER` (whether the output is a folder of files), and

    write(header, documents) -> Iterator[bytes]                     of a file, or
    write(header, documents) -> Iterator[tuple[str, bytes]]         of a folder: name and content of each file

`header.lose` counts what a format has no place for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from alphita import __version__, registry
from alphita.errors import UsageError

PACKAGE = "alphita.annotation.formats"


@dataclass(frozen=True)
class Header:
    """What is said of a whole output.

    Attributes:
        date: on which the job began, as "2026-01-31".
        sources: of the index: name, version, licence.
        number: of documents.
        lost: what the format has no place for, counted in words.
    """

    date: str
    sources: tuple[dict[str, Any], ...] = ()
    number: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def tool(self) -> str:
        """Name and version of what made it."""
        return f"alphita {__version__}"

    def lose(self, what: str, number: int = 1) -> None:
        """Count what could not be written."""
        if number:
            self.lost[what] += number


def chosen(name: str, out: Path | str) -> ModuleType:
    """Return the format of a name, or the one that the output's name tells."""
    choices = registry.names(PACKAGE)
    if name:
        if name not in choices:
            raise UsageError(registry.unknown("format", name, choices))
        return registry.load(PACKAGE, name)
    if str(out) == "-":
        return registry.load(PACKAGE, "jsonl")
    if (found := registry.by_suffix(PACKAGE, Path(out).name)) is None:
        raise UsageError(f"cannot tell the format of {out} by its name; say --format, one of {choices}")
    return registry.load(PACKAGE, found)
