"""A report as one HTML page: no network, no framework, light and dark, for phones and desks.

It stands on two modules: `page_benchmark` says what there is of one benchmark, `page_elements` writes it, escaped.
"""

from __future__ import annotations

import base64
import importlib.resources
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from alphita.artefact import atomic_file
from alphita_lab.evaluation.report import charts, entries
from alphita_lab.evaluation.report.entries import ALL, NONE, Entry
from alphita_lab.evaluation.report.page_benchmark import anchor, figure_cell, section
from alphita_lab.evaluation.report.page_elements import Html, breakable, data_table, fold, join, tag

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


def write_page(report: Mapping[str, Any], path: Path | str, *, pictures: Sequence[Picture] = ()) -> None:
    """Write a report as one self-contained HTML page, whole or not at all."""
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
            "p",
            tag("label", "Show only benchmarks with ", for_="filter"),
            Html('<input type="search" id="filter" autocomplete="off">'),
            hidden=True,
        ),
    ]
    body += [_summary(task, of_task, report) for task, of_task in entries.by_task(report).items()]
    body.append(tag("h2", "Benchmarks"))
    body += [section(entry) for entry in report["benchmarks"]]
    failed = entries.pictures_failed(report)
    if pictures or failed:
        body += [tag("h2", "Pictures"), *map(_picture, pictures)]
    if failed:
        body.append(tag("p", failed))
    body.append(_provenance(report))
    files = importlib.resources.files(__package__)
    style, script = (files.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><title>Evaluation report</title>'
        f"<style>\n{style}{charts.STYLE}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main><script>\n{script}</script></body></html>\n"
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
        link = tag("a", entry["name"], href=f"#{anchor(entry)}")
        head = tag("th", link, tag("span", entry["main_metric"], class_="dim"), scope="row")
        if entry["not_run"] is not None:
            cells = [tag("td", "not run", colspan=max(1, len(names)))]
        else:
            cells = [_summary_cell(entry, name) for name in names]
        rows.append(tag("tr", head, *cells, data_benchmark=f"{task} {entry['name']} {entry['title']}"))
    heads = [
        tag("th", "Benchmark", scope="col"),
        *(tag("th", breakable(name), scope="col", class_="number") for name in names),
    ]
    if not names:
        heads.append(tag("th", "Result", scope="col"))
    caption = "The main metric of each benchmark"
    return join([tag("h2", task.capitalize()), data_table(caption, heads, rows, sortable=True)])


def _summary_cell(entry: Entry, name: str) -> Html:
    system = next((scored for scored in entries.scored(entry) if scored["name"] == name), None)
    if system is None:
        return tag("td", NONE, class_="number")
    return figure_cell(entry, system, (entry["main_metric"], ALL))


def _picture(picture: Picture) -> Html:
    data = base64.b64encode(picture.png).decode()
    image = Html(f'<img alt="{escape(picture.caption)}" src="data:image/png;base64,{data}">')
    return tag("figure", image, tag("figcaption", picture.caption), class_="picture")


def _provenance(report: Mapping[str, Any]) -> Html:
    facts = report["provenance"]
    told = entries.provenance(report)
    terms = [part for name, text in told.items() for part in (tag("dt", name), tag("dd", tag("code", text)))]
    parts = [tag("h2", "Provenance"), tag("dl", *terms)]
    known: dict[str, Any] = {}
    for entry in report["benchmarks"]:
        for system in entry["systems"]:
            known.setdefault(system["name"], system.get("facts", {}))
    rows = [
        tag("tr", tag("th", breakable(name), scope="row"), tag("td", tag("code", entries.plain(value))))
        for name, value in known.items()
    ]
    if rows:
        heads = [tag("th", "System", scope="col"), tag("th", "Facts", scope="col")]
        parts.append(fold("Systems", [data_table("What each system is", heads, rows, wide=True)]))
    for title, table in (("Data: sha256 of every file read", facts.get("data")), ("Settings", facts.get("config"))):
        if table:
            heads = [tag("th", "Name", scope="col"), tag("th", "Value", scope="col")]
            rows = [
                tag("tr", tag("th", str(name), scope="row"), tag("td", tag("code", entries.plain(value))))
                for name, value in table.items()
            ]
            parts.append(fold(title, [data_table(title, heads, rows, wide=True)]))
    return join(parts)
