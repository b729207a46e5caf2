"""What a page says of one benchmark: figures, published ones beside them, charts, differences, subsets and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from alphita_lab.evaluation.report import charts, entries
from alphita_lab.evaluation.report.entries import NONE, UNSEEN, Column, Entry, Footnotes
from alphita_lab.evaluation.report.page_elements import (
    Html,
    breakable,
    data_table,
    fold,
    join,
    record_table,
    sentence,
    spaced,
    tag,
)


def section(entry: Entry) -> Html:
    """Return the section of a benchmark: its figures and all that explains them, or why it was not run."""
    parts = [
        tag("h3", f"{entry['name']}: {entry['title'].replace('->', '→')}"),
        None if entry["tested_on_real_data"] else tag("p", tag("span", "untested on real data", class_="flag")),
        tag("p", f"Data: {entry['citation']}.", class_="dim"),
    ]
    if entry["options"]:
        parts.append(tag("p", f"Options: {entries.plain(entry['options'])}.", class_="dim"))
    if entry["not_run"] is not None:
        parts.append(tag("p", tag("strong", "Not run. "), sentence(entry["not_run"])))
        if entry.get("where") and entry["where"] not in entry["not_run"]:
            parts.append(tag("p", f"Where to get the data: {sentence(entry['where'])}"))
        if entry["published"]:
            parts.append(fold("Published figures", [_published_list(entry)]))
    else:
        parts += [_scores(entry), _charts(entry), _differences(entry), _subsets(entry), _notes(entry), _tables(entry)]
        parts.append(_errors(entry))
    label = f"{entry['task']} {entry['name']} {entry['title']}"
    return tag("section", *parts, id=anchor(entry), data_benchmark=label)


def anchor(entry: Entry) -> str:
    """Return the id by which a link reaches a benchmark's section."""
    return f"benchmark-{entry['name']}"


def _scores(entry: Entry) -> Html:
    """Return the table of systems, and of published figures below them in the same columns."""
    columns = entries.columns(entry)
    systems = entries.scored(entry)
    baseline = entries.baseline_of(entry)
    covered = any(entries.coverage(system) for system in systems)
    unseen = any(entries.figure(system, entry["main_metric"], UNSEEN) for system in systems)
    heads = [tag("th", "System", scope="col")]
    heads += [tag("th", entries.heading(column), scope="col", class_="number") for column in columns[:1]]
    if baseline:
        heads.append(tag("th", f"against {baseline}", scope="col", class_="number"))
    if unseen:
        heads.append(tag("th", "on mentions not in the training data", scope="col", class_="number"))
    heads += [tag("th", entries.heading(column), scope="col", class_="number") for column in columns[1:]]
    if systems:
        heads.append(tag("th", "n", scope="col", class_="number"))
    if covered:
        heads.append(tag("th", "gold among the targets", scope="col", class_="number"))
    if systems:
        heads.append(tag("th", "time", scope="col", class_="number"))
    rows = []
    for system in systems:
        cells = [tag("th", breakable(system["name"]), scope="row"), figure_cell(entry, system, columns[0])]
        if baseline:
            cells.append(_difference_cell(entry, system, entry["main_metric"], baseline))
        if unseen:
            cells.append(figure_cell(entry, system, (entry["main_metric"], UNSEEN), with_n=True))
        cells += [figure_cell(entry, system, column) for column in columns[1:]]
        whole = entries.figure(system, *columns[0])
        cells.append(_count(whole["n"] if whole else None))
        if covered:
            share, counts = entries.coverage(system) or (NONE, "")
            cells.append(tag("td", share, tag("span", counts, class_="end"), class_="number"))
        time = entries.duration(system["seconds"])
        cells.append(tag("td", time, class_="number", data_value=f"{system['seconds']:.4f}"))
        rows.append(tag("tr", *cells))
    notes = Footnotes(entry)
    rest = len(heads) - 1 - len(columns) - bool(baseline) - unseen
    published = [
        _published_row(entry, row, columns, bool(baseline), unseen, rest, notes)
        for row in entries.published_by_system(entry).items()
    ]
    if published:
        head = tag("th", "Published", scope="rowgroup", colspan=len(heads), class_="group")
        published.insert(0, tag("tr", head))
    left_out = [system for system in entry["systems"] if "figures" not in system]
    return join(
        [
            data_table(f"{entry['name']}: all figures", heads, rows, published, sortable=bool(rows)),
            _footnotes(notes, entry),
            *(
                tag("p", f"{system['name']}: not scored, {system['not_applicable']}.", class_="dim")
                for system in left_out
            ),
        ]
    )


