"""Rich Release Format, in which UMLS and RxNorm come: the files of a release, read in blocks.

Every line is a row, every field ends in '|', there is no header and no quoting. A file is read in blocks of some MB:
each line's fields are counted, lines that do not fit go to the rejects with their number, and polars splits the rest.
So a relation file of 8 GB passes in the memory of one block plus three integers a relation.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _files
from alphita.terminology.loaders._files import Member
from alphita.terminology.loaders._look import Look

BLOCK_BYTES = 32 * 2**20
PIPE, NEWLINE = ord("|"), ord("\n")
M = TypeVar("M", bound=Member)


class Release:
    """The files of one release.

    Attributes:
        layouts: columns of each file; those of MRFILES.RRF, where there is one, win over the usual ones.
        rows: how many rows MRFILES.RRF says that each file has.
    """

    def __init__(self, paths: Sequence[Path], layouts: Mapping[str, str], rejects: Rejects) -> None:
        self.rejects = rejects
        self.layouts = {name: tuple(columns.split()) for name, columns in layouts.items()}
        self.rows: dict[str, int] = {}
        self.parts: dict[str, list[Member]] = {}
        self.all_parts = _files.members(paths)
        for name in layouts:
            self.parts[name] = parts_of(self.all_parts, name)
        self._hashing = ThreadPoolExecutor(max_workers=1)
        self._hashed: dict[Member, Future[dict[str, Any]]] = {}

    def __enter__(self) -> Release:
        """Use as a context manager."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread that hashes."""
        self._hashing.shutdown(cancel_futures=True)

    def has(self, name: str) -> bool:
        """Tell whether the release has that file."""
        return bool(self.parts[name])

    def shown(self, name: str) -> str:
        """Return how messages call a file of the release; one in several parts by its whole name."""
        parts = self.parts[name]
        return parts[0].place if len(parts) == 1 else parts[0].place.rsplit(".", 2)[0]

    def require(self, name: str) -> None:
        """Check that a file is there."""
        if not self.has(name):
            shown = sorted({part.name.upper() for part in self.all_parts})
            where = self.all_parts[0].path.parent if self.all_parts else None
            raise InputError(
                f"no file {name}.RRF (or {name}.RRF.gz) was given; found {shown[:8] or 'none'}",
                file=where,
                remedy="give the folder of the release, its zip file, or the files themselves",
            )

    def read_layouts(self, name: str) -> None:
        """Take columns and row counts of all files from MRFILES.RRF, where there is one."""
        for block in self.blocks(name, ["FIL", "FMT", "RWS"]):
            for file, columns, rows in block.select("FIL", "FMT", "RWS").iter_rows():
                stem = Path(file).name.upper().removesuffix(".RRF")
                if stem in self.layouts and stem != name:
                    self.layouts[stem] = tuple(column.strip().upper() for column in columns.split(","))
                    if (number := textio.whole_number(rows)) is not None:
                        self.rows[stem] = number

    def rename(self, name: str, old: str, new: str) -> None:
        """Call a column of a file otherwise."""
        self.layouts[name] = tuple(new if column == old else column for column in self.layouts[name])

    def sources(
        self, name: str, version: str | None, licence: str, versions: Mapping[str, str]
    ) -> list[dict[str, Any]]:
        """Return the manifest's entries, one a file on disk; the first one also holds the sources' versions."""
        common = {"name": name, "version": version, "licence": licence}
        entries = [{**future.result(), **common} for future in self._hashed.values()]
        if entries and versions:
            entries[0]["sources"] = dict(sorted(versions.items()))
        return entries

    # --- reading -----------------------------------------------------------------------------------------------------

    def blocks(self, name: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Yield a file's rows, block by block: the wanted columns as strings ("" where empty), `file` and `line`."""
        parts = self.parts[name]
        if not parts:
            return
        for part in parts:
            if part.path not in {other.path for other in self._hashed}:
                self._hashed[part] = self._hashing.submit(_files.source, part.path, name=name)
        shown = self.shown(name)
        layout = self.layouts[name]
        for column in columns:
            if column not in layout:
                raise InputError(f"MRFILES gives {name}.RRF no column {column}; it has {list(layout)}", file=shown)
        places = {column: layout.index(column) for column in columns}
        checker = _Checker(len(layout), shown, self.rejects)
        for raw in _files.whole_lines(_pieces(parts), shown):
            good, lines = checker.check(raw)
            if len(lines):
                yield _split(good, lines, places, len(layout), shown)
        if checker.line and not checker.accepted:
            raise InputError(
                f"no line has the {len(layout)} fields of {name}.RRF, each ended by '|'",
                file=shown,
                remedy="is it another file, or in another format (ORF)?",
            )
        if checker.line != self.rows.get(name, checker.line):
            problem = (
                f"MRFILES.RRF says {self.rows[name]:,} rows, the file has {checker.line:,}: cut short, or filtered?"
            )
            self.rejects.add(problem, file=shown)


def parts_of(members: Sequence[M], name: str) -> list[M]:
    """Return the file of that name: plain, gzipped, or cut into MRCONSO.RRF.aa.gz, .ab.gz, ..."""
    for pattern in (f"{name}.RRF", f"{name}.RRF.[A-Z][A-Z]*"):
        chosen = [part for part in members if fnmatch.fnmatchcase(part.name.upper(), pattern)]
        # The one nearest to the top: RxNorm has a second, smaller release in the folder `prescribe`.
        folders = {part: part.place.rpartition("/")[0] for part in chosen}
        if chosen:
            top = min(folders.values(), key=lambda folder: (folder.count("/"), "prescrib" in folder, folder))
            return sorted((part for part in chosen if folders[part] == top), key=lambda part: part.name)
    return []


def recognised(seen: Look, layouts: Mapping[str, str], terms: str) -> dict[str, str] | None:
    """Tell by its file of terms whether a release is there; see `Loader.recognises`."""
    if parts := parts_of(seen.members, terms):
        return {} if "|" in parts[0].first_line else None
    others = [f"{name}.RRF" for name in layouts if parts_of(seen.members, name)]
    if not others:
        return None
    raise InputError(
        f"{', '.join(others)} of a release, without the terms in {terms}.RRF",
        file=seen.path,
        remedy="give the folder of the release, or its zip file",
    )


def _pieces(parts: Sequence[Member]) -> Iterator[bytes]:
    """Yield the bytes of the parts one after another, whatever line they are cut in."""
    for part in parts:
        # A file may have no rows; where it was cut into parts, an empty one has lost its rows.
        with part.open(may_be_empty=len(parts) == 1) as file:
            yield from iter(partial(file.read, BLOCK_BYTES), b"")


class _Checker:
    """Counts the fields of each line; passes the good lines on and reports the others.

    Attributes:
        line: lines seen so far.
        accepted: of these, the good ones.
    """

    def __init__(self, n_fields: int, shown: str, rejects: Rejects) -> None:
        self.n_fields, self.shown, self.rejects = n_fields, shown, rejects
        self.pipes = 0
        self.line = self.accepted = 0

    def check(self, raw: bytes) -> tuple[bytes, NDArray[np.int64]]:
        """Return the good lines of a block, and their numbers from 1."""
        is_first = self.line == 0
        if is_first:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in raw:  # one byte is found far faster than two
            raw = raw.replace(b"\r\n", b"\n")
        signs = np.frombuffer(raw, np.uint8)
        starts = np.flatnonzero(signs[:-1] == NEWLINE) + 1
        starts = np.insert(starts, 0, 0)
        lines = np.arange(self.line + 1, self.line + 1 + len(starts))
        self.line += len(starts)
        pipes = (signs == PIPE).view(np.uint8)
        # Counted in one byte each, for memory: right but for multiples of 256, and those would show in the sum.
        counts = np.add.reduceat(pipes, starts, dtype=np.uint8)
        if is_first:
            # Some tools leave out the '|' that ends the line: in all lines, so most of them tell and no single one.
            closed, bare = (int((counts == n % 256).sum()) for n in (self.n_fields, self.n_fields - 1))
            self.pipes = self.n_fields - (bare > closed)
        right = np.count_nonzero(pipes) == self.pipes * len(starts) and not (counts != self.pipes % 256).any()
        if not right or b"\0" in raw or not _files.is_utf8(raw):
            raw, lines = self._sort_out(raw, lines)
        self.accepted += len(lines)
        return raw, lines

    def _sort_out(self, raw: bytes, lines: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        kept, numbers = [], []
        for text, number in zip(raw.split(b"\n"), lines.tolist(), strict=False):
            if not text.strip():
                continue
            count = text.count(b"|")
            problem = None
            if count != self.pipes:
                problem = f"{count + (self.pipes != self.n_fields)} fields, but there must be {self.n_fields}"
            elif b"\0" in text:
                problem = "a NUL byte in the line"
            elif not _files.is_utf8(text):
                problem = "not utf-8"
            if problem is None:
                kept.append(text)
                numbers.append(number)
            else:
                shown = text[:100].decode("utf-8", "replace")
                self.rejects.add(problem, file=self.shown, line=number, value=shown)
        return b"\n".join([*kept, b""]), np.array(numbers, np.int64)


def _split(raw: bytes, lines: NDArray[np.int64], places: Mapping[str, int], n_fields: int, shown: str) -> pl.DataFrame:
    names = {place: column for column, place in places.items()}
    order = sorted(names)
    frame = pl.read_csv(
        raw,
        has_header=False,
        separator="|",
        quote_char=None,
        columns=order,
        infer_schema=False,
        schema={f"column_{place + 1}": pl.String for place in range(n_fields)},
        empty_string_is_null=False,
        extra_columns="ignore",
    )
    frame.columns = [names[place] for place in order]
    return frame.with_columns(pl.Series("line", lines.astype(np.int32)), file=pl.lit(shown, dtype=pl.Categorical))
