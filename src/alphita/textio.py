"""The one reader of delimited text, of word lists and of JSON.

Commas stand between cells that may be in quotes. Between tabs quotes are text, unless the caller says otherwise.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import importlib.resources
import io
import json
import math
import re
import sys
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, AnyStr, NamedTuple, cast

from alphita.errors import InputError, Rejects, UsageError

# What a text may take with its values; and how many times its length that can be.
MAX_BYTES, MAX_DENSE = 2 * 2**30, 50
# Bytes that begin characters beyond U+00FF and beyond U+FFFF.
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")


def check(text: str | bytes) -> None:
    """Raise ValueError if a text in JSON takes more than `MAX_BYTES` with its values."""
    if len(text) * MAX_DENSE > MAX_BYTES and (memory := estimated(text)) > MAX_BYTES:
        most = f"{MAX_BYTES / 2**30:.1f} GB is the most"
        raise ValueError(f"too large: its values take about {memory / 2**30:.1f} GB of memory, and {most}")


def estimated(text: str | bytes) -> int:
    """Return about how many bytes a text takes with its values: hardly ever too few, at most some three times too
    many."""

    def count(sign: str) -> int:
        return text.count(sign) if isinstance(text, str) else text.count(sign.encode())

    lists, objects, keys = count("["), count("{"), count('":')
    values = count(",") + lists + objects
    strings = count('"') // 2 - keys
    numbers = max(0, values - strings - lists - objects)
    taken = 96 * lists + 192 * objects + 32 * keys + 64 * strings + 40 * numbers + 8 * values + len(text)
    if isinstance(text, str):
        return taken + sys.getsizeof(text)
    # Decoded, each character takes as much as the widest of all.
    width = 4 if _WIDEST.search(text) else 2 if _WIDE.search(text) else 1
    return taken + (width + 1) * len(text)


# A quote that is never closed would swallow the rows after it into one cell.
MAX_CELL_CHARACTERS = 1_000_000
UNCLOSED = "a quote is opened, and where it is closed the row does not end"


class CsvLines:
    """Hands lines to a CSV reader, and takes back those that it took for more of one row."""

    def __init__(self, lines: Iterator[str], first: int = 1) -> None:
        self._lines = lines
        self._ahead: deque[str] = deque()
        self._line = first
        self._closing = 0
        self.row: list[str] = []
        self.cells: float = math.inf

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        # Each of these lines ends a cell. To the reader the input ends here, within quotes: an error that it gets over.
        # Without it, lines that each close a quote and open one would be read again from every one of them on.
        if self._closing > self.cells:
            raise StopIteration
        line = self._ahead.popleft() if self._ahead else next(self._lines)
        if self.row and '"' in line.replace('""', ""):
            self._closing += 1
        self.row.append(line)
        return line

    def begin_row(self) -> int:
        """Begin the next row; return the number of its first line."""
        self._line += len(self.row)
        self.row.clear()
        self._closing = 0
        return self._line

    def take_back(self) -> str:
        """Let the row be its first line alone, which is returned; the others are read again."""
        self._ahead.extendleft(reversed(self.row[1:]))
        del self.row[1:]
        return self.row[0].rstrip("\r\n")


class Record(NamedTuple):
    """A row, its first line, and its cells; or why it is none, with the offending text."""

    number: int
    line: int
    cells: list[str]
    problem: str = ""
    value: str = ""


def records(lines: Iterator[str], delimiter: str, first: int = 1) -> Iterator[Record]:
    """Yield the header, as row 0, and the rows that are not empty."""
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    given = CsvLines(lines, first)
    reader = csv.reader(given, delimiter=delimiter, strict=True)
    header = next(reader, [])
    yield Record(0, first, header)
    given.cells = len(header)
    number = 0
    while True:
        line = given.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number += 1
            problem = UNCLOSED if len(given.row) > 1 else str(error)
            yield Record(number, line, [], f"not a row of this format: {problem}", given.take_back())
            continue
        if not cells:
            continue
        number += 1
        if len(cells) == len(header):
            yield Record(number, line, cells)
        elif any(later.count(delimiter) == len(header) - 1 for later in given.row[1:]):
            yield Record(number, line, [], f"not a row of this format: {UNCLOSED}", given.take_back())
        else:
            problem = f"{len(cells)} cells, but the header has {len(header)}"
            if len(given.row) > 1:
                problem += f" (lines {line} to {line + len(given.row) - 1})"
            yield Record(number, line, [], problem, delimiter.join(cells))


MAX_DIGITS = 18  # all that 64 bits hold
# Of what is held whole, and of a line of what is not.
MAX_WHOLE_BYTES, MAX_HELD_ROWS, MAX_LINE_CHARACTERS = 512 * 2**20, 4_000_000, 16 * 2**20
SPLIT_IT = "is it what it should be? then divide it into several files"
NO_TEXT = "not valid UTF-8 text"
GZIP_MAGIC = b"\x1f\x8b"
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
# Where a file begins with one of these, its encoding is not in doubt.
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# What may divide the cells of a table, the likelier first; and how much of one is looked at to find out.
DELIMITERS = ",\t;|"
LOOKED_AT_LINES, LOOKED_AT_CHARACTERS = 20, 2**20
# Lines one by one: a list of all, or `io.StringIO`, would take several times the text. CR CR LF is a CRLF made twice.
ENDED = re.compile(r"[^\r\n]*(?:\r{0,2}\n|\r)|[^\r\n]+")
TAB_SUFFIXES = (".tsv", ".tab")
# A first line that says to Excel what divides the cells.
_SEPARATOR = re.compile(r'"?sep=(?P<sign>[^\r\n"])"?(?P=sign)*[\r\n]*', re.IGNORECASE)


class Reading(NamedTuple):
    """How the text of a table is read.

    Attributes:
        encoding: its encoding; where a file begins with a byte order mark, that decides.
        option: the option that sets the encoding; "" if there is none.
        tell: takes a line on what was guessed of the file; None: nothing is said.
    """

    encoding: str = "utf-8"
    option: str = ""
    tell: Callable[[str], None] | None = None

    @property
    def remedy(self) -> str:
        """What to do about a text of another encoding."""
        return f"if a Windows program wrote it, say {self.option} cp1252" if self.option else "save the file as UTF-8"

    def decoder(self, start: bytes) -> str:
        """Return Python's name of the encoding of a file with this start."""
        if start.startswith(codecs.BOM_UTF8):
            return "utf-8-sig"
        return "utf-16" if start.startswith(UTF16) else self.encoding

    def delimiter(self, lines: Sequence[str], own: str, name: str | Path) -> str:
        """Return what divides the cells of a table, see `delimiter_of`; tell it if it is not its format's own."""
        found = delimiter_of(lines, own)
        if found != own and self.tell is not None:
            self.tell(f"{name}: the delimiter is {found!r}")
        return found


