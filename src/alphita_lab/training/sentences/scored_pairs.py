"""Sentences judged by people, on which BioLORD-2023 adapts its base (Remy et al. 2024, "Contrastive phase").

Pairs with a score, or triples of a premise with what follows from it and what contradicts it; see `LAYOUTS`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from alphita import registry, textio
from alphita.calibrate.from_mappings import TRIPLE_COLUMNS
from alphita.errors import InputError, Rejects, UsageError

if TYPE_CHECKING:
    from alphita_lab.training.terms.batches import Batch

Int64 = NDArray[np.int64]
LABELS = ("entailment", "contradiction", "neutral")


@dataclass(frozen=True)
class Layout:
    """Where a table of scored pairs holds what: columns by name (case does not count), or by place from 0."""

    left: str | int
    right: str | int
    score: str | int
    low: float = 0.0
    high: float = 5.0
    # The column that tells the part of the data, and what it says for each; a table without it is one part.
    parts: tuple[str, Mapping[str, str]] | None = None


LAYOUTS = {
    "stsb_multi_mt": Layout(0, 1, 2),
    "sts_benchmark": Layout(5, 6, 4),
    "sick": Layout(
        "sentence_a",
        "sentence_b",
        "relatedness_score",
        low=1.0,
        parts=("semeval_set", {"train": "TRAIN", "dev": "TRIAL", "test": "TEST"}),
    ),
    "table": Layout("sentence1", "sentence2", "score"),
}


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences and how alike people find them."""

    left: list[str]
    right: list[str]
    scores: NDArray[np.float32]  # (n,) float32, from 0 (unlike) to 1 (the same)


@dataclass(frozen=True)
class Triples:
    """Premises, what follows from each and what contradicts it."""

    premises: list[str]
    entailed: list[str]
    contradicted: list[str]
    alone: int = 0  # hypotheses left out, for their premise has none of the opposite label to go with them


def read(
    path: Path, rejects: Rejects, *, part: str = "train", scale: tuple[float, float] | None = None
) -> ScoredPairs | Triples:
    """Read one file, gzipped or not."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        return _inference(path, rejects)
    text = textio.read_text(path)
    delimiter = "\t" if "\t" in text.lstrip("\n").partition("\n")[0] else ","
    rows = _rows(path, delimiter)
    header = [cell.lower() for cell in rows[0][1]] if rows else []
    if set(TRIPLE_COLUMNS) <= set(header):
        return _triples(path, rows[1:], header, rejects)
    name = _layout_of(path, header, delimiter)
    layout = LAYOUTS[name]
    low, high = scale or (layout.low, layout.high)
    if not low < high:
        raise UsageError(f"a scale runs from the lowest to the highest score, not from {low:g} to {high:g}")
    pairs = list(_pairs(path, rows, header, layout, (low, high), part, rejects))
    if not pairs:
        of = f" of the part {part!r}" if layout.parts else ""
        raise InputError(f"holds no scored pair{of}", file=path, remedy="give another file, or see what was set aside")
    scores = np.array([score for _, _, score in pairs])
    if name == "table" and scale is None and scores.max() <= 1:
        raise InputError(
            f"all scores are at most 1, on a scale of {low:g} to {high:g}",
            file=path,
            field="score",
            value=scores.max(),
            remedy="say what the scale is",
        )
    left, right = [one for one, _, _ in pairs], [other for _, other, _ in pairs]
    return ScoredPairs(left, right, ((scores - low) / (high - low)).astype(np.float32))


def _rows(path: Path, delimiter: str) -> list[tuple[int, list[str]]]:
    found = textio.held_rows(path, delimiter)
    if delimiter != "\t":
        return found
    # Quotes between tabs are text; but those around a whole field are a spreadsheet's.
    return [(line, [textio.unquoted(cell).strip() for cell in cells]) for line, cells in found]


def _layout_of(path: Path, header: Sequence[str], delimiter: str) -> str:
    """Return the name of a table's layout, by its first line."""
    for name, layout in LAYOUTS.items():
        if {layout.left, layout.right, layout.score} <= set(header):
            return name
    name = "stsb_multi_mt" if delimiter == "," else "sts_benchmark"
    place = LAYOUTS[name].score
    if isinstance(place, int) and len(header) > place and _is_number(header[place]):
        return name
    raise InputError(
        "not a file of scored pairs",
        file=path,
        line=1,
        value=" | ".join(header),
        remedy="give a table with a line of column names, sentence1, sentence2 and score among them; or STS-B, SICK or "
        "MedNLI in their own layout",
    )


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _pairs(
    path: Path,
    rows: Sequence[tuple[int, list[str]]],
    header: Sequence[str],
    layout: Layout,
    scale: tuple[float, float],
    part: str,
    rejects: Rejects,
) -> Iterator[tuple[str, str, float]]:
    """Yield the pairs of one part with their scores as they stand."""
    columns = [
        header.index(place) if isinstance(place, str) else place for place in (layout.left, layout.right, layout.score)
    ]
    wanted, where = None, 0
    if layout.parts is not None and layout.parts[0] in header:
        if part not in layout.parts[1]:
            raise UsageError(registry.unknown("part", part, layout.parts[1]))
        wanted, where = layout.parts[1][part], header.index(layout.parts[0])
    for line, row in rows[1:] if isinstance(layout.left, str) else rows:
        if len(row) <= max(*columns, where):
            rejects.add(f"a line of {len(row)} fields, of {max(*columns, where) + 1} or more", file=path, line=line)
            continue
        if wanted is not None and row[where] != wanted:
            continue
        left, right, score = (row[column] for column in columns)
        if not (left and right):
            rejects.add("a sentence is empty", file=path, line=line, value=left or right)
        elif not _is_number(score):
            rejects.add("the score is not a number", file=path, line=line, field="score", value=score)
        elif not scale[0] <= float(score) <= scale[1]:
            raise InputError(
                f"the score is out of range, {scale[0]:g} to {scale[1]:g}",
                file=path,
                line=line,
                field="score",
                value=score,
                remedy="mend it, or say what the scale is",
            )
        else:
            yield left, right, float(score)


