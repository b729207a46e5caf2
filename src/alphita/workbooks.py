"""Sheets of Excel and LibreOffice workbooks as rows of text, read in a process of their own (see `apart`).

250.0 becomes 250, or 250.00 where an .xlsx file shows it so; dates become ISO 8601, truth values TRUE and FALSE, errors
such as #N/A nothing, a formula its saved value. Zeros that a format adds are read, digits that it hides are kept.
"""

from __future__ import annotations

import contextlib
import datetime
import re
import zipfile
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from alphita import apart, progress
from alphita.errors import InputError, UsageError, counted, require
from alphita.registry import unknown

# A million rows of twenty cells have less.
MAX_UNPACKED_BYTES = 2 * 2**30
# Of the table of a sheet, empty ones too: a million rows of 32 columns.
MAX_CELLS = 2**25
MAX_MEMORY = 4 * 2**30
_BLOCK_BYTES = 2**20
# A cell that is not empty, in the XML of a sheet.
_CELL = re.compile(rb"""<(?:\w+:)?c\s(?:[^<>]*?\s)?r=["']([A-Z]{1,3})([0-9]{1,7})["'][^<>]*(?<!/)>""")
# Excel's numbers of formats with zeros: "0", "0.00", "#,##0", "#,##0.00", "0%", "0.00%", and fractions.
BUILT_IN = {1, 2, 3, 4, 9, 10, 12, 13}
PLAIN_FORMATS = ("General", "@", "0.00E+00", "##0.0E+0")
# Numbers that are not read as they are shown, which are told one by one.
MAX_TOLD = 3
_FORMAT = re.compile(r'"[^"]*"|\\.|.')
SUFFIXES = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")


def sheet_rows(
    path: Path | str, sheet: str | None, *, option: str = "--sheet"
) -> tuple[int, Iterator[tuple[int, list[str]]]]:
    """Read a sheet; its first row that is not empty is the header."""
    require("python_calamine", "excel")
    try:
        with open(path, "rb") as file:
            _check_size(file, path)
    except OSError as error:
        raise InputError(f"cannot read the input: {error.strerror}", file=path) from None
    arguments = {"path": str(path), "sheet": sheet, "option": option}
    rows = apart.run("alphita.workbooks:numbered_rows", MAX_MEMORY, path, **arguments)
    height = next(rows)
    return height - 1, _told(rows, path)


def _told(rows: Iterator[Any], path: Path | str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, and tell of the first numbers that are not read as they are shown."""
    odd = 0
    for number, cells, others in rows:
        for text, number_format in others[: max(0, MAX_TOLD - odd)]:
            progress.say(f"{path}, row {number}: a number in the format {number_format!r} is read as {text}")
        odd += len(others)
        yield number, cells
    if odd > MAX_TOLD:
        progress.say(f"{path}: {counted(odd, 'number')} not read as shown in Excel; format such cells as text")


def numbered_rows(path: str, sheet: str | None, option: str) -> Iterator[Any]:
    """Yield the height of a sheet, then its rows; see `sheet_rows`, which calls this in a process of its own."""
    calamine: Any = require("python_calamine", "excel")
    try:
        with calamine.CalamineWorkbook.from_path(path) as workbook:
            chosen = _chosen(calamine, workbook, path, sheet, option)
    except calamine.PasswordError:
        raise InputError("the workbook is protected by a password; save it without") from None
    except (calamine.CalamineError, OSError) as error:
        raise InputError(f"this is no workbook that can be read: {error}") from None
    yield chosen.height
    # Rows begin at the sheet's first column that is not empty.
    formats = _formats(path, chosen.name, chosen.start[1] if chosen.start else 0)
    for number, cells in enumerate(chosen.iter_rows(), 1):
        shown, others = next(formats, {}), []
        if cells.count("") == len(cells):
            continue
        texts = [_text(cell) for cell in cells]
        for place, number_format in shown.items():
            if place < len(cells) and isinstance(cells[place], int | float) and not isinstance(cells[place], bool):
                text = as_shown(cells[place], number_format)
                if text is None:
                    others.append((texts[place], number_format))
                texts[place] = text or texts[place]
        yield number, texts, others


def _formats(path: str, sheet: str, start: int) -> Iterator[dict[int, str]]:
    """Yield the formats of the numbers of each row of an .xlsx file by column from `start`, if any is of interest."""
    openpyxl: Any = require("openpyxl", "excel")
    from openpyxl.styles.numbers import is_date_format
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        known = [book._number_formats[style.numFmtId - 164] for style in book._cell_styles if style.numFmtId >= 164]
        built_in = {style.numFmtId for style in book._cell_styles} & BUILT_IN
        if not built_in and all(is_date_format(one) or one in PLAIN_FORMATS for one in known):
            return
        rows = book[sheet].iter_rows()
    except (InvalidFileException, zipfile.BadZipFile, AttributeError, KeyError, OSError, TypeError, ValueError):
        # Of other kinds of workbooks, and of odd ones, nothing is known.
        return
    for row in rows:
        formats = (
            (place, cell.number_format) for place, cell in enumerate(row, -start) if isinstance(cell.value, int | float)
        )
        yield {place: one for place, one in formats if one not in PLAIN_FORMATS}


def as_shown(number: float, number_format: str) -> str | None:
    """Return a number as Excel shows it, without separators of thousands; None for a format that is not known."""
    section = re.sub(r"\[[^\]]*\]|_.|\*.", "", number_format.split(";")[0])
    tokens = _FORMAT.findall(section)
    if any(token.isalpha() or token in "?/" for token in tokens):
        return None
    places = [at for at, token in enumerate(tokens) if token in "0#"]
    if not places:
        return None
    percent = "%" in tokens
    point = tokens.index(".") if "." in tokens else places[-1] + 1
    digits = Decimal(repr(abs(number))) * (100 if percent else 1)
    decimals = max(sum(token == "0" for token in tokens[point:]), -int(digits.normalize().as_tuple().exponent))
    whole, _, fraction = f"{digits:.{decimals}f}".partition(".")
    whole = whole.zfill(sum(token == "0" for token in tokens[:point]))
    written: list[str] = []
    for at in range(point - 1, -1, -1):
        if at == places[0]:
            written.insert(0, whole)
            whole = ""
        elif at in places and whole:
            written.insert(0, whole[-1])
            whole = whole[:-1]
        elif tokens[at] not in "0#,":
            written.insert(0, tokens[at].strip('"').removeprefix("\\"))
    tail = "".join(token.strip('"').removeprefix("\\") for token in tokens[point:] if token not in "0#.,")
    return ("-" if number < 0 else "") + "".join(written) + (f".{fraction}" if fraction else "") + tail


def _check_size(file: IO[bytes], path: Path | str) -> None:
    """Refuse a workbook that would take more than a sheet can be: some kilobytes may be the ends of anything."""
    if not zipfile.is_zipfile(file):
        return
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
                problem = f"the workbook unpacks to more than {MAX_UNPACKED_BYTES >> 30} GB; save the sheet as CSV"
                raise InputError(problem, file=path)
            for entry in entries:
                # A damaged part may be one that nobody reads.
                with (
                    contextlib.suppress(zipfile.BadZipFile, zlib.error, EOFError, RuntimeError),
                    archive.open(entry) as part,
                ):
                    _check_cells(part, path)
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise InputError(f"this is no workbook that can be read: {error}", file=path) from None


def _check_cells(part: IO[bytes], path: Path | str) -> None:
    """Refuse a sheet whose table from the first cell to the last one would have too many cells."""
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    rest = b""
    while block := part.read(_BLOCK_BYTES):
        text = rest + block
        cells_found = _CELL.findall(text)
        # A tag that is cut goes on in the next block.
        rest = text[text.rfind(b"<") :][:_BLOCK_BYTES] if b"<" in text else b""
        if not cells_found:
            continue
        names, numbers = map(set, zip(*cells_found, strict=True))
        rows = _ends([*rows, *map(int, numbers)])
        columns = _ends([*columns, *map(_column, names)])
        cells = (rows[1] - rows[0] + 1) * (columns[1] - columns[0] + 1)
        if cells > MAX_CELLS:
            raise InputError(
                f"{cells:,} cells lie between the first and the last one of a sheet, and {MAX_CELLS:,} are the most",
                file=path,
                line=rows[1],
                remedy="delete what lies far from the table, or save the sheet as CSV",
            )


def _ends(numbers: list[int]) -> tuple[int, int]:
    return min(numbers), max(numbers)


def _column(name: bytes) -> int:
    number = 0
    for letter in name:
        number = number * 26 + letter - ord("A") + 1
    return number


def _chosen(calamine: Any, workbook: Any, path: str, name: str | None, option: str) -> Any:  # noqa: ANN401 - untyped
    sheets = [
        sheet_info for sheet_info in workbook.sheets_metadata if sheet_info.typ == calamine.SheetTypeEnum.WorkSheet
    ]
    if name is not None:
        names = [sheet_info.name for sheet_info in sheets]
        if name not in names:
            raise UsageError(f"{path}: {unknown('sheet', name, names)}")
        named = workbook.get_sheet_by_name(name)
        if not _is_filled(named):
            raise InputError(f"the sheet {name!r} is empty", file=path)
        return named
    shown = [sheet_info.name for sheet_info in sheets if sheet_info.visible == calamine.SheetVisibleEnum.Visible]
    filled = [sheet_info for sheet_info in map(workbook.get_sheet_by_name, shown) if _is_filled(sheet_info)]
    if not filled:
        raise InputError("no sheet that is shown has anything in it", file=path)
    if len(filled) > 1:
        raise UsageError(
            f"{path} has several sheets; name one with {option}: {[sheet_info.name for sheet_info in filled]}"
        )
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
