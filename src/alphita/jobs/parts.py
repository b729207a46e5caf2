"""What a job has done so far: part files in a folder, each whole or absent, on a disk or behind a URL of fsspec.

FOLDER/job.json, chunks/00017, drafts/    the job's identity; what task 17 made; files being written
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from alphita import artefact
from alphita.errors import AlphitaError, InputError, UsageError
from alphita.options import Restart

PARQUET = (".parquet", ".parq", ".pq")
_SECRET = re.compile(r"(?<=://)[^/@]*@")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Place:
    """A file or a folder."""

    url: str

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return _SECRET.sub("", self.url)

    @property
    def name(self) -> str:
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def is_local(self) -> bool:
        protocol = self._opened()[0].protocol
        return "local" in ((protocol,) if isinstance(protocol, str) else protocol)

    def exists(self) -> bool:
        with self._using("could not be read") as (fs, path):
            fs.invalidate_cache()
            return bool(fs.exists(path))

    def size(self) -> int:
        with self._using("could not be read") as (fs, path):
            return int(fs.size(path))

    @contextmanager
    def reading(self) -> Iterator[IO[bytes]]:
        with self._using("could not be read") as (fs, path):
            file = fs.open(path, "rb")
        with file:
            yield file

    def content(self) -> bytes:
        with self.reading() as file, self._errors("could not be read"):
            return bytes(file.read())

    def names(self) -> list[str]:
        """Return the names of what lies in this folder, in order; none if there is no such folder."""
        with self._using("could not be read") as (fs, path):
            fs.invalidate_cache()
            if not fs.isdir(path):
                return []
            return sorted(str(path_inside).rstrip("/").rpartition("/")[2] for path_inside in fs.ls(path, detail=False))

    def make(self, *, private: bool = False) -> None:
        with self._using("could not be made") as (fs, path):
            if private and self.is_local and not os.path.exists(path):
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path, 0o700)
            fs.makedirs(path, exist_ok=True)

    def remove(self) -> None:
        """Remove this file or folder with all that is in it, if it is there."""
        with self._using("could not be removed") as (fs, path), contextlib.suppress(FileNotFoundError):
            fs.rm(path, recursive=True)

    def move_aside(self) -> Place:
        """Rename this folder to NAME.old-1 (-2, ...), as artefacts are; return what it is called now."""
        number = 1
        while (old := Place(f"{self.url.rstrip('/')}.old-{number}")).exists():
            number += 1
        with self._using("could not be moved aside") as (fs, path):
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
        with self._using("could not be read", search=True) as (fs, path):
            fs.invalidate_cache()
            if _WILD.search(path) and not fs.exists(path):
                paths = [file_path for file_path in fs.glob(path) if fs.isfile(file_path)]
            elif fs.isdir(path):
                base = path.rstrip("/")
                paths = [
                    file_path
                    for file_path in fs.find(path)
                    if file_path.lower().endswith(PARQUET)
                    and not any(part[:1] in "._" for part in file_path[len(base) :].strip("/").split("/"))
                ]
            else:
                paths = [path] if fs.exists(path) else []
        if not paths:
            raise InputError("no Parquet file is there", file=str(self), remedy="give a file, a folder or a pattern")
        return [self._place(file_path) for file_path in sorted(paths)]

    def folders_with(self, *names: str) -> list[Place]:
        """Return the folders below this one that hold a file of one of these names; none if this is no folder."""
        with self._using("could not be read", search=True) as (fs, path):
            locations = [folder.rpartition("/") for folder in fs.find(path)] if fs.isdir(path) else []
        base = path.rstrip("/")
        return [
            self._place(folder)
            for folder in sorted({folder for folder, _, name in locations if name in names and folder != base})
        ]

    def folders_matched(self, files: Sequence[Place]) -> list[Place]:
        """Return the folders that files of this pattern lie in, below its part without wildcards; else none."""
        fs, path = self._opened(search=True)
        wild = _WILD.search(path)
        if wild is None or fs.exists(path):
            return []
        base = self._place(path[: wild.start()].rpartition("/")[0]).url.rstrip("/") + "/"
        folders = set()
        for file in files:
            folder = file.url.rpartition("/")[0]
            while folder.startswith(base) and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return [Place(folder) for folder in sorted(folders)]

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
    def _using(self, what: str, *, search: bool = False) -> Iterator[tuple[Any, str]]:
        """Give the file system and the path in it, as `_opened` does; an error of its says `what`."""
        opened = self._opened(search=search)
        with self._errors(what):
            yield opened

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


JOB, DRAFTS, CHUNKS, SUFFIX = "job.json", "drafts", "chunks", ".parts"
_NUMBER = re.compile(r"\d{5,}")


@dataclass(frozen=True)
class Parts:
    """The parts of a job."""

    place: Place
    private: bool = True

    @classmethod
    def beside(cls, out: Path) -> Self:
        return cls(Place(str(beside(out, SUFFIX))))

    @property
    def exist(self) -> bool:
        return self.place.exists()

    @property
    def drafts(self) -> Place:
        return self.place / DRAFTS

    def make(self, *folders: str) -> None:
        for place in (self.place, *(self.place / folder for folder in (DRAFTS, *folders))):
            place.make(private=self.private)

    @contextmanager
    def whole(self, name: str) -> Iterator[IO[bytes]]:
        """Write a part, whole or not at all; one that is there is replaced."""
        with (self.place / name).whole(self.drafts, private=self.private) as file:
            yield file

    def put(self, name: str, content: bytes) -> None:
        with self.whole(name) as file:
            file.write(content)

    def put_json(self, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        self.put(name, (json.dumps(value, indent=1) + "\n").encode())

    def get(self, name: str) -> bytes:
        return (self.place / name).content()

    def done(self, folder: str) -> set[int]:
        """Return the tasks whose part is in a folder: part-00017.arrow is that of 17."""
        return {int(number[0]) for name in (self.place / folder).names() if (number := _NUMBER.search(name))}

    def begin(self, job: Mapping[str, Any], date: str, restart: Restart) -> str:
        """Begin a job of chunks, or go on with it; return the date of its beginning."""
        names = set(self.place.names())
        if names - {JOB, DRAFTS, CHUNKS} or (self.exist and not Path(self.place.url).is_dir()):
            raise UsageError(f"{self.place} holds something else than the parts of a job; choose another name")
        if restart.force or JOB not in names:
            self.place.remove()
        if not self.exist:
            try:
                self.make(CHUNKS)
                self.put_json(JOB, {"job": job, "date": date})
            except BaseException:
                self.place.remove()
                raise
            return date
        if not restart.resume:
            raise UsageError(
                f"an unfinished job is there ({self.place}); go on with --resume, or begin anew with --force"
            )
        try:
            record = json.loads(self.get(JOB))
            before, date = dict(record["job"]), str(record["date"])
        except (ValueError, KeyError, TypeError):
            what = "this is not a job of alphita"
            raise InputError(what, file=str(self.place / JOB), remedy="begin anew with --force") from None
        refuse_other(before, job)
        # A kill while a finished job's parts were removed may have left some of them.
        self.make(CHUNKS)
        return date

    def put_chunk(self, number: int, chunk: Chunk) -> None:
        lengths = {name: len(content) for name, content in chunk.content.items()}
        head = json.dumps([chunk.digest, chunk.counts, chunk.lost, lengths]).encode()
        with self.whole(f"{CHUNKS}/{number:05}") as file:
            file.writelines((head, b"\n", *chunk.content.values()))

    def chunk(self, number: int) -> Chunk:
        """Read a finished chunk; raise `InputError` if it is damaged."""
        head, _, rest = self.get(f"{CHUNKS}/{number:05}").partition(b"\n")
        try:
            digest, counts, lost, lengths = json.loads(head)
            content, start = {}, 0
            for name, length in lengths.items():
                content[name], start = rest[start : start + length], start + length
        except (ValueError, TypeError, AttributeError):
            start = -1
        if start != len(rest):
            file = str(self.place / CHUNKS / f"{number:05}")
            raise InputError("this part is damaged", file=file, remedy="begin anew with --force")
        return Chunk(digest, counts, lost, content)

    def chunks(self) -> int:
        """Return how many chunks are durable, from the first on."""
        done = self.done(CHUNKS)
        return next(number for number in range(len(done) + 1) if number not in done)


class Chunk(NamedTuple):
    """What was made of a run of an input's rows."""

    digest: str
    counts: dict[str, int]
    lost: dict[str, int]
    content: dict[str, bytes]


