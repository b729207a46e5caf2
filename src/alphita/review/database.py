"""The SQLite file of a store: where it may lie, its tables, its connections, and its errors.

`decision`, `batch` and `forgetting` are append-only; `in_force` and the columns `state` and `settled_by` of `row` are
derived from them in the same transaction. SQLite's write-ahead log does not work on a network share.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import UnionType
from typing import Any

from alphita import textio
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.review.records import Decision


class Conflict(AlphitaError):
    """The row was decided by the same reviewer in the meantime, in another tab, say; `newest` is that decision."""

    def __init__(self, newest: Decision) -> None:
        super().__init__(f"row {newest.row} was decided in the meantime ({newest.kind}, {newest.at}); look at it again")
        self.newest = newest


class NoDisagreement(AlphitaError):
    """The row has no disagreement that could be adjudicated."""


class Unknown(UsageError):
    """There is no such project or row."""


class Busy(AlphitaError):
    """Another program is writing to the store and did not finish in time; trying again may help."""


class NotStored(AlphitaError):
    """The store cannot be written: the disk is full, the file read-only or damaged. Nothing of the request is kept."""


_FULL = "the disk is full; nothing of this was stored: make room, then try again"
_READ_ONLY = "the file or its folder is read-only; nothing was stored: make both writable for this user"
_DAMAGED = "the file is damaged: take a copy from a backup"
_WHY = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that it and its folder are readable and writable",
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}


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


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, which name the file and what to do."""
    try:
        yield
    except Damaged as error:
        raise NotStored(f"{path}: {error}; {_DAMAGED}") from error
    except UnicodeEncodeError as error:
        # What it is stays unsaid, for it may be patient data.
        raise InputError("not valid text: it holds half of a surrogate pair") from error
    except OverflowError as error:
        raise InputError("a number is out of range") from error
    except sqlite3.DatabaseError as error:
        # The low byte is the kind of error, the others say more of it.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise Busy(f"{path}: another program is writing to it; try again when it has finished") from error
        if code == sqlite3.SQLITE_IOERR:
            raise NotStored(f"{path}: reading or writing failed ({error}); nothing of this was stored") from error
        if isinstance(error, sqlite3.ProgrammingError):
            raise
        raise NotStored(f"{path}: {_WHY.get(code) or f'{error}; {_DAMAGED}'}") from error


MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_NAMES = (
    "afs beegfs ceph cifs coda glusterfs gpfs lustre ncpfs nfs nfs4 panfs pvfs2 smb3 smbfs fuse.blobfuse "
    "fuse.blobfuse2 fuse.ceph fuse.curlftpfs fuse.davfs2 fuse.gcsfuse fuse.glusterfs fuse.goofys fuse.juicefs "
    "fuse.rclone fuse.s3fs fuse.sshfs"
)
NETWORK = frozenset(_NETWORK_NAMES.split())
# Files that SQLite keeps beside the store.
BESIDE = ("-wal", "-shm")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: Path) -> str:
    """Return the type of the file system that `path` lies (or would lie) on: "ext4", "nfs4", ...; "" if unknown."""
    try:
        table = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    best, found = -1, ""
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        if len(fields.split(" ")) < 5 or not rest:
            continue
        point = Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), fields.split(" ")[4]))
        # Of two mounts on one point, the later hides the earlier.
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, found = len(point.parts), rest.split(" ")[0]
    return found


def check_file(path: Path, *, create: bool) -> None:
    """See that `path` is a file that a store can be in, or become; make it, empty and private, where that is wanted."""
    check_folder(path)
    if not path.exists():
        if not create:
            raise InputError("no such review store", file=path)
        _make_file(path)
    if not path.is_file():
        raise InputError("not a plain file", file=path)
    for one in (path, path.parent):
        _check_writable(one)
    make_private(path)


def check_folder(path: Path) -> None:
    """See that a store can be, or could be made, where `path` is."""
    if path.is_dir():
        raise InputError("a directory, not a review store", file=path, remedy="name a file in it")
    if not path.parent.is_dir():
        raise InputError("its folder does not exist", file=path)
    if file_system(path).lower() in NETWORK:
        raise InputError(
            f"on a network share ({file_system(path)}), where decisions could be lost",
            file=path,
            remedy="keep the store on a disk of this machine, and let others use it through `alphita serve`",
        )
    if not path.exists():
        _check_writable(path.parent)


def _check_writable(path: Path) -> None:
    if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError("read-only", file=path, remedy="a review store and its folder must be writable for this user")


def make_private(path: Path) -> None:
    """Let only its owner read a store; SQLite gives the files beside it the same mode."""
    for one in (path, *(path.with_name(path.name + end) for end in BESIDE)):
        with contextlib.suppress(OSError):
            if one.stat().st_mode & 0o077:
                one.chmod(0o600)


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", file=path) from None


# "Alph", so that `file` and we can tell a store from other databases.
APPLICATION = 0x416C7068
VERSION = 3
# What an older store lacks, and is given (see `ReviewStore.open`).
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
    check_file(path, create=create)
    _check_kind(path)
    connection = connect(path, timeout)
    try:
        if _is_empty(connection):
            if not create:
                raise InputError("not a review store: it is empty", file=path)
            _log_ahead(connection, path, timeout)
            _make_tables(connection)
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


def _make_tables(connection: sqlite3.Connection) -> None:
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


class Connections:
    """Lends connections, each to one user at a time, and keeps those given back for the next."""

    def __init__(self, path: Path, timeout: float) -> None:
        self.path, self.timeout = path, timeout
        self._idle: list[sqlite3.Connection] = []
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Close those that are not in use now; the others follow when they are given back."""
        with self._lock:
            self._closed, idle, self._idle = True, self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend one that sees the store as it is now, whatever others write meanwhile."""
        with explained(self.path), self._lent("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend one that writes: what was written is on disk when this ends, or none of it if it ends by an error."""
        if not self._writing.acquire(timeout=self.timeout):
            raise Busy(f"{self.path}: other requests are writing to it; try again")
        try:
            with explained(self.path), self._lent("BEGIN IMMEDIATE") as connection:
                yield connection
        finally:
            self._writing.release()

    @contextmanager
    def _lent(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._closed:
                raise AlphitaError(f"{self.path}: this store was closed")
            connection = self._idle.pop() if self._idle else None
        connection = connection or connect(self.path, self.timeout)
        try:
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error:
            # Whatever state it is in, nobody is to have it again; closing it rolls back.
            connection.close()
            raise
        except BaseException:
            self._end(connection)
            raise
        self._give_back(connection)

    def _end(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("ROLLBACK")
        except sqlite3.Error:
            connection.close()
        else:
            self._give_back(connection)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
