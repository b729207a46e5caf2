"""Reading text files row by row."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from pathlib import Path
from typing import TypeVar

from alphita.csv_lines import records
from alphita.errors import InputError, Rejects

T = TypeVar("T")
NO_TEXT = "not valid UTF-8 text"


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (1-based number, line with its end), decoded from UTF-8; bytes that are no text become lone surrogates.

    Raises:
        InputError: the file cannot be read, or is empty.
    """
    number = 0
    try:
        with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}", file=path) from None
    if not number:
        raise InputError("the file is empty", file=path)


def delimited(
    path: Path, delimiter: str, needed: Sequence[str], rejects: Rejects, *, after: int = 0
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, cells by column name) of a delimited file with a header and quotes where needed.

    Args:
        path: the file.
        delimiter: between cells.
        needed: columns that must be there.
        rejects: takes rows with too many or too few cells, or text that is not UTF-8; of a quote that is never closed,
            the first line.
        after: lines to pass over before the header.

    Raises:
        InputError: the file cannot be read, or lacks a column that is needed.
    """
    found = records((line for number, line in lines(path) if number > after), delimiter, after + 1)
    try:
        header = next(found).cells
    except csv.Error as error:
        raise InputError(f"the header cannot be read: {error}", file=path, line=after + 1) from None
    repeated = [name for name, times in Counter(header).items() if name and times > 1]
    if repeated:
        raise InputError(
            f"column {repeated[0]!r} stands more than once",
            file=path,
            line=after + 1,
            remedy="rename or remove all but one",
        )
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(f"no column {missing[0]!r}", file=path, line=after + 1, remedy=f"it has {header}")
    for _, line, cells, problem, value in found:
        if problem:
            rejects.add(problem, file=path, line=line, value=value)
        elif all(map(is_text, cells)):
            yield line, dict(zip(header, cells, strict=True))
        else:
            name, cell = next(pair for pair in zip(header, cells, strict=True) if not is_text(pair[1]))
            rejects.add(NO_TEXT, file=path, line=line, field=name, value=cell)


def telling_unread(
    rows: Iterable[tuple[int, Dictionary[str, T]]], known: Collection[str], path: Path, tell: Callable[[str], None]
) -> Iterator[tuple[int, Dictionary[str, T]]]:
    """Yield the rows of a file; after the last, tell which columns with values are none of `known`."""
    unread: Counter[str] = Counter()
    for line, cells in rows:
        unread.update(name for name, cell in cells.items() if cell and name not in known)
        yield line, cells
    if unread:
        columns = ", ".join(f"{name} ({number:,})" for name, number in unread.items())
        tell(f"{path}: columns that are not read, and how many values each has: {columns}")


def is_text(cell: str) -> bool:
    """Return whether a string has no lone surrogates, which stand for bytes that were no UTF-8."""
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
