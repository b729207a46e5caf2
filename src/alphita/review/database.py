"""A store's database: a file of SQLite's, or PostgreSQL by its address; its transactions and errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any

from sqlalchemy import Connection, Engine, Executable, func, select
from sqlalchemy.exc import DBAPIError, TimeoutError

from alphita import artefact, textio
from alphita.errors import InputError, UsageError, masked
from alphita.review import postgresql, sqlite, tables
from alphita.review.records import Busy, NotStored, OfStore


class Damaged(ValueError):
    """A cell holds what no store writes there, for SQLite lets any hold anything; `explained` tells which file."""


def stored(text: object, shape: type) -> Any:  # noqa: ANN401 - of that shape
    """Return the list or dictionary that a cell holds as JSON."""
    try:
        value = textio.json_value(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if not isinstance(value, shape):
        raise Damaged("a cell holds no JSON of the kind that belongs there")
    return value


def check_kinds(fields: Mapping[str, object], kinds: Mapping[str, type | UnionType]) -> None:
    """See that cells hold values of their kinds."""
    for name, kind in kinds.items():
        if not isinstance(fields[name], kind):
            raise Damaged(f"a cell of {name} holds what does not belong there")


_COMPILED: dict[tuple[Executable, str], tuple[str, dict[str, Any], list[str] | None]] = {}


def run(
    connection: Connection, statement: Executable, *many: Mapping[str, object], streamed: bool = False, **values: object
) -> Any:  # noqa: ANN401 - a cursor
    """Run a statement that is made once and for all, with its values or with each of many; return the driver's cursor.

    It takes a few microseconds more than SQLite itself, a fifth of what `Connection.execute` takes. What is `streamed`
    is not held in memory.
    """
    key = statement, connection.dialect.name
    if key not in _COMPILED:
        # An INSERT or UPDATE sets what it is given values of.
        compiled = statement.compile(dialect=connection.dialect, column_keys=list(many[0] if many else values))  # type: ignore[attr-defined]
        _COMPILED[key] = str(compiled), compiled.params, compiled.positiontup
    text, fixed, names = _COMPILED[key]
    given: Any = [{**fixed, **one} if names is None else _listed(names, fixed, one) for one in many or (values,)]
    cursor = connection.connection.cursor(*(["rows"] if streamed and names is None else []))
    if many:
        cursor.executemany(text, given)
    else:
        cursor.execute(text, given[0])
    return cursor


def _listed(names: list[str], fixed: dict[str, Any], values: Mapping[str, object]) -> list[object]:
    given = [values.get(name, fixed[name]) for name in names]
    return [json.dumps(value) if isinstance(value, list) else value for value in given]


Backend = sqlite.Sqlite | postgresql.Postgresql


def backend_of(address: str | Path, timeout: float) -> Backend:
    """Return what speaks to the database at an address, or in a file."""
    scheme, separator, _ = str(address).partition("://")
    if not separator:
        return sqlite.Sqlite(artefact.resolved(Path(address)), timeout)
    if scheme.partition("+")[0] not in postgresql.SCHEMES:
        remedy = "name a file, or postgresql://user@host/database"
        raise UsageError(f"{masked(address)}: a review store is in SQLite or PostgreSQL; {remedy}")
    return postgresql.Postgresql(str(address), timeout)


class Database:
    """Lends connections, each to one user at a time."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.timeout = backend, backend.timeout
        self._writing, self._closed = threading.Lock(), False

    def prepare(self, *, create: bool) -> int:
        """Open the store, and make a new one where that is wanted; return its version."""
        with self.explained():
            version = self.backend.prepare(create=create)
        if version != tables.VERSION:
            problem = f"a review store of version {version}; this program knows version {tables.VERSION}"
            older = "export its decisions with the alphita that made it, and import them into a new one"
            remedy = older if version < tables.VERSION else "install a newer alphita"
            raise InputError(problem, file=self.backend.name, remedy=remedy)
        return version

    def close(self) -> None:
        """Close the connections that are not in use now; the others follow when they are given back."""
        self._closed = True
        self.backend.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend one that sees the store as it is now, whatever others write meanwhile."""
        with self.explained(), self._lent(self.backend.reader, self.backend.begin_reading) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Lend one that writes: what was written is on disk when this ends, or none of it if it ends by an error."""
        if not self._writing.acquire(timeout=self.timeout):
            raise Busy(self.backend.name, "other requests are writing to it; try again")
        try:
            with self.explained(), self._lent(self.backend.engine, self.backend.begin_writing) as connection:
                yield connection
        finally:
            self._writing.release()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn a database's errors into ours, which name the store and what to do."""
        name = self.backend.name
        try:
            yield
        except Damaged as error:
            raise NotStored(name, f"{error}; {sqlite.DAMAGED}") from error
        except UnicodeEncodeError as error:
            # What it is stays unsaid, for it may be patient data.
            raise InputError("not valid text: it holds half of a surrogate pair") from error
        except OverflowError as error:
            raise InputError("a number is out of range") from error
        except TimeoutError:
            raise Busy(name, "all connections are in use; try again") from None
        except (DBAPIError, self.backend.errors) as error:
            if (problem := self.backend.problem(getattr(error, "orig", error))) is None:
                raise
            raise problem from error

    @contextmanager
    def _lent(self, engine: Engine, begin: str) -> Iterator[Connection]:
        if self._closed:
            raise OfStore(self.backend.name, "this store was closed")
        with engine.connect() as connection:
            try:
                if begin:
                    connection.exec_driver_sql(begin)
                yield connection
                connection.commit()
            except (DBAPIError, self.backend.errors):
                # Whatever state it is in, nobody is to have it again; closing it rolls back.
                connection.invalidate()
                raise
            finally:
                if self._closed and not connection.invalidated:
                    connection.invalidate()


@dataclass(frozen=True)
class Look:
    """What is at an address: the version of the store, None if there is none yet, and how many projects it has."""

    name: str
    version: int | None = None
    projects: int = 0


def look(address: str | Path, timeout: float) -> Look:
    """Return what is there, and change nothing."""
    database = Database(backend_of(address, timeout))
    name = database.backend.name
    try:
        with database.explained():
            if not database.backend.exists():
                return Look(name)
        version = database.prepare(create=False)
        with database.reading() as connection:
            return Look(name, version, connection.execute(select(func.count(tables.project.c.id))).scalar_one())
    finally:
        database.close()
