"""Pairs and triplets of strings from files: CSV, TSV, JSON Lines, Parquet, Arrow, or a folder of `datasets`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from alphita import artefact, textio
from alphita.errors import InputError, Rejects
from alphita.terminology.text import clean_many

COLUMNS = ("anchor", "positive", "negative")
LAYOUT = (
    "a table with the columns anchor, positive and perhaps negative, or two or three columns of strings in that order"
)
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class StringPairs:
    """n anchors and what each is to be near; perhaps one string that it is to be far from.

    Attributes:
        strings: the distinct strings.
        anchors: (n,) numbers of strings.
        positives: (n,).
        negatives: (n,), -1 where there is none.
        groups: (len(strings),) equal where strings are tied by pairs: these are no negatives of each other.
    """

    strings: list[str]
    anchors: Int64
    positives: Int64
    negatives: Int64
    groups: Int64

    def __len__(self) -> int:
        return len(self.anchors)


def read(
    files: Sequence[Path], rejects: Rejects, *, cleaned: bool = True, exclude: Collection[str] = ()
) -> tuple[StringPairs, int]:
    """Read files one after another; return the pairs, and how many rows hold a string of `exclude`.

    Args:
        files: the tables.
        rejects: takes the rows without an anchor or a positive, or where both are one string.
        cleaned: clean the strings (lower case, spaces), as all recipes do.
        exclude: cleaned strings that must not train.

    Raises:
        InputError: a file is none of these tables, or no pair is left.
    """
    number: dict[str, int] = {}
    rows: list[tuple[int, int, int]] = []
    left_out = 0
    for file in files:
        columns = _columns(file)
        as_trained = [clean_many(one) if cleaned else one for one in columns]
        as_compared = as_trained if cleaned else [clean_many(one) for one in columns]
        # The line of a file that has a line of names, the row of another.
        first = 2 if file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".txt")) else 1
        for line, (row, compared) in enumerate(
            zip(zip(*as_trained, strict=True), zip(*as_compared, strict=True), strict=True), first
        ):
            if not row[0] or not row[1]:
                rejects.add("an anchor or a positive is empty", file=file, line=line, value=row[0] or row[1])
            elif row[0] == row[1]:
                rejects.add("anchor and positive are the same string", file=file, line=line, value=row[0])
            elif any(string in exclude for string in compared):
                left_out += 1
            else:
                places = [number.setdefault(string, len(number)) if string else -1 for string in row]
                rows.append((places[0], places[1], places[2] if len(places) > 2 else -1))
    if not rows:
        raise InputError("no pair is left to train on", file=files[0], remedy=f"give {LAYOUT}; see what was set aside")
    anchors, positives, negatives = np.array(rows, np.int64).T
    ties = coo_array((np.ones(len(anchors), bool), (anchors, positives)), shape=(len(number), len(number)))
    groups = connected_components(ties, directed=False)[1].astype(np.int64)
    return StringPairs(list(number), anchors, positives, negatives, groups), left_out


def hashes(files: Sequence[Path]) -> dict[str, str]:
    """Return the sha256 of each file; of a folder, of its Arrow files together."""
    return {
        str(file): artefact.hash_json([artefact.hash_file(part) for part in _parts(file)])
        if file.is_dir()
        else artefact.hash_file(file)
        for file in files
    }


def _columns(file: Path) -> list[list[str]]:
    """Return the strings of two or three columns; "" where a cell is empty."""
    table = _table(file)
    named = {name.lower(): name for name in table.column_names}
    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    if {"anchor", "positive"} <= set(named):
        texts = [named[name] for name in COLUMNS if name in named]
    if len(texts) < 2:
        found = ", ".join(table.column_names)
        raise InputError("holds no pairs of strings", file=file, value=found, remedy=f"give {LAYOUT}")
    return [[(cell or "").strip() for cell in table[name].to_pylist()] for name in texts[:3]]


def _table(file: Path) -> pa.Table:
    """Return a file's table, with strings of one type."""
    name = file.name.lower().removesuffix(".gz")
    try:
        if not file.exists():
            raise InputError("no such file", file=file, remedy=f"give {LAYOUT}")
        if file.is_dir():
            table = pa.concat_tables([_arrow(part) for part in _parts(file)])
        elif name.endswith(".parquet"):
            table = pq.read_table(file)
        elif name.endswith((".arrow", ".feather")):
            table = _arrow(file)
        elif name.endswith((".jsonl", ".ndjson")):
            table = pa.Table.from_pylist(list(_objects(file)))
        else:
            table = _delimited(file)
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"cannot be read: {error}", file=file, remedy=f"give {LAYOUT}") from error
    wide = [pa.string() if pa.types.is_large_string(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, wide, strict=True))))


def _parts(folder: Path) -> list[Path]:
    """Return the Arrow files that `Dataset.save_to_disk` wrote."""
    parts = sorted(folder.glob("*.arrow"))
    if not parts:
        remedy = "give the folder of one split, as Dataset.save_to_disk writes it"
        raise InputError("holds no .arrow file", file=folder, remedy=remedy)
    return parts


def _arrow(file: Path) -> pa.Table:
    source = pa.memory_map(str(file))
    try:
        return pa.ipc.open_file(source).read_all()
    except pa.ArrowInvalid:
        # `datasets` writes streams.
        source.seek(0)
        return pa.ipc.open_stream(source).read_all()


def _objects(file: Path) -> Iterator[dict[str, object]]:
    for line, entry in textio.lines(file):
        try:
            found = textio.json_value(entry)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise InputError("not a JSON object", file=file, line=line, value=entry, remedy=f"give {LAYOUT}")
        yield found


def _delimited(file: Path) -> pa.Table:
    text = textio.read_text(file)
    delimiter = "\t" if "\t" in text.lstrip("\n").partition("\n")[0] else ","
    rows = [cells for _, cells in textio.held_rows(file, delimiter)]
    header = rows[0] if rows else []
    filled = [[*row, *[""] * (len(header) - len(row))] for row in rows[1:]]
    return pa.table({name: pa.array([row[place] for row in filled], pa.string()) for place, name in enumerate(header)})
