"""Output formats of `alphita normalize --format`. A module here is a choice.

While a job runs, its lines are appended to a part file that can be cut back to any earlier length and gone on with;
when all are there the part becomes the output. A module is named as its files' suffix and offers what
`Format` says. The columns are fields of `alphita.normalizer.records.Line`, the same in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from alphita.normalizer.records import Line


class Format(Protocol):
    """What a format's module offers."""

    DESCRIPTION: str
    # Whether the part file already is the output, so that it can go to stdout as it grows.
    STREAMS: bool

    def begin(self, columns: Sequence[str]) -> bytes:
        """Return what the part file begins with."""
        ...

    def encode(self, columns: Sequence[str], lines: Sequence[Line]) -> bytes:
        """Return what is appended for some lines."""
        ...

    def finish(self, part: Path, out: Path) -> None:
        """Make the output of a complete part file, in one step, and leave no part file behind."""
        ...