def _published_list(entry: Entry) -> Html:
    """Return every published figure of a benchmark that was not run, one a line."""
    notes = Footnotes(entry)
    rows = [
        tag(
            "tr",
            tag("th", breakable(figure["system"]), tag("span", figure["source"], class_="dim"), scope="row"),
            tag("td", figure["metric"]),
            tag("td", figure["subset"]),
            _published_cell(entry, figure, notes),
        )
        for figure in entry["published"]
    ]
    heads = [tag("th", head, scope="col") for head in ("System", "Metric", "Of")]
    heads.append(tag("th", "Published", scope="col", class_="number"))
    return join([data_table(f"{entry['name']}: published figures", heads, rows), _footnotes(notes, entry)])


def _published_row(
    entry: Entry,
    row: tuple[tuple[str, str], Mapping[Column, Entry]],
    columns: Sequence[tuple[str, str]],
    baseline: bool,
    unseen: bool,
    rest: int,
    notes: Footnotes,
) -> Html:
    (system, source), figures = row
    head = tag("th", breakable(system), tag("span", source, class_="dim"), scope="row")
    cells = [_published_cell(entry, figures.get(column), notes) for column in columns]
    cells[1:1] = [tag("td")] * (baseline + unseen)
    return tag("tr", head, *cells, tag("td", colspan=rest) if rest else None)


def _published_cell(entry: Entry, one: Entry | None, notes: Footnotes) -> Html:
    if one is None:
        return tag("td", class_="number")
    fraction = entries.metric_of(entry, one["metric"])["fraction"]
    flags = [word for word, key in (("protocol differs", "differs"), ("doubtful", "slip")) if one[key]]
    shown = [
        tag("span", tag("a", word, f" {number}", href=f"#{anchor(entry)}-note-{number}", class_="flag"), class_="end")
        for word, number in zip(flags, notes.of(one), strict=True)
    ]
    return tag("td", entries.as_printed(one["value"], fraction=fraction), *shown, class_="number")


def _footnotes(notes: Footnotes, entry: Entry) -> Html:
    items = [
        tag("li", sentence(reason), id=f"{anchor(entry)}-note-{number}") for reason, number in notes.numbers.items()
    ]
    return tag("ol", *items, class_="notes") if items else Html()


def figure_cell(entry: Entry, system: Entry, column: tuple[str, str], *, with_n: bool = False) -> Html:
    """Return the cell of a system's figure with its interval; the best of its column stands out."""
    one = entries.figure(system, *column)
    if one is None:
        return tag("td", NONE, class_="number")
    fraction = entries.metric_of(entry, column[0])["fraction"]
    text = entries.interval(one, fraction=fraction) + (f" n {one['n']:,}" if with_n else "")
    top = "best" if entries.best(entry, column) == system["name"] else None
    return tag(
        "td",
        tag("span", entries.number(one["value"], fraction=fraction), class_=top),
        tag("span", text.strip(), class_="end") if text else None,
        class_="number",
        data_value=None if one["value"] is None else f"{one['value']:.6f}",
    )