def refuse_other(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Make sure that a job may go on: all that it depends on is what it was when it began."""
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            raise UsageError(
                f"cannot resume: {name} was {before.get(name)!r} when the job began and is {now.get(name)!r} now; "
                "give the same, or begin anew with --force"
            )


def beside(out: Path, suffix: str) -> Path:
    """Return the file of a job that lies beside its output."""
    return out.with_name(out.name + suffix)


@contextmanager
def locked(out: str) -> Iterator[None]:
    """Keep others from writing the same output, where it lies on a disk."""
    if not Place(out).is_local:
        yield
        return
    path = Path(f"{out}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise AlphitaError(f"could not write {out}: {error.strerror or error}; nothing was changed") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that was at work when this one opened it has removed it since.
            os.stat(path)
        except (BlockingIOError, FileNotFoundError):
            raise AlphitaError(f"another alphita is writing this output now ({path})") from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def telling_what_is_kept(out: Path, parts: Parts) -> Iterator[None]:
    """Say of a failed write what can be done."""
    try:
        yield
    except (OSError, AlphitaError) as error:
        cause = error.__cause__ if str(error).startswith(parts.place.url) else error
        if not isinstance(cause, OSError):
            raise
        what_now = "make room and go on with --resume" if parts.exist else "nothing was changed"
        raise AlphitaError(f"could not write {out}: {cause.strerror or cause}; {what_now}") from error
