"""Reading SSSOM/TSV mapping files: for merging terminologies by what others have mapped.

Read: subject_id, subject_label, predicate_id, object_id, predicate_modifier, confidence, and of the metadata
curie_map, mapping_set_id, mapping_set_version, license and, where they are no columns, subject_type and object_type.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita.errors import InputError, Rejects
from alphita.terminology import prefixes
from alphita.terminology.loaders import _files
from alphita.terminology.sssom_file import LITERAL, NO_TERM, SssomFile

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


def _add(found: MappingSet, file: SssomFile, line: int, slots: dict[str, str], rejects: Rejects) -> None:
    cells = {name: slots.get(name, "").strip() for name in (*NEEDED, "predicate_modifier", "confidence")}
    if NO_TERM in (cells["object_id"], cells["subject_id"]):
        found.dropped["mappings to no term"] += 1
        return
    if not cells["subject_id"] or not cells["object_id"]:
        literal = any(slots.get(name) == LITERAL for name in TYPES)
        if literal:
            found.dropped["mappings of strings without an id"] += 1
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
    found.mappings.append(Mapping(subject, predicate, object_, modifier == "not", confidence, label))
