"""Connections to PostgreSQL, rows copied there in binary, and refusals in our words: no message holds a password."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from alphita import progress
from alphita.errors import AlphitaError, InputError, UsageError, require
from alphita.index.servers import Content
from alphita.index.servers._content import hash_of

if TYPE_CHECKING:
    import psycopg
    from psycopg import Connection, Error, sql


STRINGS_AT_ONCE = 16_384
STRING_COLUMNS = ("id", "string", "vector")
TERM_COLUMNS = ("string", "place", "hash", "concept_id", "concept_name", "term", "scope", "source", "language", "types")
TERM_TYPES = ("int8", "int4", "bytea", "text", "text", "text", "text", "text", "text", "text[]")


def _copy(
    connection: psycopg.Connection,
    table: sql.Composable,
    columns: tuple[str, ...],
    types: tuple[str, ...],
    rows: Iterable[tuple[Any, ...]],
) -> int:
    from psycopg import sql

    names = sql.SQL(", ").join(sql.Identifier(column) for column in columns)
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table, names)
    count = 0
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
            count += 1
    return count


def strings(
    connection: psycopg.Connection, schema: str, content: Content, ids: Iterable[tuple[int, int]], bar: progress.Bar
) -> None:
    """Write the strings of some rows, (row, id) each."""
    from pgvector import HalfVector
    from psycopg import sql

    def rows() -> Iterator[tuple[Any, ...]]:
        start, stop, strings = 0, 0, []
        for row, number in ids:
            if row >= stop:
                start, stop = row, min(row + STRINGS_AT_ONCE, len(content.vectors))
                strings = content.strings(start, stop)
                vectors = np.asarray(content.vectors[start:stop], np.float16)
            yield number, strings[row - start], HalfVector(vectors[row - start])
            bar.advance()

    _copy(connection, sql.Identifier(schema, "strings"), STRING_COLUMNS, ("int8", "text", "halfvec"), rows())


def terms(connection: psycopg.Connection, schema: str, rows: Iterable[tuple[Any, ...]]) -> int:
    from psycopg import sql

    return _copy(connection, sql.Identifier(schema, "terms"), TERM_COLUMNS, TERM_TYPES, rows)


def probes(connection: psycopg.Connection, schema: str, queries: NDArray[np.float32]) -> None:
    from pgvector import HalfVector
    from psycopg import sql

    _copy(connection, sql.Identifier(schema, "probes"), ("vector",), ("halfvec",), ((HalfVector(q),) for q in queries))


def _blocks(content: Content) -> Iterator[tuple[int, int]]:
    n = len(content.vectors)
    return ((start, min(start + STRINGS_AT_ONCE, n)) for start in range(0, n, STRINGS_AT_ONCE))


def all_terms(content: Content, bar: progress.Bar) -> Iterator[tuple[Any, ...]]:
    for start, stop in _blocks(content):
        strings = content.strings(start, stop)
        for row, term in content.terms(start, stop):
            place, *shown, types = term
            yield row, place, hash_of(strings[row - start], term), *shown, list(types)
        bar.advance(stop - start)


def some_terms(content: Content, wanted: list[tuple[int, bytes, int]]) -> Iterator[tuple[Any, ...]]:
    """Return the terms of the hashes that are wanted, (row, hash, id of the string) each, by row."""
    ids = {hashed: number for _, hashed, number in wanted}
    starts = sorted({row - row % STRINGS_AT_ONCE for row, _, _ in wanted})
    for start in starts:
        stop = min(start + STRINGS_AT_ONCE, len(content.vectors))
        strings = content.strings(start, stop)
        for row, term in content.terms(start, stop):
            hashed = hash_of(strings[row - start], term)
            if hashed in ids:
                place, *shown, types = term
                yield ids[hashed], place, hashed, *shown, list(types)


def incoming(connection: psycopg.Connection, content: Content) -> None:
    """Write all strings, and the hashes of all terms, into tables of this transaction."""
    from psycopg import sql

    connection.execute('CREATE TEMPORARY TABLE incoming_strings (row bigint, string text COLLATE "C") ON COMMIT DROP')
    connection.execute("CREATE TEMPORARY TABLE incoming_terms (row bigint, hash bytea) ON COMMIT DROP")
    strings = (
        (start + place, string)
        for start, stop in _blocks(content)
        for place, string in enumerate(content.strings(start, stop))
    )
    _copy(connection, sql.Identifier("incoming_strings"), ("row", "string"), ("int8", "text"), strings)
    with progress.bar("Comparing", total=len(content.vectors), unit="strings") as bar:
        terms = ((row, hashed) for row, _, hashed, *_ in all_terms(content, bar))
        _copy(connection, sql.Identifier("incoming_terms"), ("row", "hash"), ("int8", "bytea"), terms)
    connection.execute("ANALYZE incoming_strings, incoming_terms")


EXTRA = "postgres"
EXTENSION = "vector"
# The first version that goes on with a search where a filter leaves too little.
OLDEST = (0, 8)
SECONDS_TO_CONNECT = 10
INSTALL = "on Debian: apt install postgresql-17-pgvector; elsewhere see github.com/pgvector/pgvector"


class Database:
    """A connection with what is needed to speak about it.

    Attributes:
        where: user, host and database, for messages.
    """

    def __init__(self, address: str) -> None:
        require("pgvector", EXTRA)
        psycopg = require("psycopg", EXTRA)
        from psycopg.conninfo import conninfo_to_dict

        try:
            parts = {name: str(value) for name, value in conninfo_to_dict(address).items() if value is not None}
            port = parts.get("port", "")
            # A password with a slash or an @ ends up in the parts that are shown.
            formed = port.replace(",", "").isdecimal() or not port
            formed &= not any("@" in parts.get(name, "") for name in ("host", "dbname"))
        except psycopg.Error:
            # What libpq says of it repeats parts of the address, the password among them.
            formed = False
        if not formed:
            raise UsageError(
                "this PostgreSQL address is not well formed; it is postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with "
                "@ : / % in the user or password written %40 %3A %2F %25"
            )
        self._password = parts.get("password", "")
        self.where = "".join(
            [
                f"{parts['user']}@" if "user" in parts else "",
                parts.get("host", "local socket"),
                f":{parts['port']}" if "port" in parts else "",
                f"/{parts['dbname']}" if "dbname" in parts else "",
            ]
        )
        parts.setdefault("connect_timeout", str(SECONDS_TO_CONNECT))
        parts.setdefault("application_name", "alphita")
        try:
            self.connection: Connection = psycopg.connect(autocommit=True, **parts)
        except psycopg.Error as error:
            raise AlphitaError(
                f"cannot connect to PostgreSQL at {self.where}: {self.cleaned(str(error))}; is the address right, "
                "the server running and the password set (in the address, PGPASSWORD or ~/.pgpass)?"
            ) from None
        try:
            with self.speaking():
                self.ready = False
                self.prepare()
        except BaseException:
            self.connection.close()
            raise

    def prepare(self) -> None:
        """Learn pgvector's types, once it is installed in this database; `ready` says whether it is."""
        if self.ready:
            return
        row = self.connection.execute(
            "SELECT default_version, installed_version FROM pg_available_extensions WHERE name = %s", [EXTENSION]
        ).fetchone()
        if row is None:
            raise AlphitaError(f"PostgreSQL at {self.where} has no pgvector, which the server needs; {INSTALL}")
        version = row[1] or row[0]
        if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < OLDEST:
            remedy = f"ALTER EXTENSION {EXTENSION} UPDATE" if row[1] else INSTALL
            raise AlphitaError(f"PostgreSQL at {self.where} has pgvector {version}; 0.8.0 or later is needed: {remedy}")
        self.ready = row[1] is not None
        if self.ready:
            self._read_types()

    def create_extension(self) -> None:
        """Install pgvector in this database if it is not there."""
        import psycopg

        if self.ready:
            return
        try:
            self.connection.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
        except psycopg.errors.InsufficientPrivilege:
            raise AlphitaError(
                f"the database at {self.where} has no pgvector yet, and this user may not create it; let its owner "
                f"run: CREATE EXTENSION {EXTENSION}"
            ) from None
        self.prepare()

    def _read_types(self) -> None:
        from pgvector.psycopg import register_vector

        # Wherever the extension was put, its types and operators are found.
        schema = self.connection.execute(
            "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = %s",
            [EXTENSION],
        ).fetchone()
        assert schema is not None
        self.connection.execute("SELECT set_config('search_path', quote_ident(%s), false)", schema)
        register_vector(self.connection)

    def cleaned(self, text: str) -> str:
        """Return what the server or libpq said, on one line and without the password."""
        text = " ".join(text.split())
        return text.replace(self._password, "***") if self._password else text

    @contextlib.contextmanager
    def speaking(self, missing: str = "") -> Iterator[None]:
        """Turn psycopg's errors into ours."""
        import psycopg
        from psycopg import errors

        try:
            yield
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            raise InputError(missing or self._said(error)) from None
        except errors.InsufficientPrivilege as error:
            raise AlphitaError(
                f"PostgreSQL at {self.where} does not allow it: {self._said(error)}; to load, a user needs "
                "GRANT CREATE ON DATABASE, to search GRANT USAGE ON SCHEMA and SELECT ON ALL TABLES IN SCHEMA"
            ) from None
        except psycopg.Error as error:
            raise AlphitaError(f"PostgreSQL at {self.where}: {self._said(error)}") from None

    def _said(self, error: Error) -> str:
        return self.cleaned(error.diag.message_primary or str(error) or type(error).__name__)