PLAIN = Reading()


def check_encoding(name: str) -> None:
    """Refuse an encoding that Python does not know, or that is none of text."""
    try:
        "\n".encode(name).decode(name)
    except (LookupError, UnicodeError):
        raise UsageError(f"unknown encoding {name!r}; e.g. utf-8, cp1252, latin-1, utf-16") from None


def delimiter_of(lines: Sequence[str], own: str) -> str:
    """Return what divides the cells of a table, going by its first lines: `own` if no other sign fits more rows.

    A sign fits a row that it divides into as many cells as the header, and these are several.
    """

    def fitting(sign: str) -> int:
        numbers = [len(cells) for cells in csv.reader(lines, delimiter=sign) if cells]
        return sum(number == numbers[0] for number in numbers[1:]) if numbers and numbers[0] > 1 else 0

    csv.field_size_limit(MAX_CELL_CHARACTERS)
    try:
        return max(dict.fromkeys(own + DELIMITERS), key=fitting)
    except csv.Error:
        return own


def separator_of(first: str) -> str:
    """Return what the first line of a table says that divides its cells: "sep=;"; "" if it says nothing of it."""
    told = _SEPARATOR.fullmatch(first)
    return told["sign"] if told else ""


def divided(lines: Iterator[str], own: str, name: str | Path, how: Reading | None) -> tuple[str, Iterator[str], int]:
    """Return what divides the cells of a table, its lines from the header on, and how many stand before that.

    With `how`, another delimiter than its own is found out.
    """
    first, lines = looked_at(lines)
    if first and (told := separator_of(first[0])):
        next(lines)
        return told, lines, 1
    return own if how is None else how.delimiter(first, own, name), lines, 0


