"""Two reports side by side: paired differences worked out from their rows, and whatever else differs between them."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from alphita import artefact, textio
from alphita.errors import InputError, UsageError
from alphita.registry import unknown
from alphita.report import FORMAT_VERSION, KIND, file_name
from alphita_lab.evaluation.report import entries
from alphita_lab.evaluation.scoring import results
from alphita_lab.evaluation.scoring.results import Metric, Result

if TYPE_CHECKING:
    from rich.console import Group

# A statistic's module.
STATISTICS = re.compile(r"alphita_lab\.evaluation\.(?:scoring|benchmarks)\.\w+")
SIDES = ("first", "second")
HEADS = ("system", "metric", *SIDES, "first - second", "p", "n")
ORIGIN = ("commit", "alphita_version", "seed", "machine", "packages")
# Columns of rows that tell what was asked; two tables of rows are paired only if they agree in those that they have.
QUESTIONS = (
    "query", "mention", "gold", "language", "fold", "term", "concept", "left", "right", "first", "second", "head",
    "relation", "tail", "text", "sentence", "premise", "hypothesis", "question", "anchor", "synonym", "other",
    "title", "attribute", "value", "written",
)  # fmt: skip


def compare(first: Path | str, second: Path | str, *, seed: int = 0) -> dict[str, Any]:
    """Compare two report folders: each system of the first with the one of the same name in the second.

    `FOLDER,name=SYSTEM` takes one system of a report, so that any two are compared, of one report too.

    Raises:
        UsageError: a report has no system of that name.
    """
    (first, one), (second, other) = (_named(str(side)) for side in (first, second))
    reports = [_read(first), _read(second)]
    for report, name in zip(reports, (one, other), strict=True):
        if name and name not in (known := entries.systems_of(report)):
            raise UsageError(unknown("system of the report", name, known))
    left, right = ({entry["name"]: entry for entry in report["benchmarks"]} for report in reports)
    shared = [name for name in left if name in right and not left[name]["not_run"] and not right[name]["not_run"]]
    if not shared:
        raise UsageError(f"the reports share no benchmark: {sorted(left)} and {sorted(right)}")
    origins = [report["provenance"] for report in reports]
    compared = []
    for name in shared:
        data = [
            {key: value for key, value in origin["data"].items() if key.startswith(f"{name}/") or "/" not in key}
            for origin in origins
        ]
        of = _benchmark((first, second), left[name], right[name], seed, (one, other))
        compared.append(of | {"data": _changes(*data)})
    return {
        **{
            side: {"path": str(path)} | {key: origin.get(key) for key in ("commit", "command", "seed")}
            for side, origin, path in zip(SIDES, origins, (first, second), strict=True)
        },
        "provenance": _changes(*({key: origin.get(key) for key in ORIGIN} for origin in origins)),
        "only_first": sorted(set(left) - set(shared)),
        "only_second": sorted(set(right) - set(shared)),
        "benchmarks": compared,
    }


def _named(side: str) -> tuple[Path, str]:
    """Return the folder, and the system's name or "", of `FOLDER` or `FOLDER,name=SYSTEM`."""
    folder, _, name = side.partition(",name=")
    return Path(folder), name


def _read(folder: Path) -> dict[str, Any]:
    artefact.open_checked(folder, KIND)
    path = folder / "report.json"
    try:
        report = textio.json_file(path)
    except (OSError, ValueError) as error:
        raise InputError(f"no readable report: {error}", file=path) from None
    if not isinstance(report, dict) or report.get("format_version") != FORMAT_VERSION or "benchmarks" not in report:
        raise InputError("not a report of benchmarks, or of another version", file=path)
    return report


def _changes(first: Any, second: Any) -> Any:  # noqa: ANN401 - JSON values
    """Return what differs between two JSON values: {key: [first, second]}, dictionaries entered; {} if nothing."""
    if isinstance(first, dict) and isinstance(second, dict):
        changes = {}
        for key in dict.fromkeys([*first, *second]):
            if first.get(key) != second.get(key):
                inner = _changes(first.get(key), second.get(key))
                changes.update(
                    {f"{key}.{name}": pair for name, pair in inner.items()} if isinstance(inner, dict) else {key: inner}
                )
        return changes
    return [first, second]


