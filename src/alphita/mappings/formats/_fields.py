"""What formats share: the fields of a mapping as cells, what a file does not hold of them, and OMOP's numbers."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as Dictionary
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import IO, Any, TypeVar, get_args, get_type_hints

from alphita import textio
from alphita.artefact import atomic_file
from alphita.errors import InputError, Rejects, UsageError
from alphita.mappings.formats import Header, Problem, TargetInfo
from alphita.mappings.record import COLUMNS, JOINT, OMOP, REVIEWED, Mapping, MappingType, Method, Relation, Status
from alphita.registry import unknown

T = TypeVar("T")
# Rounded to two or three decimals is not lost.
_ROUNDED = 0.0051
# The row is numbered anew by whoever reads, and belongs to no format; OMOP's facts are the concept's.
_COMPARED = tuple(name for name in COLUMNS if name not in ("row", "extra", *OMOP))
# Extras that are words of a standard, never of a person: they are shown with their value.
_WORDS = ("predicate_id", "mapping_justification", "equivalence", "relationship", "mappingStatus", "mappingType")
UNSETTLED = "answers that nobody has accepted (--with-review writes them)"
_OMOP_NUMBER = re.compile(r"OMOP:(0|[1-9]\d{0,9})")
_NEAREST = re.compile(r"nearest concept: (.+?)(?: \((.*)\))?", re.DOTALL)
NO_OMOP = TargetInfo(0, "", "None")
_HINTS = get_type_hints(Mapping)
KINDS: dict[str, type] = {
    name: next(kind for kind in (int, float, str) if kind is _HINTS[name] or kind in get_args(_HINTS[name]))
    for name in COLUMNS
}
_DEFAULTS = {field.name: field.default for field in fields(Mapping) if field.default is not MISSING}
# What must not be None, and what stands there when the file has no such column or an empty cell.
_FILLED = {"rank": 1, "method": "nearest", "mention": "", "status": "unreviewed", "mapping_type": "maps_to"}
_ALLOWED: dict[str, tuple[str, ...]] = {
    "method": get_args(Method),
    "relation": get_args(Relation),
    "status": get_args(Status),
    "mapping_type": get_args(MappingType),
}
_BETWEEN = {"similarity": (-1.0, 1.0), "confidence": (0.0, 1.0)}
# Without them a file says nothing of any mapping: every row would read as one that no concept fits.
NEEDED = ("mention", "concept_id")
# Beyond it a float need not be the whole number that was meant.
_MOST_WHOLE = 2.0**53


def split_complete(header: Header, mappings: Sequence[Mapping]) -> tuple[Sequence[Mapping], Sequence[Mapping]]:
    """Return all as complete: no mapping changes another."""
    return mappings, ()


def finish(header: Header, part: Path, out: Path) -> None:
    """Rename the part to the output."""
    part.replace(out)


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return None: a plain table holds every mapping."""
    return None


@contextmanager
def made_of(part: Path, out: Path, mode: str = "wb", **how: Any) -> Iterator[IO[Any]]:  # noqa: ANN401
    """Write an output aside, rename it, and remove the part that it is made of; it is as private as that."""
    with atomic_file(out, mode, private=not os.stat(part).st_mode & 0o077, **how) as file:
        yield file
    part.unlink()


