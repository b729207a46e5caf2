"""Reading SSSOM/TSV mapping files: for merging terminologies by what others have mapped."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.terminology import prefixes
from alphita.terminology.loaders import _files

# Values of slots that mean something: no counterpart; a subject or object that is a string without an id.
NO_TERM = "sssom:NoTermFound"
LITERAL = "rdfs literal"
CURIES = "curie_map"
REMEDY = "each line of the block is '#key: value', or below one such '#  key: value' or '#  - value'"
_ENTRY = re.compile(r"#(\s*)[\"']?([\w.\-]+)[\"']?:(?:\s+(.*?))?\s*")
_ITEM = re.compile(r"#\s*-(\s.*)?")
_BLOCK = re.compile(r"[|>][+-]?\d?")
_PAIRS = {"[": "]", "{": "}"}


@dataclass(frozen=True)
class SssomFile:
    """A file whose metadata are read."""

    path: Path
    metadata: dict[str, str]
    curies: dict[str, str]
    n_lines: int
    # The lines of the metadata, without their marks, by the slot that they belong to.
    lines: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> SssomFile:
        """Read the header of an SSSOM/TSV file."""
        block, number = SssomHeader(path), 0
        for number, line in textio.streamed(path):
            if not line.startswith("#"):
                block.end()
                return cls(path, block.metadata, block.curies, number - 1, block.lines)
            block.add(number, line)
        raise InputError("no line of column names: not an SSSOM/TSV file", file=path, line=number)

    def rows(
        self, needed: Sequence[str], said_once: Sequence[str], rejects: Rejects
    ) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield (line, value by slot) of each row; what is no row of the table goes to `rejects`."""
        of_all = {slot: self.metadata[slot] for slot in said_once if slot in self.metadata}
        for line, slots in textio.table(self.path, "\t", needed, rejects, after=self.n_lines):
            yield line, of_all | slots

    def curie(self, identifier: str) -> str:
        """Return an id as Alphita writes it; a prefix that only the file knows is looked up by its URI."""
        prefix, colon, local = identifier.partition(":")
        known = prefixes.canonical(prefix) in prefixes.table()
        if colon and not known and (uri := self.curies.get(prefix)):
            return prefixes.contract(uri + local) or prefixes.normalize(identifier)
        return prefixes.normalize(identifier)


@dataclass
class SssomHeader:
    """Takes the lines of the metadata, one after the other."""

    file: Path
    metadata: dict[str, str] = field(default_factory=dict)
    curies: dict[str, str] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=dict)
    _margin: str = ""
    _section: str = ""
    _value: str = ""
    _open: str = ""
    _open_at: int = 0

    def add(self, number: int, line: str) -> None:
        """Read a further line of the header."""
        line = line.rstrip("\r\n")
        bare = line[1:].strip()
        if self._open:
            self._keep(line)
            self._opened(f"{self._open} {bare}", self._open_at, line)
            return
        deeper = len(line) - len(line[1:].lstrip()) > 2
        if not bare or bare.startswith("#"):
            return
        if deeper and _BLOCK.fullmatch(self._value):
            self._keep(line)
            return
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            # An item of a list, or more of a value that is neither quoted nor a flow.
            if not _ITEM.fullmatch(line) and not (deeper and self._value[:1] not in ("", *"\"'[{")):
                raise self._no_yaml("neither a key nor a value of one", number, line)
            self._keep(line)
            return
        value = entry[3] or ""
        self._value = value
        if len(entry[1]) <= 1:
            self._section, self._margin = entry[2], entry[1]
        self._keep(line)
        of = self.curies if self._section == CURIES and len(entry[1]) > 1 else self.metadata
        # Concepts are named by it.
        if of is self.curies and not textio.is_text(value):
            raise InputError(textio.NO_TEXT, file=self.file, line=number, field=entry[2], value=value)
        self._opened(value, number, line)
        of[entry[2]] = value.strip("'\"")

    def end(self) -> None:
        if self._open:
            raise self._no_yaml(f"{self._open[0]} is opened and not closed", self._open_at, self._open)

    def _keep(self, line: str) -> None:
        if self._section != CURIES:
            self.lines.setdefault(self._section, []).append(line[1:].removeprefix(self._margin))

    def _opened(self, value: str, number: int, line: str) -> None:
        """Keep a value that goes on in the next line."""
        self._open, self._open_at = ("", 0) if is_closed(value) else (value, number)
        if not self._open and value[:1] in ("@", "`", "%"):
            raise self._no_yaml(f"no value begins with {value[0]}", number, line)

    def _no_yaml(self, why: str, number: int, line: str) -> InputError:
        return InputError(
            f"the metadata are not valid YAML: {why}", file=self.file, line=number, value=line, remedy=REMEDY
        )


