"""What files say of a whole set of mappings: taken from the one that is read, and counted where it has no place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

from alphita.mappings.formats import Header, _curies

# Attributes of a header that a file may say, as they are called when another format has no place for them.
OF_A_SET = {
    "set_id": "id of the set",
    "version": "version of the set",
    "licence": "licence",
    "date": "date",
    "tool": "tool",
    "source_version": "version of the codes",
    "sources": "versions of the targets",
}


def said(reader: ModuleType, path: Path, header: Header) -> Header:
    """Return a header with what the file to be read says of the whole set, where the header says nothing yet."""
    told: Header = reader.said(path, header) if hasattr(reader, "said") else header
    return told


def not_held(writer: ModuleType, header: Header, told: Header) -> Counter[str]:
    """Count what `told` says of a whole set beyond `header`, and a format has no place for."""
    holds = getattr(writer, "HOLDS", ())
    lost = (word for name, word in OF_A_SET.items() if name not in holds and _differs(name, header, told))
    counts = Counter(lost)
    if "metadata" not in holds:
        counts.update(told.metadata.keys())
    if "curies" not in holds:
        counts["declared prefixes"] = sum(not _curies.is_known(*one) for one in told.curies.items())
    return +counts


def _differs(name: str, header: Header, told: Header) -> bool:
    return bool(getattr(told, name) != getattr(header, name))