def no_column(name: str, path: Path, known: Sequence[str]) -> InputError:
    """Return the error of a file that lacks a column it needs."""
    return InputError(
        unknown("column", name, known).replace("unknown", "no", 1),
        file=path,
        remedy="give a table whose columns are named as those that `alphita normalize` writes",
    )


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count the values of fields that are no column."""
    left_out = [name for name in COLUMNS if name not in header.columns and name != "extra"]
    counts = Counter(name for mapping in mappings for name in left_out if getattr(mapping, name) != _DEFAULTS.get(name))
    if "extra" not in header.columns:
        counts.update(word for mapping in mappings for word in lost_extras(mapping, {}))
    return dict(counts)


def lost_extras(mapping: Mapping, held: Dictionary[str, str]) -> Iterator[str]:
    """Yield the names of the extras of a mapping that are not `held`, with the words of standards."""
    for name, text in mapping.extras.items():
        if held.get(name) != text:
            yield f"{name} {text}" if name in _WORDS else name


def with_extras(mapping: Mapping, cells: Dictionary[str, str], own: Dictionary[str, str]) -> Mapping:
    """Return a mapping with those cells of the row it was read from that are not what would be written of it."""
    return mapping.with_extras({name: cell for name, cell in cells.items() if cell and own.get(name, "") != cell})


def overlaid(
    own: dict[str, str], mapping: Mapping, names: Collection[str], read: Callable[[dict[str, str]], Mapping]
) -> dict[str, str]:
    """Return the cells of a mapping, in the words that it was read with wherever these still say the same of it.

    Args:
        own: the cells by name, in our words.
        names: of the cells that may have another word.
        read: returns the mapping of such cells.
    """
    extras = {name: text for name, text in mapping.extras.items() if name in names}
    least = set(_differing(mapping, read(own))) if extras else set()
    for name, text in extras.items():
        with contextlib.suppress(InputError):
            if least.issuperset(_differing(mapping, read(own | {name: text}))):
                own = own | {name: text}
    return own


def _differing(mapping: Mapping, other: Mapping) -> list[str]:
    return [name for name in _COMPARED if not _is_same(name, getattr(mapping, name), getattr(other, name))]


def _is_same(name: str, before: object, after: object) -> bool:
    if isinstance(before, float) and isinstance(after, float):
        return math.isclose(before, after, abs_tol=_ROUNDED)
    # That the codes of a file have one vocabulary, its header says.
    return before == after or (name == "mention_vocabulary" and before is None)


def mappings(
    rows: Iterable[tuple[int, Dictionary[str, Any]]], path: Path, header: Header, rejects: Rejects
) -> Iterator[Mapping]:
    """Yield the mappings of a table's rows; columns that are no field are passed over, and told."""
    for line, cells in warn_unused_columns(rows, COLUMNS, path, header.tell):
        if (found := mapping(cells, path, line, rejects)) is not None:
            yield found


def mapping(cells: Dictionary[str, Any], path: Path, line: int, rejects: Rejects) -> Mapping | None:
    """Return the mapping of a row, or None if it was set aside."""
    values: dict[str, Any] = {}
    for name in COLUMNS:
        cell = cells.get(name)
        try:
            values[name] = None if cell in ("", None) else value(name, cell)
        except ValueError as error:
            rejects.add(str(error), file=path, line=line, field=name, value=cell)
            return None
        if values[name] is None:
            values[name] = line if name == "row" else _FILLED.get(name)
    if values["concept_id"] is None and values["method"] != REVIEWED:
        values["method"] = "nil"
    return Mapping(**values)


def value(name: str, cell: object) -> object:
    """Return what a cell holds, as the field `name` of a mapping has it."""
    kind = KINDS[name]
    if kind is str:
        if not isinstance(cell, str):
            raise ValueError("must be a string")
        if not textio.is_text(cell):
            raise ValueError(textio.NO_TEXT)
        if name in _ALLOWED and cell not in _ALLOWED[name]:
            raise ValueError(f"must be one of {list(_ALLOWED[name])}")
        if name == "extra":
            _check_extra(cell)
        return cell
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise ValueError("must be a number")
    try:
        number = _whole(cell) if kind is int else float(cell)
    except (ValueError, OverflowError):
        raise ValueError("must be a whole number" if kind is int else "must be a number") from None
    least, most = _BETWEEN.get(name, (None, None))
    if least is not None and most is not None and not least <= number <= most:
        raise ValueError(f"must be from {least:g} to {most:g}")
    return number


