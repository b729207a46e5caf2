"""The tables of a store, and connections to it.

What people did stands in `decision`, `batch` and `forgetting`, which can only be added to. `in_force`, and the columns
`state` and `settled_by` of `row`, follow from them and are brought up to date in the same transaction.
"""

from __future__ import annotations

import functools
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from alphita.errors import InputError
from alphita.review import filesystem_check

# "Alph", so that `file` and we can tell a store from other databases.
APPLICATION = 0x416C7068
VERSION = 3
# What an older store lacks, and is given (see `upgrade`).
ADDED = frozenset([("project", "filters")])
MAGIC = b"SQLite format 3\0"

TABLES = """
CREATE TABLE project (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    column_name TEXT NOT NULL,
    terminology TEXT NOT NULL,
    release TEXT NOT NULL,
    model TEXT NOT NULL,
    created_at TEXT NOT NULL,
    blind INTEGER NOT NULL,
    filters TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE row (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project,
    number INTEGER NOT NULL,
    code TEXT NOT NULL,
    mention TEXT NOT NULL,
    cleaned TEXT NOT NULL,
    searched TEXT NOT NULL,
    frequency INTEGER NOT NULL,
    confidence REAL,
    risk REAL NOT NULL,
    learning REAL,
    state TEXT NOT NULL DEFAULT 'open',
    settled_by INTEGER REFERENCES decision,
    UNIQUE (project, code, mention)
);
CREATE INDEX row_by_risk ON row (project, risk DESC, number, id);
CREATE INDEX row_by_frequency ON row (project, frequency DESC, number, id);
CREATE INDEX row_by_confidence ON row (project, confidence, number, id);
CREATE INDEX row_by_number ON row (project, number, id);
CREATE INDEX row_by_learning ON row (project, learning DESC, risk DESC, number, id);
CREATE INDEX row_by_state ON row (project, state, frequency);
CREATE INDEX row_by_cleaned ON row (cleaned);
CREATE TABLE detail (
    row INTEGER PRIMARY KEY REFERENCES row,
    context TEXT NOT NULL,
    candidates TEXT NOT NULL,
    types TEXT NOT NULL
);
CREATE TABLE row_type (
    row INTEGER NOT NULL REFERENCES row,
    type TEXT NOT NULL,
    PRIMARY KEY (row, type)
) WITHOUT ROWID;
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL UNIQUE,
    project INTEGER NOT NULL REFERENCES project,
    row INTEGER NOT NULL REFERENCES row,
    reviewer TEXT NOT NULL,
    kind TEXT NOT NULL,
    concept_id TEXT,
    relation TEXT,
    comment TEXT NOT NULL,
    at TEXT NOT NULL,
    undoes INTEGER REFERENCES decision,
    bulk TEXT NOT NULL,
    confidence REAL,
    shown TEXT NOT NULL,
    terminology TEXT NOT NULL,
    release TEXT NOT NULL,
    model TEXT NOT NULL,
    concept_name TEXT
);
CREATE INDEX decision_by_row ON decision (row, reviewer);
CREATE INDEX decision_by_reviewer ON decision (project, reviewer);
CREATE INDEX decision_by_bulk ON decision (bulk) WHERE bulk <> '';
CREATE UNIQUE INDEX decision_undone ON decision (undoes) WHERE undoes IS NOT NULL;
CREATE TABLE batch (
    uid TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    project INTEGER NOT NULL REFERENCES project,
    reviewer TEXT NOT NULL,
    at TEXT NOT NULL,
    upto INTEGER NOT NULL,
    asked TEXT NOT NULL
) WITHOUT ROWID;
-- The newest line of a name says up to which decision its are forgotten; 0: none.
CREATE TABLE forgetting (
    id INTEGER PRIMARY KEY,
    what TEXT NOT NULL,
    name TEXT NOT NULL,
    upto INTEGER NOT NULL,
    reviewer TEXT NOT NULL,
    at TEXT NOT NULL
);
-- One line a reviewer who has decided, skipped or flagged the row, and one of slot '' for the adjudication.
CREATE TABLE in_force (
    row INTEGER NOT NULL REFERENCES row,
    slot TEXT NOT NULL,
    decision INTEGER NOT NULL REFERENCES decision,
    kind TEXT NOT NULL,
    meaning TEXT,
    PRIMARY KEY (row, slot)
) WITHOUT ROWID;
"""
APPENDED = ("decision", "batch", "forgetting")


def script() -> list[str]:
    """Return the statements that make an empty store, to be run in one transaction."""
    tables = [statement for statement in TABLES.split(";\n") if statement.strip()]
    guards = [
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table}"
        f" BEGIN SELECT RAISE(ABORT, '{table}: only ever added to'); END"
        for table in APPENDED
        for verb in ("UPDATE", "DELETE")
    ]
    marks = [f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"]
    return [*tables, *guards, *marks]


def prepare(path: Path, *, create: bool, timeout: float) -> None:
    """Check the file, and make the tables of a new one."""
    filesystem_check.check(path, create=create)
    _check_kind(path)
    connection = connect(path, timeout)
    try:
        if _is_empty(connection):
            if not create:
                raise InputError("not a review store: it is empty", file=path)
            _log_ahead(connection, path, timeout)
            _make(connection)
        application, version = (pragma(connection, name) for name in ("application_id", "user_version"))
        if application != APPLICATION:
            raise InputError("a database, but not a review store", file=path)
        if version > VERSION:
            raise InputError(
                f"a review store of version {version}; this program knows version {VERSION}",
                file=path,
                remedy="install a newer alphita",
            )
        _check_tables(connection, path, ADDED if version < VERSION else frozenset())
        _log_ahead(connection, path, timeout)
    finally:
        connection.close()


def columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return table and name of all columns."""
    found = connection.execute("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c")
    return set(found)


@functools.cache
def _known_columns() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in script():
            connection.execute(statement)
        return columns(connection)


def _check_tables(connection: sqlite3.Connection, path: Path, to_come: frozenset[tuple[str, str]]) -> None:
    """See that all tables and columns but those to come are there: else it is found out in the midst of work."""
    if lacking := sorted(_known_columns() - to_come - columns(connection)):
        table, column = lacking[0]
        raise InputError(f"lacks the column {column} of {table}", file=path, remedy="take a copy from a backup")


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Return a connection that leaves transactions to its user, and writes to the disk before it says that it did."""
    # Threads use it one after the other, so that it need not be the one that opened it.
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw", timeout=timeout, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        for setting in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_kind(path: Path) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if start and start != MAGIC:
        raise InputError("not a review store", file=path)


def _log_ahead(connection: sqlite3.Connection, path: Path, timeout: float) -> None:
    """Have readers and a writer not wait for each other; the file remembers it."""
    until = time.monotonic() + timeout
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError:
            # Here SQLite does not wait by itself.
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise InputError(
            f"its file system allows no write-ahead log ({mode})", file=path, remedy="keep it on a local disk"
        )


def _make(connection: sqlite3.Connection) -> None:
    """Make the tables, unless another program has just done so."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(connection):
            for statement in script():
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_empty(connection: sqlite3.Connection) -> bool:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return not (tables or pragma(connection, "application_id") or pragma(connection, "user_version"))


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that the file holds beside its tables."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
