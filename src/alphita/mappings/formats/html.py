"""A page on which a person judges a job. Specification: https://html.spec.whatwg.org/multipage/
Version: none, for that standard is a living one; what the page needs of it every browser has had since 2023.

The page stands alone: it loads nothing, and its few lines of script only sort and filter what can be read without them.
It holds all that mappings say, for the eye: numbers have two decimals, a control character is shown by its symbol (the
NUL as "␀"), and half a character as "�". Nothing can be read back from it.

A mention is one line of the part file: a `tbody` that begins with the mention's group and, if there is one, the
confidence of its answer. So the page's head, which counts them, is written when all are there, and the lines are copied
after it.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from string import Template
from typing import NamedTuple

from alphita.artefact import atomic_file
from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, Problem, _html_rows
from alphita.mappings.formats._html_rows import text
from alphita.mappings.record import Mapping
from alphita.terminology import prefixes

DESCRIPTION = "one page that a person reads, in any browser; it cannot be read back"
SUFFIXES = (".html", ".htm")
STREAMS = False
READS = False
PREFIXED = False
LOSSES: tuple[str, ...] = ()

# Of more mentions than this a browser makes heavy weather.
MANY = 20_000
TEMPLATE = "mapping_page.html"
ROWS = "<!-- rows -->\n"
NONE = "<tbody><tr><td colspan=6 class=none>There is no mention in this file.</td></tr></tbody>"
WITH_CONFIDENCE = (
    "<strong>Confidence</strong> is the calibrated probability that the answer is right, and for a NIL that no concept "
    "fits: of a hundred answers at 0.90, about ninety are. How far that holds for your own strings, only a sample of "
    "them can tell (<code>--audit</code>)."
)
WITHOUT_CONFIDENCE = (
    "There is no <strong>confidence</strong> here, which takes a calibrated index (<code>alphita calibrate</code>): "
    "judge each answer by its matched term."
)
# The groups of mentions in their order: how each is called, and what it means.
GROUPS = {
    "accept": ("accept", "may be used unseen, within the error that was allowed"),
    "review": ("review", "a person should look at it"),
    "nil": ("NIL", "no concept fits"),
    "open": ("no decision", "nothing says how sure it is"),
    "person": ("by people", "a person decided or marked it"),
}


class _Counts(NamedTuple):
    """What a part file holds: how many mentions of each group, and whether one has a confidence."""

    groups: Counter[str]
    is_calibrated: bool


def begin(header: Header) -> bytes:
    """Return nothing: the head is written at the end, when the mentions are counted."""
    return b""


def split_complete(header: Header, mappings: Sequence[Mapping]) -> tuple[Sequence[Mapping], Sequence[Mapping]]:
    """Return the mappings before the last mention, and those of it: its candidates may go on in what follows."""
    start = len(mappings)
    while start and _html_rows.mention(mappings[start - 1]) == _html_rows.mention(mappings[-1]):
        start -= 1
    return mappings[:start], mappings[start:]


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return one line for each mention; its mappings must come together."""
    mentions = (list(found) for _, found in groupby(mappings, key=_html_rows.mention))
    return "".join(_html_rows.line(header, found) for found in mentions).encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Count the mentions, write the page aside, rename it, and remove the part."""
    private = not os.stat(part).st_mode & 0o077
    counts = _counted(part)
    head, tail = _page(header, counts)
    with atomic_file(out, private=private) as file, open(part, "rb") as rows:
        file.write(head.encode("utf-8"))
        shutil.copyfileobj(rows, file)
        file.write(tail.encode("utf-8"))
    part.unlink()
    if counts.groups.total() > MANY:
        header.tell(
            f"{out}: {counts.groups.total():,} mentions are much for one page; a browser shows up to {MANY:,} at ease"
        )


def validate(header: Header, mapping: Mapping) -> Problem | None:
    """Return None: every mapping can be shown."""
    return None


def losses(header: Header, mappings: Sequence[Mapping]) -> dict[str, int]:
    """Return nothing: all that a mapping says is shown, some of it folded."""
    return {}


def read(path: Path, header: Header, rejects: Rejects) -> Iterator[Mapping]:
    """Refuse: a page is for people."""
    raise InputError(
        "an HTML page is for people, and no mappings can be read from it",
        file=path,
        remedy="give the mappings as csv, jsonl, parquet or sssom",
    )


def _counted(part: Path) -> _Counts:
    groups: Counter[str] = Counter()
    is_calibrated = False
    with open(part, "rb") as rows:
        for row in rows:
            start = row[: row.index(b">")].decode().split('"')
            groups[start[1]] += 1
            is_calibrated |= len(start) > 3
    return _Counts(groups, is_calibrated)


def _page(header: Header, counts: _Counts) -> tuple[str, str]:
    """Return what stands before the rows, and after them."""
    page = importlib.resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    head, tail = page.split(ROWS)
    script = tail.split("<script>")[1].split("</script>")[0]
    number = counts.groups.total()
    said = f"{number:,} mention{'' if number == 1 else 's'}"
    title = f"{said} mapped to {header.target_system}" if header.target_system else f"{said} mapped"
    found = {
        # Only this script may run, whatever a mention holds.
        "script": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "title": text(title),
        "facts": "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(header)),
        "bar": _bar(counts.groups),
        "legend": _legend(counts.groups),
        "reading": WITH_CONFIDENCE if counts.is_calibrated else WITHOUT_CONFIDENCE,
        "choices": _choices(counts.groups),
        "none": "" if number else NONE,
    }
    return Template(head).substitute(found), tail


def _facts(header: Header) -> Iterator[tuple[str, str]]:
    """Yield what the header says of the whole, each by its name, as HTML."""
    systems = dict.fromkeys(filter(None, (header.target_system, *header.sources)))
    if systems:
        yield "Terminology", ", ".join(_system(header, system) for system in systems)
    codes = " ".join(filter(None, (header.source_vocabulary, header.source_version, header.source_system)))
    made = f"{header.tool} {header.tool_version}".strip()
    mapping_set = " ".join(filter(None, (header.set_id, header.version)))
    for name, value in {
        "Codes of the mentions": codes,
        "Mapping set": mapping_set,
        "Licence": header.licence,
        "Date": header.date,
        "Made by": made,
    }.items():
        if value:
            yield name, text(value)


def _system(header: Header, prefix: str) -> str:
    known = prefixes.table().get(prefix)
    named = f"{known.name} ({prefix})" if known and known.name and known.name != prefix else prefix
    return text(f"{named} {header.sources.get(prefix, '')}".strip())


def _bar(groups: Counter[str]) -> str:
    """Return the segments of the bar, one for each group that there is."""
    return "".join(f'<i class="{group}" style="flex-grow:{groups[group]}"></i>' for group in GROUPS if groups[group])


def _legend(groups: Counter[str]) -> str:
    """Return the items of the list that says what the bar shows."""
    total = groups.total()
    return "".join(
        f'<li><i class="{group}" aria-hidden="true"></i><span><b>{groups[group]:,}</b> {word} '
        f'<span class="quiet">{_share(groups[group], total)}</span><br><span class="quiet">{means}</span></span></li>'
        for group, (word, means) in GROUPS.items()
        if groups[group]
    )


def _share(number: int, total: int) -> str:
    share = 100 * number / total
    return "<1%" if 0 < share < 1 else ">99%" if 99 < share < 100 else f"{share:.0f}%"


def _choices(groups: Counter[str]) -> str:
    """Return the buttons that choose which group is shown."""
    found = {"": ("all", groups.total())} | {
        group: (word, groups[group]) for group, (word, _) in GROUPS.items() if groups[group]
    }
    return "".join(
        f'<label><input type="radio" name="group" value="{group}"{"" if group else " checked"}>'
        f'<span>{word} <span class="quiet">{number:,}</span></span></label>'
        for group, (word, number) in found.items()
    )
