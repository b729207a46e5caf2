"""A PostgreSQL server for the tests of the store, where it can run: each test has a schema of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.mappings.cdm import database
from tests.review import samples

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[object]:
    """Return the server, one for all tests."""
    pytest.importorskip("psycopg")
    with database(()) as made:
        # Its disk is not what is tested.
        made.psql("ALTER SYSTEM SET fsync = off;")
        made.psql("SELECT pg_reload_conf();")
        yield made


@pytest.fixture
def schema(server) -> Callable[[], str]:
    """Return what makes an empty schema, and returns its address."""

    def made() -> str:
        name = f"reviews{next(_numbers)}"
        server.psql(f"CREATE SCHEMA {name};")
        return f"{server.get_uri()}&options=-csearch_path%3D{name}"

    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def each_database(request, monkeypatch) -> str:
    """Let `samples.store` make its stores in a file, or in a schema of their own; return in which."""
    if request.param == "postgresql":
        monkeypatch.setattr(samples, "address", lambda _: request.getfixturevalue("schema")())
    return request.param
