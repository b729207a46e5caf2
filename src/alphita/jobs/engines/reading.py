"""The rows of a part, their distinct questions, and the task that writes these: the map of the shuffle.

A question is what a row asks: mention, context and language. It belongs to one bucket, by a hash of its text, so that
equal questions of all parts meet there and are answered once.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from alphita.jobs.engines import plan as plans
from alphita.jobs.engines.engine import Receipt
from alphita.jobs.engines.parts import Columns, Part, read
from alphita.jobs.engines.plan import ShardPlan
from alphita.jobs.reading.files import MentionFile
from alphita.jobs.reading.rows import WHOLE, MentionRow, texts
from alphita.mention.abbreviations.schwartz_hearst import find_pairs

TEXT = pa.large_string()
# Their names are none of those of the columns added.
QUESTION = pa.schema([("mention", TEXT), ("asked_context", TEXT), ("asked_language", TEXT)])
FACTS = b"alphita"
_COUNT = f"^(?:{WHOLE.pattern})?$"


@dataclass(frozen=True)
class Rows:
    """The rows of a part that can be used, n of them, and what they ask.

    Attributes:
        numbers: 1-based, of the whole input, (n,).
        mention: n strings.
        code: n strings or nulls; None if no column was named.
        frequency: n whole numbers or nulls, likewise.
        asked: which question each row asks, (n,).
        questions: the q distinct ones, those of one bucket together, otherwise in the order in which they come up.
        bounds: where each bucket's questions begin, and the end, (buckets + 1,).
        rejects: the rows that cannot be used.
    """

    numbers: NDArray[np.int64]
    mention: pa.Array
    code: pa.Array | None
    frequency: pa.Array | None
    asked: NDArray[np.int64]
    questions: pa.RecordBatch
    bounds: NDArray[np.int64]
    rejects: list[MentionRow]


@dataclass(frozen=True)
class Reading:
    """Opens a worker that writes the distinct questions of parts.

    Attributes:
        out: the job's folder.
        key: of its plan.
    """

    out: str
    key: str

    def __call__(self) -> _Reader:
        """Read the plan."""
        return _Reader(plans.load(self.out, self.key))


class _Reader:
    def __init__(self, plan: ShardPlan) -> None:
        self.plan = plan

    def __call__(self, task: int) -> Receipt:
        """Write the questions of part number `task`."""
        plan = self.plan
        rows = rows_of(plan.parts[task], plan.columns, plan.buckets)
        facts = {"definitions": _definitions(rows), "distinct": len(rows.questions)}
        schema = QUESTION.with_metadata({FACTS: json.dumps(facts).encode()})
        with (
            plan.questions(task).whole(plan.drafts, private=plan.private) as file,
            pa.ipc.new_file(file, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
        ):
            for begin, end in zip(rows.bounds[:-1].tolist(), rows.bounds[1:].tolist(), strict=True):
                writer.write_batch(rows.questions.slice(begin, end - begin).cast(schema))
        return {"rows": plan.parts[task].rows}


def facts_of(plan: ShardPlan, part: int) -> dict[str, Any]:
    """Return what was found while a part was read: definitions of abbreviations, and the number of its questions."""
    with plan.questions(part).reading() as file, pa.ipc.open_file(file) as reader:
        facts: dict[str, Any] = json.loads(reader.schema.metadata[FACTS])
        return facts


def rows_of(part: Part, columns: Columns, buckets: int) -> Rows:
    """Read a part, set aside what cannot be used, and find the distinct questions."""
    table = read(part, columns)
    cells = {name: _texts(table.column(name)) for name in columns.names}
    bad = np.zeros(len(table), bool)
    for name, column in cells.items():
        bad |= _unreadable(column)
        if name == columns.frequency:
            bad |= ~_true(pc.match_substring_regex(_usable(column, ~bad), _COUNT), default=True)
    rejects = [_reject(part, columns, cells, place) for place in np.flatnonzero(bad).tolist()]
    kept = pa.array(np.flatnonzero(~bad))
    usable = {name: column.take(kept) for name, column in cells.items()}
    mention = pc.fill_null(usable[columns.mention], "")
    context, language = (
        None if name is None else pc.if_else(pc.equal(usable[name], ""), None, usable[name])
        for name in (columns.context, columns.language)
    )
    asked, first = _distinct([column for column in (mention, context, language) if column is not None])
    nothing = pa.nulls(len(first), TEXT)
    questions = pa.RecordBatch.from_arrays(
        [nothing if column is None else column.take(pa.array(first)) for column in (mention, context, language)],
        schema=QUESTION,
    )
    bucket = _buckets(questions, buckets)
    order = np.argsort(bucket, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    frequency = None if columns.frequency is None else _counts(usable[columns.frequency])
    return Rows(
        part.first + 1 + kept.to_numpy(),
        mention,
        None if columns.code is None else usable[columns.code],
        frequency,
        place[asked],
        questions.take(pa.array(order)),
        np.searchsorted(bucket[order], np.arange(buckets + 1)),
        rejects,
    )


def _definitions(rows: Rows) -> list[tuple[str, str, int]]:
    """Return the abbreviations that the rows define, in the order in which they come up, and in how many rows."""
    asked, first, times = np.unique(rows.asked, return_index=True, return_counts=True)
    found: Counter[tuple[str, str]] = Counter()
    order = np.argsort(first)
    questions = rows.questions.take(pa.array(asked[order]))
    for count, mention, context in zip(
        times[order].tolist(), questions.column(0).to_pylist(), questions.column(1).to_pylist(), strict=True
    ):
        for text in (mention, context):
            for pair in find_pairs(text) if text else ():
                found[pair.short, pair.long] += count
    return [(short, long, count) for (short, long), count in found.items()]


def _distinct(columns: list[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for each of n rows the number of its question, (n,), in order of first rows; and these rows, (q,)."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False) + 1
        # Numbered anew each time, so that the product stays small.
        _, key = np.unique(key * (len(encoded.dictionary) + 1) + codes, return_inverse=True)
    _, first, asked = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[asked], first[order]


def _buckets(questions: pa.RecordBatch, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each question, by a hash that is the same everywhere; no text has a NUL inside."""
    columns = [column.to_pylist() for column in questions.columns]
    blake = hashlib.blake2b
    return np.fromiter(
        (
            int.from_bytes(blake(f"{mention}\0{context or ''}\0{language or ''}".encode(), digest_size=8).digest())
            % buckets
            for mention, context, language in zip(*columns, strict=True)
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
        bad |= np.array([value is not None and not _is_text(value) for value in raw.to_pylist()])
    return bad


def _usable(column: pa.Array, good: NDArray[np.bool_]) -> pa.Array:
    """Return the strings without blanks around them; null where they cannot be used."""
    raw = pc.if_else(pa.array(good), column.cast(pa.large_binary()), None)
    return pc.utf8_trim_whitespace(raw.cast(TEXT))


def _counts(column: pa.Array) -> pa.Array:
    digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"\.0*$", "")
    return pc.if_else(pc.equal(digits, ""), None, digits).cast(pa.int64())


def _true(values: pa.Array, *, default: bool = False) -> NDArray[np.bool_]:
    flags: NDArray[np.bool_] = pc.fill_null(values, default).to_numpy(zero_copy_only=False)
    return flags


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _reject(part: Part, columns: Columns, cells: dict[str, pa.Array], place: int) -> MentionRow:
    """Return a row that cannot be used, with the words that `alphita normalize` has for it."""
    table = MentionFile(
        part.file,
        "parquet",
        columns.mention,
        columns.code,
        context_column=columns.context,
        language_column=columns.language,
        frequency_column=columns.frequency,
    )
    given = (columns.mention, columns.code, columns.context, columns.language, columns.frequency)
    raw = [None if name is None else cells[name].slice(place, 1).cast(pa.large_binary())[0].as_py() for name in given]
    mention, *further = (None if value is None else value.decode("utf-8", "surrogateescape") for value in raw)
    return table.checked(part.first + place + 1, part.line + place + 1, mention or "", *further)