def _benchmark(
    folders: tuple[Path, Path], left: Mapping[str, Any], right: Mapping[str, Any], seed: int, chosen: tuple[str, str]
) -> dict[str, Any]:
    ours = {system["name"]: system for system in entries.scored(left)}
    theirs = {system["name"]: system for system in entries.scored(right)}
    # Where only one side is named, the other has a system of that name, or one alone.
    if chosen[0]:
        ours = {name: system for name, system in ours.items() if name == chosen[0]}
    if chosen[1]:
        theirs = {name: system for name, system in theirs.items() if name == chosen[1]}
    single = len(ours) == len(theirs) == 1
    pairs = [(*ours, *theirs)] if single else [(name, name) for name in ours if name in theirs]
    used = [{pair[side] for pair in pairs} for side in (0, 1)]
    return {
        "name": left["name"],
        "title": left["title"],
        "main_metric": left["main_metric"],
        "options": _changes(left["options"], right["options"]),
        "only_first": [name for name in ours if name not in used[0]],
        "only_second": [name for name in theirs if name not in used[1]],
        "pairs": [_pair(folders, left["name"], ours[one], theirs[other], seed) for one, other in pairs],
    }


def _pair(
    folders: tuple[Path, Path], benchmark: str, ours: Mapping[str, Any], theirs: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    pair: dict[str, Any] = {
        "first": ours["name"],
        "second": theirs["name"],
        "facts": _changes(ours["facts"], theirs["facts"]),
        "figures": [
            {"metric": figure["metric"], "first": figure["value"], "second": other["value"]}
            | _look(ours, figure["metric"])
            for figure in ours["figures"]
            if figure["subset"] == entries.ALL and (other := entries.figure(theirs, figure["metric"])) is not None
        ],
        "differences": [],
        "problem": None,
    }
    rows = [_rows(folder, benchmark, system["name"]) for folder, system in zip(folders, (ours, theirs), strict=True)]
    metrics = _metrics(ours, theirs)
    pair["problem"] = _mismatch(rows[0], rows[1], metrics)
    if pair["problem"] is None:
        pair["differences"] = results.compare(Result(rows[0], metrics), Result(rows[1], metrics), seed=seed)
        known = {metric.name for metric in metrics}
        lost = [metric["name"] for metric in ours["metrics"] if metric["name"] not in known]
        if lost:
            pair["problem"] = f"cannot be worked out again from the rows: {', '.join(lost)}"
    return pair


def _look(system: Mapping[str, Any], metric: str) -> dict[str, bool]:
    known: Mapping[str, bool] = next((candidate for candidate in system["metrics"] if candidate["name"] == metric), {})
    return {"fraction": known.get("fraction", False), "higher_is_better": known.get("higher_is_better", True)}


def _rows(folder: Path, benchmark: str, system: str) -> pl.DataFrame:
    path = folder / "rows" / f"{benchmark}.{file_name(system)}.parquet"
    try:
        return pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"no readable rows of {system} on {benchmark}: {error}", file=path) from None


