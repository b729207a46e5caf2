"""One row of an input of mentions, checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

from alphita.errors import UsageError

# The column that is taken if none is named.
DEFAULT_COLUMN = "mention"
# A count, also as spreadsheets and data frames write it where a cell of the column is missing: 3.0.
WHOLE = re.compile(r"([0-9]{1,18})(\.0*)?")
_ENDS_WITH_VALUE = re.compile(r"\d\s*$")


class MentionRow(NamedTuple):
    """One input row.

    Attributes:
        number: 1-based; a header is not counted, rows with a problem are.
        line: the line of the file it begins at (for Parquet: the row number; for Excel: as it shows it).
        mention: the string to normalise; None if there is a problem.
        language: the mention's (BCP-47), likewise.
        frequency: how often the mention occurs, 0 or more, likewise.
        problem: why the row cannot be used, or None.
        field: the column it stands in; None where the whole row is meant, or the column was not named.
    """

    number: int
    line: int
    mention: str | None
    code: str | None = None
    context: str | None = None
    language: str | None = None
    frequency: int | None = None
    measured: str | None = None
    problem: str | None = None
    value: object = None
    field: str | None = None

    @property
    def asked(self) -> str:
        """What is looked up: the mention, with unit and range if it ends with a value: "K+ 2.8 mmol/L (3.5-5.1)"."""
        return f"{self.mention or ''} {self.measured}" if self.measured else self.mention or ""


class Table(Protocol):
    """What the readers of formats need to know of an input; see `files.MentionFile`."""

    path: Path | str
    column: str | None
    code_column: str | None
    context_column: str | None
    language_column: str | None
    frequency_column: str | None
    unit_column: str | None
    range_column: str | None
    n_rows: int | None

    @property
    def name(self) -> str:
        """What errors call it."""

    def further(self) -> tuple[str | None, ...]:
        """Return the columns beside the mentions'."""

    def choose(self, names: Sequence[str], column: str | None) -> int:
        """Return the place of a column."""

    def lines(self, file: IO[bytes]) -> Iterator[str]:
        """Yield the lines of an opened file."""

    def checked(self, number: int, line: int, mention: str, *further: str | None) -> MentionRow:
        """Check the texts of a row."""


def checked(
    number: int, line: int, mention: str, further: Sequence[str | None], *, names: Sequence[str | None], encoding: str
) -> MentionRow:
    """Check the texts of a row."""
    code, context, language, frequency, unit, bounds = (*further, *[None] * 6)[:6]
    for place, text in enumerate((mention, code, context, language, None, unit, bounds)):
        if text is None or (text.isascii() and "\0" not in text):
            continue
        name = names[place]
        where = f" in {name!r}" if name else ""
        if "\0" in text:
            return MentionRow(number, line, None, problem=f"a NUL byte{where}", value=text, field=name)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            problem = f"not valid {encoding} text{where}"
            return MentionRow(number, line, None, problem=problem, value=printable(text), field=name)
    count = None
    if frequency is not None and (frequency := frequency.strip()):
        if not (whole := WHOLE.fullmatch(frequency)):
            problem = f"{names[4]!r} is no whole number of 0 or more"
            return MentionRow(number, line, None, problem=problem, value=printable(frequency), field=names[4])
        count = int(whole[1])
    measured = _measured(mention, unit, bounds) if unit or bounds else None
    return MentionRow(number, line, mention, code, context or None, language or None, count, measured)


def _measured(mention: str, unit: str | None, bounds: str | None) -> str | None:
    """Return the unit and range of the value that a mention ends with; None for no value."""
    if not _ENDS_WITH_VALUE.search(mention):
        return None
    bounds = f"({bounds.strip().strip('()[]')})" if bounds and bounds.strip() else ""
    return f"{(unit or '').strip()} {bounds}".strip() or None


def check_text(name: str, kind: Any) -> None:  # noqa: ANN401
    """Make sure that a Parquet column holds strings."""
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)):
        raise UsageError(f"column {name!r} holds {kind}, not strings; name another with --column")


def texts(column: Any) -> list[str | None]:  # noqa: ANN401
    """Return a Parquet column as strings; bytes that are no UTF-8 become lone surrogates, 3.0 becomes 3."""
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        # Whole numbers where some are missing; NaN is what data frames have for a missing one.
        return [None if value is None or value != value else as_text(value) for value in column.to_pylist()]
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.large_string()).to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]


def as_text(value: float) -> str:
    """Return a number as whoever wrote it means it: 3.0 is 3."""
    return f"{value:.0f}" if value % 1 == 0 else str(value)


def printable(text: str) -> str:
    """Return a text that can be written anywhere: halves of characters become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")
