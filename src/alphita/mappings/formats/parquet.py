"""Parquet. Specification: https://parquet.apache.org/docs/file-format/, format version 2.6.

A Parquet file cannot be appended to, so the part is an Arrow stream, turned into Parquet at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, _fields
from alphita.mappings.formats._fields import losses, split_complete, validate
from alphita.mappings.record import COLUMNS, Mapping

__all__ = ["losses", "split_complete", "validate"]
DESCRIPTION = "Apache Parquet"
SUFFIXES = (".parquet",)
STREAMS = False
READS = True
PREFIXED = False
LOSSES: tuple[str, ...] = ()


def begin(header: Header) -> bytes:
    """Return the stream's schema message."""
    return bytes(_schema(header.columns).serialize())


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return one record batch message."""
    import pyarrow as pa

    schema = _schema(header.columns)
    arrays = [
        pa.array(list(map(attrgetter(name), mappings)), kind)
        for name, kind in zip(header.columns, schema.types, strict=True)
    ]
    return bytes(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize())


def finish(header: Header, part: Path, out: Path) -> None:
    """Write the Parquet file aside, batch by batch, rename it, and remove the part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        _fields.made_of(part, out) as file,
        pa.OSFile(str(part)) as source,
        pa.ipc.open_stream(source) as stream,
        pq.ParquetWriter(file, stream.schema) as writer,
    ):
        for batch in stream:
            writer.write_batch(batch)


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Read a file, batch by batch; columns that are no field are passed over, and told."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name in COLUMNS]
            for name in _fields.NEEDED:
                if name not in names:
                    raise _fields.no_column(name, path, file.schema_arrow.names)
            if unread := [name for name in file.schema_arrow.names if name not in COLUMNS]:
                header.tell(f"{path}: columns that are not read: {', '.join(unread)}")
            number = 0
            for batch in file.iter_batches(batch_size=8_192, columns=names):
                for values in zip(*map(_values, batch.columns), strict=True):
                    number += 1
                    mapping = _fields.mapping(dict(zip(batch.schema.names, values, strict=True)), path, number, rejects)
                    if mapping is not None:
                        yield mapping
    # Names of columns that are no UTF-8 are told by Python.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"this is no Parquet file that can be read: {error}", file=path) from None


def _values(column: Any) -> list[Any]:  # noqa: ANN401
    """Return what a column holds; bytes that are no UTF-8 become lone surrogates, which set their row aside."""
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]


def _schema(columns: Sequence[str]) -> Any:  # noqa: ANN401
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    return pa.schema([(name, kinds[_fields.KINDS[name]]) for name in columns])