def is_closed(value: str) -> bool:
    """Return whether the quote or bracket that a value of YAML begins with, if any, is closed in it."""
    if value[:1] not in ("'", '"', *_PAIRS):
        return True
    waiting: list[str] = []
    quote, escaped = "", False
    for sign in value:
        if escaped:
            escaped = False
        elif quote:
            escaped = quote == '"' and sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _PAIRS:
            waiting.append(_PAIRS[sign])
        elif waiting and sign == waiting[-1]:
            waiting.pop()
    return not quote and not waiting


NEEDED = ("subject_id", "predicate_id", "object_id")
# Said once in the metadata, they hold for every row.
TYPES = ("subject_type", "object_type")


@dataclass(frozen=True)
class Mapping:
    """One row: subject, predicate, object as CURIEs; negated ("Not"); confidence 0 to 1; the subject's label."""

    subject: str
    predicate: str
    object: str
    negated: bool
    confidence: float
    label: str = ""


@dataclass
class MappingSet:
    """One file."""

    name: str
    source: dict[str, Any]
    mappings: list[Mapping] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def read(path: Path, rejects: Rejects) -> MappingSet:
    """Read an SSSOM/TSV file, gzipped or not."""
    file = SssomFile.open(path)
    mapping_set = MappingSet("", {})
    for line, slots in file.rows(NEEDED, TYPES, rejects):
        _add(mapping_set, file, line, slots, rejects)
    if not mapping_set.mappings and not mapping_set.dropped:
        raise InputError("no mapping in this file", file=path)
    identifier = file.metadata.get("mapping_set_id", "").rstrip("/").rpartition("/")[2] or path.name
    mapping_set.name = re.sub(r"\.sssom\.tsv(\.gz)?$|\.tsv(\.gz)?$", "", identifier)
    version = file.metadata.get("mapping_set_version")
    mapping_set.source = _files.source(
        path, name=mapping_set.name, version=version, licence=file.metadata.get("license")
    )
    return mapping_set


def _add(mapping_set: MappingSet, file: SssomFile, line: int, slots: dict[str, str], rejects: Rejects) -> None:
    cells = {name: slots.get(name, "").strip() for name in (*NEEDED, "predicate_modifier", "confidence")}
    if NO_TERM in (cells["object_id"], cells["subject_id"]):
        mapping_set.dropped["mappings to no term"] += 1
        return
    if not cells["subject_id"] or not cells["object_id"]:
        literal = any(slots.get(name) == LITERAL for name in TYPES)
        if literal:
            mapping_set.dropped["mappings of strings without an id"] += 1
        else:
            rejects.add("a mapping without subject_id or object_id", file=file.path, line=line)
        return
    curies = [file.curie(cells[name]) for name in NEEDED]
    for name, curie in zip(NEEDED, curies, strict=True):
        if prefixes.parse_curie(curie) is None:
            rejects.add("not a CURIE", file=file.path, line=line, field=name, value=cells[name])
            return
    modifier = cells["predicate_modifier"].lower()
    try:
        confidence = float(cells["confidence"] or 1)
    except ValueError:
        confidence = -1.0
    if modifier not in ("", "not") or not 0 <= confidence <= 1:
        wrong = "predicate_modifier" if modifier not in ("", "not") else "confidence"
        problem = "must be empty or Not" if wrong == "predicate_modifier" else "must be a number from 0 to 1"
        rejects.add(problem, file=file.path, line=line, field=wrong, value=cells[wrong])
        return
    subject, predicate, object_ = curies
    label = slots.get("subject_label", "").strip()
    mapping_set.mappings.append(Mapping(subject, predicate, object_, modifier == "not", confidence, label))
