"""The parts of an input of Parquet, runs of rows of its files, that one task reads; and what a part's rows ask.

Parts depend on the files alone. Equal questions (mention, context, language) of all parts go to one bucket.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from alphita.errors import InputError, UsageError
from alphita.jobs.batches import check_strings, decoded
from alphita.jobs.parts import Place
from alphita.jobs.reading import WHOLE, MentionFile, MentionRow, texts

# Rows of a part, about: some ten seconds of work, and some hundred megabytes.
PART_ROWS = 250_000
# Of a large input the parts are larger: the shuffle makes as many pieces as there are parts times buckets.
MAX_PARTS = 1_000
ROWS_AT_ONCE = 65_536
# Footers that are read at the same time.
READERS = 16
TEXT = pa.large_string()
# Their names are none of those of the columns added.
ASKED = {"column": "mention", "context": "asked_context", "language": "asked_language", "domain": "asked_domain"}
QUESTION = pa.schema([(name, TEXT) for name in ASKED.values()])
_COUNT = f"^(?:{WHOLE.pattern})?$"


@dataclass(frozen=True)
class ParquetSource:
    """An input file."""

    file: str
    groups: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class Part:
    """A run of rows of one file."""

    file: str
    groups: tuple[int, int]
    skip: int
    rows: int
    line: int
    first: int


@dataclass(frozen=True)
class Columns:
    """The columns of an input that are read."""

    mention: str
    code: str | None = None
    context: str | None = None
    language: str | None = None
    frequency: str | None = None
    domain: str | None = None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for name in vars(self).values() if name is not None))

    def table(self, file: str) -> MentionFile:
        """Return a file of these columns as one that is read row by row."""
        further = {f"{name}_column": column for name, column in vars(self).items() if name != "mention"}
        return MentionFile(file, "parquet", self.mention, **further)


@dataclass(frozen=True)
class Rows:
    """The rows of a part that can be used, n of them, and what they ask."""

    numbers: NDArray[np.int64]
    mention: pa.Array
    code: pa.Array | None
    frequency: pa.Array | None
    asked: NDArray[np.int64]
    questions: pa.RecordBatch
    bounds: NDArray[np.int64]
    rejects: list[MentionRow]


def sources(files: Sequence[Place], columns: Columns) -> list[ParquetSource]:
    """Read the files' footers and check their columns."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(partial(_source, columns=columns), files))


def cut(files: Sequence[ParquetSource], part_rows: int | None = None) -> list[Part]:
    """Cut an input into parts of about `part_rows` rows; no part has rows of two files."""
    rows = sum(sum(source.groups) for source in files)
    size = part_rows or max(PART_ROWS, -(-rows // MAX_PARTS))
    parts: list[Part] = []
    first = 0
    for source in files:
        line = 0
        for begin, end, skip, count in _runs(source.groups, size):
            parts.append(Part(source.file, (begin, end), skip, count, line, first))
            line, first = line + count, first + count
    return parts or [Part(files[0].file, (0, 0), 0, 0, 0, 0)]


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
            is_text = name in (columns.mention, columns.context, columns.language, columns.domain)
            (check_strings if is_text else _check_plain)(name, schema)
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


def rows_of(part: Part, columns: Columns, buckets: int) -> Rows:
    """Read a part, set aside what cannot be used, and find the distinct questions."""
    table = read(part, columns)
    cells = {name: _texts(table.column(name)) for name in columns.names}
    bad = np.zeros(len(table), bool)
    for name, column in cells.items():
        bad |= _unreadable(column)
        if name == columns.frequency:
            good = pc.if_else(pa.array(~bad), column.cast(pa.large_binary()), None).cast(TEXT)
            bad |= ~_true(pc.match_substring_regex(pc.utf8_trim_whitespace(good), _COUNT), default=True)
    rejects = [_reject(part, columns, cells, place) for place in np.flatnonzero(bad).tolist()]
    kept = pa.array(np.flatnonzero(~bad))
    usable = {name: column.take(kept) for name, column in cells.items()}
    mention = pc.fill_null(usable[columns.mention], "")
    further = [
        None if name is None else pc.if_else(pc.equal(usable[name], ""), None, usable[name])
        for name in (columns.context, columns.language, columns.domain)
    ]
    question_of_row, first = _distinct([column for column in (mention, *further) if column is not None])
    nothing = pa.nulls(len(first), TEXT)
    questions = pa.RecordBatch.from_arrays(
        [nothing if column is None else column.take(pa.array(first)) for column in (mention, *further)], schema=QUESTION
    )
    bucket = _buckets(questions, buckets)
    order = np.argsort(bucket, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    frequency = None
    if columns.frequency is not None:
        digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(usable[columns.frequency]), r"\.0*$", "")
        frequency = pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.int64())
    return Rows(
        part.first + 1 + kept.to_numpy(),
        mention,
        None if columns.code is None else usable[columns.code],
        frequency,
        place[question_of_row],
        questions.take(pa.array(order)),
        np.searchsorted(bucket[order], np.arange(buckets + 1)),
        rejects,
    )


def _distinct(columns: list[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each of n rows the number of its question, (n,), in order of first rows; and these rows, (q,)."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False) + 1
        # Numbered anew each time, so that the product stays small.
        _, key = np.unique(key * (len(encoded.dictionary) + 1) + codes, return_inverse=True)
    _, first, numbers = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[numbers], first[order]


def _buckets(questions: pa.RecordBatch, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each question, by a hash that is the same everywhere; no text has a NUL inside."""
    columns = [column.to_pylist() for column in questions.columns]
    blake = hashlib.blake2b
    return np.fromiter(
        (
            int.from_bytes(blake("\0".join(text or "" for text in question).encode(), digest_size=8).digest()) % buckets
            for question in zip(*columns, strict=True)
        ),
        np.int64,
        len(questions),
    )


def _texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as strings, whose bytes may be no UTF-8."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        return pa.array([text for chunk in column.chunks for text in texts(chunk)], TEXT)
    whole = column.cast(TEXT).combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _unreadable(column: pa.Array) -> NDArray[np.bool_]:
    """Return which strings hold a NUL or are no UTF-8."""
    raw = column.cast(pa.large_binary())
    bad = _true(pc.match_substring(raw, b"\0"))
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        bad |= np.array([value is not None and decoded(value) is None for value in raw.to_pylist()])
    return bad


def _true(values: pa.Array, *, default: bool = False) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = pc.fill_null(values, default).to_numpy(zero_copy_only=False)
    return flags


def _reject(part: Part, columns: Columns, cells: dict[str, pa.Array], place: int) -> MentionRow:
    """Return a row that cannot be used, with the words that `alphita normalize` has for it."""
    table = columns.table(part.file)
    given = (columns.mention, *table.further())
    raw = [None if name is None else cells[name].slice(place, 1).cast(pa.large_binary())[0].as_py() for name in given]
    mention, *further = (None if value is None else value.decode("utf-8", "surrogateescape") for value in raw)
    return table.checked(part.first + place + 1, part.line + place + 1, mention or "", *further)
