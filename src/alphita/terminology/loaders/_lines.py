"""Reading text files line by line: encodings, NUL bytes, lines without end."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from alphita.errors import InputError, Rejects, UsageError
from alphita.terminology.loaders._files import Member, reading

# A line longer than this is not of a terminology; reading stops growing there.
MAX_LINE_BYTES = 16 * 2**20
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_encoding(encoding: str) -> str:
    """Return the codec's own name.

    Raises:
        UsageError: there is no such encoding.
    """
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise UsageError(f"unknown encoding {encoding!r}; examples are utf-8, latin-1, cp1252, utf-16") from None


def lines(file: Path | Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without the line's end) of a text file.

    A line that cannot be decoded or that holds a NUL byte goes to `rejects` and is skipped.

    Raises:
        InputError: the file cannot be read, is empty, is UTF-16 and was not called so, or is packed and cut short.
        UsageError: there is no such encoding.
    """
    member = file if isinstance(file, Member) else Member(file)
    encoding = check_encoding(encoding)
    if encoding.startswith(("utf-16", "utf-32")):
        yield from _wide_lines(member, encoding, rejects)
        return
    number = 0
    with member.open() as opened:
        while raw := _next_line(opened, member, number):
            number += 1
            if number == 1:
                if raw.startswith(UTF16):
                    raise InputError(
                        "this file is UTF-16", file=member.place, remedy="name its encoding: encoding=utf-16"
                    )
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if b"\0" in raw:
                rejects.add("a NUL byte in the line", file=member.place, line=number, value=_shown(raw))
                continue
            try:
                line = raw.decode(encoding)
            except UnicodeDecodeError as error:
                problem = f"not {encoding}: byte 0x{raw[error.start]:02x}; name the right one: encoding=latin-1, say"
                rejects.add(problem, file=member.place, line=number, value=_shown(raw))
                continue
            yield number, line.rstrip("\r\n")


def _next_line(file: IO[bytes], member: Member, number: int) -> bytes:
    with reading(member.place, number or None, packing=member.packing):
        raw = file.readline(MAX_LINE_BYTES)
    if len(raw) == MAX_LINE_BYTES:
        problem = "a line of more than 16 MB: this is not a text file of the format"
        raise InputError(problem, file=member.place, line=number + 1)
    return raw


def _wide_lines(member: Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    with member.open() as file, io.TextIOWrapper(file, encoding=encoding, newline="\n") as text:
        try:
            for number, line in enumerate(text, 1):
                if "\0" in line:
                    rejects.add("a NUL character in the line", file=member.place, line=number)
                    continue
                yield number, line.rstrip("\r\n")
        except UnicodeError as error:
            raise InputError(f"not {encoding}: {error}", file=member.place) from None


def _shown(raw: bytes) -> str:
    return raw[:100].decode("ascii", "replace")
