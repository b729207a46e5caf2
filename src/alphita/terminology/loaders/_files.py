"""Finding, opening and reading files: plain and gzipped ones, and members of zip archives, none unpacked on disk.

Text is read line by line: encodings, NUL bytes, lines without end.
"""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from alphita import artefact, textio, workbooks
from alphita.errors import InputError, Rejects, UsageError

if TYPE_CHECKING:
    import polars as pl

GZIP, ZIP = "gzip", "zip"
GZIP_MAGIC, ZIP_MAGIC = b"\x1f\x8b", b"PK\x03\x04"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MAX_WHOLE_BYTES = 2**30
# A longer line is not from a terminology; reading stops there.
MAX_LINE_BYTES = 16 * 2**20
BLOCK_BYTES = 8 * 2**20
_LINES_AT_ONCE = 50_000
# The number of the first line, and whole lines, each ended by a line feed.
Block = tuple[int, str]
# As UMLS calls its archives, too.
ZIP_SUFFIXES = (".zip", ".nlm")


def open_bytes(path: Path, *, may_be_empty: bool = False) -> IO[bytes]:
    """Open a file for reading, unpacking gzip, which is told by its first bytes and not by its name."""
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        if not start and not may_be_empty:
            raise InputError("the file is empty", file=path)
        return gzip.open(path, "rb") if start == GZIP_MAGIC else open(path, "rb")  # type: ignore[return-value]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=path) from None


def read_block(file: IO[bytes], path: Path | str, size: int) -> bytes:
    with reading(path):
        return file.read(size)


def read_whole(file: IO[bytes], place: str) -> bytes:
    """Return all bytes of a file, which must not be too many: what is packed may unpack to anything."""
    content = file.read(MAX_WHOLE_BYTES + 1)
    if len(content) > MAX_WHOLE_BYTES:
        raise InputError(f"more than {MAX_WHOLE_BYTES >> 30} GB, and it is read whole", file=place)
    return content


@contextmanager
def reading(place: Path | str, line: int | None = None, *, packing: str = GZIP) -> Iterator[None]:
    """Turn what goes wrong in reading a file into an error that names it, and how it is packed."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError) as error:
        problem = f"the {packing} file is damaged or cut short ({error})"
        raise InputError(problem, file=place, line=line, remedy="fetch it again") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", file=place, line=line) from None


@dataclass(frozen=True)
class Member:
    """A file to read: a plain one, or one inside a zip archive."""

    path: Path
    inside: str = ""

    @property
    def name(self) -> str:
        return (self.inside or self.path.name).rpartition("/")[2].removesuffix(".gz")

    @property
    def place(self) -> str:
        return f"{self.path}/{self.inside}" if self.inside else str(self.path)

    @property
    def packing(self) -> str:
        return ZIP if self.inside else GZIP

    @contextmanager
    def open(self, *, may_be_empty: bool = False) -> Iterator[IO[bytes]]:
        """Open the file, unpacked from its archive and from gzip."""
        with reading(self.place, packing=self.packing), ExitStack() as opened:
            if not self.inside:
                yield opened.enter_context(open_bytes(self.path, may_be_empty=may_be_empty))
                return
            archive = opened.enter_context(zipfile.ZipFile(self.path))
            try:
                file = cast(zipfile.ZipExtFile, opened.enter_context(archive.open(self.inside)))
            except RuntimeError as error:  # zipfile's way to ask for a password
                raise InputError(f"the archive cannot be read: {error}", file=self.place) from None
            start = file.peek(2)[:2]
            if not start and not may_be_empty:
                raise InputError("the file is empty", file=self.place)
            unpacked = opened.enter_context(gzip.open(file)) if start == GZIP_MAGIC else file
            yield cast(IO[bytes], unpacked)


def members(paths: Sequence[Path]) -> list[Member]:
    """Return the files that the paths mean: those of a folder and its folders, of a zip archive, or the file itself."""
    files: list[Member] = []
    for path in map(Path, paths):
        if path.is_fifo():
            problem = "this is a pipe, and the import reads its input several times"
            raise InputError(problem, file=path, remedy="save it to a file first")
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not file.name.startswith("."):
                    files += _expanded(file)
        else:
            files += _expanded(path, must_exist=True)
    return list(dict.fromkeys(files))


def chosen(paths: Sequence[Path], endings: tuple[str, ...], dropped: Counter[str]) -> list[Member]:
    """Return the files to read: those named themselves, and of a folder or zip archive those whose names end so."""
    chosen_files: list[Member] = []
    for path in map(Path, paths):
        files = members([path])
        wanted = files
        if files != [Member(path)]:
            wanted = [member for member in files if member.name.lower().endswith(endings)]
        if not wanted:
            names = [member.name for member in files[:5]]
            raise InputError(f"no file in it ends in {' or '.join(endings)}; it has {names}", file=path)
        dropped.update(f"file {member.name}" for member in files if member not in wanted)
        chosen_files += wanted
    return chosen_files


def _expanded(path: Path, *, must_exist: bool = False) -> list[Member]:
    """Return the file as one member, or those of the zip archive that it is."""
    is_called_so = path.suffix.lower() in ZIP_SUFFIXES
    # Workbooks of today are zip archives, too.
    if (not is_called_so and not must_exist) or path.suffix.lower() in workbooks.SUFFIXES:
        return [Member(path)]
    with open_bytes(path) as file:
        is_zip = read_block(file, path, len(ZIP_MAGIC)) == ZIP_MAGIC
    if not is_zip and not is_called_so:
        return [Member(path)]
    with reading(path, packing=ZIP), zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    return [Member(path, name) for name in sorted(names)]


def source(file: Path | Member, *, name: str, version: str | None = None, licence: str | None = None) -> dict[str, Any]:
    member = file if isinstance(file, Member) else Member(file)
    shown = "/".join(filter(None, (member.path.name, member.inside)))
    sha256 = artefact.hash_file(member.path)
    return {"name": name, "file": shown, "version": version, "licence": licence, "sha256": sha256}


def sources(read: Sequence[Member], name: str, version: Callable[[Member], str | None]) -> list[dict[str, Any]]:
    """Return the manifest's entries: one a file on disk, whatever was read of an archive."""
    first: dict[Path, Member] = {}
    for member in read:
        first.setdefault(member.path, member)
    return [source(path, name=name, version=version(member)) for path, member in first.items()]


