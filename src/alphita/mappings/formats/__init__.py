"""Formats of mapping files, to write and to read. A module here is a choice of `--format`.

While a job runs, its mappings are appended to a part file that can be cut back to any earlier length and gone on with;
when all are there, `finish` makes the output of it: by renaming, or (for what cannot be appended to, must be sorted or
is one document) by writing the output aside and renaming that.

What a format cannot hold is never dropped in silence: `losses` counts it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol

from alphita import __version__, progress, registry
from alphita.errors import Rejects, UsageError
from alphita.mappings.record import COLUMNS, OF_FILES, OMOP, OTHERS, Mapping, OmopConcept
from alphita.options import Option, option
from alphita.spreadsheets import Guard
from alphita.textio import Reading

PACKAGE = "alphita.mappings.formats"
PLUGINS = registry.Group(
    "alphita.formats",
    (
        *("DESCRIPTION", "SUFFIXES", "STREAMS", "READS", "PREFIXED", "LOSSES"),
        *("begin", "split_complete", "encode", "finish", "validate", "losses", "read"),
    ),
)


class TargetInfo(NamedTuple):
    """What OMOP says of a target concept.

    Attributes:
        omop_concept_id: its number.
        domain: as "Condition".
        vocabulary: as "SNOMED".
        standard: whether it is a Standard Concept; None: not known.
        invalid_reason: "D" (deleted) or "U" (replaced); "": it is valid, or that is not known.
    """

    omop_concept_id: int
    domain: str
    vocabulary: str
    standard: bool | None = None
    invalid_reason: str = ""

    @classmethod
    def of(cls, concept: OmopConcept | Mapping, *, is_told: bool = True) -> TargetInfo | None:
        """Return it of what has OMOP's columns; `is_told`: whether these say which concepts are standard."""
        if concept.omop_concept_id is None:
            return None
        is_standard = concept.standard_concept == "S" if is_told else None
        return cls(concept.omop_concept_id, concept.domain_id or "", concept.vocabulary_id or "", is_standard)


class Problem(NamedTuple):
    """Why a mapping cannot be written in a format: what is wrong, in which field, with which value."""

    problem: str
    field: str
    value: object


PREFIXES = Option(flags=("--prefix",), metavar="NAME=URI", help="Declare a CURIE prefix; repeatable.")


@dataclass(frozen=True, slots=True)
class Header:
    """What is said of a whole file; formats take of it what they have a place for.

    Attributes:
        columns: the fields that a plain table (csv, jsonl, parquet) has as columns.
        tool: that made them.
        tool_version: of the tool.
        sources: versions of the target terminologies, by CURIE prefix.
        prefixes: URIs of CURIE prefixes that `terminology/prefixes.tsv` lacks, or that are to replace it there.
        with_review: a map (`IS_MAP`) holds answers that nobody has accepted, too.
        error, nil_error: the allowed errors of accepted and of NIL answers; None: not known.
        target_info: the OMOP facts of a concept, by its CURIE; None where it has none.
        lost: counts, while a file is read, what it says and mappings do not hold, in words.
        tell: takes a line on what a whole file was read or written without; it names columns, never values.
        encoding: of a text that is read.
        curies: URIs of CURIE prefixes that the file that is read declares.
        metadata: what that file says of the whole set and no other attribute holds: lines of YAML, by their key.
        extra: the names in the `extra` of the mappings, as far as they are known before these are written.
        is_coded: whether mappings name the vocabularies of their codes.
        guard: keeps spreadsheets from running cells of CSV and TSV, unless `raw`.
    """

    columns: tuple[str, ...] = OTHERS
    set_id: str = option("", help="URI of the mapping set (SSSOM, FHIR).")
    version: str = option("", "--set-version", help="Version of the mapping set.")
    licence: str = option("", help="URI of the mapping set's licence (SSSOM).")
    date: str = option("", help="Date of the mappings, e.g. 2026-01-31.")
    tool: str = "alphita"
    tool_version: str = __version__
    sources: Dictionary[str, str] = field(default_factory=dict)
    source_vocabulary: str = option(
        "", help="Name of the input's codes: CURIE prefix in SSSOM, source_vocabulary_id in OMOP."
    )
    source_system: str = option("", help="URI of the input's code system (FHIR).")
    source_version: str = option("", help="Version of the input's codes.")
    target_system: str = option("", help="CURIE prefix of the terminology that was searched, for NIL.")
    prefixes: Dictionary[str, str] = field(default_factory=dict)
    with_review: bool = option(
        False, help="Also write answers that nobody has accepted, in formats without a field for it: OMOP, FHIR."
    )
    bom: bool = option(
        False, help="Begin CSV and TSV with a byte order mark, so that Excel shows letters such as umlauts."
    )
    raw: bool = option(
        False, help="Write CSV and TSV without the apostrophe that keeps spreadsheets from running cells as formulas."
    )
    error: float | None = None
    nil_error: float | None = None
    target_info: Callable[[str], TargetInfo | None] | None = None
    lost: Counter[str] = field(default_factory=Counter)
    tell: Callable[[str], None] = progress.say
    encoding: str = "utf-8"
    curies: Dictionary[str, str] = field(default_factory=dict)
    metadata: Dictionary[str, Sequence[str]] = field(default_factory=dict)
    extra: tuple[str, ...] = ()
    is_coded: bool = False
    guard: Guard = field(default_factory=Guard, compare=False)

    def for_mappings(self, first: Sequence[Mapping]) -> Header:
        """Return the header with what some first mappings to be written need: columns, and names of extras."""
        used = [name for name in OF_FILES if any(getattr(mapping, name) for mapping in first)]
        if any(mapping.omop_concept_id is not None for mapping in first):
            used += OMOP
        names = dict.fromkeys([*self.extra, *(name for mapping in first for name in mapping.extras)])
        columns = tuple(name for name in COLUMNS if name in {*self.columns, *used})
        return replace(self, columns=columns, extra=tuple(names), is_coded=OF_FILES[0] in used)

    def tell_guarded(self) -> None:
        """Tell how many cells got an apostrophe, if any did."""
        if self.guard.count:
            self.tell(self.guard.told("--raw leaves it out, and Alphita takes it off when it reads the file"))

    @property
    def reading(self) -> Reading:
        """How text is read."""
        return Reading(self.encoding, "--encoding", self.tell)


