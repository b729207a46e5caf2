"""What can go wrong with a review store, each with a class of its own, for the service answers each in another way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