def release_date(member: Member) -> str | None:
    """Return the date in a file's name, such as sct2_Concept_Snapshot_INT_20250101.txt, or None."""
    dates = re.findall(r"(?<!\d)((?:19|20)\d{6})(?!\d)", member.name)
    return dates[-1] if dates else None


def whole_lines(pieces: Iterable[bytes], place: str, *, counted: bool = False) -> Iterator[bytes]:
    """Yield the pieces of a file cut at the ends of lines, each block ended by a line feed."""
    rest, number = b"", 1
    for piece in pieces:
        if end := piece.rfind(b"\n") + 1:
            yield rest + piece[:end]
            rest = b""
            number += piece.count(b"\n") if counted else 0
        rest += piece[end:]
        if len(rest) > MAX_LINE_BYTES:
            problem = "a line of more than 16 MB: this is not a text file of the format"
            raise InputError(problem, file=place, line=number if counted else None)
    if rest:
        yield rest + b"\n"


def is_utf8(raw: bytes) -> bool:
    try:
        return raw.isascii() or bool(raw.decode())
    except UnicodeDecodeError:
        return False


def check_encoding(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        raise UsageError(f"unknown encoding {encoding!r}; examples are utf-8, latin-1, cp1252, utf-16") from None


def lines(file: Path | Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without the line's end) of a text file."""
    for block in blocks(file if isinstance(file, Member) else Member(file), encoding, rejects):
        yield from numbered(block)


def _wide_lines(member: Member, encoding: str, rejects: Rejects) -> Iterator[tuple[int, str]]:
    with member.open() as file, io.TextIOWrapper(file, encoding=encoding, newline="") as text:
        try:
            for number, line in textio.ended_lines(text, member.place):
                if "\0" in line:
                    rejects.add("a NUL character in the line", file=member.place, line=number)
                    continue
                yield number, line.rstrip("\r\n")
        except UnicodeError as error:
            raise InputError(f"not {encoding}: {error}", file=member.place) from None


def no_text(raw: bytes, encoding: str) -> str:
    """Return why bytes are no text in an encoding; "" if they are."""
    if b"\0" in raw:
        return "a NUL byte in the line"
    try:
        raw.decode(encoding)
    except UnicodeDecodeError as error:
        return f"not {encoding}: byte 0x{raw[error.start]:02x}"
    return ""


def _decoded(raw: bytes, number: int, member: Member, encoding: str, rejects: Rejects) -> str | None:
    """Return a line as text; report a line that is none and return None."""
    problem = no_text(raw, encoding)
    if not problem:
        return raw.decode(encoding)
    remedy = "; name the right one: encoding=latin-1, say" if b"\0" not in raw else ""
    rejects.add(problem + remedy, file=member.place, line=number, value=raw[:100].decode("ascii", "replace"))
    return None


class Split:
    """Splits blocks of bytes in which every line has its number of cells, through polars at once."""

    def __init__(self, delimiter: str, n_cells: int) -> None:
        self.delimiter, self.n_cells = delimiter, n_cells
        marks = delimiter.encode() + b"\n"
        self._others = bytes(set(range(256)) - set(marks))
        self._marks_of_a_line = delimiter.encode() * (n_cells - 1) + b"\n"

    def fits(self, raw: bytes) -> int:
        """Return how many lines there are, if every one has its number of cells; else 0."""
        marks = raw.translate(None, self._others)
        n_lines = len(marks) // len(self._marks_of_a_line)
        return n_lines if marks == self._marks_of_a_line * n_lines else 0

    def frame(self, raw: bytes, first: int, places: Sequence[int]) -> pl.DataFrame | None:
        """Return the cells at `places`, in columns called by these, and `line`; None: a line has not its number."""
        n_lines = self.fits(raw)
        if not n_lines:
            return None
        import polars as pl

        cells = pl.read_csv(
            raw,
            has_header=False,
            schema={str(place): pl.String for place in range(self.n_cells)},
            columns=sorted(set(places)),
            separator=self.delimiter,
            quote_char=None,
            empty_string_is_null=False,
        )
        if len(cells) != n_lines:
            return None
        return cells.with_columns(pl.int_range(first, first + n_lines, dtype=pl.Int64).alias("line"))


def blocks(member: Member, encoding: str, rejects: Rejects) -> Iterator[Block]:
    """Yield (number of the first line, text of whole lines, each ended by a line feed)."""
    encoding = check_encoding(encoding)
    if encoding.startswith(("utf-16", "utf-32")):
        yield from _joined(_wide_lines(member, encoding, rejects))
        return
    number = 1
    with member.open() as file:
        is_wide = read_block(file, member.place, 2) in UTF16
    if is_wide:
        yield from _joined(_wide_lines(member, "utf-16", rejects))
        return
    with member.open() as file:
        pieces = iter(partial(_next_block, file, member), b"")
        for raw in whole_lines(pieces, member.place, counted=True):
            raw = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
            try:
                text = raw.decode(encoding)
            except UnicodeDecodeError:
                text = "\0"
            if "\0" in text:
                numbered_lines = enumerate(raw.replace(b"\r\n", b"\n").split(b"\n")[:-1], number)
                texts = ((at, _decoded(line, at, member, encoding, rejects)) for at, line in numbered_lines)
                yield from _joined((at, line) for at, line in texts if line is not None)
            else:
                yield number, text
            number += raw.count(b"\n")


def numbered(block: Block) -> Iterator[tuple[int, str]]:
    """Yield (number, text without the line's end) of a block's lines."""
    first, text = block
    return ((number, line.rstrip("\r")) for number, line in enumerate(text.split("\n")[:-1], first))


def _next_block(file: IO[bytes], member: Member) -> bytes:
    with reading(member.place, packing=member.packing):
        data = file.read(BLOCK_BYTES)
        if data.endswith(b"\r"):
            data += file.read(1)
    # Old files end their lines by CR alone.
    is_lone = data.count(b"\r") > data.count(b"\r\n")
    return re.sub(rb"\r(?!\n)", b"\n", data) if is_lone else data


def _joined(lines: Iterable[tuple[int, str]]) -> Iterator[Block]:
    lines = iter(lines)
    while some := list(islice(lines, _LINES_AT_ONCE)):
        start = 0
        for end in range(1, len(some) + 1):
            if end == len(some) or some[end][0] != some[end - 1][0] + 1:
                yield some[start][0], "".join(f"{line}\n" for _, line in some[start:end])
                start = end
