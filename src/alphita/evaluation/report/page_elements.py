"""The elements of an HTML page: escaped text, tables that scroll, parts that fold, and how they look.

Everything that comes from a report is escaped: `tag` takes text for text unless it is `Html` already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from alphita.evaluation.report import entries

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
    """Return parts that fold away under a title.

    Args:
        title: always to be seen.
        parts: below it.
        opened: whether they show at first.
    """
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
    """Return a table that scrolls by itself where it is wider than the screen.

    Args:
        caption: above it; also what a screen reader says.
        heads: its header cells.
        rows: of its body.
        more: rows of a second body, which sorting leaves alone.
        sortable: whether a click on a heading sorts the body.
        wide: its cells hold text rather than figures.
    """
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
