"""JSON Lines: the mentions and what stands beside them, as keys of an object a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import IO, Any

from alphita import textio
from alphita.jobs.reading.rows import DEFAULT_COLUMN, MentionRow, Table, as_text

# Looked at, to see which keys there are: so many lines at most, and no more of long ones.
LOOKED_AT_LINES = 1_000
LOOKED_AT_CHARACTERS = 16 * 2**20


def rows(table: Table, file: IO[bytes]) -> Iterator[MentionRow]:
    """Read the rows of an opened file."""
    lines = enumerate(table.lines(file), 1)
    looked_at, column = _look_at(table, lines)
    number = 0
    for line, text in chain(looked_at, lines):
        if not text.strip():
            continue
        number += 1
        try:
            record = textio.json_value(text)
        except ValueError as error:
            yield MentionRow(number, line, None, problem=f"not JSON: {error}", value=text)
            continue
        if not isinstance(record, dict):
            yield MentionRow(number, line, None, problem="not a JSON object", value=text)
            continue
        yield _row(table, number, line, record, column)
    table.n_rows = number


def _look_at(table: Table, lines: Iterator[tuple[int, str]]) -> tuple[list[tuple[int, str]], str]:
    """Read on until all columns asked for have been seen; return what was read, and the column of mentions."""
    further = [name for name in table.further() if name is not None]
    wanted = {table.column or DEFAULT_COLUMN, *further}
    looked_at: list[tuple[int, str]] = []
    keys: dict[str, None] = {}
    characters = 0
    for line, text in islice(lines, LOOKED_AT_LINES):
        looked_at.append((line, text))
        characters += len(text)
        # What is not JSON is told of when its row comes.
        with suppress(ValueError):
            keys |= dict.fromkeys(record if isinstance(record := textio.json_value(text), dict) else ())
        if wanted <= keys.keys() or characters > LOOKED_AT_CHARACTERS:
            break
    if not keys:
        return looked_at, table.column or DEFAULT_COLUMN
    names = list(keys)
    for name in further:
        table.choose(names, name)
    return looked_at, names[table.choose(names, table.column)]


def _row(table: Table, number: int, line: int, record: dict[str, Any], column: str) -> MentionRow:
    mention = record.get(column, ...)
    if mention is ...:
        return MentionRow(number, line, None, problem=f"no {column!r} in this object", value=list(record), field=column)
    code, context, language, frequency, unit, bounds = (name and record.get(name) for name in table.further())
    texts = (
        (column, mention),
        (table.context_column, context),
        (table.language_column, language),
        (table.unit_column, unit),
        (table.range_column, bounds),
    )
    for name, text in texts:
        if not isinstance(text, str | None):
            return MentionRow(number, line, None, problem=f"{name!r} is not a string", value=text, field=name)
    for name, value in ((table.code_column, code), (table.frequency_column, frequency)):
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            problem = f"{name!r} is neither string nor number"
            return MentionRow(number, line, None, problem=problem, value=value, field=name)
    code, frequency = (
        None if value is None else as_text(value) if isinstance(value, float) else str(value)
        for value in (code, frequency)
    )
    return table.checked(number, line, mention or "", code, context, language, frequency, unit, bounds)
