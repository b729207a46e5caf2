"""The dictionary and the queries that all get: of a terminology and its split, of a benchmark, or from files."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import protocol

from alphita import config
from alphita.errors import InputError, UsageError
from alphita.index import segment
from alphita.terminology.splits import Split
from alphita.terminology.store import load_terminology
from alphita.terminology.text import DEFAULT_RULES
from alphita_lab.evaluation.benchmarks import Source, _terminology_targets, load_benchmark
from alphita_lab.evaluation.scoring.linking import Queries, Targets

DICTIONARY_COLUMNS = ("id", "name")
QUERY_COLUMNS = ("query", "mention", "id")
# Between ids any of which is right.
OR = "|"
SEED = 0
_BREAKS = re.compile(r"[\t\r\n]+")


@dataclass(frozen=True)
class Tables:
    """What is asked, and of what.

    Attributes:
        ids: (n,) the concept of each name; the first name of a concept is its preferred one.
        names: (n,) the names as written.
        queries: the parts of each query with the ids that are right: a composite mention has several parts, and all of
            them must be right.
        notes: of the reading.
    """

    ids: list[str]
    names: list[str]
    queries: list[list[tuple[str, frozenset[str]]]]
    notes: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse empty ones."""
        if not self.ids or not self.queries:
            raise UsageError(f"{len(self.ids)} names and {len(self.queries)} queries: there is nothing to compare")

    def sample(self, most: int | None) -> list[int]:
        """Return the numbers of `most` queries, or of all: a smaller sample is part of a larger one."""
        numbers = list(range(len(self.queries)))
        if most is None or most >= len(numbers):
            return numbers
        random.Random(SEED).shuffle(numbers)
        return sorted(numbers[:most])

    def mentions(self, numbers: Sequence[int]) -> list[str]:
        """Return the distinct mentions of these queries."""
        return list(dict.fromkeys(mention for number in numbers for mention, _ in self.queries[number]))

    def write(self, folder: Path) -> dict[str, Any]:
        """Write dictionary.tsv and gold.tsv into a folder, and return their counts and sha256."""
        protocol.write(folder / "dictionary.tsv", DICTIONARY_COLUMNS, list(zip(self.ids, self.names, strict=True)))
        lines = [
            (number, mention, OR.join(sorted(gold)))
            for number, parts in enumerate(self.queries)
            for mention, gold in parts
        ]
        protocol.write(folder / "gold.tsv", QUERY_COLUMNS, lines)
        return {
            "names": len(self.names),
            "concepts": len(set(self.ids)),
            "queries": len(self.queries),
            "distinct_mentions": len(self.mentions(self.sample(None))),
            "dictionary_sha256": _sha256(folder / "dictionary.tsv"),
            "queries_sha256": _sha256(folder / "gold.tsv"),
            "notes": self.notes,
        }


def from_split(terminology: Path, split: Path) -> Tables:
    """Return the test strings of a split, and the names of the live concepts without all that the split holds out."""
    module, opened, held_out = load_benchmark("held_out_synonyms"), load_terminology(terminology), Split.load(split)
    data = module.load(Source(terminology=opened), module.Options(split=split))
    content = segment.collect(opened, DEFAULT_RULES, held_out.cleaned)
    ids = content.concepts.table.column("id").take(content.terms.column("concept")).to_pylist()
    terms = sorted(
        zip(
            ids,
            (not one for one in content.terms.column("preferred").to_pylist()),
            content.terms.column("string").to_pylist(),
            strict=True,
        )
    )
    targets = Targets(ids=[one for one, _, _ in terms], names=[name for _, _, name in terms])
    return _tables(data.queries, targets, dict(data.notes) | {"split_hash": held_out.hash})


def from_benchmark(name: str, data: Path, sets: Sequence[str] = ()) -> Tables:
    """Return the mentions and the names of one of Alphita's normalization benchmarks."""
    module = load_benchmark(name)
    if module.INFO.task != "normalization":
        raise UsageError(f"the benchmark {name} is not one of normalization but of {module.INFO.task}")
    source = Source(data=data, benchmark=name, where=module.INFO.where)
    found = module.load(source, config.resolve(module.Options, sets=sets))
    if isinstance(found, _terminology_targets.Data):
        return _tables(found.queries, found.targets, found.notes)
    if len(found.parts) != 1:
        raise UsageError(f"the benchmark {name} has {len(found.parts)} dictionaries; peers are compared on one")
    return _tables(found.parts[0].queries, found.parts[0].targets, found.notes)


def from_files(dictionary: Path, queries: Path) -> Tables:
    """Read a dictionary (id, name) and queries (mention, id; or query, mention, id as `Tables.write` writes them)."""
    names = _read(dictionary, DICTIONARY_COLUMNS)
    numbered = _first_line(queries).startswith(QUERY_COLUMNS[0] + "\t")
    lines = _read(queries, QUERY_COLUMNS if numbered else QUERY_COLUMNS[1:])
    parts: dict[str, list[tuple[str, frozenset[str]]]] = {}
    for place, line in enumerate(lines):
        number, mention, gold = line if numbered else [str(place), *line]
        parts.setdefault(number, []).append((mention, frozenset(gold.split(OR))))
    return Tables([one for one, _ in names], [name for _, name in names], list(parts.values()))


def _tables(queries: Queries, targets: Targets, notes: Any) -> Tables:  # noqa: ANN401 - a mapping of plain values
    """Return tables; tabs and line breaks inside a string, which the files cannot hold, become a space."""
    asked = [
        [(_BREAKS.sub(" ", mention), ids) for mention, ids in zip(parts, gold, strict=True)]
        for parts, gold in zip(queries.parts, queries.gold, strict=True)
    ]
    return Tables(list(targets.ids), [_BREAKS.sub(" ", name) for name in targets.names], asked, dict(notes))


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None


def _read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    _first_line(path)
    try:
        return protocol.rows(path, columns)
    except ValueError as error:
        raise InputError(str(error), remedy=f"a table with tabs between the columns {', '.join(columns)}") from None


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
