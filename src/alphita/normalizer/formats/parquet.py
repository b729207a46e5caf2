"""Parquet. A Parquet file cannot be appended to, so the part is an Arrow stream, turned into Parquet at the end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, get_type_hints

from alphita.artefact import atomic_file
from alphita.normalizer.records import Line

DESCRIPTION = "Apache Parquet"
STREAMS = False


def begin(columns: Sequence[str]) -> bytes:
    """Return the stream's schema message."""
    return bytes(_schema(columns).serialize())


def encode(columns: Sequence[str], lines: Sequence[Line]) -> bytes:
    """Return one record batch message."""
    import pyarrow as pa

    schema = _schema(columns)
    arrays = [
        pa.array(list(map(attrgetter(name), lines)), kind) for name, kind in zip(columns, schema.types, strict=True)
    ]
    return bytes(pa.RecordBatch.from_arrays(arrays, schema=schema).serialize())


def finish(part: Path, out: Path) -> None:
    """Write the Parquet file aside, batch by batch, rename it, and remove the part."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    private = not os.stat(part).st_mode & 0o077
    with (
        atomic_file(out, private=private) as file,
        pa.OSFile(str(part)) as source,
        pa.ipc.open_stream(source) as stream,
        pq.ParquetWriter(file, stream.schema) as writer,
    ):
        for batch in stream:
            writer.write_batch(batch)
    part.unlink()


def _schema(columns: Sequence[str]) -> Any:  # noqa: ANN401
    import pyarrow as pa

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    hints = get_type_hints(Line)
    return pa.schema([(name, next(kinds[t] for t in kinds if t in _members(hints[name]))) for name in columns])


def _members(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401
    return getattr(hint, "__args__", (hint,))