def _metrics(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Return the metrics that both systems have, with their statistics found by name in this package."""
    both = {metric["name"] for metric in theirs["metrics"]}
    metrics = []
    for metric in ours["metrics"]:
        module, _, name = metric["statistic"].partition(":")
        # A report is data: nothing but this package's own functions is imported for it.
        if metric["name"] not in both or not STATISTICS.fullmatch(module) or not name.isidentifier():
            continue
        try:
            statistic = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        metrics.append(
            Metric(metric["name"], tuple(metric["columns"]), statistic, metric["higher_is_better"], metric["fraction"])
        )
    return tuple(metrics)


def _mismatch(ours: pl.DataFrame, theirs: pl.DataFrame, metrics: tuple[Metric, ...]) -> str | None:
    """Return why two tables of rows cannot be paired; None if they can."""
    if len(ours) != len(theirs):
        return f"different rows: {len(ours):,} and {len(theirs):,}"
    for column in {column for metric in metrics for column in metric.columns}:
        if column not in ours.columns or column not in theirs.columns:
            return f"the rows lack the column {column}"
    for column in QUESTIONS:
        if column not in ours.columns or column not in theirs.columns:
            continue
        # `right` is a question of relatedness, and elsewhere tells of answers whether they are right.
        if ours.schema[column] == pl.Boolean or (column == "right" and ours.schema[column] != pl.String):
            continue
        one, other = ours[column], theirs[column]
        if one.dtype != other.dtype:
            return f"different rows: column {column} holds {one.dtype} and {other.dtype}"
        unlike = one.ne_missing(other)
        if unlike.any():
            place = unlike.arg_max() or 0
            return (
                f"different rows: {unlike.sum():,} of {len(ours):,} differ in {column}, first row {place + 1:,}: "
                f"{one[place]!r} and {other[place]!r}"
            )
    return None


def _row(name: str, figure: Mapping[str, Any], difference: Mapping[str, Any] | None) -> list[str]:
    fraction = figure["fraction"]
    cells = [name, figure["metric"], *(entries.number(figure[side], fraction=fraction) for side in SIDES)]
    if difference is None or difference["difference"] is None:
        return [*cells, entries.NONE, entries.NONE, entries.NONE, ""]
    value = entries.number(difference["difference"], fraction=fraction, signed=True)
    ends = entries.interval(difference, fraction=fraction, signed=True)
    verdict = entries.verdict(difference, higher_is_better=figure["higher_is_better"])
    return [*cells, f"{value} {ends}", entries.p_value(difference["p"]), f"{difference['n']:,}", verdict]


def _rows_of_table(entry: Mapping[str, Any]) -> tuple[list[list[str]], list[str]]:
    """Return the rows of a benchmark's table, and the sentences below it."""
    rows, below = [], []
    for pair in entry["pairs"]:
        name = pair["first"] if pair["first"] == pair["second"] else f"{pair['first']} / {pair['second']}"
        differences = {difference["metric"]: difference for difference in pair["differences"]}
        rows += [_row(name, figure, differences.get(figure["metric"])) for figure in pair["figures"]]
        if pair["problem"]:
            below.append(f"{name}: no paired difference, {pair['problem']}.")
        if pair["facts"]:
            below.append(f"{name}, what differs: {_told(pair['facts'])}.")
    below += [f"{key.capitalize()} differ: {_told(entry[key])}." for key in ("options", "data") if entry[key]]
    for side in SIDES:
        if entry[f"only_{side}"]:
            below.append(f"Only in the {side} report: {', '.join(entry[f'only_{side}'])}.")
    return rows, below


def _told(changes: Mapping[str, Any]) -> str:
    changed = (f"{key}: {entries.plain(one)} / {entries.plain(other)}" for key, (one, other) in changes.items())
    return _short_hashes("; ".join(changed))


def _short_hashes(sentence: str) -> str:
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28,}\b", r"\1", sentence)


def _around(comparison: Mapping[str, Any]) -> list[str]:
    sentences = [
        _short_hashes(
            f"{side.capitalize()}: {comparison[side]['path']} (commit {entries.plain(comparison[side]['commit'])})."
        )
        for side in SIDES
    ]
    if comparison["provenance"]:
        sentences.append(f"Provenance differs: {_told(comparison['provenance'])}.")
    for side in SIDES:
        if comparison[f"only_{side}"]:
            sentences.append(f"Only named or run in the {side}: {', '.join(comparison[f'only_{side}'])}.")
    return sentences


def render(comparison: Mapping[str, Any]) -> Group:
    """Return a comparison as tables for `rich.print`; differences are bold where the systems can be told apart."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown: list[Any] = [Text(sentence) for sentence in _around(comparison)]
    for entry in comparison["benchmarks"]:
        rows, below = _rows_of_table(entry)
        drawn = Table(title=Text(entry["name"]), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for place, head in enumerate(HEADS):
            number = 2 <= place <= 6
            # A metric's name, such as accuracy@1, is of use only whole.
            least = 10 if place == 1 else None
            drawn.add_column(
                head, justify="right" if number else "left", no_wrap=number, overflow="fold", min_width=least
            )
        for *cells, verdict in rows:
            styles = ["best" if place == 4 and verdict in ("better", "worse") else "" for place in range(len(cells))]
            drawn.add_row(*map(Text, cells, styles))
        shown += [drawn, *map(Text, below)]
    return Group(*shown)
