"""Sets of sentences judged by people as training batches: the multi-task adaptation of BioLORD-2023."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from alphita.errors import InputError, Rejects, UsageError
from alphita_lab.training.sentences.scored_pairs import ScoredPairs, Tasks, Triples, read

if TYPE_CHECKING:
    from alphita_lab.training.terms.batches import Batch

Sets = Mapping[str, ScoredPairs | Triples]
Kind = TypeVar("Kind", ScoredPairs, Triples)
_SCALE = re.compile(r"(.+)@(-?[\d.]+)-(-?[\d.]+)")


def listed(text: str) -> list[str]:
    """Return the parts of a setting that lists several, divided by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def path_of(item: str) -> tuple[Path, tuple[float, float] | None]:
    """Return the path and the scale of "FILE" or "FILE@LOW-HIGH"."""
    match = _SCALE.fullmatch(item)
    if match is None or Path(item).exists():
        return Path(item), None
    try:
        return Path(match[1]), (float(match[2]), float(match[3]))
    except ValueError:
        raise UsageError(f"{item!r}: a scale is two numbers, as in FILE@0-4") from None


def read_files(items: str, kind: type[Kind], rejects: Rejects, *, part: str = "train") -> dict[str, Kind]:
    """Return the sets of the files that a setting lists, by their paths."""
    sets: dict[str, Kind] = {}
    for item in listed(items):
        path, scale = path_of(item)
        one = read(path, rejects, part=part, scale=scale)
        if not isinstance(one, kind):
            setting = "triples" if isinstance(one, Triples) else "scored"
            raise InputError("holds another kind of sentences", file=path, remedy=f"give it to the setting {setting}")
        sets[str(path)] = one
    return sets


class SentenceTasks:
    """Batches of several sets, each batch of one, as `Tasks` draws them."""

    def __init__(self, sets: Sets, *, rows: int, seed: int, turns: str) -> None:
        columns = {name: _columns(one) for name, one in sets.items()}
        place: dict[str, int] = {}
        self._columns: dict[str, dict[str, NDArray[np.int64]]] = {
            name: {
                column: np.array([place.setdefault(string, len(place)) for string in strings], np.int64)
                for column, strings in own.items()
            }
            for name, own in columns.items()
        }
        self.strings = list(place)
        self._scores = {name: one.scores for name, one in sets.items() if isinstance(one, ScoredPairs)}
        sizes = {name: len(next(iter(own.values()))) for name, own in columns.items()}
        self._tasks = Tasks(sizes, rows=rows, seed=seed, turns=turns)
        self.batches = self._tasks.batches

    def batch(self, number: int) -> Batch:
        """Return batch `number`: its arrays are left, right and score, or premise, entailed and contradicted."""
        from alphita_lab.training.terms.batches import Batch

        name, rows = self._tasks.batch(number)
        columns = {column: strings[rows] for column, strings in self._columns[name].items()}
        terms, place = np.unique(np.concatenate(list(columns.values())), return_inverse=True)
        arrays: dict[str, NDArray[Any]] = dict(zip(columns, np.split(place, len(columns)), strict=True))
        if name in self._scores:
            arrays["score"] = self._scores[name][rows]
        return Batch(terms, arrays, rows=len(columns) * len(rows))


def _columns(one: ScoredPairs | Triples) -> dict[str, list[str]]:
    if isinstance(one, ScoredPairs):
        return {"left": one.left, "right": one.right}
    return {"premise": one.premises, "entailed": one.entailed, "contradicted": one.contradicted}
