"""JSON Lines: one object a line, UTF-8; a missing value is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from alphita.normalizer.records import Line

DESCRIPTION = "JSON Lines, one object a line"
STREAMS = True


def begin(columns: Sequence[str]) -> bytes:
    """Return nothing: there is no header."""
    return b""


def encode(columns: Sequence[str], lines: Sequence[Line]) -> bytes:
    """Return the lines as objects."""
    values = attrgetter(*columns)
    dump = json.JSONEncoder(ensure_ascii=False).encode
    return "".join(dump(dict(zip(columns, values(line), strict=True))) + "\n" for line in lines).encode("utf-8")


def finish(part: Path, out: Path) -> None:
    """Rename the part to the output."""
    part.replace(out)
