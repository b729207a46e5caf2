"""Dictionaries of names as MEDIC, CTD and BioSyn write them, and gold ids sought in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphita import textio
from alphita.errors import InputError
from alphita.evaluation.scoring.linking import Targets

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
        notes: what was left out.
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
        for one in others:
            self.other.setdefault(one, set()).add(first)
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
            "first id" if one in self.main else "other id" if one in self.other else "not in the dictionary"
            for one in set(gold)
        )
        return {f"gold ids, {how}": counts[how] for how in sorted(counts)}

    def targets(self, more: Iterable[tuple[str, str]] = ()) -> Targets:
        """Return the names, and after them `more` (concept, name) that are not among them."""
        pairs = dict.fromkeys([*zip(self.ids, self.names, strict=True), *more])
        return Targets([one for one, _ in pairs], [name for _, name in pairs])


def read(path: Path) -> Dictionary:
    """Read a dictionary in MEDIC's or CTD's layout.

    Raises:
        InputError: it cannot be read, is of another layout, or holds no name.
    """
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
        listed = [bare(one) for one in ids.split("|")]
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