def _difference_cell(entry: Entry, system: Entry, metric: str, baseline: str) -> Html:
    if system["name"] == baseline:
        return tag("td", "baseline", class_="number")
    one = entries.difference(system, metric)
    if one is None:
        return tag("td", NONE, class_="number")
    known = entries.metric_of(entry, metric)
    verdict = entries.verdict(one, higher_is_better=known["higher_is_better"])
    ends = entries.interval(one, fraction=known["fraction"], signed=True)
    colour = verdict if verdict in ("better", "worse") else None
    return tag(
        "td",
        tag("span", entries.number(one["difference"], fraction=known["fraction"], signed=True), class_=colour),
        tag("span", ends, class_="end"),
        tag("span", f"p {entries.p_value(one['p'])}, {verdict}", class_="end"),
        class_="number",
        data_value=f"{one['difference']:.6f}",
    )


def _differences(entry: Entry) -> Html:
    """Return the differences in every metric, where there are more than the main one."""
    compared = [system for system in entries.scored(entry) if system["against"]]
    metrics = list(
        dict.fromkeys(difference["metric"] for system in compared for difference in system["against"]["differences"])
    )
    if len(metrics) < 2:
        return Html()
    baseline = entries.baseline_of(entry) or ""
    heads = [tag("th", "Metric", scope="col")]
    heads += [tag("th", breakable(system["name"]), scope="col", class_="number") for system in compared]
    rows = [
        tag(
            "tr",
            tag("th", metric, scope="row"),
            *(_difference_cell(entry, system, metric, baseline) for system in compared),
        )
        for metric in metrics
    ]
    table = data_table(f"{entry['name']}: difference from {baseline} on the same rows", heads, rows)
    return fold(f"Differences from {baseline} in every metric", [table])


def _subsets(entry: Entry) -> Html:
    parts = []
    for column, values in entries.subsets(entry).items():
        first, *others = [_subset_table(entry, column, values, metric) for metric in entries.metrics_by(entry, column)]
        more = [fold("Other metrics", others)] if others else []
        opened = column not in ("seen", "covered")
        parts.append(fold(f"By {entries.subset_words(column, values)}", [first, *more], opened=opened))
    return join(parts)


def _count(n: int | None) -> Html:
    """Return a cell with a count; sorting reads it as a number, whatever stands between its thousands."""
    return tag("td", NONE if n is None else f"{n:,}", class_="number", data_value=n)


def _subset_table(entry: Entry, column: str, values: Sequence[str], metric: str) -> Html:
    systems = [system for system in entries.scored(entry) if system["figures"]]
    published = entries.published_by_system(entry, metric, column)
    words = entries.subset_words(column, values)
    heads = [tag("th", words.capitalize(), scope="col"), tag("th", "n", scope="col", class_="number")]
    heads += [tag("th", breakable(system["name"]), scope="col", class_="number") for system in systems]
    heads += [
        tag("th", breakable(name), tag("span", f"published: {source}", class_="end"), scope="col", class_="number")
        for name, source in published
    ]
    notes = Footnotes(entry)
    rows = []
    for value in values:
        subset = f"{column}={value}"
        found = [one for system in systems if (one := entries.figure(system, metric, subset))]
        cells = [tag("th", entries.subset_value(value), scope="row")]
        cells.append(_count(max((figure["n"] for figure in found), default=None)))
        cells += [figure_cell(entry, system, (metric, subset)) for system in systems]
        cells += [_published_cell(entry, figures.get((metric, subset)), notes) for figures in published.values()]
        rows.append(tag("tr", *cells))
    return data_table(f"{entry['name']}: {metric} by {words}", heads, rows, sortable=True)


