"""CSV: one mention a row. Specification: https://www.rfc-editor.org/rfc/rfc4180"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from alphita import progress
from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated
from alphita.spreadsheets import Guard
from alphita.terminology.text import whole_characters

DESCRIPTION = "CSV: a mention a row"
SUFFIXES = (".csv",)
FOLDER = False
# Fields of an annotation.
OWN = ("start", "end", "mention", "concept_id", "concept_name", "matched_term", "confidence", "decision", "method")
MODIFIERS = ("laterality", "severity")
COLUMNS = ("document", *OWN, "context", "cue", *MODIFIERS, "pieces")


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield the header and the rows; a document without mentions has none, and is counted."""
    guard = Guard()
    yield _row(COLUMNS)
    for document in documents:
        if not document.annotations:
            header.lose("documents without mentions")
        for annotation in document.annotations:
            modifiers = {one.kind: one.value for one in annotation.modifiers}
            cues = (one.cue for one in annotation.context)
            pieces = [f"{start}-{end}" for start, end in annotation.pieces]
            own = (getattr(annotation, name) for name in OWN)
            said = "|".join(annotation.said), "|".join(cues), *map(modifiers.get, MODIFIERS)
            yield _row(guard((document.document.id, *own, *said, "|".join(pieces) if len(pieces) > 1 else "")))
    if guard.count:
        progress.say(guard.told("other formats, such as JSON Lines, have none"))


def _row(cells: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow("" if cell is None else cell for cell in cells)
    return whole_characters(text.getvalue()).encode("utf-8")
