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
from alphita.mappings.formats import Header, _fields
from alphita.mappings.formats._fields import finish, losses, split_complete, validate
from alphita.mappings.record import COLUMNS, Mapping

__all__ = ["finish", "losses", "split_complete", "validate"]
DESCRIPTION = "JSON Lines, one object a line"
SUFFIXES = (".jsonl", ".ndjson")
STREAMS = True
READS = True
PREFIXED = False
LOSSES: tuple[str, ...] = ()


def begin(header: Header) -> bytes:
    """Return nothing: there is no header."""
    return b""


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the mappings as objects."""
    values = attrgetter(*header.columns)
    dump = json.JSONEncoder(ensure_ascii=False).encode
    return "".join(dump(dict(zip(header.columns, values(mapping), strict=True))) + "\n" for mapping in mappings).encode(
        "utf-8"
    )


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; keys that are no field are passed over, and told. A key may be missing, but not everywhere."""
    lacking = set(_fields.NEEDED)
    last: Dictionary[str, object] = {}
    for line, record in _fields.warn_unused_columns(
        _objects(path, rejects, header.reading), COLUMNS, path, header.tell
    ):
        lacking -= record.keys()
        last = record
        mapping = _fields.mapping(record, path, line, rejects)
        if mapping is not None:
            yield mapping
    if last and lacking:
        raise _fields.no_column(min(lacking), path, list(last))


def _objects(path: Path, rejects: Rejects, how: textio.Reading) -> Iterator[tuple[int, Dictionary[str, Any]]]:
    """Yield the objects of a file with their lines."""
    for line, text in textio.streamed(path, how):
        if not text.strip():
            continue
        try:
            record = textio.json_value(text)
        except ValueError as error:
            rejects.add(f"not JSON: {error}", file=path, line=line, value=text)
            continue
        if not isinstance(record, dict):
            rejects.add("not a JSON object", file=path, line=line, value=text)
            continue
        yield line, record