def looked_at(lines: Iterator[str]) -> tuple[list[str], Iterator[str]]:
    """Return the first lines of a table, and all of them."""
    first: list[str] = []
    characters = 0
    for line in lines:
        first.append(line)
        characters += len(line)
        if len(first) >= LOOKED_AT_LINES or characters > LOOKED_AT_CHARACTERS:
            break
    return first, chain(first, lines)


def read_text(path: Path, *, errors: str = "strict", how: Reading = PLAIN) -> str:
    """Return the text of a file, gzipped or not."""
    content = read_bytes(path)
    try:
        return content.decode(how.decoder(content), errors)
    except UnicodeDecodeError as error:
        before, after = error.object[: error.start], error.object[error.start :]
        line = before.rpartition(b"\n")[2] + after.partition(b"\n")[0]
        raise InputError(
            f"not {how.encoding.upper()}: {error.reason}",
            file=path,
            line=before.count(b"\n") + 1,
            value=line.decode(errors="replace"),
            remedy=how.remedy,
        ) from None


def plain(path: Path) -> Path:
    """Return the path of a file that is read again and again; a pipe is none, and would be waited for."""
    if path.exists() and not path.is_file():
        raise InputError("not a plain file", file=path, remedy="give a file, which is read again when it changes")
    return path


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, unpacked, of which there must not be too many: a gzip file may unpack to anything."""
    with _unpacked(path) as file:
        return whole(file, path)


def whole(file: IO[AnyStr], name: str | Path) -> AnyStr:
    """Return all that an open file holds; an InputError if it is more than `MAX_WHOLE_BYTES` bytes or characters."""
    content = file.read(MAX_WHOLE_BYTES + 1)
    if len(content) > MAX_WHOLE_BYTES:
        raise InputError(f"more than {MAX_WHOLE_BYTES >> 20} MB, and it is read whole", file=name, remedy=SPLIT_IT)
    return content


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[io.BufferedReader[Any]]:
    """Open a file, gzipped or not; an InputError if it cannot be read."""
    try:
        with open(path, "rb") as raw:
            is_packed = path.suffix == ".gz" or raw.peek(2)[:2] == GZIP_MAGIC
            yield io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=raw))) if is_packed else raw
    except DAMAGED as error:
        raise InputError(f"cannot be read, for it is damaged: {error}", file=path, remedy="fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=path) from None


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a word list, read as `read_text` does, blank ones aside."""
    # Not `splitlines`: a string may hold U+2028, U+0085 and the like.
    for number, match in enumerate(ENDED.finditer(read_text(path)), 1):
        if match[0].strip():
            yield number, match[0].rstrip("\r\n")


def whole_number(text: str) -> int | None:
    """Return the whole number from 0 that a cell is, of at most 18 digits, white space around it aside; else None.

    Python takes signs of other scripts for digits, reads not all of those ("²"), and no number of thousands.
    """
    text = text.strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None


