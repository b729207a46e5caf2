"""Tables as uncompressed Arrow files, which are mapped, not read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa


def write(path: Path, table: pa.Table) -> None:
    """Write a table as one record batch, so that each column is one array when it is mapped."""
    table = table.combine_chunks().unify_dictionaries()
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read(path: Path) -> pa.Table:
    """Return a table that is mapped."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
