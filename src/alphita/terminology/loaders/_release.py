"""Releases of large terminologies: finding their files in folders and zip archives, and reading those in bulk.

The bulk files (SNOMED CT's RF2, OMOP's CSV) are lines of cells with one delimiter and no quoting, millions of them.
They are read in blocks. A block in which every line has its number of cells goes through polars at once; any other is
read line by line, so that each bad line is reported with its number.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl

from alphita import artefact
from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _files

ZIP_MAGIC = b"PK\x03\x04"
BLOCK_BYTES = 32 * 2**20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ISO_639_1 = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee "
    "el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is "
    "it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms "
    "mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk "
    "sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi "
    "yo za zh zu "
)
# By these RF2 and LOINC name languages; a code beyond them is refused.
LANGUAGES = frozenset(_ISO_639_1.split())


@dataclass(frozen=True)
class Member:
    """A file of a release: a plain one, or one inside a zip archive.

    Attributes:
        path: the file, or the archive.
        inside: its name in the archive; "" for a plain file.
    """

    path: Path
    inside: str = ""

    @property
    def name(self) -> str:
        """The file's own name, without folders and without ".gz"."""
        return (self.inside or self.path.name).rpartition("/")[2].removesuffix(".gz")

    @property
    def place(self) -> str:
        """How it is named in rejects and errors."""
        return f"{self.path}/{self.inside}" if self.inside else str(self.path)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading; gzip is unpacked.

        Raises:
            InputError: it cannot be read, is empty, or is an archive cut short.
        """
        with _reading(self):
            if not self.inside:
                with _files.open_bytes(self.path) as file:
                    yield file
                return
            with zipfile.ZipFile(self.path) as archive, archive.open(self.inside) as file:
                yield file


@contextmanager
def _reading(member: Member) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        problem = f"the archive is damaged or cut short ({error})"
        raise InputError(problem, file=member.place, remedy="fetch it again") from None
    except RuntimeError as error:
        if not member.inside:
            raise
        # zipfile's way to ask for a password.
        raise InputError(f"the archive cannot be read: {error}", file=member.place) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=member.place) from None


def members(paths: Sequence[Path]) -> list[Member]:
    """Return the files that the paths mean: those of a folder and its folders, of a zip archive, or the file itself.

    Raises:
        InputError: a path does not exist, is empty, or is a damaged archive.
    """
    found: list[Member] = []
    for path in map(Path, paths):
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not file.name.startswith("."):
                    found += _expanded(file)
        else:
            found += _expanded(path, must_exist=True)
    return list(dict.fromkeys(found))


def _expanded(path: Path, *, must_exist: bool = False) -> list[Member]:
    """Return the file as one member, or those of the zip archive that it is."""
    if path.suffix != ".zip" and not must_exist:
        return [Member(path)]
    with _files.open_bytes(path) as file:
        is_zip = _files.read_block(file, path, len(ZIP_MAGIC)) == ZIP_MAGIC
    if not is_zip:
        return [Member(path)]
    with _reading(Member(path)), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    return [Member(path, name) for name in sorted(names)]


def sources(read: Sequence[Member], name: str, version: Callable[[Member], str | None]) -> list[dict[str, Any]]:
    """Return the manifest's entries: one a file, an archive being one file, whatever was read of it."""
    found = {}
    for member in read:
        if member.path not in found:
            found[member.path] = {
                "name": name, "file": member.path.name, "version": version(member), "licence": None,
                "sha256": artefact.hash_file(member.path),
            }  # fmt: skip
    return list(found.values())


# --- bulk reading ----------------------------------------------------------------------------------------------------


def read_unquoted(
    member: Member,
    columns: Sequence[str],
    rejects: Rejects,
    *,
    optional: Sequence[str] = (),
    delimiter: str = "\t",
    prepare: Callable[[pl.DataFrame], pl.DataFrame] = lambda frame: frame,
) -> pl.DataFrame:
    """Read the columns of that name, and the column `line`, of a file with a header and without quoting.

    A line with more or fewer cells than the header, that is not UTF-8, or that has a NUL byte goes to `rejects`.

    Args:
        member: the file.
        columns: those that must be there; the header's spelling may differ in case.
        rejects: takes bad lines.
        optional: columns that are "" throughout where the file lacks them.
        delimiter: between cells.
        prepare: applied to each block of rows, to make it small before the blocks are put together.

    Raises:
        InputError: the file cannot be read, is empty or cut short, or lacks a column.
    """
    with member.open() as file:
        header = _header(file, member, delimiter)
        names = [name.casefold() for name in header]
        missing = [name for name in columns if name.casefold() not in names]
        if missing:
            raise InputError(
                f"no column {missing[0]!r}; its first line has {[name[:40] for name in header[:20]]}",
                file=member.place, line=1, remedy="is it another kind of file?",
            )  # fmt: skip
        wanted = {name: names.index(name.casefold()) for name in (*columns, *optional) if name.casefold() in names}
        parser = _Parser(member, delimiter, len(header), wanted, rejects)
        frames = [prepare(parser.frame(block)) for block in _blocks(file, member)]
    if not frames:
        frames = [prepare(parser.empty())]
    frame = pl.concat(frames)
    lacking = [name for name in optional if name not in wanted]
    return frame.with_columns(pl.lit("").alias(name) for name in lacking) if lacking else frame


