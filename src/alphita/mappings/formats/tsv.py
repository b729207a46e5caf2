"""TSV. Specification: https://www.iana.org/assignments/media-types/text/tab-separated-values

As CSV otherwise: UTF-8, a header, LF as the end of a line, quotes where a cell has a tab, a quote or a line break.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, csv
from alphita.mappings.formats._fields import losses, split_complete, validate
from alphita.mappings.formats.csv import finish
from alphita.mappings.record import Mapping

__all__ = ["finish", "losses", "split_complete", "validate"]
DESCRIPTION = "tab-separated, with a header"
SUFFIXES = (".tsv",)
STREAMS = True
READS = True
PREFIXED = False
LOSSES: tuple[str, ...] = ()
TAB = "\t"


def begin(header: Header) -> bytes:
    """Return the line of column names."""
    return csv.first_line(header, TAB)


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return the mappings as TSV."""
    return csv.encode(header, mappings, delimiter=TAB)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file; columns that are no field are passed over, and told."""
    return csv.read(path, header, rejects, delimiter=TAB)


def is_plain(path: Path) -> bool:
    """Tell whether a file is a plain table, and no SSSOM, which may be called .tsv too; where there is none, it is."""
    try:
        _, first = next(textio.streamed(path))
    except InputError:
        return True
    return not (first.startswith("#") or "subject_id" in textio.tab_cells(first.rstrip("\r\n")))
