"""Plain tables: their columns are the fields of a mapping."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping as Dictionary
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from alphita import textio
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header
from alphita.mappings.record import COLUMNS, REVIEWED, Mapping, MappingType, Method, Relation, Status
from alphita.registry import unknown

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


def no_column(name: str, path: Path, known: Sequence[str]) -> InputError:
    """Return the error of a file that lacks a column it needs."""
    return InputError(
        unknown("column", name, known).replace("unknown", "no", 1),
        file=path,
        remedy="give a table whose columns are named as those that `alphita normalize` writes",
    )


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Count the values of fields that are no column."""
    left_out = [name for name in COLUMNS if name not in header.columns]
    counts = Counter(name for mapping in mappings for name in left_out if getattr(mapping, name) != _DEFAULTS.get(name))
    return dict(counts)


def mapping(cells: Dictionary[str, Any], path: Path, line: int, rejects: Rejects) -> Mapping | None:
    """Return the mapping of a row, or None if it was set aside."""
    values: dict[str, Any] = {}
    for name in COLUMNS:
        found = cells.get(name)
        try:
            values[name] = None if found in ("", None) else value(name, found)
        except ValueError as error:
            rejects.add(str(error), file=path, line=line, field=name, value=found)
            return None
        if values[name] is None:
            values[name] = line if name == "row" else _FILLED.get(name)
    if values["concept_id"] is None and values["method"] != REVIEWED:
        values["method"] = "nil"
    return Mapping(**values)


def value(name: str, found: object) -> object:
    """Return what a cell holds, as the field `name` of a mapping has it."""
    kind = KINDS[name]
    if kind is str:
        if not isinstance(found, str):
            raise ValueError("must be a string")
        if not textio.is_text(found):
            raise ValueError(textio.NO_TEXT)
        if name in _ALLOWED and found not in _ALLOWED[name]:
            raise ValueError(f"must be one of {list(_ALLOWED[name])}")
        return found
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise ValueError("must be a number")
    try:
        number = _whole(found) if kind is int else float(found)
    except (ValueError, OverflowError):
        raise ValueError("must be a whole number" if kind is int else "must be a number") from None
    least, most = _BETWEEN.get(name, (None, None))
    if least is not None and most is not None and not least <= number <= most:
        raise ValueError(f"must be from {least:g} to {most:g}")
    return number


def _whole(found: int | float | str) -> int:
    """Return a whole number; pandas writes those of a column with gaps as floats ("10.0")."""
    if not isinstance(found, float):
        with contextlib.suppress(ValueError):
            return int(found)
    number = float(found)
    if not number.is_integer() or abs(number) > _MOST_WHOLE:
        raise ValueError(found)
    return int(number)