def _header(file: IO[bytes], member: Member, delimiter: str) -> list[str]:
    raw = file.readline(2**20)
    if raw.startswith(_UTF16):
        raise InputError("this file is UTF-16; the format is UTF-8", file=member.place)
    if not raw.strip():
        raise InputError("the file is empty" if not raw else "its first line is empty", file=member.place)
    try:
        line = raw.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise InputError("its first line is not UTF-8: not a file of the format", file=member.place, line=1) from None
    return [name.strip() for name in line.rstrip("\r\n").split(delimiter)]


def _blocks(file: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield blocks of whole lines, each ending in a line end."""
    rest = b""
    while data := file.read(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            if len(rest) > 2 * BLOCK_BYTES:
                raise InputError("a line of more than 64 MB: not a text file of the format", file=member.place)
            continue
        yield rest + data[:end]
        rest = data[end:]
    if rest:
        yield rest + b"\n"


class _Parser:
    """Turns blocks of lines into frames, counting lines on the way."""

    def __init__(self, member: Member, delimiter: str, n_cells: int, wanted: dict[str, int], rejects: Rejects) -> None:
        self.member, self.delimiter, self.n_cells, self.rejects = member, delimiter, n_cells, rejects
        # By the place in the file, as polars returns them. Two wanted names are never one place.
        self.wanted = dict(sorted(wanted.items(), key=lambda item: item[1]))
        marks = delimiter.encode() + b"\n"
        self.others = bytes(set(range(256)) - set(marks))
        self.marks_of_a_line = delimiter.encode() * (n_cells - 1) + b"\n"
        self.line = 2

    def empty(self) -> pl.DataFrame:
        """Return the frame of no rows."""
        return pl.DataFrame(schema={**dict.fromkeys(self.wanted, pl.String), "line": pl.Int64})

    def frame(self, block: bytes) -> pl.DataFrame:
        """Return the wanted cells of the block's lines, with their line numbers."""
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        first, n_lines = self.line, block.count(b"\n")
        self.line += n_lines
        cells = self._at_once(block, n_lines)
        if cells is not None:
            return cells.with_columns(pl.int_range(first, first + n_lines, dtype=pl.Int64).alias("line"))
        lines, good = self._good_lines(block, first)
        if not lines:
            return self.empty()
        rows = [line.split(self.delimiter) for line in good]
        columns = {name: [row[place] for row in rows] for name, place in self.wanted.items()}
        return pl.DataFrame({**columns, "line": lines}, schema={**dict.fromkeys(columns, pl.String), "line": pl.Int64})

    def _at_once(self, block: bytes, n_lines: int) -> pl.DataFrame | None:
        """Return the cells, or None unless every line has the header's number of them and all is UTF-8."""
        marks = block.translate(None, self.others)
        if marks != self.marks_of_a_line * n_lines or b"\0" in block or not _is_utf8(block):
            return None
        places = sorted(set(self.wanted.values()))
        schema = {str(place): pl.String for place in range(self.n_cells)}
        cells = pl.read_csv(
            block, has_header=False, schema=schema, columns=places, separator=self.delimiter, quote_char=None,
            empty_string_is_null=False,
        )  # fmt: skip
        if len(cells) != n_lines:
            return None
        return cells.select(pl.col(str(place)).alias(name) for name, place in self.wanted.items())

    def _good_lines(self, block: bytes, first: int) -> tuple[list[int], list[str]]:
        numbers, good = [], []
        for number, raw in enumerate(block.split(b"\n")[:-1], first):
            if not raw:
                continue
            problem, line = self._check(raw)
            if problem:
                shown = raw[:100].decode("ascii", "replace")
                self.rejects.add(problem, file=self.member.place, line=number, value=shown)
            else:
                numbers.append(number)
                good.append(line)
        return numbers, good

    def _check(self, raw: bytes) -> tuple[str, str]:
        """Return (what is wrong with the line or "", the line)."""
        if b"\0" in raw:
            return "a NUL byte in the line", ""
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            return f"not UTF-8: byte 0x{raw[error.start]:02x}", ""
        n_cells = line.count(self.delimiter) + 1
        if n_cells != self.n_cells:
            return f"{n_cells} cells, but the header has {self.n_cells}", ""
        return "", line


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


# --- checks ----------------------------------------------------------------------------------------------------------


def refuse(frame: pl.DataFrame, bad: pl.Expr, problem: str, rejects: Rejects, *, file: str, field: str) -> pl.DataFrame:
    """Take the rows for which `bad` holds out of `frame`; report each with its line and the value of `field`."""
    mask = frame.select(bad.fill_null(True).alias("bad"))["bad"]
    if not mask.any():
        return frame
    for value, line in frame.filter(mask).select(field, "line").iter_rows():
        rejects.add(problem, file=file, line=line, field=field, value=value)
    return frame.filter(~mask)


def not_a_date(column: str) -> pl.Expr:
    """Hold where a cell is not a date of the form YYYYMMDD."""
    cell = pl.col(column)
    # The calendar alone would take fewer digits, too.
    return ~cell.str.contains(r"^[0-9]{8}$") | cell.str.to_date("%Y%m%d", strict=False).is_null()


def release_date(member: Member) -> str | None:
    """Return the date in a file's name, such as sct2_Concept_Snapshot_INT_20250101.txt, or None."""
    dates = re.findall(r"(?<!\d)((?:19|20)\d{6})(?!\d)", member.name)
    return dates[-1] if dates else None


def text_of(member: Member) -> io.BytesIO:
    """Return the whole of a file, unpacked.

    Raises:
        InputError: it cannot be read.
    """
    with member.open() as file:
        return io.BytesIO(file.read())
