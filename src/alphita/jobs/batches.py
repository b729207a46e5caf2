"""Batches of Arrow in, batches of Arrow out: the same answers for a process, a cluster or a database.

What a batch gives depends on it, the settings and the index alone (but for the last bits of a similarity).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from alphita import machine
from alphita.answer.normalizer import NAMES, Normalizer, NormalizerOptions
from alphita.answer.records import Explain
from alphita.errors import UsageError
from alphita.jobs.answers import FIELDS, Asked, Memory, answer_all
from alphita.mappings.record import OMOP, REVIEW, Mapping
from alphita.registry import unknown

EXPLANATION = "explanation"
# The columns added, as `alphita normalize` names them; `OMOP` and `EXPLANATION` if asked for, `REVIEW` with a memory.
ADDED = ("rank", *(name for name in FIELDS if name not in (EXPLANATION, *OMOP)))
KINDS = {"rank": pa.int64(), "omop_concept_id": pa.int64(), "similarity": pa.float64(), "confidence": pa.float64()}
# Distinct questions whose results are objects at one time; their columns take less.
QUESTIONS_AT_ONCE = 50_000
# Of what nobody reviewed.
UNREVIEWED = tuple(column.default for column in fields(Mapping) if column.name in REVIEW)


@dataclass(frozen=True)
class NormalizerSettings(NormalizerOptions):
    """What to normalise and how: small, hashable, and the same in every process.

    Attributes:
        context: the column of the text that each mention stands in, or None.
        language: the column of each mention's language (BCP-47), or None.
        domain: the column that says which concepts may answer each mention, or None.
        domains: the domains of the index by the values of that column, in lower case (`Domains.known`).
        top_k: most candidates per row.
        threads: of each process; None: as the process has them. For the other options see `NormalizerOptions`; files
            are given by their paths.
        omop: whether to add what OMOP says of each concept; for an index of OMOP vocabularies.
        definitions: abbreviations that the whole input defines: short form, long form, how often, in the order found.
    """

    index: str
    column: str = "mention"
    context: str | None = None
    language: str | None = None
    top_k: int = 1
    explain: Explain = False
    omop: bool = False
    domain: str | None = None
    domains: tuple[tuple[str, str], ...] = ()
    definitions: tuple[tuple[str, str, int], ...] = ()
    memory: Memory | None = field(default=None, compare=False)

    @property
    def asked(self) -> dict[str, str]:
        """The columns that decide on an answer, by what they hold."""
        parts = ("column", "context", "language", "domain")
        return {part: name for part in parts if (name := getattr(self, part)) is not None}

    def renamed(self, names: Dictionary[str, str]) -> NormalizerSettings:
        """Return the settings for a table in which the columns of `asked` have other names."""
        changes: dict[str, Any] = {part: names[part] for part in self.asked}
        return replace(self, **changes)

    @property
    def added(self) -> tuple[str, ...]:
        """The names of the columns added."""
        begin = FIELDS.index(OMOP[0]) + 1
        added = ADDED[:begin] + OMOP * self.omop + ADDED[begin:]
        return added + (EXPLANATION,) * bool(self.explain) + REVIEW * (self.memory is not None)


@lru_cache(maxsize=1)
def opened(settings: NormalizerSettings) -> Normalizer:
    """Return the normaliser of some settings, as `load` does, opened once in each process."""
    return load(settings)


def load(settings: NormalizerSettings) -> Normalizer:
    """Open the normaliser of some settings; the index's files are mapped, not read."""
    if settings.threads is not None:
        machine.set_threads(settings.threads)
    normalizer = Normalizer.load(settings.index, **{name: getattr(settings, name) for name in NAMES})
    normalizer.prepare_counted(settings.definitions)
    return normalizer


def schema_of(settings: NormalizerSettings, given: pa.Schema) -> pa.Schema:
    """Return the schema of the batches that `normalize_batches` gives."""
    for name in settings.asked.values():
        check_strings(name, given)
    for name in settings.added:
        if name in given.names:
            raise UsageError(f"there is a column {name!r} already, which would be added; rename it")
        given = given.append(pa.field(name, KINDS.get(name, pa.string())))
    return given


def normalize_batches(
    batches: Iterator[pa.RecordBatch], settings: NormalizerSettings, normalizer: Normalizer | None = None
) -> Iterator[pa.RecordBatch]:
    """Answer batches of rows; each gives one batch: its own columns, and those of the answers."""
    for batch in batches:
        schema = schema_of(settings, batch.schema)
        if not len(batch):
            yield empty_batch(schema)
            continue
        yield _answered(batch, settings, normalizer or opened(settings), schema)


