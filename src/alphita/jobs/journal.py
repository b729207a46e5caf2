"""The journal of a job: what is safely written, so that a killed job can go on where it was.

A file beside the output, readable by its owner only. Its first line says what the job is, each further line that one
more chunk of rows is durable and how long the part files then were. A line counts only if it is whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from alphita.errors import AlphitaError, InputError, UsageError


class Chunk(NamedTuple):
    """One durable chunk.

    Attributes:
        digest: of its input rows.
        lengths: length of each part file with this chunk, by suffix.
        counts: rows by outcome in this chunk.
        lost: what the output's format could not hold of it, counted by field or in words.
    """

    digest: str
    lengths: dict[str, int]
    counts: dict[str, int]
    lost: dict[str, int]


def refuse_other(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Make sure that a job may go on: all that it depends on is what it was when it began."""
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            raise UsageError(
                f"cannot resume: {name} was {before.get(name)!r} when the job began and is {now.get(name)!r} now; "
                "give the same, or begin anew with --force"
            )


class Journal:
    """An open, locked journal; use as a context manager."""

    def __init__(self, path: Path, job: dict[str, Any], *, date: str, resume: bool, force: bool) -> None:
        self.path, self.date = path, date
        self.chunks: list[Chunk] = []
        self.complete = False
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        self._file: IO[bytes] = os.fdopen(descriptor, "r+b")
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlphitaError(f"another alphita is writing this output now ({path})") from None
            lines = [] if force else self._whole_lines()
            if not lines:
                self._begin(job)
            elif not resume:
                raise UsageError(
                    f"an unfinished job is there ({path}); go on with --resume, or begin anew with --force"
                )
            else:
                self._go_on(lines, job)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Journal:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, which frees the lock."""
        self._file.close()

    def add(self, chunk: Chunk) -> None:
        """Record that a chunk is durable."""
        self._write(chunk._asdict())
        self.chunks.append(chunk)

    def mark_complete(self) -> None:
        """Record that every row is durable; what is left is to make the output of the parts."""
        self._write({"complete": True})
        self.complete = True

    def remove(self) -> None:
        """Remove the journal: the output is in its place, or nothing of the job is worth keeping."""
        self.path.unlink(missing_ok=True)

    def _whole_lines(self) -> list[dict[str, Any]]:
        """Read the lines up to the first that was cut short, and cut the file there."""
        lines: list[dict[str, Any]] = []
        length = 0
        for raw in self._file.read().splitlines(keepends=True):
            try:
                line = json.loads(raw) if raw.endswith(b"\n") else None
            except ValueError:
                line = None
            if line is None:
                break
            lines.append(line)
            length += len(raw)
        self._file.seek(length)
        self._file.truncate()
        return lines

    def _begin(self, job: dict[str, Any]) -> None:
        self._file.seek(0)
        self._file.truncate()
        try:
            self._write({"job": job, "date": self.date})
        except OSError:
            # Nothing has begun, so nothing is to be resumed.
            self.remove()
            raise

    def _go_on(self, lines: list[dict[str, Any]], job: dict[str, Any]) -> None:
        before, self.date = lines[0].get("job"), str(lines[0].get("date"))
        if not isinstance(before, dict):
            raise InputError("this is not a journal of alphita", file=self.path, remedy="begin anew with --force")
        refuse_other(before, job)
        self.complete = lines[-1].get("complete") is True
        try:
            self.chunks = [Chunk(**line) for line in lines[1 : -1 if self.complete else None]]
        except TypeError:
            raise InputError("this journal is damaged", file=self.path, remedy="begin anew with --force") from None

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
