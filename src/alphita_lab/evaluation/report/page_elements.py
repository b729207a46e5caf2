"""The elements of an HTML page: escaped text, tables that scroll, parts that fold, and how they look.

Everything that comes from a report is escaped: `tag` takes text for text unless it is `Html` already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from alphita_lab.evaluation.report import entries


class Html(str):
    """Text that is markup already."""


def tag(name: str, *children: str | None, **attributes: str | int | bool | None) -> Html:
    """Return an element; children and attributes are escaped unless they are `Html`."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if one is True else f'="{escape(str(one))}"')
        for key, one in attributes.items()
        if one is not None and one is not False
    )
    inner = "".join(child if isinstance(child, Html) else escape(child) for child in children if child is not None)
    return Html(f"<{name}{written}>{inner}</{name}>")


def join(parts: Iterable[str]) -> Html:
    """Return parts one after another; those that are not `Html` are escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def breakable(name: str) -> Html:
    """Return a system's name that breaks where a path or a list of options can."""
    return Html(re.sub(r"([/,_:=-])", r"\1<wbr>", escape(name)))


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it ends as a sentence does."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def spaced(name: str) -> str:
    """Return a name of the report's with spaces for its underscores."""
    return name.replace("_", " ")


def fold(title: str, parts: Sequence[Html], *, opened: bool = False) -> Html:
    """Return parts that fold away under a title."""
    return tag("details", tag("summary", title), tag("div", *parts), open=opened)


def data_table(
    caption: str,
    heads: Sequence[Html],
    rows: Sequence[Html],
    more: Sequence[Html] = (),
    *,
    sortable: bool = False,
    wide: bool = False,
) -> Html:
    """Return a table that scrolls by itself where it is wider than the screen."""
    kinds = " ".join(kind for kind, wanted in (("sortable", sortable), ("wide", wide)) if wanted)
    table = tag(
        "table",
        tag("caption", tag("span", caption)),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        tag("tbody", *more) if more else None,
        class_=kinds or None,
    )
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=caption)


def record_table(caption: str, records: Sequence[Mapping[str, Any]]) -> Html:
    """Return a table with a row for each record, under the names of the first one's fields; no records: the caption."""
    heads = [tag("th", spaced(name), scope="col") for name in (records[0] if records else ())]
    rows = [tag("tr", *(_record_cell(value) for value in record.values())) for record in records]
    return data_table(caption, heads, rows, wide=True)


def _record_cell(value: Any) -> Html:  # noqa: ANN401 - any JSON value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return tag("td", entries.plain(value), class_="number" if number else None)
