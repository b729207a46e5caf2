"""Reading SSSOM/TSV mapping files: for merging terminologies by what others have mapped.

Read: subject_id, subject_label, predicate_id, object_id, predicate_modifier, confidence, and of the metadata curie_map,
mapping_set_id, mapping_set_version, license and, where they are no columns, subject_type and object_type. A row whose
subject or object is a string without id (`rdfs literal`), and one that says that there is no counterpart
(`sssom:NoTermFound`), joins nothing and is counted.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita.errors import InputError, Rejects
from alphita.terminology import prefixes
from alphita.terminology.loaders import _files
from alphita.terminology.sssom_header import SssomHeader

NEEDED = ("subject_id", "predicate_id", "object_id")
NO_TERM = "sssom:NoTermFound"
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
    """One file.

    Attributes:
        name: of the mapping set: the last part of its id, else of the file.
        source: the manifest's entry.
        mappings: its rows.
        dropped: rows that were left out on purpose, counted.
    """

    name: str
    source: dict[str, Any]
    mappings: list[Mapping] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def read(path: Path, rejects: Rejects) -> MappingSet:
    """Read an SSSOM/TSV file, gzipped or not.

    Raises:
        InputError: it is no SSSOM/TSV: empty, without columns or mappings, or its metadata are no YAML.
    """
    block = SssomHeader(path)
    metadata, curie_map = block.metadata, block.curies
    header: list[str] = []
    mapping_set = MappingSet("", {})
    for number, line in _files.lines(path, "utf-8", rejects):
        if line.startswith("#") and not header:
            block.add(number, line)
        elif not header:
            block.end()
            header = _header(path, number, line)
        elif line.strip():
            of_all = {name: metadata[name] for name in TYPES if name in metadata and name not in header}
            row = of_all | dict(zip(header, line_cells(line, "\t"), strict=False))
            _add(mapping_set, path, number, row, curie_map, rejects)
    if not header:
        raise InputError("no line of column names: not an SSSOM/TSV file", file=path)
    if not mapping_set.mappings and not mapping_set.dropped:
        raise InputError("no mapping in this file", file=path)
    identifier = metadata.get("mapping_set_id", "").rstrip("/").rpartition("/")[2] or path.name
    mapping_set.name = re.sub(r"\.sssom\.tsv(\.gz)?$|\.tsv(\.gz)?$", "", identifier)
    version = metadata.get("mapping_set_version")
    mapping_set.source = _files.source(path, name=mapping_set.name, version=version, licence=metadata.get("license"))
    return mapping_set


def _header(path: Path, number: int, line: str) -> list[str]:
    header = [name.strip() for name in line_cells(line, "\t")]
    missing = [name for name in NEEDED if name not in header]
    if missing:
        raise InputError(
            f"not an SSSOM/TSV file: it lacks the columns {missing}",
            file=path,
            line=number,
            value=line,
            remedy="its first line that does not begin with # must name the columns, separated by tabs",
        )
    return header


def _add(
    found: MappingSet, path: Path, number: int, row: dict[str, str], curie_map: dict[str, str], rejects: Rejects
) -> None:
    cells = {name: row.get(name, "").strip() for name in (*NEEDED, "predicate_modifier", "confidence")}
    if NO_TERM in (cells["object_id"], cells["subject_id"]):
        found.dropped["mappings to no term"] += 1
        return
    if not cells["subject_id"] or not cells["object_id"]:
        literal = any("literal" in row.get(name, "") for name in TYPES)
        if literal:
            found.dropped["mappings of strings without an id"] += 1
        else:
            rejects.add("a mapping without subject_id or object_id", file=path, line=number)
        return
    curies = [_curie(cells[name], curie_map) for name in NEEDED]
    for name, curie in zip(NEEDED, curies, strict=True):
        if prefixes.parse_curie(curie) is None:
            rejects.add("not a CURIE", file=path, line=number, field=name, value=cells[name])
            return
    modifier = cells["predicate_modifier"].lower()
    try:
        confidence = float(cells["confidence"] or 1)
    except ValueError:
        confidence = -1.0
    if modifier not in ("", "not") or not 0 <= confidence <= 1:
        wrong = "predicate_modifier" if modifier not in ("", "not") else "confidence"
        problem = "must be empty or Not" if wrong == "predicate_modifier" else "must be a number from 0 to 1"
        rejects.add(problem, file=path, line=number, field=wrong, value=cells[wrong])
        return
    subject, predicate, object_ = curies
    label = row.get("subject_label", "").strip()
    found.mappings.append(Mapping(subject, predicate, object_, modifier == "not", confidence, label))


def _curie(identifier: str, curie_map: dict[str, str]) -> str:
    """Return an id as Alphita writes it; a prefix that only the file knows is looked up by its URI."""
    prefix, colon, local = identifier.partition(":")
    known = prefixes.canonical(prefix) in prefixes.table()
    if colon and not known and (uri := curie_map.get(prefix)):
        return prefixes.contract(uri + local) or prefixes.normalize(identifier)
    return prefixes.normalize(identifier)


def line_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, of which one in quotes may hold the delimiter; an open quote means nothing."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return line.split(delimiter)