def _triples(path: Path, rows: Sequence[tuple[int, list[str]]], header: Sequence[str], rejects: Rejects) -> Triples:
    columns = [header.index(name) for name in TRIPLE_COLUMNS]
    rows_of_part: list[list[str]] = []
    for line, row in rows:
        cells = [row[column] if column < len(row) else "" for column in columns]
        if all(cells):
            rows_of_part.append(cells)
        else:
            rejects.add("a sentence is empty", file=path, line=line, field=TRIPLE_COLUMNS[cells.index("")])
    return _columns(path, rows_of_part, 0)


def _inference(path: Path, rejects: Rejects) -> Triples:
    """Return the triples of a file of natural language inference."""
    premises: dict[str, dict[str, list[str]]] = {}
    for line, entry in textio.lines(path):
        try:
            fields = textio.json_value(entry)
            premise, hypothesis, label = (fields[key] for key in ("sentence1", "sentence2", "gold_label"))
            premise, hypothesis = premise.strip(), hypothesis.strip()
        except (ValueError, KeyError, TypeError, AttributeError):
            problem = "not a JSON object with the strings sentence1, sentence2 and gold_label"
            rejects.add(problem, file=path, line=line, value=entry)
            continue
        if not (premise and hypothesis):
            rejects.add("a sentence is empty", file=path, line=line, value=premise or hypothesis)
        elif label not in LABELS:
            rejects.add(f"not one of {', '.join(LABELS)}", file=path, line=line, field="gold_label", value=label)
        else:
            premises.setdefault(premise, {name: [] for name in LABELS})[label].append(hypothesis)
    found = [
        [premise, one, other]
        for premise, by_label in premises.items()
        for one, other in zip(by_label["entailment"], by_label["contradiction"], strict=False)
    ]
    alone = sum(abs(len(by_label["entailment"]) - len(by_label["contradiction"])) for by_label in premises.values())
    return _columns(path, found, alone)


def _columns(path: Path, found: Sequence[Sequence[str]], alone: int) -> Triples:
    if not found:
        raise InputError(
            "has no premise with an entailed and a contradicted hypothesis",
            file=path,
            remedy="give another file, or see what was set aside",
        )
    first, second, third = ([row[column] for row in found] for column in range(3))
    return Triples(first, second, third, alone)


class Tasks:
    """Draws batches of several sets, each out of one of them; everything follows from the seed and a batch's number.

    A set of n rows makes b = ceil(n / rows) batches an epoch, whose sizes differ by 1 at most: each row is in one of
    them, in an order shuffled anew each epoch.
    """

    def __init__(self, sizes: Mapping[str, int], *, rows: int, seed: int, turns: str = "proportional") -> None:
        if not sizes or min(sizes.values()) < 1:
            empty = ", ".join(repr(name) for name, size in sizes.items() if size < 1)
            raise InputError(
                f"nothing to draw from in {empty}" if empty else "no set of sentences to draw from",
                remedy="give sets of scored pairs or triples, or skip the adaptation",
            )
        self._names, self._sizes = list(sizes), list(sizes.values())
        self._each = [math.ceil(size / rows) for size in self._sizes]
        self._seed = seed
        # A round: how many batches of each set it has.
        self._round = self._each if turns == "proportional" else [1] * len(sizes)
        # Batches until every row of every set has come once at least.
        self.batches = sum(self._each) if turns == "proportional" else len(sizes) * max(self._each)
        self._turns: tuple[int, Int64] = (-1, np.empty(0, np.int64))
        self._orders: dict[int, tuple[int, Int64]] = {}

    def batch(self, number: int) -> tuple[str, Int64]:
        """Return the set that batch `number` (from 0) is of, and its rows, from 1 to `rows` of them."""
        round_number, place = divmod(number, sum(self._round))
        if self._turns[0] != round_number:
            rng = np.random.default_rng([self._seed, 9, round_number])
            self._turns = round_number, rng.permutation(np.repeat(np.arange(len(self._round)), self._round))
        turns = self._turns[1]
        task = int(turns[place])
        nth = round_number * self._round[task] + int((turns[:place] == task).sum())
        epoch, part = divmod(nth, self._each[task])
        order = self._order(task, epoch)
        size, each = self._sizes[task], self._each[task]
        return self._names[task], order[part * size // each : (part + 1) * size // each]

    def _order(self, task: int, epoch: int) -> Int64:
        if task not in self._orders or self._orders[task][0] != epoch:
            rng = np.random.default_rng([self._seed, 8, task, epoch])
            self._orders[task] = epoch, rng.permutation(self._sizes[task])
        return self._orders[task][1]


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
        columns = {name: _columns_of(one) for name, one in sets.items()}
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


def _columns_of(one: ScoredPairs | Triples) -> dict[str, list[str]]:
    if isinstance(one, ScoredPairs):
        return {"left": one.left, "right": one.right}
    return {"premise": one.premises, "entailed": one.entailed, "contradicted": one.contradicted}