def _notes(entry: Entry) -> Html:
    """Return the systems' notes: once where all say the same, by system where they differ."""
    same, differing = entries.shared_notes(entry)
    if not same and not differing:
        return Html()
    parts = [tag("dl", *(part for name, value in same.items() for part in (tag("dt", spaced(name)), tag("dd", value))))]
    if differing:
        heads = [tag("th", "Note", scope="col")]
        heads += [
            tag("th", breakable(system["name"]), scope="col", class_="number") for system in entries.scored(entry)
        ]
        rows = [
            tag("tr", tag("th", spaced(name), scope="row"), *(tag("td", value, class_="number") for value in values))
            for name, values in differing.items()
        ]
        parts.append(data_table(f"{entry['name']}: notes that differ by system", heads, rows))
    return fold("Coverage and other notes", parts, opened=True)


def _charts(entry: Entry) -> Html:
    drawn = [Html(chart) for chart in charts.of_benchmark(entry)]
    return tag("div", *drawn, class_="charts") if drawn else Html()


def _tables(entry: Entry) -> Html:
    """Return the tables that are to be read by eye, system by system under each title."""
    systems = entries.scored(entry)
    parts = []
    for title in dict.fromkeys(title for system in systems for title in system["tables"]):
        for system in systems:
            if one := system["tables"].get(title):
                records = [dict(zip(one["columns"], row, strict=True)) for row in one["rows"]]
                parts.append(record_table(f"{title} ({system['name']})", records))
    return fold("Case tables", parts) if parts else Html()


def _errors(entry: Entry) -> Html:
    systems = [system for system in entries.scored(entry) if system["errors"]]
    told = entries.subsets(entry)
    names = [by["name"] for system in systems for by in system["errors"].get("by", ()) if by["name"] not in told]
    tables = [_breakdown(entry, systems, name) for name in dict.fromkeys(names)]
    parts = [fold("By length, overlap and other groups", tables)] if tables else []
    for system in systems:
        own = _system_errors(entry, system)
        if own:
            parts.append(fold(f"Errors of {system['name']}", own))
    return join(parts)


def _breakdown(entry: Entry, systems: Sequence[Entry], name: str) -> Html:
    groups_of = {
        system["name"]: {group["value"]: group for group in by["groups"]}
        for system in systems
        for by in system["errors"].get("by", ())
        if by["name"] == name
    }
    metric = next(system["errors"]["metric"] for system in systems if system["name"] in groups_of)
    fraction = entries.metric_of(entry, metric)["fraction"]
    heads = [tag("th", name.capitalize(), scope="col"), tag("th", "n", scope="col", class_="number")]
    heads += [tag("th", breakable(system), scope="col", class_="number") for system in groups_of]
    rows = []
    for value in dict.fromkeys(value for groups in groups_of.values() for value in groups):
        own = [groups.get(value) for groups in groups_of.values()]
        cells = [_count(max(group["n"] for group in own if group))]
        for group in own:
            score = entries.number(group["score"], fraction=fraction) if group else NONE
            ends = entries.interval(group, fraction=fraction) if group else ""
            cells.append(tag("td", score, tag("span", ends, class_="end"), class_="number"))
        rows.append(tag("tr", tag("th", value, scope="row"), *cells))
    return data_table(f"{entry['name']}: {metric} by {name}", heads, rows)


def _system_errors(entry: Entry, system: Entry) -> list[Html]:
    errors = system["errors"]
    where = f"{entry['name']}, {system['name']}"
    parts = []
    if counts := errors.get("similarity"):
        drawn = charts.histogram(
            counts["edges"],
            {name: counts[name] for name in ("right", "wrong")},
            title=f"{where}: similarity of the first answer, right and wrong",
            x_label="similarity",
        )
        parts.append(tag("div", Html(drawn), class_="charts"))
    for key, title in (
        ("confusions", "commonest wrong answers"),
        ("examples", "wrong answers with the greatest similarity"),
        ("disagreements", "pairs whose ranks are furthest apart"),
    ):
        if found := errors.get(key):
            parts.append(record_table(f"{where}: {title}", found))
    if errors.get("unscored"):
        parts.append(tag("p", f"{errors['unscored']:,} rows have no answer to score."))
    return parts
