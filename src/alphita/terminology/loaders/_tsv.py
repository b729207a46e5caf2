"""Tab-separated files with a header, one row a line: quotes may stand around a cell, and mean nothing inside one.

Spreadsheets and scripts have quoted some cells of such files and left lone quotes in others, so a CSV reader would run
over the ends of lines. Here a line is a row, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alphita.errors import InputError, Rejects

Lines = Iterator[tuple[int, str]]


def cells(line: str) -> list[str]:
    """Return the cells of a line, stripped; one in quotes loses them, and the doubled quotes inside become single."""
    return [_unquoted(cell.strip()) for cell in line.split("\t")]


def rows(lines: Lines, header: Sequence[str], place: str, rejects: Rejects) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, cells by name); blank lines are skipped, rows of another length go to `rejects`."""
    for number, line in lines:
        if not line or line.isspace():
            continue
        found = cells(line)
        if len(found) != len(header):
            problem = f"{len(found)} cells, but the header has {len(header)}"
            rejects.add(problem, file=place, line=number, value=line)
            continue
        yield number, dict(zip(header, found, strict=True))


def check_header(header: Sequence[str], needed: Sequence[str], place: str, line: int, remedy: str) -> None:
    """Check that the needed columns are there, and none twice.

    Raises:
        InputError: they are not.
    """
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(
            f"no column {missing[0]!r} in its header", file=place, line=line, value="\t".join(header), remedy=remedy
        )
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise InputError(f"the column {twice[0]!r} is there twice", file=place, line=line, remedy=remedy)


def _unquoted(cell: str) -> str:
    if len(cell) < 2 or cell[0] != '"' or cell[-1] != '"':
        return cell
    inner = cell[1:-1]
    # Quotes inside must be doubled; otherwise the outer ones belong to the text: "bulbs" and "onions".
    return inner.replace('""', '"') if '"' not in inner.replace('""', "") else cell
