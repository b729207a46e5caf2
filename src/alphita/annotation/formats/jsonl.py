"""JSON Lines: one document a line, with its text and all that is known of its mentions. Specification:
https://jsonlines.org
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from alphita.annotation.formats import Header
from alphita.annotation.spans import Annotated, Annotation, Context, Document, Modifier, Place

DESCRIPTION = "JSON Lines: a document a line, with all that is known"
SUFFIXES = (".jsonl", ".ndjson")
FOLDER = False


def write(header: Header, documents: Iterator[Annotated]) -> Iterator[bytes]:
    """Yield a line for each document."""
    for document in documents:
        yield line_of(document)


def line_of(annotated: Annotated) -> bytes:
    """Return one document as a line. Half characters of the text are kept as JSON's escapes."""
    document = annotated.document
    record = {
        "id": document.id,
        "source": document.source,
        "line": document.line,
        "text": document.text,
        "annotations": [record_of(annotation) for annotation in annotated.annotations],
    }
    text = json.dumps(record, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def record_of(one: Annotation) -> dict[str, Any]:
    """Return a mention as JSON values."""
    record: dict[str, Any] = {name: getattr(one, name) for name in ("start", "end", "mention")}
    if len(one.pieces) > 1:
        record["pieces"] = [list(piece) for piece in one.pieces]
    names = ("concept_id", "concept_name", "matched_term", "confidence", "decision", "method")
    record |= {name: getattr(one, name) for name in names}
    record["context"] = [asdict(said) for said in one.context]
    record["modifiers"] = [asdict(said) for said in one.modifiers]
    return record


def annotation_of(record: dict[str, Any]) -> Annotation:
    """Return the mention that `record_of` gave as JSON values."""
    places = {
        "pieces": tuple(Place(*piece) for piece in record.get("pieces", [[record["start"], record["end"]]])),
        "context": tuple(Context(**said) for said in record["context"]),
        "modifiers": tuple(Modifier(**said) for said in record["modifiers"]),
    }
    return Annotation(**{**record, **places})


def read_line(line: bytes) -> Annotated:
    """Return the document that `line_of` wrote."""
    record = json.loads(line)
    document = Document(record["id"], record["text"], record["source"], record["line"])
    return Annotated(document, tuple(map(annotation_of, record["annotations"])))
