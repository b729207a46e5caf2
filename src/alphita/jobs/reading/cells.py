"""All the cells of an input file, by column, for those who look at its mentions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from alphita import textio, workbooks
from alphita.errors import InputError, UsageError
from alphita.jobs.reading.files import PARQUET_ROWS_AT_ONCE, MentionFile
from alphita.jobs.reading.rows import as_text, printable


def cells_of(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the cells of every row by column, with the number of `MentionFile.rows`; rows of no use are left out."""
    readers = {"csv": _delimited, "tsv": _delimited, "excel": _excel, "parquet": _parquet, "jsonl": _json_lines}
    if table.format not in readers:
        raise UsageError(f"{table.name}: plain lines have no columns; if there are some, say of which format it is")
    yield from readers[table.format](table)


def _delimited(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    with table.opened() as file:
        records = table.records(file)
        names = [printable(name) for name in next(records).cells]
        for record in records:
            if not record.problem:
                yield record.number, dict(zip(names, map(printable, record.cells), strict=True))


def _excel(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    _, rows = workbooks.sheet_rows(table.path, table.sheet)
    _, names = next(rows)
    for number, (_, cells) in enumerate(rows, 1):
        yield number, dict(zip(names, cells, strict=True))


def _json_lines(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    with table.opened() as file:
        for number, text in enumerate((text for text in table.lines(file) if text.strip()), 1):
            with suppress(ValueError):
                if isinstance(record := textio.json_value(text), dict):
                    yield number, {name: _shown(value) for name, value in record.items()}


def _parquet(table: MentionFile) -> Iterator[tuple[int, dict[str, str]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        for batch in pq.ParquetFile(table.path).iter_batches(batch_size=PARQUET_ROWS_AT_ONCE):
            for record in batch.to_pylist():
                number += 1
                yield number, {name: _shown(value) for name, value in record.items()}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=table.name) from None


def _shown(value: object) -> str:
    if value is None or value != value:
        return ""
    return as_text(value) if isinstance(value, float) else printable(str(value))
