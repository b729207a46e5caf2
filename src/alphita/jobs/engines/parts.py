"""The parts of an input: runs of rows of Parquet files, that one task reads.

How an input is cut depends on its files alone, so that every engine, with any number of workers, has the same parts.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from alphita.errors import InputError, UsageError
from alphita.jobs.batches import check_strings
from alphita.jobs.engines.files import Place

# Rows of a part, about: some ten seconds of work, and some hundred megabytes.
PART_ROWS = 250_000
# Of a large input the parts are larger: the shuffle makes as many pieces as there are parts times buckets.
MOST_PARTS = 1_000
ROWS_AT_ONCE = 65_536
# Footers that are read at the same time.
READERS = 16


@dataclass(frozen=True)
class ParquetSource:
    """An input file.

    Attributes:
        file: where it lies.
        groups: rows of each of its row groups.
        digest: of its size and its footer, which names size, place and extremes of every column of every row group.
    """

    file: str
    groups: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class Part:
    """A run of rows of one file.

    Attributes:
        file: where it lies.
        groups: the row groups, from the first to the one after the last.
        skip: rows of these that belong to parts before.
        rows: how many it has.
        line: rows of the file before it.
        first: rows of the whole input before it.
    """

    file: str
    groups: tuple[int, int]
    skip: int
    rows: int
    line: int
    first: int


@dataclass(frozen=True)
class Columns:
    """The columns of an input that are read.

    Attributes:
        mention: of the strings.
        code: of the input's own codes, or None.
        context: of the texts that they stand in, or None.
        language: of their languages, or None.
        frequency: of how often they occur, or None.
    """

    mention: str
    code: str | None = None
    context: str | None = None
    language: str | None = None
    frequency: str | None = None

    @property
    def names(self) -> list[str]:
        """Those that were named, each once."""
        given = (self.mention, self.code, self.context, self.language, self.frequency)
        return list(dict.fromkeys(name for name in given if name is not None))

    @property
    def texts(self) -> list[str]:
        """Those that must hold strings."""
        return [name for name in (self.mention, self.context, self.language) if name is not None]


def sources(files: Sequence[Place], columns: Columns) -> list[ParquetSource]:
    """Read the files' footers and check their columns."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(partial(_source, columns=columns), files))


def cut(found: Sequence[ParquetSource], part_rows: int | None = None) -> list[Part]:
    """Cut an input into parts of about `part_rows` rows; no part has rows of two files."""
    rows = sum(sum(source.groups) for source in found)
    size = part_rows or max(PART_ROWS, -(-rows // MOST_PARTS))
    parts: list[Part] = []
    first = 0
    for source in found:
        line = 0
        for begin, end, skip, count in _runs(source.groups, size):
            parts.append(Part(source.file, (begin, end), skip, count, line, first))
            line, first = line + count, first + count
    return parts or [Part(found[0].file, (0, 0), 0, 0, 0, 0)]


def read(part: Part, columns: Columns) -> pa.Table:
    """Read the rows of a part."""
    wanted = columns.names
    with Place(part.file).reading() as raw:
        try:
            with pq.ParquetFile(raw, pre_buffer=True) as file:
                schema = pa.schema([file.schema_arrow.field(name) for name in wanted])
                batches = []
                skip, left = part.skip, part.rows
                for batch in file.iter_batches(ROWS_AT_ONCE, row_groups=range(*part.groups), columns=wanted):
                    cutting = batch.slice(skip, left)
                    skip = max(0, skip - len(batch))
                    left -= len(cutting)
                    if len(cutting):
                        batches.append(cutting.select(wanted))
                    if not left:
                        break
        except (pa.ArrowException, OSError, KeyError, IndexError) as error:
            raise InputError(f"this is no Parquet file that can be read: {error}", file=part.file) from None
    if left:
        raise InputError("the file has fewer rows than when the job began", file=part.file)
    return pa.Table.from_batches(batches, schema)


def _source(file: Place, columns: Columns) -> ParquetSource:
    size = file.size()
    if size == 0:
        raise InputError("the file is empty", file=str(file))
    try:
        with file.reading() as raw:
            with pq.ParquetFile(raw) as parquet:
                metadata, schema = parquet.metadata, parquet.schema_arrow
                groups = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
            raw.seek(max(0, size - metadata.serialized_size - 8))
            digest = hashlib.blake2b(raw.read(), digest_size=16).hexdigest()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=str(file)) from None
    try:
        for name in columns.names:
            (check_strings if name in columns.texts else _check_plain)(name, schema)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    return ParquetSource(file.url, groups, f"{digest}-{size}")


def _check_plain(name: str, schema: pa.Schema) -> None:
    """Refuse a column that is not there once, or whose values are no plain text or numbers."""
    if schema.names.count(name) != 1:
        check_strings(name, schema)
    kind = schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise UsageError(f"the column {name!r} has neither strings nor numbers but {kind}; name another")


def _runs(groups: Sequence[int], size: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of row groups: first, the one after the last, rows to skip, rows."""
    begin, rows = 0, 0
    for number, count in enumerate(groups):
        if rows and rows + count > size:
            yield begin, number, 0, rows
            begin, rows = number, 0
        if not rows:
            begin = number
        rows += count
        if rows >= 2 * size:
            # One row group alone: the run before was given out above.
            pieces = rows // size
            edges = [rows * piece // pieces for piece in range(pieces + 1)]
            for start, stop in itertools.pairwise(edges):
                yield begin, number + 1, start, stop - start
            rows = 0
    if rows:
        yield begin, len(groups), 0, rows
