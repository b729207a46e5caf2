"""The files in which scored pairs travel: tables with commas or tabs, with or without a line of column names."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alphita.errors import InputError
from alphita.evaluation.scoring.pairs import Pairs


@dataclass(frozen=True)
class Layout:
    """Where a table holds what: by the names of columns (case does not count), or by place from 0 if it has no header.

    Attributes:
        delimiter: "," (fields may stand in quotes) or a tab (quotes are text, but those around a whole field are a
            spreadsheet's and are taken off).
        left: column of the one string.
        right: column of the other.
        score: column of people's score.
        concepts: columns of both concept ids, where the table has them.
        split: column that tells the part of the data, and what it says for each.
    """

    delimiter: str
    left: str | int
    right: str | int
    score: str | int
    concepts: tuple[str, str] | None = None
    split: tuple[str, dict[str, str]] | None = None

    @property
    def header(self) -> bool:
        """Whether the first line holds the names of the columns."""
        return isinstance(self.left, str)


@dataclass
class Counts:
    """What was left out of a set or mended in it.

    Attributes:
        empty: pairs left out, for a string or their score is missing.
        quoted: strings freed of a spreadsheet's quotes.
        duplicates: pairs that stand in the set before; they are scored again.
        seen: the pairs read so far.
    """

    empty: int = 0
    quoted: int = 0
    duplicates: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set, repr=False)

    def notes(self, name: str) -> dict[str, int]:
        """Return what is not 0, for the notes of a result."""
        counted = {
            f"pairs of {name} left out for want of a string or score": self.empty,
            f"strings of {name} freed of quotes": self.quoted,
            f"pairs of {name} that stand there twice": self.duplicates,
        }
        return {note: count for note, count in counted.items() if count}


def read_text(path: Path) -> str:
    """Return the text of a file, gzipped or not.

    Raises:
        InputError: it cannot be read, is damaged, or is not UTF-8.
    """
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before, after = error.object[: error.start], error.object[error.start :]
        line = before.rpartition(b"\n")[2] + after.partition(b"\n")[0]
        raise InputError(
            f"not UTF-8: {error.reason}",
            file=path,
            line=before.count(b"\n") + 1,
            value=line.decode(errors="replace"),
            remedy="save the file as UTF-8",
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"cannot be read, for it is damaged: {error}", file=path, remedy="fetch it again") from None


def read_table(path: Path, delimiter: str, *, strip: bool = True) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank, each with its number (from 1), as fields.

    Args:
        path: the file, gzipped or not.
        delimiter: "," or a tab.
        strip: take white space around fields away; without it a place in a field is the one in the file.

    Raises:
        InputError: it cannot be read, or is no table.
    """
    text = io.StringIO(read_text(path), newline="")
    if delimiter == ",":
        reader = csv.reader(text, strict=True)
    else:
        reader = csv.reader(text, delimiter=delimiter, quoting=csv.QUOTE_NONE)
    try:
        rows = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError(f"not a table: {error}", file=path, line=reader.line_num) from None
    return [(number, [cell.strip() for cell in row]) for number, row in rows] if strip else rows


def unquoted(cell: str) -> str:
    """Return a field without the quotes that a spreadsheet put around it and doubled inside it.

    Where one inside is not doubled, the outer ones are the text's own: "bulbs" and "onions".
    """
    inner = cell[1:-1]
    whole = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else cell


def read_pairs(paths: Sequence[Path], name: str, layout: Layout, *, split: str | None = None) -> tuple[Pairs, Counts]:
    """Read one set out of its files.

    Args:
        paths: one file or several of the same layout.
        name: of the set.
        layout: see `Layout`.
        split: which part to take, one of the keys of `layout.split`; None takes all.

    Raises:
        InputError: a file is of another layout: a column is missing, a line is too short, a score is no number, or no
            pair is left.
    """
    counts = Counts()
    left, right, gold = [], [], []
    concepts: list[tuple[str | None, str | None]] = []
    for path in paths:
        lines = read_table(path, layout.delimiter)
        columns = _columns(path, lines, layout)
        for number, row in lines[1:] if layout.header else lines:
            if len(row) <= max(columns.values()):
                raise InputError(f"a line of {len(row)} fields", file=path, line=number, remedy=_wanted(layout))
            cells = {key: row[place] for key, place in columns.items()}
            if split is not None and layout.split is not None and cells["split"] != layout.split[1][split]:
                continue
            strings = [_plain(cells[key], layout, counts) for key in ("left", "right")]
            if not all(strings) or cells["score"].lower() in ("", "nan", "na"):
                counts.empty += 1
                continue
            gold.append(_number(cells["score"], path, number))
            left.append(strings[0])
            right.append(strings[1])
            concepts.append((cells.get("concept1") or None, cells.get("concept2") or None))
            counts.duplicates += (strings[0], strings[1]) in counts.seen
            counts.seen.add((strings[0], strings[1]))
    if not gold:
        part = f" of the part {split!r}" if split else ""
        raise InputError(f"holds no pair{part}", file=paths[0], remedy=_wanted(layout))
    return Pairs(name, left, right, gold, concepts if layout.concepts else None), counts


def _columns(path: Path, lines: Sequence[tuple[int, list[str]]], layout: Layout) -> dict[str, int]:
    """Return the place of each column that is used."""
    wanted: dict[str, str | int] = {"left": layout.left, "right": layout.right, "score": layout.score}
    if layout.concepts is not None:
        wanted |= dict(zip(("concept1", "concept2"), layout.concepts, strict=True))
    if layout.split is not None:
        wanted["split"] = layout.split[0]
    header = [cell.lower() for cell in lines[0][1]] if lines else []
    places = {}
    for key, column in wanted.items():
        if isinstance(column, str) and column.lower() not in header:
            raise InputError(f"has no column {column!r}", file=path, line=1, remedy=_wanted(layout))
        places[key] = header.index(column.lower()) if isinstance(column, str) else column
    return places


def _wanted(layout: Layout) -> str:
    between = "tabs" if layout.delimiter == "\t" else "commas"
    if not layout.header:
        width = 1 + max(int(column) for column in (layout.left, layout.right, layout.score))
        return f"expected a table with {between} between, of {width} columns"
    columns = [
        layout.left,
        layout.right,
        layout.score,
        *(layout.concepts or ()),
        *([layout.split[0]] if layout.split else []),
    ]
    return f"expected a table with {between} between and the columns {', '.join(map(str, columns))}"


def _plain(cell: str, layout: Layout, counts: Counts) -> str:
    if layout.delimiter != "\t":
        return cell
    plain = unquoted(cell)
    counts.quoted += plain != cell
    return plain.strip()


def _number(cell: str, path: Path, line: int) -> float:
    try:
        value = float(cell.strip('"'))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError("the score is not a number", file=path, line=line, value=cell)
    return value
