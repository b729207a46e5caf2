"""Corpora: documents read one after the other from files of text, however large.

FILE.txt (or .md, or a name without an ending) holds a document a line; FILE.jsonl (or .ndjson, .json) a JSON object a
line, one field of which is the text. Either may be compressed (.gz). Any other ending is refused: a table read as text
would train on all its columns. What cannot be read is set aside, line by line, without its content, which may be
about patients.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.terminology.text import whole_characters

JSON_LINES = (".jsonl", ".ndjson", ".json")
PLAIN = (".txt", ".md", "")
# A longer line is taken for several documents, so that no line is too large for memory.
LONGEST = 1 << 22


def documents(paths: Iterable[Path], *, text_field: str = "text", rejects: Rejects | None = None) -> Iterator[str]:
    """Yield the text of every document; empty ones too."""
    aside = rejects if rejects is not None else Rejects()
    files = [(path, _ending(path)) for path in paths]
    for path, ending in files:
        is_json = ending in JSON_LINES
        try:
            with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else open(path, "rb") as file:
                stream = cast(BinaryIO, file)
                if ending == ".json":
                    _check_lines(stream, path)
                for number, line in textio.ended_lines(stream, path) if is_json else _pieces(stream):
                    text = _text(line, text_field if is_json else None, path, number, aside)
                    if text is not None:
                        yield whole_characters(text)
        except (OSError, EOFError, zlib.error) as error:
            problem = getattr(error, "strerror", None) or str(error)
            raise InputError(f"cannot be read: {problem}", file=path) from None


def _ending(path: Path) -> str:
    """Return the ending of a file's name, in lower case, that of compression aside."""
    ending = path.suffix.lower()
    if ending == ".gz":
        ending = path.with_suffix("").suffix.lower()
    if ending not in JSON_LINES + PLAIN:
        raise InputError(
            f"is no corpus by its ending, {ending!r}",
            file=path,
            remedy="give text with a document a line as FILE.txt, or FILE.jsonl with the text in a field of its own, "
            "either plain or .gz",
        )
    return ending


def _check_lines(file: BinaryIO, path: Path) -> None:
    """Refuse a file that is one JSON value, and not one a line; leave `file` at its start."""
    first = next((line for line in iter(lambda: file.readline(LONGEST), b"") if line.strip()), b"{}")
    file.seek(0)
    try:
        # A line that is longer is cut and cannot be looked at.
        entry = textio.json_value(first) if len(first) < LONGEST else {}
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or first.lstrip().startswith(b"["):
        raise InputError(
            "is one JSON value, not an object a line",
            file=path,
            remedy="write each document as an object on a line of its own: jq -c '.[]' FILE.json > FILE.jsonl",
        )


def blocks(texts: Iterable[str], characters: int) -> Iterator[list[str]]:
    """Yield the texts in lists of so many characters, or a few more; the last may have fewer."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size >= characters:
            yield block
            block, size = [], 0
    if block:
        yield block


def _pieces(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with their numbers, those that are too long in pieces that end with a word."""
    number, rest = 1, b""
    while line := file.readline(LONGEST):
        line = rest + line
        rest = b""
        whole = line.endswith(b"\n")
        if not whole and len(line) >= LONGEST:
            cut = line.rfind(b" ") + 1 or _last_character(line)
            line, rest = line[:cut], line[cut:]
        yield number, line
        number += whole
    if rest:
        yield number, rest


def _last_character(line: bytes) -> int:
    """Return where the last character of UTF-8 begins, which may lack its end."""
    start = len(line) - 1
    while start > len(line) - 4 and line[start] & 0xC0 == 0x80:
        start -= 1
    return start


def _text(line: bytes, field: str | None, path: Path, number: int, rejects: Rejects) -> str | None:
    """Return the text of one line, None if it is set aside; of a blank line of JSON Lines too."""
    try:
        decoded = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        rejects.add(f"no UTF-8: {error.reason}", file=path, line=number)
        return None
    if field is None:
        return decoded
    if not decoded.strip():
        return None
    try:
        entry: Any = textio.json_value(decoded)
    except ValueError as error:
        rejects.add(f"no JSON: {error}", file=path, line=number)
        return None
    if not isinstance(entry, dict):
        rejects.add("no JSON object", file=path, line=number)
    elif not isinstance(entry.get(field), str):
        rejects.add(f"no text in the field {field!r}", file=path, line=number, field=field)
    else:
        return str(entry[field])
    return None
