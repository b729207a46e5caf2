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
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template
from typing import NamedTuple

from alphita.errors import InputError, Rejects
from alphita.mappings.formats import Header, Problem, _fields
from alphita.mappings.record import OMOP, REVIEWED, Mapping
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
    "accept": ("accept", "can be used without review, at the error that you allowed"),
    "review": ("review", "a person should look at it"),
    "nil": ("NIL", "no concept fits"),
    "open": ("no decision", "nothing says how sure it is"),
    "person": ("by people", "a person decided or marked it"),
}
# What stands in no HTML, or would break the line: controls, halves of characters, and what is no character.
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DELETE = 0x7F
_WAYS = {
    "exact": "equal letters",
    "letters": "similar letters",
    "vectors": "similar meaning",
    "abbreviation": "its long form",
    "spelling": "its right spelling",
    "shortened": "its main words",
    "unspecified": "its name with or without NOS",
}
_RELATIONS = {
    "broad": "the concept is broader than the mention",
    "narrow": "the concept is narrower than the mention",
    "related": "the concept is only related to the mention",
}
_BEGINNINGS = ("/", "#", "=", "_", ":")
_COLUMNS = 6


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
    while start and mention(mappings[start - 1]) == mention(mappings[-1]):
        start -= 1
    return mappings[:start], mappings[start:]


def encode(header: Header, mappings: Sequence[Mapping]) -> bytes:
    """Return one line for each mention; its mappings must come together."""
    mentions = (list(group) for _, group in groupby(mappings, key=mention))
    return "".join(line(header, group) for group in mentions).encode("utf-8")