def _check_extra(cell: str) -> None:
    try:
        extras = textio.json_value(cell)
    except ValueError:
        extras = None
    texts = extras.values() if isinstance(extras, dict) else [None]
    if not all(isinstance(text, str) and textio.is_text(text) for text in texts):
        raise ValueError("must be a JSON object of texts")


def _whole(cell: int | float | str) -> int:
    """Return a whole number; pandas writes those of a column with gaps as floats ("10.0")."""
    if not isinstance(cell, float):
        with contextlib.suppress(ValueError):
            return int(cell)
    number = float(cell)
    if not number.is_integer() or abs(number) > _MOST_WHOLE:
        raise ValueError(cell)
    return int(number)


def all_but(*kept: str) -> tuple[str, ...]:
    """Return the columns that a format loses: those but `row`, `concept_id`, `extra` and `kept`."""
    return tuple(name for name in _COMPARED if name not in ("concept_id", *kept))


def lost(
    mappings: Sequence[Mapping], why: Callable[[Mapping], str | None], held: Callable[[Mapping], Mapping]
) -> dict[str, int]:
    """Count what a file does not hold: by the words why mappings are left out, and by field of those that it holds."""
    whole: Counter[str] = Counter()
    pairs = []
    for mapping in one_by_one(mappings):
        if reason := why(mapping):
            whole[reason] += 1
        else:
            pairs.append((mapping, held(mapping)))
    return dict(whole) | count(pairs)


def count(pairs: Iterable[tuple[Mapping, Mapping]]) -> dict[str, int]:
    """Count the fields whose value is not the same in what is written and what is read back."""
    counts: Counter[str] = Counter()
    for written, back in pairs:
        counts.update(_differing(written, back))
        counts.update(lost_extras(written, back.extras))
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


def is_target(mapping: Mapping) -> bool:
    """Return whether it is a mapping, not merely a further candidate: the answer, or what a person looked at."""
    return mapping.rank == 1 or mapping.status != "unreviewed"


def one_by_one(mappings: Sequence[Mapping]) -> Iterator[Mapping]:
    """Yield the mappings; one with several codes (`SNOMEDCT:1|SNOMEDCT:2`) once for each."""
    for mapping in mappings:
        if mapping.concept_id is None or "|" not in mapping.concept_id:
            yield mapping
            continue
        codes = mapping.concept_id.split("|")
        names: list[str | None] = [*(mapping.concept_name or "").split(JOINT)]
        if len(names) != len(codes):
            names = [mapping.concept_name] * len(codes)
        for code, name in zip(codes, names, strict=True):
            yield replace(mapping, concept_id=code, concept_name=name)


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


def nearest_comment(mapping: Mapping) -> str | None:
    """Return the nearest concept of a NIL as a comment, where a format has no other place for it."""
    if mapping.concept_id is not None or mapping.nearest_id is None:
        return None
    name = f" ({mapping.nearest_name})" if mapping.nearest_name else ""
    return f"nearest concept: {mapping.nearest_id}{name}"


def nearest_in(comment: str | None) -> dict[str, str | None]:
    """Return the fields that `nearest_comment` wrote as a comment; none of another one."""
    found = _NEAREST.fullmatch(comment or "")
    return {} if found is None else {"nearest_id": found[1], "nearest_name": found[2], "comment": None}


def omop_target(header: Header, concept_id: str | None) -> TargetInfo | None:
    """Return what OMOP says of a concept: number 0 of vocabulary "None" for NIL, None where it has no number."""
    if concept_id is None:
        return NO_OMOP
    info = header.target_info(concept_id) if header.target_info is not None else None
    if info is not None:
        return info
    if number := _OMOP_NUMBER.fullmatch(concept_id):
        return TargetInfo(int(number[1]), "", "")
    if header.target_info is None:
        raise UsageError(
            f"this format needs OMOP's concept ids, and {concept_id} has none; 'alphita review export' and 'alphita "
            "mappings convert' find them by --concepts CONCEPT.csv, the first also by --index, 'alphita normalize' "
            "with an index of a terminology from 'alphita terminology import omop'"
        )
    return None
