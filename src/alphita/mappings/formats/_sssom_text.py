"""How SSSOM/TSV writes cells, numbers and the YAML of its metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from alphita.mappings.formats import Header, _curies

# Prefixes that need no declaration.
BUILT_IN = ("owl", "rdf", "rdfs", "semapv", "skos", "sssom")
_MARKS = re.compile(r"[\\|]")
_ESCAPED = re.compile(r"\\([\\|])")


def value_of(text: str) -> str:
    """Return a string as one value of a slot of several."""
    return _MARKS.sub(r"\\\g<0>", text)


def joined(values: str) -> str:
    """Return the values of a slot of several, joined by `|` without escapes."""
    return _ESCAPED.sub(r"\1", values)


def decimals(number: float | None) -> str:
    """Return a number of at most three decimals."""
    if number is None:
        return ""
    text = format(Decimal(repr(number)).quantize(Decimal("0.001"), ROUND_HALF_UP), "f")
    return text.rstrip("0").rstrip(".")


def prefixes_in(ids: Any) -> set[str]:  # noqa: ANN401 - a polars Series
    """Return the prefixes in some CURIEs that need a declaration."""
    return {one for one in ids.str.split(":").list.first().unique().to_list() if one and one not in BUILT_IN}


def metadata_lines(header: Header, used: Sequence[str], said: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the YAML block, in the order of the specification's table."""
    yield 'sssom_version: "1.1"'
    if used:
        yield "curie_map:"
        for prefix in used:
            yield f"  {yaml(prefix)}: {yaml(_curies.uri(header, prefix))}"
    objects = [prefix for prefix in used if prefix != header.source_vocabulary and prefix in header.sources]
    slots = {
        "mapping_set_id": header.set_id,
        "mapping_set_version": header.version,
        "license": header.licence,
        "subject_type": said.get("subject_type", ""),
        "subject_source_version": header.source_version,
        "object_source": said.get("object_source", ""),
        "object_source_version": "; ".join(f"{prefix} {header.sources[prefix]}" for prefix in objects),
        "mapping_tool": header.tool,
        "mapping_tool_version": header.tool_version,
        "mapping_date": header.date,
        "similarity_measure": said.get("similarity_measure", ""),
    }
    for name, value in slots.items():
        if value:
            yield f"{name}: {value if name == 'mapping_date' else yaml(value)}"


def yaml(text: str) -> str:
    """Return a string as a YAML scalar: plain where that is a string, else in double quotes (as JSON)."""
    plain = re.fullmatch(r"[A-Za-z][\w./#~+,;() -]*(://[\w./#~+,;()?=&%-]*)?[\w/_#=]", text)
    words = ("null", "true", "false", "yes", "no", "on", "off")
    return text if plain and " #" not in text and text.lower() not in words else json.dumps(text, ensure_ascii=False)


def cell(text: str) -> str:
    """Return a cell, in quotes where it needs them."""
    if any(mark in text for mark in '\t\n\r"'):
        return '"' + text.replace('"', '""') + '"'
    return text
