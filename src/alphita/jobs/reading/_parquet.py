"""Parquet: the mentions and what stands beside them, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from alphita.errors import InputError
from alphita.jobs.reading.rows import MentionRow, Table, check_text, texts

PARQUET_ROWS_AT_ONCE = 8_192


def rows(table: Table) -> Iterator[MentionRow]:
    """Read the rows of a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if Path(table.path).stat().st_size == 0:
            raise InputError("the file is empty", file=table.name)
        parquet = pq.ParquetFile(table.path)
        table.n_rows = parquet.metadata.num_rows
        schema = parquet.schema_arrow
        wanted = [schema.names[table.choose(schema.names, table.column)]]
        wanted += [name and schema.names[table.choose(schema.names, name)] for name in table.further()]
        names = list(dict.fromkeys(name for name in wanted if name is not None))
        check_text(names[0], schema.field(names[0]).type)
        for name in (table.context_column, table.language_column, table.unit_column, table.range_column):
            # Data frames store a column without any value as one of nulls.
            if name is not None and not pa.types.is_null(schema.field(name).type):
                check_text(name, schema.field(name).type)
        number = 0
        for batch in parquet.iter_batches(batch_size=PARQUET_ROWS_AT_ONCE, columns=names):
            columns = [[None] * len(batch) if name is None else texts(batch.column(name)) for name in wanted]
            for mention, *further in zip(*columns, strict=True):
                number += 1
                yield table.checked(number, number, mention or "", *further)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=table.name) from None