def json_value(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value that a text is in JSON."""
    check(text)
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_file(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """Return what a file says in JSON; who reads it says what it should be."""
    # Block by block: read() sets aside as many bytes as it is asked for.
    content = bytearray()
    with open(path, "rb") as file:
        while len(content) <= MAX_WHOLE_BYTES and (block := file.read(2**20)):
            content += block
    if len(content) > MAX_WHOLE_BYTES:
        raise ValueError(f"more than {MAX_WHOLE_BYTES >> 20} MB")
    return json_value(bytes(content))


def held_rows(path: Path, delimiter: str = ",", *, strip: bool = True) -> list[tuple[int, list[str]]]:
    """Return the `rows` of a table that is kept as a whole; an InputError if they are more than `MAX_HELD_ROWS`."""
    held = list(islice(rows(path, delimiter, strip=strip), MAX_HELD_ROWS + 1))
    if len(held) > MAX_HELD_ROWS:
        raise InputError(f"more than {MAX_HELD_ROWS:,} rows, which are all held", file=path, remedy=SPLIT_IT)
    return held


def rows(
    path: Path,
    delimiter: str = ",",
    *,
    quotes: bool | None = None,
    strip: bool = True,
    errors: str = "strict",
    how: Reading | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells) of each row that is not blank; rows may differ in length.

    With `how`, another delimiter than the given one is found out.
    """
    text = read_text(path, errors=errors, how=how or PLAIN)
    delimiter, lines, before = divided((match[0] for match in ENDED.finditer(text)), delimiter, path, how)
    has_quotes = delimiter != "\t" if quotes is None else quotes
    reader = csv.reader(
        lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE, strict=has_quotes
    )
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    while True:
        line = reader.line_num + 1 + before
        try:
            cells = next(reader, None)
        except csv.Error as error:
            problem = f"not a row of a table: {error}; a quote that is not closed?"
            raise InputError(problem, file=path, line=line) from None
        if cells is None:
            return
        if any(map(str.strip, cells)):
            yield line, [cell.strip() for cell in cells] if strip else cells


def columns(
    path: Path,
    needed: Sequence[str],
    delimiter: str = "",
    *,
    optional: Sequence[str] = (),
    remedy: str = "",
    quotes: bool | None = True,
    strip: bool = True,
    errors: str = "strict",
    how: Reading | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells of the columns asked for) of each row of a table with a header."""
    by_name = "\t" if path.name.lower().removesuffix(".gz").endswith(TAB_SUFFIXES) else ","
    table_rows = rows(path, delimiter or by_name, quotes=quotes, strip=strip, errors=errors, how=how)
    first, header = next(table_rows, (1, []))
    if not header:
        raise InputError("the file is empty", file=path, remedy=remedy or None)
    where: list[int | None] = [*places(header, needed, path, first, remedy)]
    where += [header.index(name) if name in header else None for name in optional]
    for line, cells in table_rows:
        if len(cells) != len(header):
            problem = f"{len(cells)} cells, but the header has {len(header)}"
            raise InputError(problem, file=path, line=line, value=", ".join(cells), remedy=remedy or None)
        yield line, ["" if place is None else cells[place] for place in where]


def places(
    header: Sequence[str], needed: Sequence[str], file: str | Path, line: int = 1, remedy: str = ""
) -> list[int]:
    """Return the places of columns in a header; case does not count where none is named so to the letter."""
    names, lower = [name.strip() for name in header], [name.strip().lower() for name in header]
    remedy = remedy or f"needs the columns {', '.join(needed)}"
    positions = []
    for name in needed:
        among, wanted = (names, name) if name in names else (lower, name.lower())
        _check_number(name, among.count(wanted), header, file, line, remedy)
        positions.append(among.index(wanted))
    return positions


def check_header(header: Sequence[str], needed: Sequence[str], file: str | Path, line: int, remedy: str = "") -> None:
    """See that the needed columns are there to the letter, and none of the header twice."""
    counts = Counter(header)
    for name in [*needed, *filter(None, counts)]:
        _check_number(name, counts[name], header, file, line, remedy or f"needs the columns {', '.join(needed)}")


def _check_number(name: str, number: int, header: Sequence[str], file: str | Path, line: int, remedy: str) -> None:
    if number == 1:
        return
    near = "".join(f"; did you mean {column!r}?" for column in get_close_matches(name, header, n=1, cutoff=0.5))
    problem = f"has the column {name!r} twice" if number else f"has no column {name!r}{near}"
    remedy = "rename or remove all but one" if number else remedy
    raise InputError(problem, file=file, line=line, field=name, value=", ".join(header) or None, remedy=remedy)


def packaged(package: str, name: str) -> list[dict[str, str]]:
    """Return the rows of a table with tabs and a header that lies in a package of ours."""
    text = importlib.resources.files(package).joinpath(name).read_text(encoding="utf-8")
    header, *table_rows = (line.split("\t") for line in text.split("\n") if line)
    return [dict(zip(header, cells, strict=True)) for cells in table_rows]


def unquoted(cell: str) -> str:
    """Return a cell without the quotes that a spreadsheet put around it and doubled inside it.

    Where one inside is not doubled, the outer ones are the text's own: "bulbs" and "onions".
    """
    inner = cell[1:-1]
    whole = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner.replace('""', "")
    return inner.replace('""', '"') if whole else cell


def tab_cells(line: str) -> list[str]:
    """Return the cells between the tabs of a line, stripped and `unquoted`."""
    return [unquoted(cell.strip()) for cell in line.split("\t")]


def line_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, of which one in quotes may hold the delimiter; an open quote means nothing."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return line.split(delimiter)


def line_rows(
    lines: Iterable[tuple[int, str]], header: Sequence[str], file: str, rejects: Rejects
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, cells by name) of lines with tabs; quotes stand around a cell or mean nothing.

    Spreadsheets and scripts quote some cells of such files and leave lone quotes in others, so that a reader of CSV
    would run over the ends of lines. Blank lines are passed over, rows of another length go to `rejects`.
    """
    for number, line in lines:
        if not line or line.isspace():
            continue
        cells = tab_cells(line)
        if len(cells) != len(header):
            problem = f"{len(cells)} cells, but the header has {len(header)}"
            rejects.add(problem, file=file, line=number, value=line)
            continue
        yield number, dict(zip(header, cells, strict=True))


def ended_lines(file: IO[AnyStr], name: str | Path) -> Iterator[tuple[int, AnyStr]]:
    """Yield (1-based number, line with its end) of an open file, none of which is held that has no end."""
    number = 0
    while line := file.readline(MAX_LINE_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARACTERS:
            problem = f"a line of more than {MAX_LINE_CHARACTERS >> 20} million characters"
            raise InputError(problem, file=name, line=number, remedy="is it a text file, with a row a line?")
        yield number, line


def decoded_lines(file: io.BufferedReader[Any], name: str | Path, how: Reading = PLAIN) -> Iterator[str]:
    """Yield the lines of an open file with their ends; bytes that are no text become lone surrogates.

    The file stays open.
    """
    start = file.peek(io.DEFAULT_BUFFER_SIZE)
    # Old files end their lines by CR alone.
    newline = "" if b"\r" in start[:-2] and b"\n" not in start else "\n"
    text = io.TextIOWrapper(file, how.decoder(start), "surrogateescape", newline=newline)
    try:
        for _, line in ended_lines(text, name):
            yield line
    except UnicodeError as error:
        raise InputError(f"not {how.encoding}: {error}", file=name, remedy=how.remedy) from None
    finally:
        if not text.closed:
            text.detach()


def streamed(path: Path, how: Reading = PLAIN) -> Iterator[tuple[int, str]]:
    """Yield (1-based number, line with its end); see `decoded_lines`. The file may be gzipped."""
    number = 0
    with _unpacked(path) as file:
        for number, line in enumerate(decoded_lines(file, path, how), 1):
            yield number, line
    if not number:
        raise InputError("the file is empty", file=path)


def table(
    path: Path, delimiter: str, needed: Sequence[str], rejects: Rejects, *, after: int = 0, how: Reading | None = None
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, cells by column name) of a delimited file with a header and quotes where needed.

    With `how`, another delimiter than the given one is found out.
    """
    given = (line for number, line in streamed(path, how or PLAIN) if number > after)
    delimiter, lines, before = divided(given, delimiter, path, how)
    place = after + before + 1
    rows_read = records(lines, delimiter, place)
    try:
        header = next(rows_read).cells
    except csv.Error as error:
        raise InputError(f"the header cannot be read: {error}", file=path, line=place) from None
    check_header(header, needed, path, place)
    for _, line, cells, problem, value in rows_read:
        if problem:
            rejects.add(problem, file=path, line=line, value=value)
        elif all(map(is_text, cells)):
            yield line, dict(zip(header, cells, strict=True))
        else:
            name, cell = next(pair for pair in zip(header, cells, strict=True) if not is_text(pair[1]))
            problem = f"{NO_TEXT}; {how.remedy}" if how and how.option and "\0" not in cell else NO_TEXT
            rejects.add(problem, file=path, line=line, field=name, value=cell)


def is_text(cell: str) -> bool:
    """Return whether a string has no NUL, and no lone surrogates, which stand for bytes that were no UTF-8."""
    try:
        return b"\0" not in cell.encode("utf-8")
    except UnicodeEncodeError:
        return False
