"""Sheets of Excel's workbooks, and of those that LibreOffice writes, as rows of text.

A sheet has 1,048,576 rows at most, and is held in memory. 250.0 becomes 250, dates become ISO 8601, truth values TRUE
and FALSE, errors such as #N/A nothing; of a formula there is what it gave when the workbook was saved.
"""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from alphita.errors import InputError, UsageError, require
from alphita.registry import unknown

# A million rows of twenty cells have less.
MAX_UNPACKED_BYTES = 2 * 2**30
SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def sheet_rows(
    path: Path | str, sheet: str | None, *, option: str = "--sheet"
) -> tuple[int, Iterator[tuple[int, list[str]]]]:
    """Read a sheet; its first row that is not empty is the header."""
    calamine: Any = require("python_calamine", "excel")
    try:
        with open(path, "rb") as file:
            _check_unpacked(file, path)
    except OSError as error:
        raise InputError(f"cannot read the input: {error.strerror}", file=path) from None
    try:
        with calamine.CalamineWorkbook.from_path(path) as workbook:
            chosen = _chosen(calamine, workbook, str(path), sheet, option)
    except calamine.PasswordError:
        raise InputError("the workbook is protected by a password; save it without", file=path) from None
    except (calamine.CalamineError, OSError) as error:
        raise InputError(f"this is no workbook that can be read: {error}", file=path) from None
    rows = ((number, [_text(cell) for cell in cells]) for number, cells in enumerate(chosen.iter_rows(), 1))
    return chosen.height - 1, ((number, cells) for number, cells in rows if any(cells))


def _check_unpacked(file: IO[bytes], path: Path | str) -> None:
    """Refuse a workbook that unpacks to more than a sheet can be: some kilobytes may unpack to anything."""
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            greatest = max((entry.file_size for entry in archive.infolist()), default=0)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise InputError(f"this is no workbook that can be read: {error}", file=path) from None
    if greatest > MAX_UNPACKED_BYTES:
        raise InputError(f"a sheet unpacks to more than {MAX_UNPACKED_BYTES >> 30} GB; save it as CSV", file=path)


def _chosen(calamine: Any, workbook: Any, path: str, name: str | None, option: str) -> Any:  # noqa: ANN401 - untyped
    sheets = [one for one in workbook.sheets_metadata if one.typ == calamine.SheetTypeEnum.WorkSheet]
    if name is not None:
        names = [one.name for one in sheets]
        if name not in names:
            raise UsageError(f"{path}: {unknown('sheet', name, names)}")
        named = workbook.get_sheet_by_name(name)
        if not _is_filled(named):
            raise InputError(f"the sheet {name!r} is empty", file=path)
        return named
    shown = [one.name for one in sheets if one.visible == calamine.SheetVisibleEnum.Visible]
    filled = [one for one in map(workbook.get_sheet_by_name, shown) if _is_filled(one)]
    if not filled:
        raise InputError("no sheet that is shown has anything in it", file=path)
    if len(filled) > 1:
        raise UsageError(f"{path} has several sheets; name one with {option}: {[one.name for one in filled]}")
    return filled[0]


def _is_filled(sheet: Any) -> bool:  # noqa: ANN401 - untyped
    # Cells of errors come as empty ones, so that a height says nothing.
    return any(cell != "" for row in sheet.iter_rows() for cell in row)


def _text(cell: object) -> str:
    """Return a cell as text."""
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float):
        # A spreadsheet has no other numbers: 250 is 250.0 in it.
        return f"{cell:.0f}" if cell.is_integer() else str(cell)
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell)
