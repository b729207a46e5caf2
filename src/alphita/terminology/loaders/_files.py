"""Reading text files line by line: gzip, encodings, NUL bytes, cut-off files."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from alphita import artefact
from alphita.errors import InputError, Rejects, UsageError

GZIP_MAGIC = b"\x1f\x8b"
# A line longer than this is not of a terminology; reading stops growing there.
MAX_LINE_BYTES = 16 * 2**20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking gzip, which is told by its first bytes and not by its name.

    Raises:
        InputError: it does not exist, is a folder, cannot be read, or is empty.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        if not start:
            raise InputError("the file is empty", file=path)
        return gzip.open(path, "rb") if start == GZIP_MAGIC else open(path, "rb")  # type: ignore[return-value]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None


def check_encoding(encoding: str) -> str:
    """Return the codec's own name.

    Raises:
        UsageError: there is no such encoding.
    """
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise UsageError(f"unknown encoding {encoding!r}; examples are utf-8, latin-1, cp1252, utf-16") from None


def lines(path: Path, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without the line's end) of a text file.

    A line that cannot be decoded or that holds a NUL byte goes to `rejects` and is skipped.

    Raises:
        InputError: the file cannot be read, is empty, is UTF-16 and was not called so, or is gzip cut short.
        UsageError: there is no such encoding.
    """
    encoding = check_encoding(encoding)
    if encoding.startswith(("utf-16", "utf-32")):
        yield from _wide_lines(path, encoding, rejects)
        return
    number = 0
    with open_bytes(path) as file:
        while raw := _next_line(file, path, number):
            number += 1
            if number == 1:
                if raw.startswith(_UTF16):
                    raise InputError("this file is UTF-16", file=path, remedy="name its encoding: encoding=utf-16")
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if b"\0" in raw:
                rejects.add("a NUL byte in the line", file=path, line=number, value=_shown(raw))
                continue
            try:
                line = raw.decode(encoding)
            except UnicodeDecodeError as error:
                problem = f"not {encoding}: byte 0x{raw[error.start]:02x}; name the right one: encoding=latin-1, say"
                rejects.add(problem, file=path, line=number, value=_shown(raw))
                continue
            yield number, line.rstrip("\r\n")


def read_block(file: IO[bytes], path: Path, size: int) -> bytes:
    """Read up to `size` bytes; b"" at the end.

    Raises:
        InputError: the file cannot be read, or is gzip cut short.
    """
    with _reading(path, None):
        return file.read(size)


@contextmanager
def _reading(path: Path, line: int | None) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"the gzip file is damaged or cut short ({error})"
        raise InputError(problem, file=path, line=line, remedy="fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path, line=line) from None


def _next_line(file: IO[bytes], path: Path, number: int) -> bytes:
    with _reading(path, number or None):
        raw = file.readline(MAX_LINE_BYTES)
    if len(raw) == MAX_LINE_BYTES:
        raise InputError("a line of more than 16 MB: this is not a text file of the format", file=path, line=number + 1)
    return raw


def _wide_lines(path: Path, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
        try:
            for number, line in enumerate(text, 1):
                if "\0" in line:
                    rejects.add("a NUL character in the line", file=path, line=number)
                    continue
                yield number, line.rstrip("\r\n")
        except UnicodeError as error:
            raise InputError(f"not {encoding}: {error}", file=path) from None


def _shown(raw: bytes) -> str:
    return raw[:100].decode("ascii", "replace")


def source(path: Path, *, name: str, version: str | None = None, licence: str | None = None) -> dict[str, Any]:
    """Return a manifest's entry for a source file; of the path only the file's name, which says nothing private."""
    return {"name": name, "file": path.name, "version": version, "licence": licence,
            "sha256": artefact.hash_file(path)}  # fmt: skip
