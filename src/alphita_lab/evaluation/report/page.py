"""A report as one self-contained HTML page, by page.html.j2, which looks the figures up by `entries`."""

from __future__ import annotations

import base64
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from alphita.artefact import atomic_file
from alphita.errors import require
from alphita_lab.evaluation.report import charts, entries

# Lists of an error analysis, and what they are called.
ERRORS = (
    ("confusions", "commonest wrong answers"),
    ("examples", "wrong answers with the greatest similarity"),
    ("disagreements", "pairs whose ranks are furthest apart"),
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
    jinja2 = require("jinja2", "evaluate")
    files = importlib.resources.files(__package__)
    template, style, script = (
        files.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html.j2", "css", "js")
    )
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {
        "e": entries,
        "charts": charts,
        "ERRORS": ERRORS,
        "base64": lambda png: base64.b64encode(png).decode(),
        # A system's name breaks where a path or a list of options can.
        "split": lambda name: re.split(r"(?<=[/,_:=-])", name),
        "records_of": lambda records: [list(record.values()) for record in records],
        "spaced": lambda name: name.replace("_", " "),
        "sentence": lambda text: text if text.endswith((".", "!", "?")) else f"{text}.",
    }
    page: str = environment.from_string(template).render(report=report, pictures=pictures, style=style, script=script)
    return page + "\n"
