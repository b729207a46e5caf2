"""JSON Lines. Specification: https://jsonlines.org, one object a line.

UTF-8; a missing value is null.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dictionary
from operator import attrgetter
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.errors import Rejects
from alphita.mappings.formats import Header, Problem, _losses, _plain
from alphita.mappings.record import COLUMNS, Mapping

DESCRIPTION = "JSON Lines, one object a line"
SUFFIXES = (".jsonl", ".ndjson")
STREAMS = True
READS = True
PREFIXED = False
LOSSES: tuple[str, ...] = ()


def begin(header: Header) -> bytes:
    """Return nothing: there is no header."""
    return b""


def split_complete(header: Header, mappings: Sequence[Mapping]) -> tuple[Sequence[Mapping], Sequence[Mapping]]:
    """Return all as complete: no mapping changes another."""
    return mappings, ()


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the mappings as objects."""
    values = attrgetter(*header.columns)
    dump = json.JSONEncoder(ensure_ascii=False).encode
    return "".join(dump(dict(zip(header.columns, values(mapping), strict=True))) + "\n" for mapping in mappings).encode(
        "utf-8"
    )


def finish(header: Header, part: Path, out: Path) -> None:
    """Rename the part to the output."""
    part.replace(out)


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return None: a plain table holds every mapping."""
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what has no column."""
    return _plain.losses(header, mappings)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; keys that are no field are passed over, and told. A key may be missing, but not everywhere."""
    lacking = set(_plain.NEEDED)
    last: Dictionary[str, object] = {}
    for line, found in _losses.warn_unused_columns(_objects(path, rejects), COLUMNS, path, header.tell):
        lacking -= found.keys()
        last = found
        mapping = _plain.mapping(found, path, line, rejects)
        if mapping is not None:
            yield mapping
    if last and lacking:
        raise _plain.no_column(min(lacking), path, list(last))


def _objects(path: Path, rejects: Rejects) -> Iterator[tuple[int, Dictionary[str, Any]]]:
    """Yield the objects of a file with their lines."""
    for line, text in textio.streamed(path):
        if not text.strip():
            continue
        try:
            found = textio.json_value(text)
        except ValueError as error:
            rejects.add(f"not JSON: {error}", file=path, line=line, value=text)
            continue
        if not isinstance(found, dict):
            rejects.add("not a JSON object", file=path, line=line, value=text)
            continue
        yield line, found
