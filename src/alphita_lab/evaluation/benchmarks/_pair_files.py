"""The files in which scored pairs travel: tables with commas or tabs, with or without a line of column names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alphita import textio
from alphita.errors import InputError
from alphita_lab.evaluation.scoring.pairs import Pairs


@dataclass(frozen=True)
class Layout:
    """Where a table holds what: by the names of columns (case does not count), or by place from 0 if it has no header.

    Attributes:
        delimiter: "," (fields may stand in quotes) or a tab (quotes are text, but those around a whole field are a
            spreadsheet's and are taken off).
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

    @property
    def columns(self) -> dict[str, str | int]:
        """What is read -> its column."""
        columns = {"left": self.left, "right": self.right, "score": self.score}
        columns |= dict(zip(("concept1", "concept2"), self.concepts or (), strict=False))
        return columns | ({"split": self.split[0]} if self.split else {})

    def __str__(self) -> str:
        """Return what a file of this layout holds, for messages."""
        held = f"the columns {', '.join(map(str, self.columns.values()))}"
        between = f"a table with {'commas' if self.delimiter == ',' else 'tabs'} between"
        if self.header:
            return f"expected {between} and {held}"
        return f"expected {between}, of {1 + max(map(int, self.columns.values()))} columns"


@dataclass
class Counts:
    """What was left out of a set or mended in it.

    Attributes:
        empty: pairs left out, for a string or their score is missing.
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


def read_pairs(paths: Sequence[Path], name: str, layout: Layout, *, split: str | None = None) -> tuple[Pairs, Counts]:
    """Read one set out of its files."""
    counts = Counts()
    left, right, gold = [], [], []
    concepts: list[tuple[str | None, str | None]] = []
    for path in paths:
        lines = textio.held_rows(path, layout.delimiter)
        columns = layout.columns
        if layout.header:
            header = lines[0][1] if lines else []
            found = textio.places(header, [*map(str, columns.values())], path, remedy=str(layout))
            columns = dict(zip(columns, found, strict=True))
        places = {key: int(column) for key, column in columns.items()}
        for number, row in lines[1:] if layout.header else lines:
            if len(row) <= max(places.values()):
                raise InputError(f"a line of {len(row)} fields", file=path, line=number, remedy=str(layout))
            cells = {key: row[place] for key, place in places.items()}
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
        raise InputError(f"holds no pair{part}", file=paths[0], remedy=str(layout))
    return Pairs(name, left, right, gold, concepts if layout.concepts else None), counts


def _plain(cell: str, layout: Layout, counts: Counts) -> str:
    if layout.delimiter != "\t":
        return cell
    plain = textio.unquoted(cell)
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
