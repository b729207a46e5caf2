"""Cells of delimited text that a spreadsheet would run as formulas; an apostrophe in front keeps them text.

https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

SPACE, SIGNS = " \t\r\n\f\v\u00a0\u2007\u202f\u3000", "=+@＝＋－＠-"
_FIRST = frozenset("'" + SPACE + SIGNS)
# After apostrophes: a tab or line break, or a sign that begins a formula. Numbers, and signs alone (-, +++), are none.
_FORMULA = re.compile(
    rf"'*+(?![{SPACE}]*[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?[{SPACE}]?%?\Z)(?![./*~{SPACE}{SIGNS}]*\Z)"
    rf"(?:[\t\r\n]|[{SPACE}]*[{SIGNS}])"
)


class Guard:
    """Puts an apostrophe in front of the cells of rows that a spreadsheet would run, and counts these."""

    count = 0

    def __call__(self, row: Iterable[Any]) -> list[Any]:
        """Return the cells of a row; `unguarded` gives each text back."""
        cells = list(row)
        if not _FIRST.isdisjoint([cell[:1] for cell in cells if cell.__class__ is str]):
            cells = [self._text(cell) if isinstance(cell, str) and _FORMULA.match(cell) else cell for cell in cells]
        return cells

    def _text(self, cell: str) -> str:
        self.count += 1
        return "'" + cell

    def told(self, remedy: str) -> str:
        """Return what was done, for people."""
        return f"cells that got an apostrophe, so that no spreadsheet runs them as formulas: {self.count:,}; {remedy}"


def unguarded(cell: str) -> str:
    """Return a cell without the apostrophe of a `Guard`; one of its own stays."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell
