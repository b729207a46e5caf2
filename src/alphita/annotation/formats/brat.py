"""BRAT standoff: a folder with ID.txt and ID.ann for each text, and the two files of settings that brat asks for.
Specification: https://brat.nlplab.org/standoff.html

Parts of a mention, and lines that it goes over, are fragments. Context is attributes, the concept a normalization.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from alphita.annotation.formats import Header
from alphita.annotation.spans import CATEGORIES, Annotated, Annotation
from alphita.terminology.text import whole_characters

DESCRIPTION = "BRAT standoff: a folder with a .txt and an .ann a text"
SUFFIXES = (".brat",)
FOLDER = True
TYPE = "Concept"
_LINES = re.compile(r"[^\r\n]+")
SETTINGS = "[entities]\n{type}\n\n[relations]\n\n[events]\n\n[attributes]\n{attributes}\n"


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file; texts of the same name are numbered."""
    attributes = "\n".join(f"{name.capitalize()} Arg:<ENTITY>" for name in CATEGORIES)
    yield "annotation.conf", SETTINGS.format(type=TYPE, attributes=attributes).encode()
    used: dict[str, int] = {}
    for document in documents:
        name = re.sub(r"[^\w.-]", "_", document.document.id) or "text"
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 else f"{name}.{used[name]}"
        yield f"{name}.txt", _utf8(document.document.text)
        lines = [line for number, one in enumerate(document.annotations, 1) for line in _lines(document, one, number)]
        yield f"{name}.ann", _utf8("".join(lines))
        header.lose("modifiers", sum(len(annotation.modifiers) for annotation in document.annotations))


def _lines(document: Annotated, one: Annotation, number: int) -> Iterator[str]:
    text = document.document.text
    fragments = [
        (start + part.start(), start + part.end())
        for start, end in one.pieces
        for part in _LINES.finditer(text[start:end])
    ]
    places = ";".join(f"{start} {end}" for start, end in fragments)
    words = " ".join(text[start:end] for start, end in fragments)
    yield f"T{number}\t{TYPE} {places}\t{words}\n"
    yield f"N{number}\tReference T{number} {one.concept_id}\t{one.concept_name}\n"
    for place, said in enumerate(one.context, 1):
        yield f"A{len(CATEGORIES) * number + place}\t{said.category.capitalize()} T{number}\n"


def _utf8(text: str) -> bytes:
    return whole_characters(text).encode("utf-8")