def answer_columns(
    asked: Dictionary[str, Sequence[str | None]], normalizer: Normalizer, settings: NormalizerSettings
) -> tuple[pa.RecordBatch, NDArray[np.int64], NDArray[np.int64]]:
    """Answer n rows, equal ones once; `asked` are the values of the columns of `settings.asked`."""
    mentions, domains = asked["column"], dict(settings.domains)
    nothing: list[str | None] = [None] * len(mentions)
    columns = (asked.get(part, nothing) for part in ("context", "language", "domain"))
    known: dict[Asked, int] = {}
    question_of_row = np.fromiter(
        (
            known.setdefault((mention or "", context or None, language or None, domain), len(known))
            for mention, context, language, kind in zip(mentions, *columns, strict=True)
            for domain in [domains.get((kind or "").strip().lower())]
        ),
        np.int64,
        len(mentions),
    )
    names = settings.added
    schema = pa.schema([(name, KINDS.get(name, pa.string())) for name in names])
    # `FIELDS` are what an answer holds; the rank is counted here.
    wanted = [(*FIELDS, *REVIEW).index(name) for name in names[1:]]
    questions, blocks, counts = list(known), [empty_batch(schema)], []
    for start in range(0, len(questions), QUESTIONS_AT_ONCE):
        block = questions[start : start + QUESTIONS_AT_ONCE]
        replies = answer_all(block, normalizer, settings, contexts="context" in asked, languages="language" in asked)
        counts += [len(some) for some in replies]
        lines = [line for some in replies for line in some]
        if settings.memory is not None:
            lines = [line if len(line) > len(FIELDS) else line + UNREVIEWED for line in lines]
        ranks = [rank for some in replies for rank in range(1, len(some) + 1)]
        values = [ranks, *([line[place] for line in lines] for place in wanted)]
        blocks.append(
            pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)], schema=schema
            )
        )
    return pa.concat_batches(blocks), *spread(np.array(counts, np.int64), question_of_row)


def spread(
    counts: NDArray[np.int64], question_of_row: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give each row the lines of what it asks."""
    first = np.cumsum(counts) - counts
    repeats = counts[question_of_row]
    rows = np.repeat(np.arange(len(question_of_row)), repeats)
    return rows, np.arange(len(rows)) + np.repeat(first[question_of_row] - (np.cumsum(repeats) - repeats), repeats)


def _answered(
    batch: pa.RecordBatch, settings: NormalizerSettings, normalizer: Normalizer, schema: pa.Schema
) -> pa.RecordBatch:
    asked = {part: _strings(batch.column(name)) for part, name in settings.asked.items()}
    lines, rows, places = answer_columns(asked, normalizer, settings)
    given = batch.columns if len(rows) == len(batch) else [take(column, rows) for column in batch.columns]
    return pa.RecordBatch.from_arrays([*given, *lines.take(pa.array(places)).columns], schema=schema)


def take(column: pa.Array, rows: NDArray[np.int64]) -> pa.Array:
    """Return some rows of a column; of views, which pyarrow takes none of, by way of plain strings."""
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(column.type)
    chosen = pa.array(rows)
    return column.take(chosen) if plain is None else column.cast(plain).take(chosen).cast(column.type)


def check_strings(name: str, schema: pa.Schema) -> None:
    """Refuse a column that is not there once, or has no strings; one of nulls alone will do."""
    if name not in schema.names:
        raise UsageError(unknown("column", name, schema.names))
    if schema.names.count(name) > 1:
        raise UsageError(f"there are {schema.names.count(name)} columns {name!r}; rename all but one")
    kind: Any = schema.field(name).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)
    if not is_text and not pa.types.is_null(value):
        texts = [
            field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        raise UsageError(
            f"the column {name!r} has no strings but {kind}; name another or cast it; "
            f"the columns are {list(schema.names)}, of strings {texts}"
        )


def _strings(column: pa.Array) -> list[str | None]:
    """Return a column's strings; what is no UTF-8 is None."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        texts: list[str | None] = column.to_pylist()
    except UnicodeDecodeError:
        texts = [decoded(value) for value in column.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()]
    return texts


def decoded(value: bytes | None) -> str | None:
    """Return text; None for what is no UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
