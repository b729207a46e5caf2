"""PubTator. Specification: https://www.ncbi.nlm.nih.gov/research/pubtator3/tutorial (format "PubTator")

The first line of a text is its title, the rest its abstract; the line break between them counts as one character, so
that places are those of the text. Further line breaks and tabs become spaces. Context and parts have no place here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated
from alphita.terminology.text import whole_characters

DESCRIPTION = "PubTator: title, abstract and a line a mention, without context"
SUFFIXES = (".pubtator", ".pubtator.txt")
FOLDER = False
TYPE = "Concept"
_FIRST_END = re.compile(r"\n|\r(?!\n)|[\x85\u2028\u2029]")
_LINE = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield the lines of each document."""
    for document in documents:
        name = re.sub(r"[|\s]", "_", document.document.id)
        title, *rest = _FIRST_END.split(document.document.text, maxsplit=1)
        lines = [f"{name}|t|{_LINE.sub(' ', title)}", f"{name}|a|{_LINE.sub(' ', ''.join(rest))}"]
        for annotation in document.annotations:
            mention = _LINE.sub(" ", annotation.mention)
            lines.append(f"{name}\t{annotation.start}\t{annotation.end}\t{mention}\t{TYPE}\t{annotation.concept_id}")
            header.lose("contexts", len(annotation.context))
            header.lose("parts of mentions", len(annotation.pieces) > 1)
        yield whole_characters("\n".join(lines) + "\n\n").encode("utf-8")
