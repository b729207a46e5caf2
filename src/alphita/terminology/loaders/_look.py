"""A first look at a file or folder, taken once for all loaders: the names of the files, and the beginning of each."""

from __future__ import annotations

import functools
import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.terminology.loaders import _files, _tables
from alphita.terminology.loaders._files import Member

HEAD_BYTES = 64 * 1024
# More than any release has; a home folder has more.
MAX_FILES = 10_000
_LINE_END = re.compile(r"\r{0,2}\n|\r")
# The share of NUL bytes above which a file is binary; a text has none, or a few by mistake.
_MAX_NULS = 1 / 1000


class Beginning(Member):
    """A file that is read no further than its beginning: whole lines, 64 KB of them at most."""

    @functools.cached_property
    def head(self) -> bytes:
        """The beginning, unpacked."""
        with super().open(may_be_empty=True) as file:
            raw = file.read(HEAD_BYTES + 1)
        return raw if len(raw) <= HEAD_BYTES else _whole_lines(raw[:HEAD_BYTES])

    @contextmanager
    def open(self, *, may_be_empty: bool = False) -> Iterator[IO[bytes]]:
        """Open the beginning; see `Member.open`."""
        if not self.head and not may_be_empty:
            raise InputError("the file is empty", file=self.place)
        yield io.BytesIO(self.head)

    @property
    def settings(self) -> dict[str, str]:
        """The option `encoding` of loaders of text, where a byte order mark tells it."""
        return {"encoding": "utf-16"} if self.head.startswith(_files.UTF16) else {}

    @property
    def is_binary(self) -> bool:
        """Whether it is no text."""
        return not self.settings and self.head.count(0) > _MAX_NULS * len(self.head)

    @functools.cached_property
    def text(self) -> str:
        """The beginning as text, without a byte order mark; "" where it is binary."""
        return "" if self.is_binary else self.head.decode(self.settings.get("encoding", "utf-8-sig"), "replace")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield (line number from 1, text without the line's end)."""
        return enumerate(_LINE_END.split(self.text), 1)

    @property
    def first_line(self) -> str:
        """The first line, without its end; not one that says what divides the cells of those after it."""
        first, second = (*(line for _, line in islice(self.lines(), 2)), "")[:2]
        return second if textio.separator_of(first) else first

    @property
    def is_table_file(self) -> bool:
        """Whether it is a workbook by its name, or a Parquet file: their rows are no text, and are read as a whole."""
        return _tables.is_workbook(self) or self.head.startswith(_tables.PARQUET_MAGIC)

    def opened(self) -> _tables.Table | None:
        """Open it as loaders of tables do, a CSV or TSV file with its first rows alone; None: it is no table."""
        format_ = _tables.Format(**self.settings)
        if self.is_table_file:
            return _tables.opened(Member(self.path, self.inside), format_, Rejects(None), fractions=True)
        is_table = any(sign in self.first_line for sign in _tables.DELIMITERS)
        return _tables.opened(self, format_, Rejects(None)) if is_table else None

    @functools.cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; none where it is no table."""
        table = self.opened()
        return () if table is None else tuple(table.names)


@dataclass(frozen=True)
class Look:
    """What is seen without reading all of it."""

    path: Path
    members: tuple[Beginning, ...]

    @property
    def is_file(self) -> bool:
        """Whether it is one file, and neither a folder nor an archive."""
        return self.members == (Beginning(self.path),)

    def among(self, endings: tuple[str, ...]) -> list[Beginning]:
        """Return the files that a loader would read: the one that was given, or those whose names end so."""
        return [file for file in self.members if self.is_file or file.name.lower().endswith(endings)]

    def first(self, is_it: Callable[[Beginning], bool], endings: tuple[str, ...] = ("",)) -> Beginning | None:
        """Return the first of those files for which `is_it` holds."""
        return next((file for file in self.among(endings) if is_it(file)), None)

    def settings(self, is_it: Callable[[Beginning], bool], endings: tuple[str, ...]) -> dict[str, str] | None:
        """Return the options for the first of those files; None where there is none."""
        file = self.first(is_it, endings)
        return None if file is None else file.settings


def look(path: Path) -> Look:
    """Look at a file or folder."""
    if path.is_dir() and next(islice(path.rglob("*"), MAX_FILES, None), None) is not None:
        problem = f"this folder has more than {MAX_FILES:,} files in it"
        raise InputError(problem, file=path, remedy="give the folder of the terminology alone")
    if path.exists() and not path.is_dir() and not path.is_file():
        # To open a pipe would be to wait.
        raise InputError("neither a file nor a folder", file=path)
    return Look(path, tuple(Beginning(member.path, member.inside) for member in _files.members([path])))


def import_command(format_: str, path: Path, **settings: str) -> str:
    """Return the command that imports a path with these options; another output may be put in the place of its own."""
    sets = [f"--set {shlex.quote(f'{key}={value}')}" for key, value in settings.items()]
    return " ".join(["alphita terminology import", format_, shlex.quote(str(path)), *sets, "-o X.terminology"])


def _whole_lines(raw: bytes) -> bytes:
    """Return the lines that end within `raw`; all of it where none does."""
    if raw.startswith(_files.UTF16):
        text = raw.decode("utf-16", "ignore")
        return text[: text.rfind("\n") + 1].encode("utf-16") if "\n" in text else raw
    return raw[: raw.rfind(b"\n") + 1] or raw
