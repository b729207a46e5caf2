"""The part files of a job: what is written so far, beside the output, for its owner's eyes only."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from alphita.errors import InputError


def beside(out: Path, suffix: str) -> Path:
    """Return the file of a job that lies beside its output."""
    return out.with_name(out.name + suffix)


class Parts:
    """Open part files, to be appended to and made durable together; use as a context manager."""

    def __init__(self, out: Path, suffixes: Sequence[str], lengths: Mapping[str, int]) -> None:
        self._files: dict[str, IO[bytes]] = {}
        try:
            for suffix in suffixes:
                self._files[suffix] = _open(beside(out, suffix), lengths.get(suffix, 0))
        except BaseException:
            self._close()
            raise

    def append(self, suffix: str, content: bytes) -> None:
        """Append to a file."""
        self._files[suffix].write(content)

    def length(self, suffix: str) -> int:
        """Return the length of a file with all that was appended."""
        return self._files[suffix].tell()

    def read(self, suffix: str, start: int, end: int) -> bytes:
        """Return what is durable of a file from `start` to `end`."""
        return os.pread(self._files[suffix].fileno(), end - start, start)

    def sync(self) -> dict[str, int]:
        """Make all that was appended durable; return the lengths."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        return {suffix: file.tell() for suffix, file in self._files.items()}

    def __enter__(self) -> Parts:
        """Use as a context manager."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files."""
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()


def _open(path: Path, length: int) -> IO[bytes]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    file = os.fdopen(descriptor, "r+b")
    if os.fstat(descriptor).st_size < length:
        file.close()
        raise InputError("the part file is shorter than the journal says", file=path, remedy="begin anew with --force")
    file.truncate(length)
    file.seek(length)
    return file
