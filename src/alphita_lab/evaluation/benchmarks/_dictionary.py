"""Names of concepts: dictionaries as MEDIC, CTD and BioSyn write them, files of names, a terminology's own terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphita import registry, textio
from alphita.errors import InputError, UsageError
from alphita.terminology.languages import among
from alphita.terminology.store import Terminology
from alphita_lab.evaluation.scoring.linking import Targets

BETWEEN = "||"
REMEDY = (
    "expected lines of id|other ids||name|synonyms (MEDIC), of id||name (BioSyn), or CTD's table, whose comment "
    "'# Fields:' is followed by one with the names of the columns"
)
# Corpora and CTD write MESH:D003924 and OMIM:222100, MEDIC and BioSyn the bare ids, which cannot be confused.
_PREFIXES = ("MESH:", "OMIM:")


def bare(one: str) -> str:
    """Return an id without "MESH:" or "OMIM:"."""
    one = one.strip()
    for prefix in _PREFIXES:
        one = one.removeprefix(prefix)
    return one.strip()


@dataclass
class Dictionary:
    """Names of concepts.

    Attributes:
        ids: (n,) the concept of each name: its first id, bare.
        names: (n,) the names.
        main: the concepts' first ids.
        other: other id of a concept -> the first ids of the concepts that have it.
    """

    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    main: set[str] = field(default_factory=set)
    other: dict[str, set[str]] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    def add(self, ids: Sequence[str], names: Iterable[str]) -> None:
        """Add a concept: its ids, the first of which stands for it, and its names; names without a sign are counted."""
        first, *others = ids
        self.main.add(first)
        for other in others:
            self.other.setdefault(other, set()).add(first)
        for name in dict.fromkeys(name.strip() for name in names):
            if name:
                self.ids.append(first)
                self.names.append(name)
            else:
                self.notes["empty names left out of the dictionary"] += 1

    def find(self, one: str) -> frozenset[str]:
        """Return the concepts that a gold id stands for; the id itself where the dictionary does not have it."""
        if one in self.main:
            return frozenset([one])
        return frozenset(self.other.get(one, {one}))

    def notes_on(self, gold: Iterable[str]) -> dict[str, Any]:
        """Return how many of the distinct gold ids were found in which way."""
        counts = Counter(
            "first id" if gold_id in self.main else "other id" if gold_id in self.other else "not in the dictionary"
            for gold_id in set(gold)
        )
        return {f"gold ids, {how}": counts[how] for how in sorted(counts)}

    def targets(self, more: Iterable[tuple[str, str]] = ()) -> Targets:
        """Return the names, and after them `more` (concept, name) that are not among them."""
        pairs = dict.fromkeys([*zip(self.ids, self.names, strict=True), *more])
        return Targets([one for one, _ in pairs], [name for _, name in pairs])


def read(path: Path) -> Dictionary:
    """Read a dictionary in MEDIC's or CTD's layout."""
    lines = textio.read_text(path).split("\n")
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    dictionary = _of_medic(path, lines) if BETWEEN in first and "\t" not in first else _of_ctd(path, lines)
    if not dictionary.names:
        raise InputError("holds no name", file=path, remedy=REMEDY)
    return dictionary


def _of_medic(path: Path, lines: Sequence[str]) -> Dictionary:
    dictionary = Dictionary()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        ids, between, names = line.partition(BETWEEN)
        listed = [bare(listed_id) for listed_id in ids.split("|")]
        if not between or not all(listed) or not names.strip():
            raise InputError("not ids, || and names", file=path, line=number, value=line, remedy=REMEDY)
        dictionary.add(listed, names.split("|"))
    return dictionary


def _of_ctd(path: Path, lines: Sequence[str]) -> Dictionary:
    dictionary = Dictionary()
    columns: list[str] = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            words = line.removeprefix("#").strip().split("\t")
            columns = words if len(words) > 1 else columns
            continue
        if not line.strip():
            continue
        if not columns:
            raise InputError("is not a dictionary in a layout known here", file=path, line=number, remedy=REMEDY)
        cells = line.split("\t")
        if len(cells) != len(columns):
            raise InputError(
                f"has {len(cells)} fields, not {len(columns)}", file=path, line=number, value=line, remedy=REMEDY
            )
        fields = dict(zip(columns, cells, strict=True))
        name, one, others = (_field(path, fields, ending) for ending in ("Name", "ID", "IDs"))
        synonyms = [cell for column, cell in fields.items() if column.endswith("Synonyms") and cell]
        if not one:
            raise InputError("has no id", file=path, line=number, value=line)
        ids = [bare(part) for part in (one, *filter(None, others.split("|")))]
        dictionary.add(ids, [name, *(part for cell in synonyms for part in cell.split("|"))])
    return dictionary


def _field(path: Path, fields: dict[str, str], ending: str) -> str:
    """Return the name, id or other ids: of "DiseaseName", "DiseaseID", "AltDiseaseIDs"; of chemicals likewise."""
    for kind in ("Disease", "Chemical"):
        column = f"Alt{kind}{ending}" if ending == "IDs" else f"{kind}{ending}"
        if column in fields:
            return fields[column]
    if ending == "IDs":
        return ""
    raise InputError(
        f"has no column DiseaseName or ChemicalName, or none of ids ({', '.join(fields)})", file=path, remedy=REMEDY
    )


# First names of the columns by which a head line is known in a file of names.
HEADS = frozenset({"id", "cui", "concept", "concept_id", "code"})


def terms_in(terminology: Terminology, language: str | None) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the terms' rows, concept by concept, the preferred ones first, and where each concept's begin."""
    if language is None:
        return terminology.training_terms()
    known = {tag for tag in terminology.terms.column("language").unique().to_pylist() if tag is not None}
    if not among(known, [language]):
        raise UsageError(registry.unknown("language of the terminology", language, sorted(known)))
    return terminology.training_terms(languages=[language])


def read_names(path: Path) -> tuple[list[str], list[str]]:
    """Read a file of names: `id<TAB>name` a line, perhaps gzipped, perhaps with a head line (id, cui, concept,
    code)."""
    ids, names = [], []
    for number, row in textio.rows(path, "\t"):
        if number == 1 and row[0].lower() in HEADS:
            continue
        if len(row) != 2 or not all(row):
            raise InputError("not an id, a tab and a name", file=path, line=number, value="\t".join(row))
        ids.append(row[0])
        names.append(row[1])
    if not names:
        raise InputError("holds no name", file=path)
    return ids, names