def finish(header: Header, part: Path, out: Path) -> None:
    """Count the mentions, write the page aside, rename it, and remove the part."""
    counts = _counted(part)
    head, tail = _page(header, counts)
    with _fields.made_of(part, out) as file, open(part, "rb") as rows:
        file.write(head.encode("utf-8"))
        shutil.copyfileobj(rows, file)
        file.write(tail.encode("utf-8"))
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
    count = f"{number:,} mention{'' if number == 1 else 's'}"
    title = f"{count} mapped to {header.target_system}" if header.target_system else f"{count} mapped"
    parts = {
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
    return Template(head).substitute(parts), tail


def _facts(header: Header) -> Iterator[tuple[str, str]]:
    """Yield what the header says of the whole, each by its name, as HTML."""
    systems = dict.fromkeys(filter(None, (header.target_system, *header.sources)))
    if systems:
        yield "Terminology", ", ".join(_system(header, system) for system in systems)
    codes = " ".join(filter(None, (header.source_vocabulary, header.source_version, header.source_system)))
    tool = f"{header.tool} {header.tool_version}".strip()
    mapping_set = " ".join(filter(None, (header.set_id, header.version)))
    for name, value in {
        "Codes of the mentions": codes,
        "Mapping set": mapping_set,
        "Licence": header.licence,
        "Allowed error": _errors(header),
        "Date": header.date,
        "Made by": tool,
    }.items():
        if value:
            yield name, text(value)


def _errors(header: Header) -> str:
    shares = {"accepted": header.error, "NIL": header.nil_error}
    return ", ".join(f"{100 * share:g}% of {what} answers" for what, share in shares.items() if share is not None)


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
    choices = {"": ("all", groups.total())} | {
        group: (word, groups[group]) for group, (word, _) in GROUPS.items() if groups[group]
    }
    return "".join(
        f'<label><input type="radio" name="group" value="{group}"{"" if group else " checked"}>'
        f'<span>{word} <span class="quiet">{number:,}</span></span></label>'
        for group, (word, number) in choices.items()
    )


def text(value: object) -> str:
    """Return a value as HTML text that is safe in an attribute, too."""
    return _UNSHOWN.sub(_symbol, escape(str(value)))


def mention(mapping: Mapping) -> tuple[int, str | None, str, int | None]:
    """Return what is equal in all mappings of one mention."""
    return mapping.row, mapping.mention_code, mapping.mention, mapping.frequency


def line(header: Header, mappings: Sequence[Mapping]) -> str:
    """Return the line of one mention: its answers, and folded beneath them its further candidates."""
    answers = [mapping for mapping in mappings if _fields.is_target(mapping)]
    others = [mapping for mapping in mappings if not _fields.is_target(mapping)]
    if not answers:
        answers, others = others[:1], others[1:]
    first = answers[0]
    confidence = "" if first.confidence is None else f' data-c="{first.confidence:.4f}"'
    rows = [_answer_row(header, answers, place) for place in range(len(answers))]
    if others:
        rows.append(_others(header, others))
    return f'<tbody data-d="{_group(first)}"{confidence} role=rowgroup>{"".join(rows)}</tbody>\n'


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "␡" if code == _DELETE else "\ufffd"


def _group(mapping: Mapping) -> str:
    """Return which of the page's groups an answer belongs to."""
    if mapping.status != "unreviewed":
        return "person"
    if mapping.concept_id is None:
        return "nil"
    return mapping.decision if mapping.decision in ("accept", "review") else "open"


def _answer_row(header: Header, answers: Sequence[Mapping], place: int) -> str:
    # The roles stay where the style lays the rows out as a grid.
    mapping = answers[place]
    span = f" rowspan={len(answers)}" if len(answers) > 1 else ""
    start = (
        "<tr role=row class=a>"
        if place
        else (
            f"<tr role=row><td role=cell class=n{span}>{mapping.row:,}</td>"
            f"<th role=rowheader scope=rowgroup{span}>{_mention(mapping)}</th>"
        )
    )
    cells = (_answer(header, mapping), _confidence(mapping), _decision(mapping), _why(mapping))
    return start + "".join(f"<td role=cell>{cell}</td>" for cell in cells) + "</tr>"


def _mention(mapping: Mapping) -> str:
    shown = f"<bdi class=m>{text(mapping.mention)}</bdi>" if mapping.mention else "<i class=quiet>(empty)</i>"
    code = f"<code>{text(mapping.mention_code)}</code>" if mapping.mention_code else ""
    times = "" if mapping.frequency is None else f"{mapping.frequency:,} time{'' if mapping.frequency == 1 else 's'}"
    beneath = " · ".join(filter(None, (code, times)))
    return shown + (f"<p class=quiet>{beneath}</p>" if beneath else "")


def _answer(header: Header, mapping: Mapping) -> str:
    """Return the concept and the term that speaks for it; for NIL, the nearest that was found."""
    if mapping.concept_id is None:
        term = mapping.matched_term
        near = f"nearest found: {_quoted(term, mapping.language)}" if term else "nothing came near"
        if mapping.nearest_id:
            name = text(mapping.nearest_name) if mapping.nearest_name not in (None, "", term) else ""
            near += f", {f'{name} {_links(header, mapping.nearest_id)}'.strip()}"
        shown = "<b class=nil>No concept fits</b>"
        # Of what people settled nobody says what else was found.
        return shown if mapping.method == "reviewed" and not term else f"{shown}<p class=quiet>{near}</p>"
    shown = _concept(header, mapping)
    if mapping.matched_term == mapping.concept_name and mapping.matched_term:
        shown += "<p class=quiet>matched by this name</p>"
    elif mapping.matched_term:
        shown += f"<p class=quiet>matched term: {_quoted(mapping.matched_term, mapping.language)}</p>"
    notes = [_RELATIONS[mapping.relation]] if mapping.relation in _RELATIONS else []
    if mapping.mapping_type != "maps_to":
        notes.append(mapping.mapping_type.replace("_", " "))
    return shown + "".join(f"<p class=note>{text(note)}</p>" for note in notes)


def _concept(header: Header, mapping: Mapping) -> str:
    """Return a concept's name and its ids, each linked to its address where that is known."""
    name = f"<bdi class=b>{text(mapping.concept_name)}</bdi> " if mapping.concept_name else ""
    return name + _links(header, mapping.concept_id or "")


def _links(header: Header, curies: str) -> str:
    ids = []
    for curie in curies.split("|"):
        address = _address(header, curie)
        ids.append(f'<a href="{text(address)}">{text(curie)}</a>' if address else f"<code>{text(curie)}</code>")
    return " ".join(ids)


def _address(header: Header, curie: str) -> str:
    """Return where a concept can be looked up, or ""."""
    prefix, _, local = curie.partition(":")
    declared = header.prefixes.get(prefix, "")
    # What names a code system of FHIR is no beginning of an address.
    address = declared + local if declared.endswith(_BEGINNINGS) else prefixes.expand(curie)
    return address if address and address.startswith(("https://", "http://")) else ""


def _confidence(mapping: Mapping) -> str:
    if mapping.confidence is None:
        return '<span class=quiet role="img" aria-label="no confidence">–</span>'
    return (
        f"<span class=c>{_number(mapping.confidence)}</span><span class=bar aria-hidden=true>"
        f'<i style="width:{100 * mapping.confidence:.0f}%"></i></span>'
    )


def _number(number: float) -> str:
    """Return a share with two decimals, which say 0 and 1 only of what is that exactly."""
    shown = f"{number:.2f}"
    return "&gt;0.99" if shown == "1.00" and number < 1 else "&lt;0.01" if shown == "0.00" and number > 0 else shown


def _decision(mapping: Mapping) -> str:
    """Return the decision as a word in its colour; of what a person decided also who and when, and the machine's."""
    group = _group(mapping)
    word = {"person": mapping.status, "nil": "NIL", "open": "no decision"}.get(group, group)
    kind = f"{group} {mapping.status}" if group == "person" else group
    # The time of day is among the particulars.
    beneath = [text(line) for line in (mapping.reviewer, (mapping.reviewed_at or "").partition("T")[0]) if line]
    if mapping.decision not in (None, "", REVIEWED) and mapping.decision.lower() != word.lower():
        beneath.append(f"proposed: {text(mapping.decision)}")
    return f'<span class="d {text(kind)}">{text(word)}</span>' + "".join(
        f"<p class=quiet>{line}</p>" for line in beneath
    )


def _why(mapping: Mapping) -> str:
    """Return why it is the answer, and folded the particulars."""
    reason, _, rest = (mapping.explanation or "").partition("; ")
    parts = [f"<p class=w>{text(reason) or _in_words(mapping)}</p>"]
    if rest:
        parts.append(f'<p class="quiet x">{text(rest)}</p>')
    parts += [
        f"<p class=warn>Contradiction: {text(contradiction)}</p>" for contradiction in _several(mapping.contradictions)
    ]
    if mapping.homonyms:
        parts.append(f"<p class=quiet>The term also names {text(', '.join(_several(mapping.homonyms)))}</p>")
    if mapping.comment:
        parts.append(f"<p class=note>{_quoted(mapping.comment)}</p>")
    return "".join(parts) + f"<details><summary>more</summary>{_particulars(mapping)}</details>"


def _in_words(mapping: Mapping) -> str:
    """Return in plain words how an answer came to be, as HTML."""
    term = _quoted(mapping.matched_term, mapping.language) if mapping.matched_term else ""
    expansion = _quoted(mapping.expansion) if mapping.expansion else ""
    if mapping.concept_id is None and mapping.method != "reviewed":
        words = "The nearest is too far away or too doubtful" if term else "Nothing came near"
    elif mapping.method == "reviewed":
        words = "Settled by people before"
    elif mapping.method == "abbreviation":
        words = f"Short for {expansion or term}" + (f", equal or nearest to {term}" if expansion and term else "")
    else:
        is_equal = mapping.method == "exact"
        words = f"{'Equal' if is_equal else 'Nearest'} to {term}" if term else f"Method: {text(mapping.method)}"
    if expansion and mapping.method != "abbreviation":
        words += f", read as {expansion}"
    if mapping.similarity is not None:
        words += f" (similarity {mapping.similarity:.2f})"
    ways = [_WAYS.get(route, text(route)) for route in _several(mapping.routes)]
    return words + (f"; found by {', '.join(ways)}" if ways else "")


def _others(header: Header, others: Sequence[Mapping]) -> str:
    """Return the row in which further candidates are folded."""
    number = f"{len(others)} further candidate{'' if len(others) == 1 else 's'}"
    items = "".join(
        f"<li value={candidate.rank}>{_answer(header, candidate)}{_particulars(candidate, whole=True)}</li>"
        for candidate in others
    )
    return (
        f"<tr role=row class=o><td role=cell colspan={_COLUMNS}><details><summary>{number}</summary>"
        f"<ol>{items}</ol></details></td></tr>"
    )


def _particulars(mapping: Mapping, *, whole: bool = False) -> str:
    """Return the fields that stand nowhere else in the row; `whole`: of a candidate, which has few cells."""
    return (
        "<p class=quiet>"
        + " · ".join(
            f"{text(name)}: \u2068{text(value)}\u2069" for name, value in _particular_fields(mapping, whole) if value
        )
        + "</p>"
    )


def _particular_fields(mapping: Mapping, whole: bool) -> Iterator[tuple[str, str | None]]:
    yield "similarity", "" if mapping.similarity is None else f"{mapping.similarity:.2f}"
    if not whole:
        yield "rank", "" if mapping.rank == 1 else str(mapping.rank)
    yield "method", mapping.method
    yield "found by", ", ".join(_several(mapping.routes))
    yield "relation", mapping.relation
    yield "scope of the term", mapping.scope
    yield "language", mapping.language
    yield "source", mapping.source
    yield "code there", mapping.code
    for name in OMOP:
        value = getattr(mapping, name)
        yield name, None if value is None else str(value)
    yield "read as", mapping.expansion
    yield "retired concept", mapping.retired_concept
    yield "nearest concept", " ".join(filter(None, (mapping.nearest_id, mapping.nearest_name)))
    yield "reviewed", mapping.reviewed_at
    yield "vocabulary of the mention", mapping.mention_vocabulary
    yield from mapping.extras.items()
    if whole:
        yield "also names", ", ".join(_several(mapping.homonyms))
        yield "contradiction", ", ".join(_several(mapping.contradictions))
        yield "confidence", "" if mapping.confidence is None else f"{mapping.confidence:.2f}"
        yield "decision", mapping.decision
        yield "explanation", mapping.explanation
        yield "reviewer", mapping.reviewer
        yield "comment", mapping.comment


def _quoted(value: str, language: str | None = None) -> str:
    lang = f' lang="{text(language)}"' if language else ""
    return f"“<bdi{lang}>{text(value)}</bdi>”"


def _several(values: str | None) -> list[str]:
    return values.split("|") if values else []