class Format(Protocol):
    """What a format's module offers."""

    DESCRIPTION: str
    # How file names end that are taken for this format.
    SUFFIXES: tuple[str, ...]
    # Whether the part file already is the output, so that it can go to stdout as it grows.
    STREAMS: bool
    # Whether its files can be read again; `read` of a format for people only says what to give instead.
    READS: bool
    # Whether the prefixes of concept ids must be declared.
    PREFIXED: bool
    # The fields that the format cannot hold, or not for every mapping; the empty tuple: it holds all.
    LOSSES: tuple[str, ...]
    # A format may also say `IS_MAP = True`: it is a map that programs follow, and has no field for the decision. So it
    # holds what was accepted or reviewed (see `Header.with_review`), and what is read of it is taken for that. If its
    # files say something of the whole set, `said(path, header)` returns the header with it where that says nothing yet;
    # `HOLDS` are the attributes of a header that its files have a place for.

    def begin(self, header: Header) -> bytes:
        """Return what the part file begins with.

        Raises:
            UsageError: the header lacks what the format needs; the message says how to give it.
        """
        ...

    def split_complete(
        self, header: Header, mappings: Sequence[Mapping]
    ) -> tuple[Sequence[Mapping], Sequence[Mapping]]:
        """Part mappings that come in runs: those that what follows cannot change, and those to encode together with it.

        Of the latter there are as few as there can be, however long a mention goes on.
        """
        ...

    def encode(self, header: Header, mappings: Sequence[Mapping]) -> bytes:
        """Return what is appended for some mappings: all those of one mention, or of several.

        What it cannot write (see `validate`), it leaves out.

        Raises:
            UsageError: a concept of a prefix that is not declared.
        """
        ...

    def finish(self, header: Header, part: Path, out: Path) -> None:
        """Make the output of a complete part file, in one step, and leave no part file behind.

        An output made of a part that only its owner can read is private as well.
        """
        ...

    def validate(self, header: Header, mapping: Mapping) -> Problem | None:
        """Return why a mapping that ought to be written cannot be, or None."""
        ...

    def losses(self, header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
        """Count what of some mappings the file does not hold: by field, or in words for what is left out whole.

        The counts of two runs of mappings add up to those of both, if no mention is cut in two (see `lost_anew`).
        """
        ...

    def read(self, path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
        """Read a file; a bad row is set aside.

        Raises:
            InputError: the file as a whole cannot be read as this format, or no file of the format can (`READS`).
        """
        ...


def lost_anew(
    writer: Format | ModuleType, header: Header, held: Sequence[Mapping], mappings: Sequence[Mapping]
) -> dict[str, int]:
    """Count how much a run of mappings adds to what the file does not hold."""
    counts = Counter(writer.losses(header, [*held, *mappings]))
    counts.subtract(writer.losses(header, held))
    return {what: number for what, number in counts.items() if number}


def day_of(text: str) -> str:
    """Return `text`, which is a day as 2026-01-31, or ""."""
    try:
        fits = not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        fits = False
    if not fits:
        raise UsageError(f"the date {text!r} is no day; write it as 2026-01-31")
    return text


def chosen(path: Path, name: str, option: str, *, to_read: bool = False) -> ModuleType:
    """Return the format called `name`, or, if that is "", the one whose suffix fits the file's name best."""
    if name not in registry.names(PACKAGE):
        offered = [choice for choice, reads in registry.constants(PACKAGE, "READS").items() if reads or not to_read]
        if name:
            raise UsageError(registry.unknown("format", name, offered))
        by_name = registry.by_suffix(PACKAGE, path.name.lower().removesuffix(".gz") if to_read else path.name)
        if by_name is None:
            raise UsageError(f"cannot tell the format of {path} by its name; say {option}, one of {offered}")
        name = by_name
        if to_read and name == "tsv" and not registry.load(PACKAGE, name).is_plain(path):
            name = "sssom"
    return registry.load(PACKAGE, name)
