"""Formats of annotated texts. A module here is a choice of `--format`.

It holds `DESCRIPTION`, `SUFFIXES`, `FOLDER`, and `write(header, documents)`, which yields bytes, or for a folder pairs
of file name and bytes. `header.lose` counts what a format cannot hold.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from alphita import __version__, registry
from alphita.annotation.spans import Annotated, Annotation
from alphita.errors import UsageError
from alphita.terminology import prefixes
from alphita.terminology.text import whole_characters

PACKAGE = "alphita.annotation.formats"


@dataclass(frozen=True)
class Header:
    """Facts of a whole output: its date ("2026-01-31"), the index's sources, number of documents, and the losses."""

    date: str
    sources: tuple[dict[str, Any], ...] = ()
    number: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    @property
    def tool(self) -> str:
        return f"alphita {__version__}"

    def lose(self, what: str, number: int = 1) -> None:
        if number:
            self.lost[what] += number


def chosen(name: str, out: Path | str) -> ModuleType:
    """Return the format of a name, or the one that the output's name tells."""
    choices = registry.names(PACKAGE)
    if name:
        if name not in choices:
            raise UsageError(registry.unknown("format", name, choices))
        return registry.load(PACKAGE, name)
    if str(out) == "-":
        return registry.load(PACKAGE, "jsonl")
    if (found := registry.by_suffix(PACKAGE, Path(out).name)) is None:
        raise UsageError(f"cannot tell the format of {out} by its name; say --format, one of {choices}")
    return registry.load(PACKAGE, found)


class Finding(NamedTuple):
    """What a text says of one concept and the patient.

    Attributes:
        is_possible: it is only thought of.
    """

    annotations: list[Annotation]
    is_negated: bool
    is_possible: bool
    is_historical: bool


def findings_of(header: Header, document: Annotated, *, possible: bool) -> list[Finding]:
    """Return what a text says of the patient, each concept once, in the order of the first mentions."""
    found: dict[str, list[Annotation]] = {}
    for annotation in document.annotations:
        said = annotation.said
        for category in ("family", "hypothetical", *(() if possible else ("possible",))):
            if category in said:
                header.lose(f"{category} mentions")
                break
        else:
            found.setdefault(annotation.concept_id, []).append(annotation)
    return [_finding(header, some) for some in found.values()]


def _finding(header: Header, some: list[Annotation]) -> Finding:
    for kind in (("negated",), ("negated", "possible")):
        plain = [one for one in some if not set(kind) & set(one.said)]
        if plain and len(plain) < len(some):
            if kind == ("negated",):
                header.lose("negations of what is affirmed elsewhere", len(some) - len(plain))
            some = plain
    first = some[0].said
    historical = all("historical" in one.said for one in some)
    return Finding(some, "negated" in first, "possible" in first and "negated" not in first, historical)


def system_of(concept_id: str) -> tuple[str, str]:
    """Return the system (a URI) and the code of a concept for FHIR; of an unknown prefix that, as a URN."""
    prefix, _, code = concept_id.partition(":")
    known = prefixes.table().get(prefix)
    if known is None:
        return f"urn:alphita:{prefix}", code
    system = known.fhir_system or known.uri or f"urn:alphita:{prefix}"
    # HPO's codes in FHIR are the whole CURIEs.
    return system, concept_id if prefix == "HP" else code


def text_of_json(value: object, *, indent: int | None = None) -> bytes:
    """Return JSON in UTF-8; half characters become U+FFFD."""
    return whole_characters(json.dumps(value, ensure_ascii=False, indent=indent)).encode("utf-8")


def array(start: str, items: Iterable[Any], end: str) -> Iterable[bytes]:
    """Yield a JSON document that holds a long array, item by item."""
    yield start.encode()
    for number, item in enumerate(items):
        yield (b",\n" if number else b"\n") + text_of_json(item)
    yield f"\n{end}\n".encode()
