"""Counting what a format does not hold, by comparing mappings with what would be read back."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from alphita.mappings.formats import Header
from alphita.mappings.record import COLUMNS, REVIEWED, Mapping

T = TypeVar("T")
# Rounded to two or three decimals is not lost.
_ROUNDED = 0.0051
# The row is numbered anew by whoever reads, and belongs to no format.
_COMPARED = tuple(name for name in COLUMNS if name != "row")
UNSETTLED = "answers that nobody has accepted (--with-review writes them)"


def all_but(*kept: str) -> tuple[str, ...]:
    """Return the columns that a format loses: those but `row`, `concept_id` and `kept`."""
    return tuple(name for name in COLUMNS if name not in ("row", "concept_id", *kept))


def count(pairs: Iterable[tuple[Mapping, Mapping]]) -> dict[str, int]:
    """Count the fields whose value is not the same in what is written and what is read back."""
    counts: Counter[str] = Counter()
    for written, back in pairs:
        for name in _COMPARED:
            one, other = getattr(written, name), getattr(back, name)
            if one == other:
                continue
            if isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, abs_tol=_ROUNDED):
                continue
            counts[name] += 1
    return dict(counts)


def warn_unused_columns(
    rows: Iterable[tuple[int, Dictionary[str, T]]], known: Collection[str], path: Path, tell: Callable[[str], None]
) -> Iterator[tuple[int, Dictionary[str, T]]]:
    """Yield the rows of a file; after the last, tell which columns with values are none of `known`."""
    unread: Counter[str] = Counter()
    for line, cells in rows:
        unread.update(name for name, cell in cells.items() if cell and name not in known)
        yield line, cells
    if unread:
        columns = ", ".join(f"{name} ({number:,})" for name, number in unread.items())
        tell(f"{path}: columns that are not read, and how many values each has: {columns}")


def read_as(header: Header, said: Dictionary[str, object], **held: str | None) -> None:
    """Count the words of a file that its mapping does not hold, by name: those that are read as another one."""
    for name, word in held.items():
        if said.get(name) and word and said[name] != word:
            header.lost[f"{name} {said[name]}, read as {word}"] += 1


def is_target(mapping: Mapping) -> bool:
    """Return whether it is a mapping, not merely a further candidate: the answer, or what a person looked at."""
    return mapping.rank == 1 or mapping.status != "unreviewed"


def one_by_one(mappings: Sequence[Mapping]) -> Iterator[Mapping]:
    """Yield the mappings; one with several codes (`SNOMEDCT:1|SNOMEDCT:2`) once for each."""
    for mapping in mappings:
        if mapping.concept_id is None or "|" not in mapping.concept_id:
            yield mapping
        else:
            yield from (replace(mapping, concept_id=one) for one in mapping.concept_id.split("|"))


def left_out(mapping: Mapping, statuses: Sequence[str] = (), settled: bool = False) -> str | None:
    """Return, in words, why a format that holds plain mappings only does not hold this one; None if it does."""
    if not is_target(mapping):
        return "further candidates"
    if mapping.mapping_type != "maps_to":
        return f"targets of type {mapping.mapping_type}"
    if mapping.status in statuses:
        return f"{mapping.status} mappings"
    accepted = mapping.status == "approved" or mapping.decision in ("accept", REVIEWED)
    return UNSETTLED if settled and mapping.concept_id is not None and not accepted else None
