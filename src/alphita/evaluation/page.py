"""A report as one HTML page: no network, no framework, light and dark, for phones and desks.

Everything that comes from a report is escaped: `tag` takes text for text unless it is `Html` already.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from alphita.artefact import atomic_file
from alphita.evaluation import charts, entries
from alphita.evaluation.entries import ALL, NONE, UNSEEN, Entry, Footnotes

STYLE = """
:root{color-scheme:light dark;--ink:#1c1f23;--dim:#575e66;--paper:#fff;--soft:#f4f5f7;--line:#d5d9de;--link:#0b5cad;
--good:#0a6b33;--bad:#a8271b;--flag:#8a5a00}
@media (prefers-color-scheme:dark){:root{--ink:#e6e8ea;--dim:#a3abb3;--paper:#15181b;--soft:#1f2428;--line:#3a4148;
--link:#7fb8f0;--good:#66cf93;--bad:#ff9387;--flag:#e8b84f}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:76rem;margin:0 auto;padding:1rem 1rem 4rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.3rem;margin:2.5rem 0 .5rem;border-bottom:2px solid var(--line)}
h3{font-size:1.1rem;margin:2rem 0 .25rem}
h4{font-size:1rem;margin:1.25rem 0 .25rem}
p{margin:.4rem 0;max-width:50rem}
a{color:var(--link)}
.dim{color:var(--dim);font-size:.9rem}
p,li,summary,dd,h3{overflow-wrap:anywhere}
.scroll{overflow-x:auto;width:fit-content;max-width:100%;margin:.5rem 0;border:1px solid var(--line);border-radius:4px}
.scroll:focus-visible{outline:2px solid var(--link)}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.4rem .6rem}
caption span{position:sticky;left:.6rem;display:inline-block;max-width:calc(100vw - 3.5rem)}
th,td{padding:.3rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--line)}
thead th{background:var(--soft);vertical-align:bottom;max-width:11rem;overflow-wrap:break-word}
th.number,td.number{text-align:right;white-space:nowrap}
thead th.number{white-space:normal}
tbody th{font-weight:500;min-width:11rem;max-width:16rem;overflow-wrap:anywhere;background:var(--paper);position:sticky;
left:0;border-right:1px solid var(--line)}
tbody th.group{background:var(--soft);font-weight:600;position:static;max-width:none;border-right:0}
tbody th .dim{display:block;font-weight:400;font-size:.8rem}
.wide th{position:static;max-width:26rem;min-width:0}
.wide td{overflow-wrap:break-word;min-width:6rem;max-width:30rem}
.end{display:block;color:var(--dim);font-size:.8rem;font-weight:400}
.best{font-weight:700}
.better{color:var(--good)}
.worse{color:var(--bad)}
.flag{display:inline-block;font-size:.75rem;font-weight:600;color:var(--flag);border:1px solid currentColor;
border-radius:3px;padding:0 .3rem;white-space:nowrap;margin-top:.15rem;text-decoration:none}
.notes{font-size:.85rem;padding-left:1.5rem;margin:.3rem 0;max-width:60rem}
details{margin:.5rem 0}
summary{cursor:pointer;padding:.25rem 0;font-weight:500}
details>div{padding-left:.75rem;border-left:2px solid var(--line);display:flex;flex-wrap:wrap;gap:.25rem 1rem;
align-items:flex-start}
details>div>*{max-width:100%}
details>div>details,details>div>dl,details>div>.charts{flex-basis:100%}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem 1.5rem;margin:1rem 0}
.picture{margin:1rem 0}
.picture img{max-width:100%;height:auto;background:#fff}
dl{display:grid;grid-template-columns:fit-content(45%) 1fr;gap:.15rem 1rem;font-size:.9rem;margin:.5rem 0}
dt{color:var(--dim);overflow-wrap:anywhere}
dd{margin:0;min-width:0}
code{font-size:.85rem;overflow-wrap:anywhere}
th button{font:inherit;color:inherit;background:none;border:0;padding:0;text-align:inherit;cursor:pointer;
text-decoration:underline dotted}
input[type=search]{font:inherit;width:100%;max-width:24rem;padding:.3rem .5rem;color:inherit;background:var(--paper);
border:1px solid var(--line);border-radius:4px}
@media (max-width:40rem){tbody th{min-width:6.5rem;max-width:8.5rem}th,td{padding:.3rem .45rem}}
@media print{.scroll{overflow:visible}}
"""
# Sorting by a click on a heading, and a filter over benchmarks. Without it the page says the same.
SCRIPT = """
const value = (row, place) => row.cells[place]?.dataset.value ?? row.cells[place]?.textContent.trim() ?? "";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
      heads.forEach(one => one.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up > 0 ? "ascending" : "descending");
      const order = (a, b) => {
        const x = value(a, place), y = value(b, place), n = parseFloat(x), m = parseFloat(y);
        if (isNaN(n) && isNaN(m)) return up * x.localeCompare(y);
        return isNaN(n) ? 1 : isNaN(m) ? -1 : up * (n - m);
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}
const filter = document.getElementById("filter");
filter.parentElement.hidden = false;
filter.addEventListener("input", () => {
  const wanted = filter.value.toLowerCase();
  for (const one of document.querySelectorAll("[data-benchmark]"))
    one.hidden = !one.dataset.benchmark.toLowerCase().includes(wanted);
});
"""
READING = (
    "Brackets hold 95% bootstrap intervals over the rows of a benchmark. A difference is the system's figure minus the "
    "baseline's on the same rows, with its paired bootstrap interval and two-sided p, not corrected for the number of "
    "comparisons; it is called better or worse only where 0 lies outside the interval. Fractions are printed as "
    "percentages. Published figures stand as their authors print them, marked where their protocol differs from ours "
    "or the printed number is doubtful."
)


@dataclass(frozen=True)
class Picture:
    """A picture for the page.

    Attributes:
        png: the image's bytes.
        caption: below it; also what a screen reader says.
    """

    png: bytes
    caption: str


class Html(str):
    """Text that is markup already."""


def tag(name: str, *children: str | None, **attributes: str | int | bool | None) -> Html:
    """Return an element; children and attributes are escaped unless they are `Html`.

    Args:
        name: of the element.
        children: in order; None is left out.
        attributes: "class_" stands for class and "_" for "-"; None and False are left out.
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if one is True else f'="{escape(str(one))}"')
        for key, one in attributes.items()
        if one is not None and one is not False
    )
    inner = "".join(child if isinstance(child, Html) else escape(child) for child in children if child is not None)
    return Html(f"<{name}{written}>{inner}</{name}>")


