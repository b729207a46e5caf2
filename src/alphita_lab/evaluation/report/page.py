"""A report as one HTML page and as Markdown, by page.html.j2 and page.md.j2, and its summary for a terminal.

The templates look the figures up by `entries`.
"""

from __future__ import annotations

import base64
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from alphita.artefact import atomic_file
from alphita.errors import require
from alphita_lab.evaluation.report import charts, entries, markdown
from alphita_lab.evaluation.scoring.results import RESAMPLES

if TYPE_CHECKING:
    from rich.console import Group

# Lists of an error analysis, and what they are called.
ERRORS = (
    ("confusions", "commonest wrong answers"),
    ("examples", "wrong answers with the greatest similarity"),
    ("disagreements", "pairs whose ranks are furthest apart"),
)
READING = (
    "Brackets hold 95% bootstrap intervals over rows. Differences are taken on the same rows, with a paired bootstrap "
    f"interval and two-sided p of {RESAMPLES:,} resamples, so that p is never below 2/{RESAMPLES + 1:,}; p is not "
    "corrected for the number of comparisons. Bold, better or worse: 0 lies outside a difference's interval. No "
    "interval covers what another training seed would change. Fractions are printed as percentages. Published figures "
    "carry the number of a note where their protocol differs from ours or the printed number is doubtful."
)


class Picture(NamedTuple):
    """A picture for the page: its bytes as PNG, and what stands below it and a screen reader says."""

    png: bytes
    caption: str


def write_page(report: Mapping[str, Any], path: Path | str, *, pictures: Sequence[Picture] = ()) -> None:
    """Write a report as one self-contained HTML page, whole or not at all."""
    text = to_html(report, pictures=pictures)
    with atomic_file(path, "w") as file:
        file.write(text)


def to_html(report: Mapping[str, Any], *, pictures: Sequence[Picture] = ()) -> str:
    """Return the page that `write_page` writes."""
    style, script = _part("css"), _part("js")
    return _rendered("html.j2", escape=True, report=report, pictures=pictures, style=style, script=script) + "\n"


def around(title: str, body: str) -> str:
    """Return a self-contained page in a report's style around a body, which is HTML."""
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
    head += f"<title>{escape(title)}</title><style>\n{_part('css')}</style>"
    main = f"<main><h1>{escape(title)}</h1>{body}</main>"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{main}\n'


def to_markdown(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown: a summary of each task, then every benchmark, then where the figures come from."""
    text = _rendered("md.j2", escape=False, report=report)
    return re.sub(r"\n{3,}", "\n\n", text)


def _part(kind: str) -> str:
    return importlib.resources.files(__package__).joinpath(f"page.{kind}").read_text(encoding="utf-8")


def _rendered(kind: str, *, escape: bool, **values: object) -> str:
    jinja2 = require("jinja2", "evaluate")
    environment = jinja2.Environment(autoescape=escape, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"t": markdown.text, "plain": entries.plain}
    environment.globals |= {
        "e": entries,
        "charts": charts,
        "ERRORS": ERRORS,
        "READING": READING,
        "base64": lambda png: base64.b64encode(png).decode(),
        # A system's name breaks where a path or a list of options can.
        "split": lambda name: re.split(r"(?<=[/,_:=-])", name),
        "records_of": lambda records: [list(record.values()) for record in records],
        "spaced": lambda name: name.replace("_", " "),
        "sentence": lambda text: text if text.endswith((".", "!", "?")) else f"{text}.",
    }
    text: str = environment.from_string(_part(kind)).render(values)
    return text


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
            main = (entry["main_metric"], entries.ALL)
            cells = [Text(entries.cell(entry, entries.system(entry, name), main)) for name in names]
            drawn.add_row(Text(entry["name"]), Text(entry["main_metric"]), *cells)
        shown.append(drawn)
    left = [entry["name"] for entry in report["benchmarks"] if entry["not_run"] is not None]
    if left:
        shown.append(Text(f"Not run: {', '.join(left)}; the report says why."))
    return Group(*shown)
