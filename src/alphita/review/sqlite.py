"""SQLite: where a store's file may lie (on no network share), how it is opened, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, Engine, QueuePool, create_engine
from sqlalchemy.exc import OperationalError

from alphita.errors import AlphitaError, InputError
from alphita.review import tables
from alphita.review.records import Busy, NotStored

FULL = "the disk is full; nothing of this was stored: make room, then try again"
DAMAGED = "the file is damaged: take a copy from a backup"
_READ_ONLY = "the file or its folder is read-only; nothing was stored: make both writable for this user"
_WHY = {
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that it and its folder are readable and writable",
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
}

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
MAGIC = b"SQLite format 3\0"
_REFERRING = (("row", "settled_by"), ("in_force", "decision"))
_SETTINGS = ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF")


@dataclass(frozen=True)
class Sqlite:
    """A store in a file."""

    path: Path
    timeout: float
    begin_reading, begin_writing, errors = "BEGIN", "BEGIN IMMEDIATE", sqlite3.Error

    @property
    def name(self) -> str:
        return str(self.path)

    address = name

    @cached_property
    def engine(self) -> Engine:
        """Lends connections that leave transactions to us, and write to the disk before they say that they did."""

        def connect() -> sqlite3.Connection:
            # Threads use it one after the other, so that it need not be the one that opened it.
            uri = f"{self.path.resolve().as_uri()}?mode=rw"
            made = sqlite3.connect(uri, self.timeout, isolation_level=None, check_same_thread=False, uri=True)
            try:
                for setting in _SETTINGS:
                    made.execute(f"PRAGMA {setting}")
            except BaseException:
                made.close()
                raise
            return made

        return create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=0, hide_parameters=True)

    @property
    def reader(self) -> Engine:
        return self.engine

    def problem(self, error: Exception) -> AlphitaError | None:
        """Return what an error of SQLite's means, with what to do; None: it is ours."""
        # The low byte is the kind of error, the others say more of it.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return Busy(self.path, "another program is writing to it; try again when it has finished")
        if code == sqlite3.SQLITE_IOERR:
            return NotStored(self.path, f"reading or writing failed ({error}); nothing of this was stored")
        if isinstance(error, sqlite3.ProgrammingError):
            return None
        return NotStored(self.path, _WHY.get(code) or f"{error}; {DAMAGED}")

    def exists(self) -> bool:
        """Tell whether the file is there; if not, see that it could be."""
        if not self.path.exists():
            check_folder(self.path)
        return self.path.exists()

    def prepare(self, *, create: bool) -> int:
        """Check the file, make the tables of a new one, and return its version."""
        check_file(self.path, create=create)
        _check_kind(self.path)
        with self.engine.connect() as connection:
            if _is_empty(connection):
                if not create:
                    raise InputError("not a review store: it is empty", file=self.path)
                self._log_ahead(connection)
                _make_tables(connection)
            application, version = (_pragma(connection, name) for name in ("application_id", "user_version"))
            if application != APPLICATION:
                raise InputError("a database, but not a review store", file=self.path)
            known = {(table.name, column.name) for table in tables.METADATA.sorted_tables for column in table.columns}
            # Else it is found out in the midst of work.
            if version == tables.VERSION and (lacking := sorted(known - _columns(connection))):
                table, column = lacking[0]
                problem = f"lacks the column {column} of {table}"
                raise InputError(problem, file=self.path, remedy="take a copy from a backup")
            self._log_ahead(connection)
        return version

    @contextmanager
    def unguarded(self, connection: Connection) -> Iterator[None]:
        """Let a transaction delete what is else only ever added to."""
        for name, _ in _guards():
            connection.exec_driver_sql(f"DROP TRIGGER {name}")
        # Else each decision that goes is looked for in all rows.
        for table, column in _REFERRING:
            connection.exec_driver_sql(f'CREATE INDEX referring_{table} ON "{table}" ({column})')
        yield
        for table, _ in _REFERRING:
            connection.exec_driver_sql(f"DROP INDEX referring_{table}")
        for _, statement in _guards():
            connection.exec_driver_sql(statement)

    def shrink(self) -> None:
        """Give back the space of what was deleted, and leave nothing of it in the file."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    def _log_ahead(self, connection: Connection) -> None:
        """Have readers and a writer not wait for each other; the file remembers it."""
        until = time.monotonic() + self.timeout
        while True:
            try:
                mode = connection.exec_driver_sql("PRAGMA journal_mode = WAL").scalar_one()
                break
            except OperationalError:
                # Here SQLite does not wait by itself.
                if time.monotonic() >= until:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            problem = f"its file system allows no write-ahead log ({mode})"
            raise InputError(problem, file=self.path, remedy="keep it on a local disk")


def _check_kind(path: Path) -> None:
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None
    if start and start != MAGIC:
        raise InputError("not a review store", file=path)


def _make_tables(connection: Connection) -> None:
    """Make the tables, unless another program has just done so."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    if _is_empty(connection):
        tables.METADATA.create_all(connection, checkfirst=False)
        for _, statement in _guards():
            connection.exec_driver_sql(statement)
        for mark in (f"application_id = {APPLICATION}", f"user_version = {tables.VERSION}"):
            connection.exec_driver_sql(f"PRAGMA {mark}")
    connection.commit()


def _guards() -> Iterator[tuple[str, str]]:
    """Yield the triggers that keep what is only ever added to: names and statements."""
    for table in tables.APPENDED:
        for verb in ("UPDATE", "DELETE"):
            name = f"{table}_{verb.lower()}"
            problem = f"SELECT RAISE(ABORT, '{table}: only ever added to')"
            yield name, f"CREATE TRIGGER {name} BEFORE {verb} ON {table} BEGIN {problem}; END"


def _is_empty(connection: Connection) -> bool:
    marks = [_pragma(connection, name) for name in ("application_id", "user_version")]
    return not any([*marks, connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()])


def _pragma(connection: Connection, name: str) -> int:
    """Return a number that the file holds beside its tables."""
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())


def _columns(connection: Connection) -> set[tuple[str, str]]:
    """Return table and name of all columns."""
    found = connection.exec_driver_sql("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c")
    return {(table, column) for table, column in found}
