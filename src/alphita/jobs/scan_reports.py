"""Scan reports of WhiteRabbit: the sheet of a table has the values of its fields, most frequent first, with counts.

The header is field, "Frequency", field, "Frequency", ...; lists differ in length, and empty cells stand below the
shorter ones. "List truncated..." ends a list that lacks the rare values. Of long text, words are counted instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alphita.errors import UsageError

FREQUENCY, WORDS = "Frequency", "Word count"
TRUNCATED = "List truncated..."

Rows = Iterator[tuple[int, list[str]]]


def is_header(cells: Sequence[str]) -> bool:
    """Whether these are the columns of a table in a scan report."""
    return len(cells) > 1 and len(cells) % 2 == 0 and {*cells[1::2]} <= {FREQUENCY, WORDS}


def is_truncated(rows: Rows, field: str) -> bool:
    """Whether the list of a field lacks the rare values."""
    place = next(rows)[1].index(field)
    return any(cells[place] == TRUNCATED for _, cells in rows)


def field_rows(rows: Rows, field: str | None) -> Rows:
    """Yield header and rows with the values and counts of a field alone; the rows of any other sheet as they are.

    Of a report that does not have this field, the header is its fields.
    """
    line, header = next(rows)
    if not is_header(header):
        yield line, header
        yield from rows
        return
    fields = header[::2]
    if field not in fields:
        yield line, fields
        return
    place = 2 * fields.index(field)
    if header[place + 1] == WORDS:
        problem = f"{field!r} is long text, of which the scan report has single words"
        raise UsageError(f"{problem}; give the table itself")
    yield line, header[place : place + 2]
    for line, cells in rows:
        if any(cells[place : place + 2]) and cells[place] != TRUNCATED:
            yield line, cells[place : place + 2]
