"""Workbooks to be read."""

from __future__ import annotations

from pathlib import Path

import openpyxl


def book(path: Path, **sheets: list[list[object]]) -> Path:
    """Write a workbook of these sheets, row by row."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for name, rows in sheets.items():
        sheet = made.create_sheet(name)
        for row in rows:
            sheet.append(row)
    made.save(path)
    return path
