"""Files and folders of a job, on this machine's disk or behind any URL that fsspec knows.

A file appears whole or not at all: it is written under another name, among the drafts of its job, and renamed. (An
object store has no renaming: there the copy appears whole.)
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError

PARQUET = (".parquet", ".parq", ".pq")
_SECRET = re.compile(r"(?<=://)[^/@]*@")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Place:
    """A file or a folder.

    Attributes:
        url: a path of this machine, or a URL such as s3://bucket/folder.
    """

    url: str

    def __truediv__(self, name: str) -> Place:
        """Return what lies in this folder under a name."""
        return Place(f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        """Return what messages show: no user and no password."""
        return _SECRET.sub("", self.url)

    @property
    def name(self) -> str:
        """The last part of the name."""
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine."""
        protocol = self._opened()[0].protocol
        return "local" in ((protocol,) if isinstance(protocol, str) else protocol)

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        fs, path = self._opened()
        with self._errors("could not be read"):
            fs.invalidate_cache()
            return bool(fs.exists(path))

    def size(self) -> int:
        """Return its bytes."""
        fs, path = self._opened()
        with self._errors("could not be read"):
            return int(fs.size(path))

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        """Open a file for reading."""
        fs, path = self._opened()
        with self._errors("could not be read"):
            file = fs.open(path, "rb")
        with file:
            yield file

    def content(self) -> bytes:
        """Return the content of a file; see `reading`."""
        with self.reading() as file, self._errors("could not be read"):
            return bytes(file.read())

    def names(self) -> list[str]:
        """Return the names of what lies in this folder, in order; none if there is no such folder."""
        fs, path = self._opened()
        with self._errors("could not be read"):
            fs.invalidate_cache()
            if not fs.isdir(path):
                return []
            return sorted(str(one).rstrip("/").rpartition("/")[2] for one in fs.ls(path, detail=False))

    def make(self, *, private: bool = False) -> None:
        """Make this folder, if it is not there."""
        fs, path = self._opened()
        with self._errors("could not be made"):
            if private and self.is_local and not os.path.exists(path):
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, 0o700)
            fs.makedirs(path, exist_ok=True)

    def remove(self) -> None:
        """Remove this file or folder with all that is in it, if it is there."""
        fs, path = self._opened()
        with self._errors("could not be removed"), contextlib.suppress(FileNotFoundError):
            fs.rm(path, recursive=True)

    def move_aside(self) -> Place:
        """Rename this folder to NAME.old-1 (-2, ...), as artefacts are; return what it is called now."""
        number = 1
        while (old := Place(f"{self.url.rstrip('/')}.old-{number}")).exists():
            number += 1
        fs, path = self._opened()
        with self._errors("could not be moved aside"):
            fs.mv(path.rstrip("/"), old._opened()[1], recursive=True)
        return old

    @contextmanager
    def whole(self, drafts: Place, *, private: bool = False) -> Iterator[IO[bytes]]:
        """Write a file, whole or not at all; one that is there is replaced."""
        fs, path = self._opened()
        draft = (drafts / f"{self.name}.{secrets.token_hex(6)}")._opened()[1]
        local = self.is_local
        try:
            with self._errors("could not be written"):
                if local:
                    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
                    file: IO[bytes] = os.fdopen(descriptor, "wb")
                else:
                    file = fs.open(draft, "wb")
                with file:
                    yield file
                    if local:
                        file.flush()
                        os.fsync(file.fileno())
                if local:
                    os.replace(draft, path)
                else:
                    fs.mv(draft, path)
        except BaseException:
            with contextlib.suppress(OSError):
                fs.rm(draft)
            raise

    def parquet_files(self) -> list[Place]:
        """Return the Parquet files that this names, in order of their names: a file, a folder's, or a pattern's."""
        fs, path = self._opened(search=True)
        with self._errors("could not be read"):
            fs.invalidate_cache()
            if _WILD.search(path) and not fs.exists(path):
                found = [one for one in fs.glob(path) if fs.isfile(one)]
            elif fs.isdir(path):
                base = path.rstrip("/")
                found = [
                    one
                    for one in fs.find(path)
                    if one.lower().endswith(PARQUET)
                    and not any(part[:1] in "._" for part in one[len(base) :].strip("/").split("/"))
                ]
            else:
                found = [path] if fs.exists(path) else []
        if not found:
            raise InputError("no Parquet file is there", file=str(self), remedy="give a file, a folder or a pattern")
        return [self._place(one) for one in sorted(found)]

    def folders_with(self, *names: str) -> list[Place]:
        """Return the folders below this one that hold a file of one of these names; none if this is no folder."""
        fs, path = self._opened(search=True)
        with self._errors("could not be read"):
            found = [one.rpartition("/") for one in fs.find(path)] if fs.isdir(path) else []
        base = path.rstrip("/")
        return [self._place(one) for one in sorted({one for one, _, name in found if name in names and one != base})]

    def folders_matched(self, files: Sequence[Place]) -> list[Place]:
        """Return the folders that files of this pattern lie in, below its part without wildcards; else none."""
        fs, path = self._opened(search=True)
        wild = _WILD.search(path)
        if wild is None or fs.exists(path):
            return []
        base = self._place(path[: wild.start()].rpartition("/")[0]).url.rstrip("/") + "/"
        found = set()
        for file in files:
            folder = file.url.rpartition("/")[0]
            while folder.startswith(base) and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return [Place(folder) for folder in sorted(found)]

    def _place(self, path: str) -> Place:
        """Return a path that the file system gave as it is called here."""
        fs, own = self._opened(search=True)
        base = own.rstrip("/")
        return Place(self.url.rstrip("/") + path[len(base) :] if path.startswith(base) else fs.unstrip_protocol(path))

    def _opened(self, *, search: bool = False) -> tuple[Any, str]:
        """Return the file system, which can search on demand, and the path in it."""
        if not search and ":" not in self.url:
            return _Disk, self.url
        import fsspec

        try:
            fs, path = fsspec.core.url_to_fs(self.url)
        except ImportError as error:
            raise UsageError(f"{self} needs a package that is not installed: {error}") from None
        except ValueError as error:
            raise UsageError(f"{self} is no path or URL that can be used: {error}") from None
        except OSError as error:
            raise AlphitaError(f"{self}: {_said(error)}") from None
        return fs, str(path)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise InputError(f"{what}: there is no such file or folder", file=str(self)) from error
        except OSError as error:
            raise AlphitaError(f"{self} {what}: {_said(error)}") from error


def _said(error: OSError) -> str:
    return _SECRET.sub("", error.strerror or str(error) or type(error).__name__)


def everywhere(path: str) -> str:
    """Return a path as a process that works in another folder finds it; a URL as it is."""
    path = path.removeprefix("file://")
    return path if "://" in path else os.path.normpath(artefact.absolute(Path(path).expanduser()))


class _Disk:
    """What is used of a file system of fsspec, whose import takes a while, for paths of this machine."""

    protocol = "local"
    exists, isdir, size, open = os.path.exists, os.path.isdir, os.path.getsize, open
    makedirs = os.makedirs

    @staticmethod
    def invalidate_cache() -> None:
        pass

    @staticmethod
    def ls(path: str, detail: bool) -> list[str]:
        return os.listdir(path)

    @staticmethod
    def rm(path: str, recursive: bool = False) -> None:
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

    @staticmethod
    def mv(path: str, target: str, recursive: bool = False) -> None:
        os.rename(path, target)
