"""The rows of the HTML page: all that the mappings of one mention say, as one line of HTML (see `html`)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from alphita.mappings.formats import Header, _losses
from alphita.mappings.record import REVIEWED, Mapping
from alphita.terminology import prefixes

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


def text(value: object) -> str:
    """Return a value as HTML text that is safe in an attribute, too."""
    return _UNSHOWN.sub(_symbol, html.escape(str(value)))


def mention(mapping: Mapping) -> tuple[int, str | None, str, int | None]:
    """Return what is equal in all mappings of one mention."""
    return mapping.row, mapping.mention_code, mapping.mention, mapping.frequency


def line(header: Header, mappings: Sequence[Mapping]) -> str:
    """Return the line of one mention: its answers, and folded beneath them its further candidates."""
    answers = [mapping for mapping in mappings if _losses.is_target(mapping)]
    others = [mapping for mapping in mappings if not _losses.is_target(mapping)]
    if not answers:
        answers, others = others[:1], others[1:]
    first = answers[0]
    confidence = "" if first.confidence is None else f' data-c="{first.confidence:.4f}"'
    rows = [_answer_row(header, answers, place) for place in range(len(answers))]
    if others:
        rows.append(_others(header, others))
    return f'<tbody data-d="{_group(first)}"{confidence} role=rowgroup>{"".join(rows)}</tbody>\n'


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
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
    ids = []
    for one in (mapping.concept_id or "").split("|"):
        address = _address(header, one)
        ids.append(f'<a href="{text(address)}">{text(one)}</a>' if address else f"<code>{text(one)}</code>")
    return name + " ".join(ids)


def _address(header: Header, curie: str) -> str:
    """Return where a concept can be looked up, or ""."""
    prefix, _, local = curie.partition(":")
    declared = header.prefixes.get(prefix, "")
    # What names a code system of FHIR is no beginning of an address.
    found = declared + local if declared.endswith(_BEGINNINGS) else prefixes.expand(curie)
    return found if found and found.startswith(("https://", "http://")) else ""


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
    beneath = [text(one) for one in (mapping.reviewer, (mapping.reviewed_at or "").partition("T")[0]) if one]
    if mapping.decision not in (None, "", REVIEWED) and mapping.decision.lower() != word.lower():
        beneath.append(f"proposed: {text(mapping.decision)}")
    return f'<span class="d {text(kind)}">{text(word)}</span>' + "".join(f"<p class=quiet>{one}</p>" for one in beneath)


def _why(mapping: Mapping) -> str:
    """Return why it is the answer, and folded the particulars."""
    said, _, rest = (mapping.explanation or "").partition("; ")
    parts = [f"<p class=w>{text(said) or _in_words(mapping)}</p>"]
    if rest:
        parts.append(f'<p class="quiet x">{text(rest)}</p>')
    parts += [f"<p class=warn>Contradiction: {text(one)}</p>" for one in _several(mapping.contradictions)]
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
        said = "The nearest is too far away or too doubtful" if term else "Nothing came near"
    elif mapping.method == "reviewed":
        said = "Settled by people before"
    elif mapping.method == "abbreviation":
        said = f"Short for {expansion or term}" + (f", equal or nearest to {term}" if expansion and term else "")
    else:
        is_equal = mapping.method == "exact"
        said = f"{'Equal' if is_equal else 'Nearest'} to {term}" if term else f"Method: {text(mapping.method)}"
    if expansion and mapping.method != "abbreviation":
        said += f", read as {expansion}"
    if mapping.similarity is not None:
        said += f" (similarity {mapping.similarity:.2f})"
    ways = [_WAYS.get(one, text(one)) for one in _several(mapping.routes)]
    return said + (f"; found by {', '.join(ways)}" if ways else "")


def _others(header: Header, others: Sequence[Mapping]) -> str:
    """Return the row in which further candidates are folded."""
    number = f"{len(others)} further candidate{'' if len(others) == 1 else 's'}"
    items = "".join(
        f"<li value={one.rank}>{_answer(header, one)}{_particulars(one, whole=True)}</li>" for one in others
    )
    return (
        f"<tr role=row class=o><td role=cell colspan={_COLUMNS}><details><summary>{number}</summary>"
        f"<ol>{items}</ol></details></td></tr>"
    )


def _particulars(mapping: Mapping, *, whole: bool = False) -> str:
    """Return the fields that stand nowhere else in the row; `whole`: of a candidate, which has few cells."""
    return (
        "<p class=quiet>"
        + " · ".join(f"{name}: \u2068{text(value)}\u2069" for name, value in _fields(mapping, whole) if value)
        + "</p>"
    )


def _fields(mapping: Mapping, whole: bool) -> Iterator[tuple[str, str | None]]:
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
    yield "read as", mapping.expansion
    yield "retired concept", mapping.retired_concept
    yield "reviewed", mapping.reviewed_at
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
