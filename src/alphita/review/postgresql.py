"""PostgreSQL: how a store in a database is reached, locked and guarded, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import URL, Column, Connection, Engine, Integer, MetaData, Table, create_engine, inspect, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from alphita.errors import AlphitaError, InputError, UsageError, masked, require
from alphita.review import tables
from alphita.review.records import Away, Busy, NotStored
from alphita.review.sqlite import APPLICATION, FULL

SCHEMES = ("postgresql", "postgres")
# Connections of one process: so many are kept, and as many more are made at need.
KEPT = 10
# So that a server that is gone is noticed: seconds to reach it, and milliseconds until it says that it received.
_REACHED = {"connect_timeout": "5", "tcp_user_timeout": "15000", "application_name": "alphita"}
# What a PostgreSQL error's SQLSTATE, or the class that it begins with, means to who asks.
_BUSY = ("55P03", "40001", "40P01")
_AWAY = ("08", "57", "53300")
_WRONG = {
    "22003": "a number is out of range",
    "22021": "not valid text: it holds a character that PostgreSQL does not store",
    "22P05": "not valid text: it holds a character that PostgreSQL does not store",
    "54000": "too long for PostgreSQL",
}
_WHY = {
    "53100": FULL,
    "25006": "the database is read-only, a standby perhaps; nothing was stored: name the primary server",
    "42501": "the user may not do this; let the user who made the tables open it, or grant CREATE on the schema",
}
_store = Table("alphita_store", MetaData(), Column("version", Integer, nullable=False))
# What is SQLite's own, and what keeps that which is only ever added to.
_FUNCTIONS = (
    "CREATE FUNCTION instr(text, text) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT strpos($1, $2)'",
    "CREATE FUNCTION only_added() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION"
    " '%%: only ever added to', TG_TABLE_NAME; END $$",
)


@dataclass(frozen=True)
class Postgresql:
    """A store in a database, alone in its schema."""

    address: str = field(repr=False)
    timeout: float
    begin_reading = ""

    @property
    def name(self) -> str:
        return masked(self.address)

    @property
    def begin_writing(self) -> str:
        """One program writes at a time, as in a file: so ids ascend in the order in which others see them."""
        wait = f"set_config('lock_timeout', '{max(1, int(self.timeout * 1000))}', true)"
        return f"SELECT {wait}, pg_advisory_xact_lock({APPLICATION}, '{_store.name}'::regclass::oid::int)"

    @property
    def errors(self) -> type[Exception]:
        errors: type[Exception] = require("psycopg", "postgresql").Error
        return errors

    @cached_property
    def engine(self) -> Engine:
        require("psycopg", "postgresql")
        try:
            url: URL = make_url(self.address).set(drivername="postgresql+psycopg")
        except (ArgumentError, ValueError):
            raise UsageError(f"{self.name}: not an address; as in postgresql://user@host/database") from None
        url = url.update_query_dict({name: value for name, value in _REACHED.items() if name not in url.query})
        return create_engine(
            url, pool_pre_ping=True, pool_size=KEPT, max_overflow=KEPT, pool_timeout=self.timeout, hide_parameters=True
        )

    @cached_property
    def reader(self) -> Engine:
        """Lends connections that see one moment."""
        return self.engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def problem(self, error: Exception) -> AlphitaError | None:
        """Return what an error of PostgreSQL's means, without what it says of values; None: it is ours."""
        state = getattr(error, "sqlstate", None) or ""
        said = getattr(getattr(error, "diag", None), "message_primary", None)
        if state in _BUSY:
            return Busy(self.name, "another program is writing to it; try again when it has finished")
        if state.startswith("23"):
            return None
        if not state and "NUL" in str(error):
            state = "22021"
        if state in _WRONG:
            return InputError(_WRONG[state])
        if not state or state.startswith(_AWAY):
            told = said or str(error).strip().partition("\n")[0]
            remedy = "check address and password, or try again when it is back: nothing counts twice"
            return Away(self.name, f"the database cannot be reached ({told}); {remedy}")
        return NotStored(self.name, _WHY.get(state) or f"{said} ({state})")

    def exists(self) -> bool:
        """Tell whether the database has the tables."""
        with self.engine.connect() as connection:
            return inspect(connection).has_table(_store.name)

    def prepare(self, *, create: bool) -> int:
        """Make the tables of a new store, and return its version."""
        with self.engine.begin() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({APPLICATION})")
            there = set(inspect(connection).get_table_names())
            if _store.name not in there:
                if others := sorted(there & tables.METADATA.tables.keys()):
                    problem = f"a database with a table {others[0]} that is no review store's"
                    raise InputError(problem, file=self.name, remedy="give the store a database of its own")
                if not create:
                    raise InputError("no review store in this database", file=self.name)
                self._make_tables(connection)
            return int(connection.execute(select(_store.c.version)).scalar_one())

    @contextmanager
    def unguarded(self, connection: Connection) -> Iterator[None]:
        """Let a transaction delete what is else only ever added to."""
        for switch in ("DISABLE", "ENABLE"):
            for table in tables.APPENDED:
                connection.exec_driver_sql(f"ALTER TABLE {table} {switch} TRIGGER only_added")
            if switch == "DISABLE":
                yield

    def shrink(self) -> None:
        """Leave it to PostgreSQL, which vacuums by itself."""

    @staticmethod
    def _make_tables(connection: Connection) -> None:
        tables.METADATA.create_all(connection, checkfirst=False)
        for function in _FUNCTIONS:
            connection.exec_driver_sql(function)
        for table in tables.APPENDED:
            event = f"BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT"
            connection.exec_driver_sql(f"CREATE TRIGGER only_added {event} EXECUTE FUNCTION only_added()")
        _store.create(connection)
        connection.execute(_store.insert(), {"version": tables.VERSION})
