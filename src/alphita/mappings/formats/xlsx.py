"""Excel's workbook, Office Open XML: https://ecma-international.org/publications-and-standards/standards/ecma-376/

Numbers are numbers, all else is text: a mention that begins with "=" is no formula. Control characters, which a
workbook cannot hold, become blanks, and a text ends after 32,767 characters. A sheet has 1,048,576 rows at most; what
follows goes to further sheets. It takes the extra `excel`. While a job runs, the part is an Arrow stream.
"""

from __future__ import annotations

import datetime
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from alphita import workbooks
from alphita.errors import Rejects, require
from alphita.mappings.formats import Header, _fields, parquet
from alphita.mappings.formats._fields import split_complete, validate
from alphita.mappings.formats.parquet import encode
from alphita.mappings.record import COLUMNS, Mapping

__all__ = ["encode", "split_complete", "validate"]
DESCRIPTION = "Excel's workbook (alphita[excel])"
SUFFIXES = (".xlsx",)
STREAMS = False
READS = True
PREFIXED = False
LOSSES = tuple(name for name in COLUMNS if _fields.KINDS[name] is str)
MAX_ROWS = 1_048_576
MAX_CHARACTERS = 32_767
SHEET = "mappings"
EPOCH = datetime.datetime(1980, 1, 1)
_MODIFIED = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def begin(header: Header) -> bytes:
    """Return the stream's schema message."""
    require("openpyxl", "excel")
    return parquet.begin(header)


def finish(header: Header, part: Path, out: Path) -> None:
    """Write the workbook aside, rename it, and remove the part."""
    import openpyxl
    import pyarrow as pa

    book = openpyxl.Workbook(write_only=True)
    with pa.OSFile(str(part)) as source, pa.ipc.open_stream(source) as stream:
        sheet, number = _sheet(book, stream.schema.names), 1
        for batch in stream:
            for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if number == MAX_ROWS:
                    sheet, number = _sheet(book, stream.schema.names), 1
                sheet.append([_cell(sheet, value) for value in values])
                number += 1
    book.properties.created = EPOCH
    with _fields.made_of(part, out) as file, tempfile.TemporaryFile(dir=out.parent) as saved:
        book.save(saved)
        _without_times(saved, file)


def _without_times(saved: IO[bytes], file: IO[bytes]) -> None:
    """Copy a workbook, whose parts tell when they were written: the same mappings give the same bytes."""
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, EPOCH.timetuple()[:6])
            entry.compress_type = zipfile.ZIP_DEFLATED
            with source.open(name) as content, target.open(entry, "w", force_zip64=True) as copy:
                if name == "docProps/core.xml":
                    copy.write(_MODIFIED.sub(rb"\g<1>1980-01-01T00:00:00Z", content.read()))
                else:
                    shutil.copyfileobj(content, copy)


def _sheet(book: Any, names: Sequence[str]) -> Any:  # noqa: ANN401 - openpyxl has no types
    sheet = book.create_sheet(SHEET if not book.worksheets else f"{SHEET}{len(book.worksheets) + 1}")
    sheet.freeze_panes = "A2"
    sheet.append(list(names))
    return sheet


def _cell(sheet: Any, value: object) -> Any:  # noqa: ANN401
    from openpyxl.cell import WriteOnlyCell

    if not isinstance(value, str):
        return value
    cell = WriteOnlyCell(sheet, _held(value))
    cell.data_type = "s"
    return cell


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count what has no column, and the texts that are not held whole, by field."""
    counts = Counter(_fields.losses(header, mappings))
    for name in LOSSES:
        if name in header.columns:
            texts = (getattr(mapping, name) for mapping in mappings)
            counts[name] += sum(text is not None and text != _held(text) for text in texts)
    return dict(+counts)


def _held(text: str) -> str:
    return _CONTROLS.sub(" ", text)[:MAX_CHARACTERS]


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read the only sheet that has something in it; columns that are no field are passed over, and told."""
    _, rows = workbooks.sheet_rows(path, None)
    _, names = next(rows)
    for name in _fields.NEEDED:
        if name not in names:
            raise _fields.no_column(name, path, names)
    table = ((line, dict(zip(names, cells, strict=True))) for line, cells in rows)
    return _fields.mappings(table, path, header, rejects)
