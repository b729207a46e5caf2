"""A page on which a person checks the texts: each mention coloured by what the text says of it, with its concept.
Specification: https://html.spec.whatwg.org/multipage/ Version: none, for that standard is a living one.

The page stands alone and loads nothing. Beneath each text stands the list of its concepts.
"""

from __future__ import annotations

import importlib.resources
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from string import Template

from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated, Annotation
from alphita.mappings.formats.html import text as escaped
from alphita.terminology import prefixes

DESCRIPTION = "one page that a person reads: texts with their mentions coloured"
SUFFIXES = (".html", ".htm")
FOLDER = False
TEMPLATE = "annotated_page.html"
TEXTS = "<!-- texts -->\n"
# Which colour a mention has: the first that is said of it.
COLOURS = ("negated", "family", "hypothetical", "possible", "historical", "affirmed")


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield the head, each text, and the end."""
    page = importlib.resources.files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    head, tail = page.split(TEXTS)
    sources = ", ".join(f"{source.get('name')} {source.get('version') or ''}".strip() for source in header.sources)
    number = f"{header.number:,} text{'' if header.number == 1 else 's'}"
    facts = escaped(f"{sources or 'no source named'}; {header.date}; {header.tool}")
    yield Template(head).substitute(title=f"{number} annotated", facts=facts).encode("utf-8")
    for document in documents:
        yield _section(document).encode("utf-8")
    yield tail.encode("utf-8")


def _section(document: Annotated) -> str:
    counts = Counter(colour_of(annotation) for annotation in document.annotations)
    said = ", ".join(f"{counts[one]} {one}" for one in reversed(COLOURS) if counts[one]) or "no mention"
    return (
        f"<section><h2>{escaped(document.document.id)}</h2><p class=quiet>{said}</p>"
        f'<p class="text">{_coloured(document)}</p>{_table(document.annotations)}</section>\n'
    )


def colour_of(one: Annotation) -> str:
    """Return the class of a mention."""
    said = one.said
    return next(colour for colour in COLOURS if colour in said)


def _coloured(document: Annotated) -> str:
    """Return the text as HTML: cut wherever a part of a mention or a cue begins or ends, each cut in its colours."""
    text = document.document.text
    covering = [(start, end, annotation) for annotation in document.annotations for start, end in annotation.pieces]
    cues = {(said.start, said.end) for annotation in document.annotations for said in annotation.context}
    ends = [(start, end) for start, end, _ in covering] + list(cues)
    cuts = sorted({0, len(text), *(place for part in ends for place in part)})
    begins: dict[int, list[tuple[int, Annotation]]] = {}
    for start, end, one in covering:
        begins.setdefault(start, []).append((end, one))
    cue_ends = {start: max(end for first, end in cues if first == start) for start, _ in cues}
    open_: list[tuple[int, Annotation]] = []
    found, cue_until = [], 0
    for start, end in itertools.pairwise(cuts):
        open_ = [one for one in open_ if one[0] > start] + begins.get(start, [])
        cue_until = max(cue_until, cue_ends.get(start, 0))
        part = _text(text[start:end])
        if open_:
            hover = " · ".join(dict.fromkeys(_hover(one) for _, one in open_))
            colours = " ".join(dict.fromkeys(colour_of(one) for _, one in open_))
            part = f'<mark class="{colours}" tabindex=0 title="{hover}">{part}</mark>'
        elif cue_until > start:
            part = f"<u>{part}</u>"
        found.append(part)
    return "".join(found)


def _hover(one: Annotation) -> str:
    sure = "" if one.confidence is None else f", confidence {one.confidence:.2f}"
    why = "".join(f", {said.category} ({said.cue})" for said in one.context)
    return escaped(f"{one.concept_id} {one.concept_name}{sure}{why}")


def _table(annotations: Sequence[Annotation]) -> str:
    rows = []
    for one in sorted(annotations, key=lambda one: (COLOURS[::-1].index(colour_of(one)), one.start)):
        uri = prefixes.expand(one.concept_id)
        name = escaped(one.concept_id)
        code = f'<a href="{escaped(uri)}"><code>{name}</code></a>' if uri else f"<code>{name}</code>"
        words = " … ".join(one.mention[start - one.start : end - one.start] for start, end in one.pieces)
        side = ", ".join(said.value for said in one.modifiers)
        said = ", ".join(one.said) + "".join(f" “{said.cue}”" for said in one.context)
        sure = "" if one.confidence is None else f"{one.confidence:.2f}"
        words = f'<span class="{colour_of(one)}">{escaped(words)}</span>'
        cells = words, f"{escaped(one.concept_name)} {code}", escaped(said), escaped(side), sure, one.decision or ""
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    if not rows:
        return ""
    names = ("mention", "concept", "the text says", "side, severity", "confidence", "decision")
    head = "".join(f"<th>{one}</th>" for one in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _text(string: str) -> str:
    """Return text as HTML, its line breaks kept."""
    return "\n".join(escaped(line) for line in string.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
