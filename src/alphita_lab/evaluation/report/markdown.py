"""A report as Markdown, for docs and pull requests, and its summary as tables for a terminal."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alphita_lab.evaluation.report import entries
from alphita_lab.evaluation.report.entries import ALL, NONE, UNSEEN, Column, Entry, Footnotes

if TYPE_CHECKING:
    from rich.console import Group

READING = (
    "Brackets hold 95% bootstrap intervals over rows. Differences are taken on the same rows, with a paired bootstrap "
    "interval and two-sided p; bold where 0 lies outside the interval. Fractions are printed as percentages. Published "
    "figures carry the number of a note where their protocol differs from ours or the printed number is doubtful."
)


def to_markdown(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown: a summary of each task, then every benchmark, then where the figures come from."""
    parts = [READING, "## Summary"]
    for task, of_task in entries.by_task(report).items():
        run = [entry for entry in of_task if entry["not_run"] is None]
        if run:
            names = entries.systems_of({"benchmarks": run})
            rows = [
                [text(entry["name"]), text(entry["main_metric"]), *(_main(entry, name) for name in names)]
                for entry in run
            ]
            parts += [f"### {text(task.capitalize())}", table(["benchmark", "metric", *map(text, names)], rows)]
    left = [entry for entry in report["benchmarks"] if entry["not_run"] is not None]
    if left:
        rows = [[text(entry["name"]), text(entry["title"]), text(_reason(entry))] for entry in left]
        parts += ["### Not run", table(["benchmark", "what it is", "why, and where to get the data"], rows)]
    for entry in report["benchmarks"]:
        if entry["not_run"] is None or entry["published"]:
            parts += _benchmark(entry)
    if failed := entries.pictures_failed(report):
        parts += ["## Pictures", text(failed)]
    facts = [f"- {name}: {text(fact)}" for name, fact in entries.provenance(report).items()]
    return "\n\n".join([*parts, "## Provenance", "\n".join(facts)]) + "\n"