def _name(name: str) -> Html:
    """Return a system's name that breaks where a path or a list of options can."""
    return Html(re.sub(r"([/,_:=-])", r"\1<wbr>", escape(name)))


def join(parts: Iterable[str]) -> Html:
    """Return parts one after another; those that are not `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def write_page(report: Mapping[str, Any], path: Path | str, *, pictures: Sequence[Picture] = ()) -> None:
    """Write a report as one self-contained HTML page, whole or not at all.

    Args:
        report: as report.json holds it.
        path: of the page.
        pictures: shown after the benchmarks, e.g. maps of vectors.

    Raises:
        AlphitaError: it cannot be written.
    """
    text = to_html(report, pictures=pictures)
    with atomic_file(path, "w") as file:
        file.write(text)


def to_html(report: Mapping[str, Any], *, pictures: Sequence[Picture] = ()) -> str:
    """Return the page that `write_page` writes."""
    body = [
        tag("h1", "Evaluation report"),
        tag("p", _counts(report)),
        tag("p", READING, class_="dim"),
        tag(
            "p", tag("label", "Show only benchmarks with ", for_="filter"),
            Html('<input type="search" id="filter" autocomplete="off">'), hidden=True,
        ),
    ]  # fmt: skip
    body += [_summary(task, of_task, report) for task, of_task in entries.by_task(report).items()]
    body.append(tag("h2", "Benchmarks"))
    body += [_benchmark(entry) for entry in report["benchmarks"]]
    if pictures:
        body += [tag("h2", "Pictures"), *map(_picture, pictures)]
    body.append(_provenance(report))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>Evaluation report</title>'
        f"<style>{STYLE}{charts.STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main><script>{SCRIPT}</script></body></html>\n"
    )


def _counts(report: Mapping[str, Any]) -> str:
    run = [entry for entry in report["benchmarks"] if entry["not_run"] is None]
    text = f"{len(run)} benchmarks run on {len(entries.systems_of(report))} systems"
    left = len(report["benchmarks"]) - len(run)
    return text + (f"; {left} not run (each says why)." if left else ".")


def _summary(task: str, of_task: Sequence[Entry], report: Mapping[str, Any]) -> Html:
    names = [
        name
        for name in entries.systems_of(report)
        if any(system["name"] == name for entry in of_task for system in entries.scored(entry))
    ]
    rows = []
    for entry in of_task:
        link = tag("a", entry["name"], href=f"#{_anchor(entry)}")
        head = tag("th", link, tag("span", entry["main_metric"], class_="dim"), scope="row")
        if entry["not_run"] is not None:
            cells = [tag("td", "not run", colspan=max(1, len(names)))]
        else:
            cells = [_summary_cell(entry, name) for name in names]
        rows.append(tag("tr", head, *cells, data_benchmark=f"{task} {entry['name']} {entry['title']}"))
    heads = [
        tag("th", "Benchmark", scope="col"),
        *(tag("th", _name(name), scope="col", class_="number") for name in names),
    ]
    if not names:
        heads.append(tag("th", "Result", scope="col"))
    caption = "The main metric of each benchmark"
    return join([tag("h2", task.capitalize()), _table(caption, heads, rows, sortable=True)])


def _summary_cell(entry: Entry, name: str) -> Html:
    system = next((one for one in entries.scored(entry) if one["name"] == name), None)
    if system is None:
        return tag("td", NONE, class_="number")
    return _figure_cell(entry, system, (entry["main_metric"], ALL))


def _anchor(entry: Entry) -> str:
    return f"benchmark-{entry['name']}"


def _benchmark(entry: Entry) -> Html:
    parts = [
        tag("h3", f"{entry['name']}: {entry['title'].replace('->', '→')}"),
        None if entry["tested_on_real_data"] else tag("p", tag("span", "untested on real data", class_="flag")),
        tag("p", f"Data: {entry['citation']}.", class_="dim"),
    ]
    if entry["options"]:
        parts.append(tag("p", f"Options: {entries.plain(entry['options'])}.", class_="dim"))
    if entry["not_run"] is not None:
        parts.append(tag("p", tag("strong", "Not run. "), _sentence(entry["not_run"])))
        if entry.get("where") and entry["where"] not in entry["not_run"]:
            parts.append(tag("p", f"Where to get the data: {_sentence(entry['where'])}"))
        if entry["published"]:
            parts.append(_fold("Published figures", [_published_list(entry)]))
    else:
        parts += [_scores(entry), _charts(entry), _differences(entry), _subsets(entry), _notes(entry), _tables(entry)]
        parts.append(_errors(entry))
    label = f"{entry['task']} {entry['name']} {entry['title']}"
    return tag("section", *parts, id=_anchor(entry), data_benchmark=label)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


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
        cells = [tag("th", _name(system["name"]), scope="row"), _figure_cell(entry, system, columns[0])]
        if baseline:
            cells.append(_difference_cell(entry, system, entry["main_metric"], baseline))
        if unseen:
            cells.append(_figure_cell(entry, system, (entry["main_metric"], UNSEEN), with_n=True))
        cells += [_figure_cell(entry, system, column) for column in columns[1:]]
        whole = entries.figure(system, *columns[0])
        cells.append(tag("td", f"{whole['n']:,}" if whole else NONE, class_="number"))
        if covered:
            share, counts = entries.coverage(system) or (NONE, "")
            cells.append(tag("td", share, tag("span", counts, class_="end"), class_="number"))
        time = entries.duration(system["seconds"])
        cells.append(tag("td", time, class_="number", data_value=f"{system['seconds']:.4f}"))
        rows.append(tag("tr", *cells))
    notes = Footnotes(entry)
    rest = len(heads) - 1 - len(columns) - bool(baseline) - unseen
    published = [_published_row(entry, one, columns, bool(baseline), unseen, rest, notes) for one in _published(entry)]
    if published:
        head = tag("th", "Published", scope="rowgroup", colspan=len(heads), class_="group")
        published.insert(0, tag("tr", head))
    left_out = [system for system in entry["systems"] if "figures" not in system]
    return join([
        _table(f"{entry['name']}: all figures", heads, rows, published, sortable=bool(rows)),
        _footnotes(notes, entry),
        *(tag("p", f"{one['name']}: not scored, {one['not_applicable']}.", class_="dim") for one in left_out),
    ])  # fmt: skip


def _published(entry: Entry) -> list[tuple[str, str, dict[tuple[str, str], Entry]]]:
    """Return the published figures over all rows: system, source, and its figures by column."""
    rows: dict[tuple[str, str], dict[tuple[str, str], Entry]] = {}
    for one in entry["published"]:
        if "=" not in one["subset"]:
            rows.setdefault((one["system"], one["source"]), {})[one["metric"], one["subset"]] = one
    return [(system, source, figures) for (system, source), figures in rows.items()]


def _published_list(entry: Entry) -> Html:
    """Return every published figure of a benchmark that was not run, one a line."""
    notes = Footnotes(entry)
    rows = [
        tag(
            "tr", tag("th", _name(one["system"]), tag("span", one["source"], class_="dim"), scope="row"),
            tag("td", one["metric"]), tag("td", one["subset"]), _published_cell(entry, one, notes),
        )
        for one in entry["published"]
    ]  # fmt: skip
    heads = [tag("th", head, scope="col") for head in ("System", "Metric", "Of")]
    heads.append(tag("th", "Published", scope="col", class_="number"))
    return join([_table(f"{entry['name']}: published figures", heads, rows), _footnotes(notes, entry)])


def _published_row(
    entry: Entry,
    row: tuple[str, str, Mapping[tuple[str, str], Entry]],
    columns: Sequence[tuple[str, str]],
    baseline: bool,
    unseen: bool,
    rest: int,
    notes: Footnotes,
) -> Html:
    system, source, figures = row
    head = tag("th", _name(system), tag("span", source, class_="dim"), scope="row")
    cells = [_published_cell(entry, figures.get(column), notes) for column in columns]
    cells[1:1] = [tag("td")] * (baseline + unseen)
    return tag("tr", head, *cells, tag("td", colspan=rest) if rest else None)


def _published_cell(entry: Entry, one: Entry | None, notes: Footnotes) -> Html:
    if one is None:
        return tag("td", class_="number")
    fraction = entries.metric_of(entry, one["metric"])["fraction"]
    flags = [word for word, key in (("protocol differs", "differs"), ("doubtful", "slip")) if one[key]]
    shown = [
        tag("span", tag("a", word, f" {number}", href=f"#{_anchor(entry)}-note-{number}", class_="flag"), class_="end")
        for word, number in zip(flags, notes.of(one), strict=True)
    ]
    return tag("td", entries.as_printed(one["value"], fraction=fraction), *shown, class_="number")


def _footnotes(notes: Footnotes, entry: Entry) -> Html:
    items = [
        tag("li", _sentence(reason), id=f"{_anchor(entry)}-note-{number}") for reason, number in notes.numbers.items()
    ]
    return tag("ol", *items, class_="notes") if items else Html()


def _figure_cell(entry: Entry, system: Entry, column: tuple[str, str], *, with_n: bool = False) -> Html:
    one = entries.figure(system, *column)
    if one is None:
        return tag("td", NONE, class_="number")
    fraction = entries.metric_of(entry, column[0])["fraction"]
    text = entries.interval(one, fraction=fraction) + (f" n {one['n']:,}" if with_n else "")
    top = "best" if entries.best(entry, column) == system["name"] else None
    return tag(
        "td", tag("span", entries.number(one["value"], fraction=fraction), class_=top),
        tag("span", text.strip(), class_="end") if text else None,
        class_="number", data_value=None if one["value"] is None else f"{one['value']:.6f}",
    )  # fmt: skip


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
        class_="number", data_value=f"{one['difference']:.6f}",
    )  # fmt: skip


def _differences(entry: Entry) -> Html:
    """Return the differences in every metric, where there are more than the main one."""
    compared = [system for system in entries.scored(entry) if system["against"]]
    metrics = list(dict.fromkeys(one["metric"] for system in compared for one in system["against"]["differences"]))
    if len(metrics) < 2:
        return Html()
    baseline = entries.baseline_of(entry) or ""
    heads = [tag("th", "Metric", scope="col")]
    heads += [tag("th", _name(system["name"]), scope="col", class_="number") for system in compared]
    rows = [
        tag(
            "tr", tag("th", metric, scope="row"),
            *(_difference_cell(entry, system, metric, baseline) for system in compared),
        )
        for metric in metrics
    ]  # fmt: skip
    table = _table(f"{entry['name']}: difference from {baseline} on the same rows", heads, rows)
    return _fold(f"Differences from {baseline} in every metric", [table])


def _subsets(entry: Entry) -> Html:
    parts = []
    for column, values in entries.subsets(entry).items():
        first, *others = [_subset_table(entry, column, values, metric) for metric in entries.metrics_by(entry, column)]
        more = [_fold("Other metrics", others)] if others else []
        opened = column not in ("seen", "covered")
        parts.append(_fold(f"By {entries.subset_words(column, values)}", [first, *more], opened=opened))
    return join(parts)


def _subset_table(entry: Entry, column: str, values: Sequence[str], metric: str) -> Html:
    systems = [system for system in entries.scored(entry) if system["figures"]]
    published: dict[tuple[str, str], dict[str, Entry]] = {}
    for one in entry["published"]:
        if one["metric"] == metric and one["subset"].startswith(f"{column}="):
            published.setdefault((one["system"], one["source"]), {})[one["subset"]] = one
    words = entries.subset_words(column, values)
    heads = [tag("th", words.capitalize(), scope="col"), tag("th", "n", scope="col", class_="number")]
    heads += [tag("th", _name(system["name"]), scope="col", class_="number") for system in systems]
    heads += [
        tag("th", _name(name), tag("span", f"published: {source}", class_="end"), scope="col", class_="number")
        for name, source in published
    ]
    notes = Footnotes(entry)
    rows = []
    for value in values:
        subset = f"{column}={value}"
        found = [one for system in systems if (one := entries.figure(system, metric, subset))]
        cells = [tag("th", entries.subset_value(value), scope="row")]
        cells.append(tag("td", f"{max(one['n'] for one in found):,}" if found else NONE, class_="number"))
        cells += [_figure_cell(entry, system, (metric, subset)) for system in systems]
        cells += [_published_cell(entry, figures.get(subset), notes) for figures in published.values()]
        rows.append(tag("tr", *cells))
    return _table(f"{entry['name']}: {metric} by {words}", heads, rows, sortable=True)


def _notes(entry: Entry) -> Html:
    """Return the systems' notes: once where all say the same, by system where they differ."""
    same, differing = entries.shared_notes(entry)
    if not same and not differing:
        return Html()
    parts = [tag("dl", *(part for name, value in same.items() for part in (tag("dt", _note(name)), tag("dd", value))))]
    if differing:
        heads = [tag("th", "Note", scope="col")]
        heads += [tag("th", _name(system["name"]), scope="col", class_="number") for system in entries.scored(entry)]
        rows = [
            tag("tr", tag("th", _note(name), scope="row"), *(tag("td", value, class_="number") for value in values))
            for name, values in differing.items()
        ]
        parts.append(_table(f"{entry['name']}: notes that differ by system", heads, rows))
    return _fold("Coverage and other notes", parts, opened=True)


def _note(name: str) -> str:
    return name.replace("_", " ")


def _charts(entry: Entry) -> Html:
    systems = entries.scored(entry)
    drawn = [_bars(entry), _accuracy_curve(entry)]
    names = list(dict.fromkeys(name for system in systems for name in system["curves"]))
    for name in names:
        series = {
            system["name"]: curve for system in systems if (curve := system["curves"].get(name)) and len(curve[0])
        }
        if series:
            # "theta F1" is F1 over theta.
            x_label, _, y_label = name.rpartition(" ")
            drawn.append(charts.lines(series, title=f"{entry['name']}: {name}", x_label=x_label, y_label=y_label))
    for system in systems:
        for name, one in system["histograms"].items():
            title = f"{system['name']}: {name}"
            drawn.append(charts.histogram(one["edges"], one["counts"], title=title, x_label=name))
    shown = [Html(one) for one in drawn if one]
    return tag("div", *shown, class_="charts") if shown else Html()


def _tables(entry: Entry) -> Html:
    """Return the tables that are to be read by eye, system by system under each title."""
    systems = entries.scored(entry)
    parts = []
    for title in dict.fromkeys(title for system in systems for title in system["tables"]):
        for system in systems:
            if one := system["tables"].get(title):
                records = [dict(zip(one["columns"], row, strict=True)) for row in one["rows"]]
                parts.append(_records(f"{title} ({system['name']})", records))
    return _fold("Case tables", parts) if parts else Html()


def _bars(entry: Entry) -> str:
    metric = entry["main_metric"]
    fraction = entries.metric_of(entry, metric)["fraction"]
    rows = []
    for system in entries.scored(entry):
        one = entries.figure(system, metric)
        if one is not None and one["value"] is not None:
            text = f"{system['name']}: {entries.number(one['value'], fraction=fraction)}"
            rows.append((text, one["value"], one["low"], one["high"], True))
    if not rows:
        return ""
    elsewhere = [one for one in entry["published"] if one["metric"] == metric and one["subset"] == ALL]
    for one in elsewhere:
        mark = " †" if one["differs"] or one["slip"] else ""
        text = f"{one['system']}: {entries.as_printed(one['value'], fraction=fraction)}{mark}"
        rows.append((text, one["value"], None, None, False))
    title = f"{entry['name']}: {metric}" + (
        ". Hollow: published; † protocol differs or number doubtful" if elsewhere else ""
    )
    return charts.bars(rows, title=title, fraction=fraction)


def _accuracy_curve(entry: Entry) -> str:
    """Return accuracy@k over k, where a benchmark counts three places or more."""
    series = {}
    for system in entries.scored(entry):
        points = sorted(
            (int(one["metric"].removeprefix("accuracy@")), one["value"])
            for one in system["figures"]
            if one["subset"] == ALL and one["metric"].removeprefix("accuracy@").isdigit() and one["value"] is not None
        )
        if len(points) > 2:
            series[system["name"]] = ([float(k) for k, _ in points], [value for _, value in points])
    if not series:
        return ""
    title = f"{entry['name']}: accuracy within the first k concepts"
    return charts.lines(series, title=title, x_label="k", y_label="accuracy@k", fraction=True, points=True)


def _errors(entry: Entry) -> Html:
    systems = [system for system in entries.scored(entry) if system["errors"]]
    told = entries.subsets(entry)
    names = [by["name"] for system in systems for by in system["errors"].get("by", ()) if by["name"] not in told]
    tables = [_breakdown(entry, systems, name) for name in dict.fromkeys(names)]
    parts = [_fold("By length, overlap and other groups", tables)] if tables else []
    for system in systems:
        own = _system_errors(entry, system)
        if own:
            parts.append(_fold(f"Errors of {system['name']}", own))
    return join(parts)


def _breakdown(entry: Entry, systems: Sequence[Entry], name: str) -> Html:
    found = {
        system["name"]: {group["value"]: group for group in by["groups"]}
        for system in systems
        for by in system["errors"].get("by", ())
        if by["name"] == name
    }
    metric = next(system["errors"]["metric"] for system in systems if system["name"] in found)
    fraction = entries.metric_of(entry, metric)["fraction"]
    heads = [tag("th", name.capitalize(), scope="col"), tag("th", "n", scope="col", class_="number")]
    heads += [tag("th", _name(system), scope="col", class_="number") for system in found]
    rows = []
    for value in dict.fromkeys(value for groups in found.values() for value in groups):
        own = [groups.get(value) for groups in found.values()]
        cells = [tag("td", f"{max(group['n'] for group in own if group):,}", class_="number")]
        for group in own:
            score = entries.number(group["score"], fraction=fraction) if group else NONE
            ends = entries.interval(group, fraction=fraction) if group else ""
            cells.append(tag("td", score, tag("span", ends, class_="end"), class_="number"))
        rows.append(tag("tr", tag("th", value, scope="row"), *cells))
    return _table(f"{entry['name']}: {metric} by {name}", heads, rows)


def _system_errors(entry: Entry, system: Entry) -> list[Html]:
    errors = system["errors"]
    where = f"{entry['name']}, {system['name']}"
    parts = []
    if counts := errors.get("similarity"):
        drawn = charts.histogram(
            counts["edges"], {name: counts[name] for name in ("right", "wrong")},
            title=f"{where}: similarity of the first answer, right and wrong", x_label="similarity",
        )  # fmt: skip
        parts.append(tag("div", Html(drawn), class_="charts"))
    for key, title in (
        ("confusions", "commonest wrong answers"),
        ("examples", "wrong answers with the greatest similarity"),
        ("disagreements", "pairs whose ranks are furthest apart"),
    ):
        if found := errors.get(key):
            parts.append(_records(f"{where}: {title}", found))
    if errors.get("unscored"):
        parts.append(tag("p", f"{errors['unscored']:,} rows have no answer to score."))
    return parts


def _records(caption: str, records: Sequence[Mapping[str, Any]]) -> Html:
    heads = [tag("th", _note(name), scope="col") for name in records[0]]
    rows = [tag("tr", *(_record_cell(value) for value in record.values())) for record in records]
    return _table(caption, heads, rows, wide=True)


def _record_cell(value: Any) -> Html:  # noqa: ANN401 - any JSON value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return tag("td", entries.plain(value), class_="number" if number else None)


def _picture(picture: Picture) -> Html:
    data = base64.b64encode(picture.png).decode()
    image = Html(f'<img alt="{escape(picture.caption)}" src="data:image/png;base64,{data}">')
    return tag("figure", image, tag("figcaption", picture.caption), class_="picture")


def _provenance(report: Mapping[str, Any]) -> Html:
    facts = report["provenance"]
    command = facts.get("command")
    plain = {
        "commit": facts.get("commit"),
        "command": " ".join(command) if command else None,
        "alphita": facts.get("alphita_version"),
        "seed": facts.get("seed"),
        "machine": facts.get("machine"),
        "packages": facts.get("packages"),
    }
    terms = [
        part
        for name, value in plain.items()
        for part in (tag("dt", name), tag("dd", tag("code", entries.plain(value))))
    ]
    parts = [tag("h2", "Provenance"), tag("dl", *terms)]
    known: dict[str, Any] = {}
    for entry in report["benchmarks"]:
        for system in entry["systems"]:
            known.setdefault(system["name"], system.get("facts", {}))
    rows = [
        tag("tr", tag("th", _name(name), scope="row"), tag("td", tag("code", entries.plain(value))))
        for name, value in known.items()
    ]
    if rows:
        heads = [tag("th", "System", scope="col"), tag("th", "Facts", scope="col")]
        parts.append(_fold("Systems", [_table("What each system is", heads, rows, wide=True)]))
    for title, table in (("Data: sha256 of every file read", facts.get("data")), ("Settings", facts.get("config"))):
        if table:
            heads = [tag("th", "Name", scope="col"), tag("th", "Value", scope="col")]
            rows = [
                tag("tr", tag("th", str(name), scope="row"), tag("td", tag("code", entries.plain(value))))
                for name, value in table.items()
            ]
            parts.append(_fold(title, [_table(title, heads, rows, wide=True)]))
    return join(parts)


def _fold(title: str, parts: Sequence[Html], *, opened: bool = False) -> Html:
    return tag("details", tag("summary", title), tag("div", *parts), open=opened)


def _table(
    caption: str,
    heads: Sequence[Html],
    rows: Sequence[Html],
    more: Sequence[Html] = (),
    *,
    sortable: bool = False,
    wide: bool = False,
) -> Html:
    """Return a table that scrolls by itself where it is wider than the screen; `more` is a second body."""
    kinds = " ".join(kind for kind, wanted in (("sortable", sortable), ("wide", wide)) if wanted)
    table = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", tag("tr", *heads)), tag("tbody", *rows),
        tag("tbody", *more) if more else None, class_=kinds or None,
    )  # fmt: skip
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)
