"""CSV: one mention a row. Specification: https://www.rfc-editor.org/rfc/rfc4180"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated
from alphita.terminology.text import whole_characters

DESCRIPTION = "CSV: a mention a row"
SUFFIXES = (".csv",)
FOLDER = False
COLUMNS = (
    "document",
    "start",
    "end",
    "mention",
    "concept_id",
    "concept_name",
    "matched_term",
    "confidence",
    "decision",
    "method",
    "context",
    "cue",
    "laterality",
    "severity",
    "pieces",
)


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield the header and the rows; a document without mentions has none, and is counted."""
    yield _row(COLUMNS)
    for document in documents:
        if not document.annotations:
            header.lose("documents without mentions")
        for annotation in document.annotations:
            modifiers = {said.kind: said.value for said in annotation.modifiers}
            pieces = (
                "|".join(f"{start}-{end}" for start, end in annotation.pieces) if len(annotation.pieces) > 1 else ""
            )
            cells = (
                document.document.id,
                annotation.start,
                annotation.end,
                annotation.mention,
                annotation.concept_id,
                annotation.concept_name,
                annotation.matched_term,
                annotation.confidence,
                annotation.decision,
                annotation.method,
                "|".join(annotation.said),
                "|".join(said.cue for said in annotation.context),
                modifiers.get("laterality"),
                modifiers.get("severity"),
                pieces,
            )
            yield _row(cells)


def _row(cells: tuple[object, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow("" if cell is None else cell for cell in cells)
    return whole_characters(text.getvalue()).encode("utf-8")