def summary_tables(report: Mapping[str, Any]) -> Group:
    """Return the summary of each task as tables for `rich.print`: the main metric of every benchmark and system."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    shown: list[Any] = []
    for task, of_task in entries.by_task(report).items():
        run = [entry for entry in of_task if entry["not_run"] is None]
        if not run:
            continue
        drawn = Table(title=Text(task.capitalize()), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        drawn.add_column("benchmark", overflow="fold")
        drawn.add_column("metric", overflow="fold")
        names = entries.systems_of({"benchmarks": run})
        for name in names:
            drawn.add_column(Text(name, overflow="fold"), justify="right")
        for entry in run:
            cells = [Text(entry["name"]), Text(entry["main_metric"])]
            for name in names:
                top = entries.best(entry, (entry["main_metric"], ALL)) == name
                cells.append(
                    Text(_figure(entry, entries.system(entry, name), (entry["main_metric"], ALL)), "best" * top)
                )
            drawn.add_row(*cells)
        shown.append(drawn)
    left = [entry["name"] for entry in report["benchmarks"] if entry["not_run"] is not None]
    if left:
        shown.append(Text(f"Not run: {', '.join(left)}; the report says why."))
    return Group(*shown)


def text(value: str) -> str:
    """Return text so that Markdown prints it as it is, on one line."""
    line = " ".join(value.split())
    # Underscores inside words, lone brackets and lone ampersands mean nothing in Markdown and stay readable.
    return re.sub(r"[\\`*|~]|(?<![^\W_])_|_(?![^\W_])|<(?=[\w/!?])|&(?=#?\w+;)|\](?=[(\[:])", r"\\\g<0>", line)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the cells are Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [heads, ["---"] * len(heads), *rows])


def _figure(entry: Entry, system: Entry | None, column: Column) -> str:
    found = entries.figure(system, *column) if system is not None else None
    if found is None:
        return NONE
    fraction = entries.metric_of(entry, column[0])["fraction"]
    value = entries.number(found["value"], fraction=fraction)
    return f"{value} {entries.interval(found, fraction=fraction)}".strip()


def _main(entry: Entry, name: str) -> str:
    column = (entry["main_metric"], ALL)
    cell = _figure(entry, entries.system(entry, name), column)
    return f"**{cell}**" if entries.best(entry, column) == name else cell


def _reason(entry: Entry) -> str:
    where = entry.get("where") or ""
    return entry["not_run"] if where in entry["not_run"] else f"{entry['not_run']}. {where}"


def _benchmark(entry: Entry) -> list[str]:
    sentences = [f"{entry['title']}. Data: {entry['citation']}."]
    if not entry["tested_on_real_data"]:
        sentences.append("Untested on real data.")
    if entry["options"]:
        sentences.append(f"Options: {entries.plain(entry['options'])}.")
    parts = [f"## {text(entry['name'])}", text(" ".join(sentences))]
    notes = Footnotes(entry)
    if entry["not_run"] is not None:
        heads = ["system", "source", "metric", "of", "value"]
        rows = [
            [
                text(figure["system"]),
                text(figure["source"]),
                text(figure["metric"]),
                text(figure["subset"]),
                _published(entry, figure, notes),
            ]
            for figure in entry["published"]
        ]
        parts += ["Not run; these are the published figures.", table(heads, rows)]
    elif columns := entries.columns(entry):
        parts.append(_scores(entry, columns, notes))
    parts += [_by_subset(entry, column, values, notes) for column, values in entries.subsets(entry).items()]
    if notes.numbers:
        parts.append("\n".join(f"{number}. {text(reason)}" for reason, number in notes.numbers.items()))
    same, differing = entries.shared_notes(entry)
    if same:
        told_same = (f"{name.replace('_', ' ')}: {value}" for name, value in same.items())
        parts.append(text(f"Notes: {'; '.join(told_same)}."))
    if differing:
        heads = ["note", *(text(system["name"]) for system in entries.scored(entry))]
        rows = [[text(name.replace("_", " ")), *map(text, values)] for name, values in differing.items()]
        parts.append(table(heads, rows))
    for system in entries.scored(entry):
        for title, table_of_system in system["tables"].items():
            heads = [text(f"{title} ({system['name']})"), *[""] * (len(table_of_system["columns"]) - 1)]
            rows = [
                [text(entries.plain(cell)) for cell in row]
                for row in [table_of_system["columns"], *table_of_system["rows"]]
            ]
            parts.append(table(heads, rows))
    return parts


def _scores(entry: Entry, columns: Sequence[Column], notes: Footnotes) -> str:
    systems = entries.scored(entry)
    baseline = entries.baseline_of(entry)
    unseen = any(entries.figure(system, entry["main_metric"], UNSEEN) for system in systems)
    heads = ["system", text(entries.heading(columns[0]))]
    heads += [f"against {text(baseline)}"] if baseline else []
    heads += ["on mentions not in the training data"] if unseen else []
    heads += [text(entries.heading(column)) for column in columns[1:]]
    heads += ["n", "time"] if systems else []
    rows = []
    for system in systems:
        cells = [text(system["name"]), _figure(entry, system, columns[0])]
        if baseline:
            cells.append(_difference(entry, system, baseline))
        if unseen:
            cells.append(_figure(entry, system, (entry["main_metric"], UNSEEN)))
        cells += [_figure(entry, system, column) for column in columns[1:]]
        whole = entries.figure(system, *columns[0])
        cells += [f"{whole['n']:,}" if whole else NONE, entries.duration(system["seconds"])]
        rows.append(cells)
    for (name, source), figures in entries.published_by_system(entry).items():
        first, *others = [_published(entry, figures.get(column), notes) for column in columns]
        cells = [f"*{text(name)}, {text(source)}*", first, *[""] * (bool(baseline) + unseen), *others]
        rows.append(cells + [""] * (len(heads) - len(cells)))
    return table(heads, rows)


def _published(entry: Entry, figure: Entry | None, notes: Footnotes) -> str:
    if figure is None:
        return ""
    fraction = entries.metric_of(entry, figure["metric"])["fraction"]
    numbers = ", ".join(str(number) for number in notes.of(figure))
    return entries.as_printed(figure["value"], fraction=fraction) + (f" (note {numbers})" if numbers else "")


def _difference(entry: Entry, system: Entry, baseline: str) -> str:
    if system["name"] == baseline:
        return "baseline"
    difference = entries.difference(system, entry["main_metric"])
    if difference is None:
        return NONE
    known = entries.metric_of(entry, entry["main_metric"])
    value = entries.number(difference["difference"], fraction=known["fraction"], signed=True)
    ends = entries.interval(difference, fraction=known["fraction"], signed=True)
    told_apart = entries.verdict(difference) != "not told apart"
    return f"{f'**{value}**' if told_apart else value} {ends}, p {entries.p_value(difference['p'])}"


def _by_subset(entry: Entry, column: str, values: Sequence[str], notes: Footnotes) -> str:
    """Return the main metric by the values of a column; the other metrics stand in the HTML and JSON."""
    metric = next(iter(entries.metrics_by(entry, column)))
    systems = entries.scored(entry)
    published = entries.published_by_system(entry, metric, column)
    rows = []
    for value in values:
        subset = f"{column}={value}"
        found = [one for system in systems if (one := entries.figure(system, metric, subset))]
        cells = [text(entries.subset_value(value)), f"{max(figure['n'] for figure in found):,}"]
        cells += [_figure(entry, system, (metric, subset)) for system in systems]
        cells += [_published(entry, figures.get((metric, subset)), notes) for figures in published.values()]
        rows.append(cells)
    heads = [
        f"{text(metric)} by {text(entries.subset_words(column, values))}",
        "n",
        *(text(system["name"]) for system in systems),
    ]
    heads += [f"*{text(name)}, {text(source)}*" for name, source in published]
    return table(heads, rows)
