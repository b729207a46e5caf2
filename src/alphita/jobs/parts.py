"""What a job has done so far: part files in a folder, each there whole or not at all.

    FOLDER/job.json         what makes it the same job when it goes on, and when it began
    FOLDER/chunks/00017     what task 17 of a step has made: if it is there, the task is done
    FOLDER/drafts/          files that are being written

There is no other record of what is done: a job that was broken off goes on with the parts that are missing. One file's
tasks are its chunks, done one after another; an engine does those of a folder in any order, on any machine.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from alphita.errors import AlphitaError, InputError, UsageError
from alphita.jobs.place import Place

JOB, DRAFTS, CHUNKS, SUFFIX = "job.json", "drafts", "chunks", ".parts"
_NUMBER = re.compile(r"\d{5,}")


@dataclass(frozen=True)
class Parts:
    """The parts of a job.

    Attributes:
        private: files are for their owner alone, where they lie on a disk.
    """

    place: Place
    private: bool = True

    @classmethod
    def beside(cls, out: Path) -> Self:
        """Return the parts of a job with one output."""
        return cls(Place(str(beside(out, SUFFIX))))

    @property
    def exist(self) -> bool:
        """Whether a job began here, and has not ended."""
        return self.place.exists()

    @property
    def drafts(self) -> Place:
        """The folder of files that are being written."""
        return self.place / DRAFTS

    def make(self, *folders: str) -> None:
        """Make the folders."""
        for place in (self.place, *(self.place / folder for folder in (DRAFTS, *folders))):
            place.make(private=self.private)

    @contextmanager
    def whole(self, name: str) -> Iterator[IO[bytes]]:
        """Write a part, whole or not at all; one that is there is replaced."""
        with (self.place / name).whole(self.drafts, private=self.private) as file:
            yield file

    def put(self, name: str, content: bytes) -> None:
        """Write a part."""
        with self.whole(name) as file:
            file.write(content)

    def put_json(self, name: str, value: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write a part of JSON."""
        self.put(name, (json.dumps(value, indent=1) + "\n").encode())

    def get(self, name: str) -> bytes:
        """Return a part."""
        return (self.place / name).content()

    def done(self, folder: str) -> set[int]:
        """Return the tasks whose part is in a folder: part-00017.arrow is that of 17."""
        return {int(number[0]) for name in (self.place / folder).names() if (number := _NUMBER.search(name))}

    def begin(self, job: Mapping[str, Any], date: str, *, resume: bool, force: bool) -> str:
        """Begin a job of chunks, or go on with it; return the date of its beginning."""
        names = set(self.place.names())
        if names - {JOB, DRAFTS, CHUNKS} or (self.exist and not Path(self.place.url).is_dir()):
            raise UsageError(f"{self.place} holds something else than the parts of a job; choose another name")
        if force or JOB not in names:
            self.place.remove()
        if not self.exist:
            try:
                self.make(CHUNKS)
                self.put_json(JOB, {"job": job, "date": date})
            except BaseException:
                self.place.remove()
                raise
            return date
        if not resume:
            raise UsageError(
                f"an unfinished job is there ({self.place}); go on with --resume, or begin anew with --force"
            )
        try:
            found = json.loads(self.get(JOB))
            before, date = dict(found["job"]), str(found["date"])
        except (ValueError, KeyError, TypeError):
            what = "this is not a job of alphita"
            raise InputError(what, file=str(self.place / JOB), remedy="begin anew with --force") from None
        refuse_other(before, job)
        # A kill while a finished job's parts were removed may have left some of them.
        self.make(CHUNKS)
        return date

    def put_chunk(self, number: int, chunk: Chunk) -> None:
        """Make a chunk durable."""
        lengths = {name: len(content) for name, content in chunk.content.items()}
        head = json.dumps([chunk.digest, chunk.counts, chunk.lost, lengths]).encode()
        with self.whole(f"{CHUNKS}/{number:05}") as file:
            file.writelines((head, b"\n", *chunk.content.values()))

    def chunk(self, number: int) -> Chunk:
        """Read a chunk that is durable."""
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
    """What was made of a run of an input's rows.

    Attributes:
        digest: of the rows.
        counts: rows by outcome.
        lost: what the output's format could not hold of it, counted by field or in words.
    """

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
